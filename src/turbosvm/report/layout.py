"""Tables of text, whatever they are written as: which figures stand where, and which of them are the best."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from turbosvm.report.estimates import MEASURES, METRICS, BesidePaper
from turbosvm.report.results import Results, Row
from turbosvm.report.settings import fingerprint
from turbosvm.report.student import Interval
from turbosvm.report.text import NOTHING, signed

TITLES = {"accuracy": "accuracy %", "macro_f1": "macro F1 %", "mcc": "MCC %"}
PAPER_TITLES = {"svm_support_mean": "support vectors"}


@dataclass(frozen=True)
class Cell:
    """What stands in a place of a table, and whether it is the best of its column."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class TextTable:
    """A table with a caption; the first column names the row."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    word_columns: int = 1
    """How many columns, from the left, are of words; the others are of numbers."""


def tables_of(results: Results) -> list[TextTable]:
    """All tables of a contest: the results, those beside the paper, the paired differences, the ablation."""
    tables = [results_table(results), paper_table(results), paired_table(results), *ablation_tables(results)]
    return [table for table in tables if table.rows]


def results_table(results: Results) -> TextTable:
    """A row for each group: seeds, rounds to target, metrics; the best of comparable ones marked."""
    rows = [
        (
            Cell(row.group.label),
            Cell(_seeds(row)),
            *(Cell(str(row.estimates[measure]), measure in row.best) for measure in MEASURES),
        )
        for row in results.rows
    ]
    caption = f"{results.contest.title}: rounds to target, and metrics on held-out users at round {results.at}"
    columns = ("algorithm", "seeds", _rounds_title(results), *(TITLES[metric] for metric in METRICS))
    bold = "; of rows that can be compared, the best in bold" if any(row.best for row in results.rows) else ""
    return TextTable(f"{caption}; mean ± standard deviation over seeds{bold}", columns, tuple(rows))


def paper_table(results: Results) -> TextTable:
    """Ours, the paper's and the difference: a row for each group and measure that the paper has."""
    pairs = [(row, pair) for row in results.rows for pair in row.beside_paper]
    rows = tuple(
        (Cell(row.group.label), Cell(_measured(pair, results)), *map(Cell, _compared(row, pair))) for row, pair in pairs
    )
    supports = any(pair.paper.measure in PAPER_TITLES for _, pair in pairs)
    means = "; support vectors are those of a class, ours on average, the paper's of its class 1" if supports else ""
    caption = f"{results.contest.title}: beside the paper's figures{means}"
    return TextTable(caption, ("algorithm", "measure", "ours", "paper", "difference"), rows, word_columns=2)


def paired_table(results: Results) -> TextTable:
    """Differences from the baseline at the same seeds, with 95 % confidence intervals."""
    columns = ("algorithm", "pairs", "rounds", *(TITLES[metric] for metric in METRICS))
    rows = tuple(
        (
            Cell(row.group.label),
            Cell(str(max(found.n for found in row.paired.values()))),
            *(Cell(signed_interval(row.paired.get(measure))) for measure in MEASURES),
        )
        for row in results.rows
        if row.paired
    )
    caption = f"{results.contest.title}: difference from {results.baseline} at the same seeds, with 95 % intervals"
    return TextTable(caption, columns, rows)


def ablation_tables(results: Results) -> list[TextTable]:
    """For each TurboSVM whose two halves were switched on and off: a row for each combination."""
    columns = ("selection", "spread-out", "seeds", _rounds_title(results), *(TITLES[metric] for metric in METRICS))
    tables = []
    for name, family in ablations(results):
        rows = tuple(
            (
                *(Cell("on" if on else "off") for on in switches),
                Cell(_seeds(row)),
                *(Cell(str(row.estimates[measure])) for measure in MEASURES),
            )
            for switches, row in family
        )
        tables.append(
            TextTable(f"{results.contest.title}: what the halves of {name} bring", columns, rows, word_columns=2)
        )
    return tables


SWITCHES = ("algorithm.head.selection", "algorithm.head.spread_out")

Family = list[tuple[tuple[bool, bool], Row]]


def ablations(results: Results) -> list[tuple[str, Family]]:
    """Rows that differ in (selection, spread-out) alone, two or more, from neither to both; with their algorithm."""
    families: dict[Hashable, Family] = {}
    for row in results.rows:
        settings = row.group.settings
        if all(isinstance(settings.get(switch), bool) for switch in SWITCHES):
            rest = fingerprint({key: value for key, value in settings.items() if key not in SWITCHES})
            families.setdefault(rest, []).append(((settings[SWITCHES[0]], settings[SWITCHES[1]]), row))
    found = [sorted(family, key=lambda member: member[0]) for family in families.values() if len(family) > 1]
    return [(family[0][1].group.algorithm, family) for family in found]


def signed_interval(found: Interval | None) -> str:
    """A difference with its interval, e.g. '+3.2 [+1.0, +5.4]'; alone if it was the same at all seeds."""
    if found is None:
        return NOTHING
    around = f" [{signed(found.low)}, {signed(found.high)}]" if found.low < found.high else ""
    return f"{signed(found.mean)}{around}"


def percent(share: float) -> str:
    """A share as percent without needless digits."""
    return f"{100 * share:g}%"


def _measured(pair: BesidePaper, results: Results) -> str:
    """What the paper has measured, and when."""
    measure, at = pair.paper.measure, pair.paper.at
    return _rounds_title(results) if at is None else f"{(TITLES | PAPER_TITLES).get(measure, measure)} at round {at}"


def _compared(row: Row, pair: BesidePaper) -> Sequence[str]:
    there, begun, difference = pair.ours.n, len(row.group.runs), pair.difference
    some = "" if there == begun else f" ({there} of {begun} seeds)"
    told = NOTHING if difference is None else signed(difference, pair.paper.digits)
    return f"{pair.ours}{some}", str(pair.paper), told


def _seeds(row: Row) -> str:
    """How many seeds the metrics are of, and of how many."""
    begun, there = len(row.group.runs), row.estimates["accuracy"].n
    return str(begun) if there == begun else f"{there} of {begun}"


def _rounds_title(results: Results) -> str:
    targets = results.targets
    return f"rounds to {percent(targets[0])}" if len(targets) == 1 else "rounds to target"
