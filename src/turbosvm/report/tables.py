"""The table one shows: rounds to target, accuracy, macro F1 and MCC, a row for each algorithm."""

from collections.abc import Iterable, Sequence

import pandas as pd

from turbosvm.report.estimates import rounds_estimate
from turbosvm.report.layout import TITLES, results_table
from turbosvm.report.markup import markdown_grid
from turbosvm.report.records import RunRecords
from turbosvm.report.results import Results
from turbosvm.report.text import spread


def summary(runs: Iterable[RunRecords]) -> pd.DataFrame:
    """Return a row for each algorithm, in the order of first appearance; cells are text, mean ± std over seeds."""
    groups: dict[str, list[RunRecords]] = {}
    for run in runs:
        groups.setdefault(run.algorithm, []).append(run)
    evaluated = {algorithm: [run for run in group if run.final] for algorithm, group in groups.items()}
    return pd.DataFrame([_row(name, group, len(groups[name])) for name, group in evaluated.items() if group])


def results_frame(many: Sequence[Results]) -> pd.DataFrame:
    """Return the table of each contest, with the name of its data where there are several; cells are text."""
    frames = []
    for results in many:
        table = results_table(results)
        frame = pd.DataFrame([[cell.text for cell in row] for row in table.rows], columns=list(table.columns))
        if len(many) > 1:
            frame.insert(0, "data", results.contest.title)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True).fillna("") if frames else pd.DataFrame()


def markdown(table: pd.DataFrame) -> str:
    """Write a table of text cells as Markdown."""
    return markdown_grid(list(map(str, table.columns)), [list(map(str, row)) for row in table.to_numpy()])


def _row(algorithm: str, runs: Sequence[RunRecords], begun: int) -> dict[str, str]:
    """The row of the runs that came as far as an evaluation, of all that were begun."""
    first, ends = runs[0], sorted({int(run.final["round"]) for run in runs})
    row = {
        "algorithm": algorithm,
        "seeds": str(begun) if len(runs) == begun else f"{len(runs)} of {begun}",
        f"rounds to {100 * first.target:g}%": str(rounds_estimate(runs)),
        "at round": str(ends[0]) if len(ends) == 1 else f"{ends[0]} to {ends[-1]}",
    }
    return row | {title: spread([100 * run.final[name] for run in runs]) for name, title in TITLES.items()}
