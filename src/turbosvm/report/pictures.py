"""Pictures for papers and slides: one for each data set and kind of curve, and one of the ablation."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean, stdev
from textwrap import wrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

from turbosvm.report.curves import COLOURS, mark_targets
from turbosvm.report.groups import Group
from turbosvm.report.layout import Family
from turbosvm.report.results import Results
from turbosvm.report.series import BY_NAME, Kind, Line, Unit, lines_of

DASHES = (
    "solid",
    (0, (5, 2)),
    (0, (1, 1)),
    (0, (6, 1.5, 1.5, 1.5)),
    (0, (8, 3)),
    (0, (3, 3)),
    (0, (11, 2)),
    (0, (2, 1, 2, 3)),
)
"""Lines that lie on each other are seen through the gaps; with seven colours, 56 lines differ."""
MOST_LINES = 14
MOST_LETTERS = 60
WORDS = {
    (False, False): "neither",
    (True, False): "selection only",
    (False, True): "spread-out only",
    (True, True): "both",
}


def draw_kind(results: Results, kind: Kind) -> Figure | None:
    """Draw one kind of curve of a contest; None where no run has the figures."""
    lines = lines_of(leading(results), kind)
    if not lines:
        return None
    figure, panel = _sheet([part for _, line in lines for part in in_lines(line.label).split("\n")])
    for place, line in lines:
        _draw(panel, line, place)
    _dress(panel, kind.across, kind.x_unit, kind.y_unit)
    panel.set_title(_literal(f"{kind.title} ({_which(results)})"), fontsize=11)
    if kind.columns[0] == "accuracy":
        mark_targets(panel, results.targets)
    _name_lines(panel)
    return figure


def _which(results: Results) -> str:
    """The data set, and how many of its groups are drawn, if not all."""
    drawn, groups = len(leading(results)), len(results.contest.groups)
    return results.contest.title if drawn == groups else f"{results.contest.title}; {drawn} of {groups} rows"


def leading(results: Results) -> list[Group]:
    """The groups to draw: all, or as many as one can tell apart, each algorithm's best before its others."""
    means = [row.estimates["accuracy"].mean for row in results.rows]
    ranked = sorted(range(len(means)), key=lambda place: -1 if (mean := means[place]) is None else mean, reverse=True)
    seen: Counter[str] = Counter()
    turns = {}
    for place in ranked:
        turns[place] = seen[results.rows[place].group.algorithm]
        seen[results.rows[place].group.algorithm] += 1
    chosen = sorted(ranked, key=lambda place: turns[place])[:MOST_LINES]
    return [results.rows[place].group for place in sorted(chosen)]


def draw_ablation(results: Results, name: str, family: Family) -> Figure:
    """Draw the accuracy of a TurboSVM with each of its halves on and off: over rounds, and at the table's round."""
    figure = Figure(figsize=(9.6, 4.2), layout="constrained", dpi=120)
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    groups = [row.group for _, row in family]
    words = [WORDS[switches] for switches, _ in family]
    for place, line in lines_of(groups, BY_NAME["accuracy"]):
        _draw(left, line, place, words[place])
    _dress(left, "round", "round", "percent")
    mark_targets(left, results.targets)
    left.legend(frameon=False, loc="lower right")
    for place, (_, row) in enumerate(family):
        values = [value / 100 for value in row.estimates["accuracy"].values]
        if values:
            spread = stdev(values) if len(values) > 1 else None
            right.barh(place, fmean(values), xerr=spread, color=COLOURS[place], alpha=0.85, height=0.6, capsize=3)
    right.set_yticks(range(len(words)), words)
    right.invert_yaxis()
    right.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    right.set_xlabel(f"accuracy at round {results.at}")
    right.grid(axis="x", alpha=0.25)
    right.spines[["top", "right"]].set_visible(False)
    figure.suptitle(_literal(f"What the halves of {name} bring ({results.contest.title})"), fontsize=11)
    return figure


def _sheet(names_in_lines: Sequence[str]) -> tuple[Figure, Axes]:
    """A panel with room for lines of names on its right; fixed places are found faster than fitting ones."""
    panel, names = 4.9, 0.77 + 0.068 * max(map(len, names_in_lines))
    height = max(3.9, 0.75 + 0.18 * len(names_in_lines))
    width = 0.75 + panel + names
    figure = Figure(figsize=(width, height), dpi=130)
    return figure, figure.add_axes((0.75 / width, 0.6 / height, panel / width, (height - 1) / height))


def _draw(panel: Axes, line: Line, place: int, label: str | None = None) -> None:
    colour, dash = COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)]
    name = _literal(in_lines(label or line.label))
    marker = "o" if len(line.x) == 1 else None
    panel.plot(line.x, line.mean, color=colour, linestyle=dash, linewidth=1.8, label=name, marker=marker)
    if (line.low < line.high).any():
        panel.fill_between(line.x, line.low, line.high, color=colour, alpha=0.16, linewidth=0)


def _dress(panel: Axes, across: str, x_unit: Unit, y_unit: Unit) -> None:
    panel.set_xlabel(across)
    panel.set_xlim(left=0)
    if y_unit == "percent":
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    panel.set_ylim(bottom=0)
    if x_unit == "bytes":
        panel.xaxis.set_major_formatter(EngFormatter(unit="B"))
    if x_unit == "round":
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)


def _name_lines(panel: Axes) -> None:
    """Name the lines beside the panel, where no curve can be under them."""
    panel.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=9, handlelength=3)


def in_lines(label: str) -> str:
    """A name in lines that a picture has room for; of one that is longer than three, the middle is left out."""
    lines = wrap(label, MOST_LETTERS, subsequent_indent="  ") or [label]
    return "\n".join(lines if len(lines) <= 3 else [lines[0], "  …", lines[-1]])


def _literal(text: str) -> str:
    """Text that is not taken for a formula."""
    return text.replace("$", r"\$")
