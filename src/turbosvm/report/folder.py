"""What a comparison leaves beside its runs: the table and the curves."""

from collections.abc import Sequence
from pathlib import Path

from turbosvm.files import write_atomically
from turbosvm.report.curves import draw_curves, save_figure
from turbosvm.report.records import RunRecords
from turbosvm.report.tables import markdown, summary


def save_report(runs: Sequence[RunRecords], root: Path) -> None:
    """Write table.md, table.csv and curves.png into `root`."""
    table = summary(runs)
    write_atomically(root / "table.md", markdown(table))
    write_atomically(root / "table.csv", table.to_csv(index=False))
    save_figure(draw_curves(runs), root / "curves.png")
