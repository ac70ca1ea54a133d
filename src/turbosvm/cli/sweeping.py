"""Carry out a sweep for a person at a terminal."""

from collections import Counter
from pathlib import Path

import typer
from rich.console import Console

from turbosvm.cli.progress import making
from turbosvm.cli.report import make_report
from turbosvm.cli.sweep_display import SweepDisplay
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.folder import last_record
from turbosvm.experiment.grid import Sweep
from turbosvm.experiment.jobs import carry_out_runs, check_engine
from turbosvm.experiment.sweep import Ended, Planned, check_sweep, make_folders, plan_sweep


def carry_out(
    sweep: Sweep,
    out: Path,
    jobs: int | None,
    engine: str,
    dry_run: bool = False,
    at: int | None = None,
    tolerant: bool = False,
) -> list[Planned]:
    """Carry out what is left of a sweep in `out/NAME`, then show what came of it; return its runs.

    `tolerant` if runs may fail, as those with too large a learning rate do.
    """
    console, root = Console(), out / sweep.name
    check_engine(engine)
    with making("data", console) as on_progress:
        planned = plan_sweep(sweep, root, on_progress)
    left = [run for run in planned if not run.done]
    _say(f"{len(planned)} runs in {root}: {len(planned) - len(left)} done, {len(left)} to do", console)
    if dry_run:
        for run in planned:
            _say(f"{'done ' if run not in left else 'to do'}  {run.label}", console)
        raise typer.Exit
    check_sweep(left)
    make_folders(left)
    ends: list[Ended] = []
    stopped = False
    with SweepDisplay(left, console) as display:
        try:
            for ended in carry_out_runs([run.path for run in left], jobs, engine, display.watch, display.look):
                display.end(ended)
                ends.append(ended)
                stopped |= ended.interrupted
        except KeyboardInterrupt:
            stopped = True
    failed = [ended for ended in ends if ended.failed]
    if begun := [run.path for run in planned if last_record(run.path)]:
        try:
            make_report(begun, root / "report", at, None, console)
        except TurboSVMError as error:
            if not (stopped or failed):
                raise
            _say(str(error), console)
    for sentence, times in Counter(sentence for ended in ends for sentence in ended.told).items():
        _say(sentence if times == 1 else f"{sentence} ({times} runs)", console)
    if stopped:
        _say("Stopped; the same command goes on.", console)
        raise typer.Exit(130)
    if failed and not tolerant:
        _say(f"{len(failed)} of {len(planned)} runs failed; the same command tries them again.", console)
        raise typer.Exit(1)
    return planned


def _say(sentence: str, console: Console) -> None:
    console.print(sentence, markup=False, highlight=False, soft_wrap=True)
