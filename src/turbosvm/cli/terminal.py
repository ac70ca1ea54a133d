"""Sentences and tables at the terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from turbosvm.visible import visible

if TYPE_CHECKING:
    import pandas as pd


def say(sentence: str, console: Console) -> None:
    """Print a sentence as it is, on one line; what would steer the terminal is shown instead."""
    console.print(visible(sentence), markup=False, highlight=False, soft_wrap=True)


def in_words(seconds: float) -> str:
    """A time as one says it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def print_table(table: "pd.DataFrame", console: Console) -> None:
    """Show a table of text: words to the left, numbers to the right; where the terminal is too narrow, lines wrap."""
    print_cells(
        [str(column) for column in table.columns],
        [[Text(str(cell)) for cell in row] for row in table.to_numpy()],
        console,
    )


def print_cells(
    columns: Sequence[str], rows: Sequence[Sequence[Text]], console: Console, word_columns: int = 1
) -> None:
    """The same for texts that may be in bold; the first columns are of words, whatever digits they have."""
    shown = Table(box=SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0))
    for place, column in enumerate(columns):
        number = place >= word_columns and all(any(map(str.isdigit, row[place].plain)) for row in rows)
        shown.add_column(Text(visible(column)), justify="right" if number else "left", no_wrap=True)
    for row in rows:
        shown.add_row(*(Text(visible(cell.plain), cell.style) for cell in row))
    needed = console.measure(shown, options=console.options.update(max_width=1000)).maximum
    Console(file=console.file, width=max(console.width, needed)).print(shown)
