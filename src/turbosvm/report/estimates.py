"""What a group's runs have measured, seed by seed and over all seeds, and what the paper has beside it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, stdev
from typing import NamedTuple

from turbosvm.report.groups import Group
from turbosvm.report.paper import ROUNDS, PaperFigure, paper_figures_of
from turbosvm.report.records import RunRecords
from turbosvm.report.text import spread

METRICS = ("accuracy", "macro_f1", "mcc")
MEASURES = (ROUNDS, *METRICS)


@dataclass(frozen=True)
class Estimate:
    """What several seeds have measured: their values, and how many of the runs have none."""

    values: tuple[float, ...]
    reached: int
    above: int | None = None
    """The rounds that a seed went without reaching the target, if one did; then there is no mean."""
    counts: bool = False
    """Whether values are whole by nature."""
    digits: int = 1
    """How many to show after the point."""

    @property
    def n(self) -> int:
        """How many seeds were looked at."""
        return len(self.values)

    @cached_property
    def mean(self) -> float | None:
        """The mean over seeds."""
        return fmean(self.values) if self.values and self.above is None else None

    @cached_property
    def std(self) -> float | None:
        """The sample standard deviation over seeds, of at least two."""
        return stdev(self.values) if len(self.values) > 1 and self.above is None else None

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        return spread(self.values, self.counts, self.digits) if self.above is None else f">{self.above}"


class BesidePaper(NamedTuple):
    """A figure of the paper's, and ours at the same round."""

    paper: PaperFigure
    ours: Estimate

    @property
    def difference(self) -> float | None:
        """Ours less the paper's, where both have a mean."""
        return None if self.ours.mean is None or self.paper.mean is None else self.ours.mean - self.paper.mean


class Measured:
    """A group's values by seed."""

    def __init__(self, group: Group, at: int) -> None:
        self.group = group
        self.rounds = {run.seed: run.rounds_to() for run in group.runs}
        there = {run.seed: run.metrics_at(at) for run in group.runs}
        self.metrics = {name: _finite(there, name, 100) for name in METRICS}

    def estimates(self) -> dict[str, Estimate]:
        """Its figures over seeds."""
        of_metrics = {name: Estimate(tuple(found.values()), len(found)) for name, found in self.metrics.items()}
        return {ROUNDS: rounds_estimate(self.group.runs), **of_metrics}

    def like(self, figure: PaperFigure) -> Estimate:
        """What the paper measured, measured here, at the same round."""
        if figure.at is None:
            return rounds_estimate(self.group.runs)
        there = {run.seed: run.metrics_at(figure.at) for run in self.group.runs if figure.at in run.points["round"]}
        scale = 100 if figure.measure in METRICS else 1
        values = tuple(_finite(there, figure.measure, scale).values())
        return Estimate(values, len(values), digits=figure.digits)


def rounds_estimate(runs: Sequence[RunRecords]) -> Estimate:
    """The rounds to target over seeds; no mean as soon as one did not get there, as it would flatter.

    Then they are above the fewest rounds that such a one has been watched for.
    """
    milestones = [run.rounds_to() for run in runs]
    watched = [_watched(run) for run, milestone in zip(runs, milestones, strict=True) if not milestone.reached]
    values = tuple(float(milestone.rounds) for milestone in milestones)
    return Estimate(values, len(values) - len(watched), min(watched) if watched else None, counts=True)


def _watched(run: RunRecords) -> int:
    """For how many rounds it is known that a run does not reach its target; one that stopped never does."""
    seen, wanted = run.rounds_to().rounds, run.config.get("rounds")
    return max(seen, wanted) if run.stopped and isinstance(wanted, int) else seen


def _finite(by_seed: Mapping[int, Mapping[str, float]], metric: str, scale: int) -> dict[int, float]:
    """A metric by seed, so many times as large (100 for percent), of the runs that have it."""
    values = {seed: scale * metrics.get(metric, math.nan) for seed, metrics in by_seed.items()}
    return {seed: value for seed, value in values.items() if math.isfinite(value)}


def beside_paper(one: Measured, task: str) -> tuple[BesidePaper, ...]:
    """The paper's figures for a group's runs, where it has any, with ours; without values if not evaluated there."""
    figures = paper_figures_of(one.group.runs[0].config, task)
    return tuple(BesidePaper(figure, one.like(figure)) for figure in figures)
