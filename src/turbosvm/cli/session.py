"""Carry out one or several runs for a person at a terminal: progress, table, picture, and where it all is."""

import re
from datetime import datetime
from pathlib import Path
from shlex import quote

import typer
from rich.console import Console

from turbosvm.cli.progress import RoundsDisplay, making
from turbosvm.cli.report import make_report
from turbosvm.cli.terminal import print_table
from turbosvm.data.federated import FederatedData
from turbosvm.experiment.build import build_data, build_federation, build_module
from turbosvm.experiment.config import Config
from turbosvm.experiment.folder import last_record
from turbosvm.experiment.resolve import read_config
from turbosvm.experiment.runner import describe_data, find_runs, is_finished, plan_run, reopen_run, run_on
from turbosvm.files import new_folder
from turbosvm.models.registry import find_factory
from turbosvm.report.folder import save_report
from turbosvm.report.records import RunRecords, read_run
from turbosvm.report.tables import summary
from turbosvm.trackers.catalogue import build_trackers


def carry_out(configs: list[Config], out: Path, name: str) -> None:
    """Run the configs one after another into one new folder under `out`, then show what came of it."""
    console = Console()
    try:
        data = _prepare(configs, out, console)
    except KeyboardInterrupt:
        console.print("Stopped before the first round.")
        raise typer.Exit(130) from None
    plain_name = re.sub(r"[^\w.-]+", "-", data.name)
    root = new_folder(out, f"{datetime.now():%Y%m%d-%H%M%S}-{name}-{plain_name}")
    _go_through([plan_run(config, data, root, store=out) for config in configs], root, console, data)


def go_on(folder: Path, data: str | None = None) -> None:
    """Finish the run in a folder, or all runs in the folders in it, then show what came of it."""
    console = Console()
    paths = find_runs(folder)
    own = build_data(read_config(paths[0] / "config.yaml").data.model_copy(update={"name": data})) if data else None
    _go_through(paths, folder, console, own)


def _go_through(paths: list[Path], root: Path, console: Console, data: FederatedData | None) -> None:
    """Carry out planned or unfinished runs one after another."""
    configs = [read_config(path / "config.yaml") for path in paths]
    labels = {path: f"{config.algorithm.name} seed {config.seed}" for path, config in zip(paths, configs, strict=True)}
    mixed = len(set(labels.values())) < len(paths)  # those of a sweep: settings differ, and must not be averaged
    if mixed:
        labels = {path: path.name for path in paths}
    interrupted, all_well, told = False, True, []
    rounds = {labels[path]: config.rounds for path, config in zip(paths, configs, strict=True)}
    with RoundsDisplay(rounds, console) as display:
        for path in paths:
            if is_finished(path):
                display.pass_over(labels[path])
                continue
            prepared = reopen_run(path, data)
            outcome = run_on(prepared, display.watch(labels[path], done=len(prepared.records)))
            told += outcome.told
            all_well &= outcome.stopped is None and (outcome.worked or outcome.interrupted)
            if outcome.interrupted:
                interrupted = True
                break
    runs = [read_run(path) for path in paths if (path / "records.jsonl").exists()]
    if mixed and any(run.final for run in runs):
        make_report([path for path in paths if last_record(path)], root / "report", None, None, console)
    else:
        show(runs, root, console)
    for sentence in (*told, *(sentence for run in runs for sentence in run.told)):
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)
    if interrupted:
        console.print(f"Stopped; go on with: turbosvm resume {quote(str(root))}", soft_wrap=True, highlight=False)
        raise typer.Exit(130)
    if not all_well:
        raise typer.Exit(1)


def _prepare(configs: list[Config], out: Path, console: Console) -> FederatedData:
    """Make or open the data, and find mistakes in any of the configs before the first one runs."""
    for config in configs:
        find_factory(config.model.name)
        build_trackers(config.trackers, out)
    with making(configs[0].data.name, console) as on_progress:
        data = build_data(configs[0].data, on_progress)
    for config in configs:
        federation = build_federation(config, data, build_module(config, len(data.classes)))
    about = describe_data(federation)
    console.print(
        f"{data.name}: {about['users_train']} users train ({about['samples_train']:,} samples), "
        f"{about['users_held_out']} held out ({about['samples_held_out']:,} samples)",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    return data


def show(runs: list[RunRecords], root: Path, console: Console) -> None:
    """Print the table of some runs, and say where it is with the curves."""
    table = summary(runs)
    if not table.empty:
        save_report(runs, root)
        print_table(table, console)
    what = "Records" if table.empty else "Table, curves and records"
    console.print(f"{what}: {root}", markup=False, highlight=False, soft_wrap=True)
