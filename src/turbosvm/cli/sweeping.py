"""Carry out a sweep for a person at a terminal."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from turbosvm.cli.labels import run_labels
from turbosvm.cli.progress import making
from turbosvm.cli.report import make_report
from turbosvm.cli.seeds import parse_seeds
from turbosvm.cli.sweep_display import SweepDisplay
from turbosvm.cli.terminal import say
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.grid import Changes, Sweep
from turbosvm.experiment.jobs import carry_out_runs, check_engine
from turbosvm.experiment.layers import merge_layers, parse_assignments
from turbosvm.experiment.recorded import last_record
from turbosvm.experiment.sweep import Ended, Planned, code_of, data_of, make_ready, plan_sweep, threads_for
from turbosvm.files import refuse_unwritable
from turbosvm.report.folder import place_beside


def asked_for(
    rounds: int | None,
    seeds: str | None,
    assign: Sequence[str] | None,
    jobs: int | None,
    lists: Mapping[str, list[Any]],
    data: Mapping[str, str] | None = None,
) -> Changes:
    """What a person asks for beside a sweep's own words."""
    overrides = merge_layers([parse_assignments(assign or ()), {} if rounds is None else {"rounds": rounds}])
    wanted = None if seeds is None else parse_seeds(seeds)
    return Changes(overrides, lists, wanted, data or {}, threads_for(jobs))


def carry_out(
    sweep: Sweep,
    out: Path,
    jobs: int | None,
    engine: str,
    dry_run: bool = False,
    at: int | None = None,
    search: bool = False,
) -> list[Planned]:
    """Carry out what is left of a sweep in `out/NAME`, then show what came of it; return its runs.

    Of a `search`, runs may fail, as those with too large a learning rate do, and the tables are for who asks for them.
    """
    console, root = Console(), out / sweep.name
    check_engine(engine)
    refuse_unwritable(root)
    with making("data", console) as on_progress:
        planned = plan_sweep(sweep, root, on_progress)
    labels = run_labels({run.path: run.config for run in planned})
    left = [run for run in planned if not run.done]
    _introduce(sweep, planned, left, root, console)
    if dry_run:
        states = {run.path: run.state for run in planned}
        wide = max(map(len, states.values()))
        for path, state in states.items():
            say(f"{state:{wide}}  {labels[path]}  in {path.name}", console)
        raise typer.Exit
    ends: list[Ended] = []
    stopped = False
    try:
        ready = make_ready(planned)
        with SweepDisplay(left, len(planned) - len(left), labels, console) as display:
            for ended in carry_out_runs(ready, jobs, engine, display.watch, display.look, code_of(planned)):
                display.end(ended)
                ends.append(ended)
                stopped |= ended.interrupted
    except KeyboardInterrupt:
        stopped = True
    failed = [ended for ended in ends if ended.failed]
    _tell_remarks(ends, labels, console)
    if begun := [run.path for run in planned if last_record(run.path)]:
        if stopped:
            say("Stopped; what there is so far:", console)
        try:
            make_report(begun, place_beside(root), at, None, console, quiet=search and not stopped)
        except TurboSVMError as error:
            if not (stopped or failed):
                raise
            say(str(error), console)
    if stopped:
        say("Stopped; the same command goes on.", console)
        raise typer.Exit(130)
    if failed and not search:
        say(f"{len(failed)} of {_runs(len(planned))} failed; the same command tries them again.", console)
        raise typer.Exit(1)
    return planned


def _tell_remarks(ends: Sequence[Ended], labels: Mapping[Path, str], console: Console) -> None:
    """Say each remark once, and of which run, or of how many."""
    of: dict[str, list[str]] = {}
    for ended in ends:
        for remark in ended.remarks:
            of.setdefault(remark, []).append(labels[ended.path])
    for remark, names in of.items():
        say(f"{names[0] if len(names) == 1 else f'{len(names)} runs'}: {remark}", console)


def _runs(count: int) -> str:
    return f"{count:,} run{'' if count == 1 else 's'}"


def _introduce(sweep: Sweep, planned: Sequence[Planned], left: Sequence[Planned], root: Path, console: Console) -> None:
    """Say how much there is to do, on which data."""
    sets = {id(data_of(run.config.data)): run.config.data for run in planned}
    for config in sets.values():
        data = data_of(config)
        where = f" ({config.name})" if config.name != data.name else ""
        say(f"{data.name}: {len(data.users):,} users, {int(data.counts.sum()):,} samples{where}", console)
    same = sweep.combinations - len(planned)
    alike = f" ({sweep.combinations:,} combinations, of which {same:,} mean the same as others)" if same else ""
    rounds = f", with {sum(run.rounds_left for run in left):,} rounds" if left else ""
    done = len(planned) - len(left)
    say(f"{_runs(len(planned))} in {root}{alike}: {done:,} done, {len(left):,} to do{rounds}", console)
