"""`turbosvm report`: tables, pictures and a page of runs that have been made."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

MOST_ROWS = 50
"""How many rows of a table are shown at the terminal."""


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, or folders that hold such, at any depth.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to put the report in.")] = Path("report"),
    at: Annotated[
        int | None, typer.Option("--at", help="Round that metrics are at; else the last at which all were evaluated.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", "-b", help="Algorithm that others are paired with; else fedavg.")
    ] = None,
) -> None:
    """Make tables, curves and one web page of runs: mean and spread over seeds, beside the paper, paired by seed."""
    from rich.console import Console

    make_report(runs, out, at, baseline, Console())


def make_report(
    runs: Sequence[Path],
    out: Path,
    at: int | None,
    baseline: str | None,
    console: "Console",
    quiet: bool = False,
) -> None:
    """Write a report of runs into a folder, and print its tables, unless it is to be done quietly."""
    from rich.text import Text

    from turbosvm.cli.terminal import print_cells, say
    from turbosvm.report.folder import PAGE, TABLES, work_out, write_report
    from turbosvm.report.layout import tables_of
    from turbosvm.report.page import notes_of
    from turbosvm.report.reading import gather

    gathered = gather(runs)
    many = work_out(gathered, at, baseline)
    write_report(many, gathered.notes, out)
    for results in [] if quiet else many:
        for table in tables_of(results):
            say(table.caption, console)
            shown = table.rows[:MOST_ROWS]
            rows = [[Text(cell.text, style="bold" if cell.best else "") for cell in row] for row in shown]
            print_cells(table.columns, rows, console, table.word_columns)
            if len(table.rows) > MOST_ROWS:
                say(f"{len(table.rows) - MOST_ROWS} more rows are in {out / TABLES}.", console)
    for note in () if quiet else (*gathered.notes, *notes_of(many)):
        say(note, console)
    say(f"Page, tables and pictures: {out / PAGE}", console)
