"""The lines that pictures and the page draw: the mean over a group's seeds, between its lowest and highest."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from turbosvm.report.columns import SECONDS, SUPPORT, TRAFFIC, Floats
from turbosvm.report.groups import Group
from turbosvm.report.records import RunRecords

Unit = Literal["round", "percent", "bytes", "seconds", "number"]


@dataclass(frozen=True)
class Kind:
    """What is drawn over what."""

    name: str
    title: str
    across: str
    """What the horizontal axis counts."""
    x_unit: Unit
    y_unit: Unit
    columns: tuple[str, str, str]
    """The columns of the line, and of the lower and the upper edge of its band."""


def _kind(name: str, title: str, across: str, x_unit: Unit, y_unit: Unit, column: str) -> Kind:
    return Kind(name, title, across, x_unit, y_unit, (column, column, column))


KINDS = (
    _kind("accuracy", "Accuracy on held-out users", "round", "round", "percent", "accuracy"),
    _kind("loss", "Loss on held-out users", "round", "round", "number", "loss"),
    _kind("macro-f1", "Macro F1 on held-out users", "round", "round", "percent", "macro_f1"),
    _kind("accuracy-by-bytes", "Accuracy against what was sent", "bytes sent so far", "bytes", "percent", "accuracy"),
    _kind("accuracy-by-seconds", "Accuracy against time", "seconds so far", "seconds", "percent", "accuracy"),
    Kind("support-vectors", "Support vectors per class: mean, fewest, most", "round", "round", "number", SUPPORT),
)
BY_NAME = {kind.name: kind for kind in KINDS}
SUMS = {"bytes": TRAFFIC, "seconds": SECONDS}


@dataclass(frozen=True, eq=False)
class Line:
    """A group's curve: where its points are, the mean over seeds, and the band around it."""

    label: str
    seeds: int
    x: Floats
    mean: Floats
    low: Floats
    high: Floats


def lines_of(groups: Sequence[Group], kind: Kind) -> list[tuple[int, Line]]:
    """The lines of the groups that have such figures, with the groups' places."""
    lines = ((place, line_of(group, kind)) for place, group in enumerate(groups))
    return [(place, line) for place, line in lines if line is not None]


def line_of(group: Group, kind: Kind) -> Line | None:
    """A group's line, or None where its runs have no such figures; a round counts the seeds that have it."""
    points = [found for run in group.runs if (found := _points(run, kind)) is not None and len(found[0])]
    if not points:
        return None
    rounds = np.unique(np.concatenate([found[0] for found in points]))
    if all(len(found[0]) == len(rounds) for found in points):
        x, mean, low, high = (np.array([found[part] for found in points]) for part in range(1, 5))
        return Line(group.label, len(points), x.mean(axis=0), mean.mean(axis=0), low.min(axis=0), high.max(axis=0))
    grids = np.full((4, len(points), len(rounds)), np.nan)
    for place, (numbers, *columns) in enumerate(points):
        grids[:, place, np.searchsorted(rounds, numbers)] = columns
    x, mean = np.nanmean(grids[0], axis=0), np.nanmean(grids[1], axis=0)
    return Line(group.label, len(points), x, mean, np.nanmin(grids[2], axis=0), np.nanmax(grids[3], axis=0))


def thinned(line: Line, most: int) -> Line:
    """The line with at most so many points, evenly chosen; the first and the last stay."""
    if len(line.x) <= most:
        return line
    chosen = np.unique(np.linspace(0, len(line.x) - 1, most).round().astype(int))
    parts = (part[chosen] for part in (line.x, line.mean, line.low, line.high))
    return Line(line.label, line.seeds, *parts)


def _points(run: RunRecords, kind: Kind) -> tuple[Floats, ...] | None:
    """A run's rounds that have a finite point, and there its x, its line and the edges of its band."""
    sums = SUMS.get(kind.x_unit, ())
    if not {*kind.columns, *sums} <= set(run.arrays):
        return None
    rounds = run.arrays["round"]
    middle, low, high = (run.arrays[column] for column in kind.columns)
    x = np.sum([np.nancumsum(run.arrays[column]) for column in sums], axis=0) if sums else rounds
    there = np.isfinite(middle) & np.isfinite(low) & np.isfinite(high)
    return tuple(part[there] for part in (rounds, x, middle, low, high))
