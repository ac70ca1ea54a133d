"""Carry out one or several runs for a person at a terminal: progress, table, picture, and where it all is."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from shlex import quote

import typer
from rich.console import Console

from turbosvm.cli.labels import run_labels
from turbosvm.cli.progress import RoundsDisplay, making
from turbosvm.cli.report import make_report
from turbosvm.cli.terminal import print_table, say
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.build import build_data
from turbosvm.experiment.config import Config
from turbosvm.experiment.folder import last_record
from turbosvm.experiment.prepared import (
    Prepared,
    RunPlan,
    describe_data,
    is_finished,
    plan_of,
    plan_run,
    prepare_run,
    reopen_run,
)
from turbosvm.experiment.resolve import read_config
from turbosvm.experiment.runner import run_on
from turbosvm.experiment.sweep import data_of
from turbosvm.files import new_folder
from turbosvm.models.registry import find_factory
from turbosvm.report.folder import save_report
from turbosvm.report.groups import contests_of
from turbosvm.report.reading import find_runs
from turbosvm.report.records import RunRecords, read_run
from turbosvm.report.tables import summary
from turbosvm.simulation import Federation
from turbosvm.trackers.catalogue import build_trackers


def carry_out(configs: list[Config], out: Path, name: str) -> None:
    """Run the configs one after another into one new folder under `out`, then show what came of it."""
    console = Console()
    try:
        data, plans = _prepare(configs, out, console)
    except KeyboardInterrupt:
        console.print("Stopped before the first round.")
        raise typer.Exit(STOPPED) from None
    plain_name = re.sub(r"[^\w.-]+", "-", data.name)
    root = new_folder(out, f"{datetime.now():%Y%m%d-%H%M%S}-{name}-{plain_name}")
    runs = {plan_run(plan, root): plan.config for plan in plans}
    _end_with(_go_through(runs, root, console, lambda _: data), [root], None, console)


def go_on(folders: Sequence[Path], data: str | None = None) -> None:
    """Finish the runs in folders, then show what came of them: those in one folder together, each given one apart."""
    console, given = Console(), [folder for folder in folders if not folder.is_file()]  # beside runs lie tables
    paths = find_runs(given or folders)
    if not paths:
        raise TurboSVMError(f"There are no runs in {', '.join(repr(str(folder)) for folder in folders)}.")
    roots: dict[Path, dict[Path, Config]] = {}
    worst = 0
    for path in paths:
        try:
            config = read_config(path / "config.yaml")
        except TurboSVMError as error:
            worst = _put_up_with(error, len(paths), console)
            continue
        roots.setdefault(path if path in given and not _has_table(path.parent) else path.parent, {})[path] = config
    for root, runs in roots.items():
        if len(roots) > 1 and all(map(is_finished, runs)):
            say(f"{root}: finished before", console)
            continue
        in_order = dict(sorted(runs.items(), key=lambda run: ((run[0] / "config.yaml").stat().st_mtime_ns, run[0])))
        worst = max(worst, _go_through(in_order, root, console, lambda config: _own_data(config, data), len(paths)))
        if worst == STOPPED:
            break
    _end_with(worst, folders, data, console)


def _own_data(config: Config, name: str | None) -> FederatedData | None:
    """The data of this name, as a run takes it; None leaves it to the run."""
    return data_of(config.data.model_copy(update={"name": name})) if name else None


def _has_table(folder: Path) -> bool:
    """Whether a comparison or a sweep has made a table of all runs in a folder."""
    report = (folder / "report" / "tables.md").exists() and folder.resolve() != Path.cwd()  # there, reports are of all
    return (folder / "table.md").exists() or report


STOPPED = 130
"""What a command ends with after Ctrl-C."""


def _put_up_with(error: TurboSVMError, runs: int, console: Console) -> int:
    """Say what is wrong with one of several runs; a single one ends the command."""
    if runs == 1:
        raise error
    say(str(error), console)
    return 1


def _end_with(code: int, folders: Sequence[Path], data: str | None, console: Console) -> None:
    """End the command, after Ctrl-C with how to go on."""
    if code == STOPPED:
        places = " ".join(quote(str(folder)) for folder in folders)
        say(f"Stopped; go on with: turbosvm resume {places}{f' --data {quote(data)}' if data else ''}", console)
    if code:
        raise typer.Exit(code)


def _go_through(
    runs: Mapping[Path, Config],
    root: Path,
    console: Console,
    data_for: Callable[[Config], FederatedData | None],
    among: int = 1,
) -> int:
    """Carry out planned or unfinished runs one after another; return what the command ends with so far."""
    labels, worst = run_labels(runs), 0
    told, seen = list[str](), set[str]()
    finished = [path for path in runs if is_finished(path)]
    if finished:
        who = labels[finished[0]] if len(finished) == 1 else f"{len(finished)} runs"
        say(f"{who}: finished before", console)
    with RoundsDisplay({labels[path]: config.rounds for path, config in runs.items()}, console) as display:
        for path, label in labels.items():
            if path in finished:
                display.pass_over(label)
                continue
            try:
                prepared = reopen_run(path, data_for(runs[path]))
            except TurboSVMError as error:
                worst = _put_up_with(error, max(among, len(runs)), console)
                continue
            if (about := _sentence_about(prepared.federation)) not in seen:
                say(about, console)
                seen.add(about)
            _introduce(prepared, label, console)
            outcome = run_on(replace(prepared, notes=()), display.watch(label, done=len(prepared.records)))
            told += outcome.told
            if outcome.interrupted:
                worst = STOPPED
                break
            if outcome.stopped:
                worst = 1
    if worst == STOPPED:
        say("Stopped; what there is so far:", console)
    beside = [path for path in find_runs([root]) if path.parent == root]
    others = [path for path in beside if path not in runs]
    shown = list(runs) if root in runs else [*(path for path in runs if path in beside), *others]  # all in its folder
    for sentence in (*told, *_show_all([path for path in shown if last_record(path)], root, console)):
        say(sentence, console)
    return worst


def _introduce(prepared: Prepared, label: str, console: Console) -> None:
    """Say where a run goes on, and what is amiss."""
    for note in prepared.notes:
        say(f"{label}: {note}", console)
    if prepared.stopped:
        say(f"{label} stopped before, after round {len(prepared.records)}, and stays as it is", console)
    elif prepared.records:
        say(f"{label} goes on after round {len(prepared.records)} of {prepared.config.rounds}", console)


def _show_all(paths: Sequence[Path], root: Path, console: Console) -> list[str]:
    """Print the table of runs, where settings differ a report's; return what the person should know of them."""
    runs: list[RunRecords] = []
    for path in paths:
        with suppress(TurboSVMError):  # what is broken has been said
            runs.append(read_run(path))
    contests = contests_of(run for run in runs if run.points)
    algorithms = [group.algorithm for contest in contests for group in contest.groups]
    unlike = len(contests) > 1 or len(set(algorithms)) < len(algorithms)
    if not unlike and len({(run.algorithm, run.seed) for run in runs}) == len(runs):
        show(runs, root, console)
        return [sentence for run in runs for sentence in run.told]
    make_report(paths, root / "report", None, None, console)
    return []


def _prepare(configs: list[Config], out: Path, console: Console) -> tuple[FederatedData, list[RunPlan]]:
    """Make or open the data, and find mistakes in any of the configs before the first one runs."""
    for config in configs:
        find_factory(config.model.name)
        build_trackers(config.trackers, out)
    with making(configs[0].data.name, console) as on_progress:
        data = build_data(configs[0].data, on_progress)
    return data, [plan_of(prepare_run(config, data, store=out)) for config in configs]


def _sentence_about(federation: Federation) -> str:
    about = describe_data(federation)
    return (
        f"{federation.data.name}: {about['users_train']} users train ({about['samples_train']:,} samples), "
        f"{about['users_held_out']} held out ({about['samples_held_out']:,} samples)"
    )


def show(runs: list[RunRecords], root: Path, console: Console) -> None:
    """Print the table of some runs, and say where it is with the curves."""
    table = summary(runs)
    if not table.empty:
        save_report(runs, root)
        print_table(table, console)
    what = "Records" if table.empty else "Table, curves and records"
    say(f"{what}: {root}", console)
