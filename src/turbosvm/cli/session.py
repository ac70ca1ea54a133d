"""Carry out one or several runs for a person at a terminal: progress, table, picture, and where it all is."""

import re
from datetime import datetime
from pathlib import Path

import pandas as pd
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from turbosvm.cli.progress import RoundsDisplay, making
from turbosvm.data.federated import FederatedData
from turbosvm.experiment.build import build_data, build_federation, build_module
from turbosvm.experiment.config import Config
from turbosvm.experiment.runner import describe_data, run_experiment
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
    labels = [f"{config.algorithm.name} seed {config.seed}" for config in configs]
    interrupted, all_well, folders, told = False, True, [], []
    with RoundsDisplay(labels, configs[0].rounds, console) as display:
        for label, config in zip(labels, configs, strict=True):
            outcome = run_experiment(config, data, root=root, on_record=display.watch(label), store=out)
            folders.append(outcome.folder)
            told += outcome.told
            all_well &= outcome.stopped is None and (outcome.worked or outcome.interrupted)
            if outcome.interrupted:
                interrupted = True
                break
    runs = [read_run(folder) for folder in folders if folder]
    _show(runs, root, console)
    for sentence in (*told, *(sentence for run in runs for sentence in run.told)):
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)
    if interrupted:
        console.print("Stopped; the records so far are kept.")
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


def _show(runs: list[RunRecords], root: Path, console: Console) -> None:
    table = summary(runs)
    if not table.empty:
        save_report(runs, root)
        print_table(table, console)
    what = "Records" if table.empty else "Table, curves and records"
    console.print(f"{what}: {root}", markup=False, highlight=False, soft_wrap=True)


def print_table(table: pd.DataFrame, console: Console) -> None:
    """Show a table of text: words to the left, numbers to the right; where the terminal is too narrow, lines wrap."""
    shown = Table(box=SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0))
    for place, column in enumerate(table.columns):
        shown.add_column(str(column), justify="right" if place and _is_number(table[column]) else "left", no_wrap=True)
    for row in table.to_numpy():
        shown.add_row(*map(str, row))
    needed = console.measure(shown, options=console.options.update(max_width=1000)).maximum
    Console(file=console.file, width=max(console.width, needed)).print(shown)


def _is_number(cells: "pd.Series[str]") -> bool:
    return bool(cells.str.contains(r"\d").all())
