"""The figures of a contest: rounds to target, metrics at a round, what the paper has, paired differences."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, stdev
from typing import NamedTuple

from turbosvm.errors import TurboSVMError, unknown
from turbosvm.evaluation.milestones import RoundsToTarget
from turbosvm.report.groups import Contest, Group
from turbosvm.report.paper import ROUNDS, PaperFigure, paper_figures_of
from turbosvm.report.reading import BASELINE
from turbosvm.report.records import RunRecords
from turbosvm.report.student import Interval, interval
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


@dataclass(frozen=True, eq=False)
class Row:
    """All figures of one group."""

    group: Group
    estimates: dict[str, Estimate]
    best: frozenset[str]
    beside_paper: tuple[BesidePaper, ...]
    paired: dict[str, Interval]


@dataclass(frozen=True, eq=False)
class Results:
    """The rows of a contest, the round its metrics are at, and whom rows are paired with."""

    contest: Contest
    at: int
    baseline: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    @property
    def targets(self) -> list[float]:
        """The accuracies that rounds are counted to."""
        return sorted({run.target for run in self.contest.runs})


def check_request(contests: Sequence[Contest], at: int | None, baseline: str | None) -> None:
    """Refuse a round that no run has, and a baseline that is nowhere."""
    last = max(run.rounds for contest in contests for run in contest.runs)
    if at is not None and not 1 <= at <= last:
        raise TurboSVMError(f"There is no round {at} to make tables at; the longest run has {last} rounds.")
    groups = [group for contest in contests for group in contest.groups]
    algorithms, labels = {group.algorithm for group in groups}, {group.label for group in groups}
    if baseline is not None and baseline not in algorithms | labels:
        whole = {"a row's whole name"} if labels - algorithms else set()
        raise unknown("baseline", baseline, algorithms | whole, guesses=labels)


def results_of(contest: Contest, at: int | None = None, baseline: str | None = None) -> Results:
    """Work out a contest's figures at round `at` (the last that all runs have, if none is given)."""
    moment = _last_common(contest.runs) if at is None else at
    against = baseline or BASELINE
    measured = [_Measured(group, moment) for group in contest.groups]
    estimates = [one.estimates() for one in measured]
    best = _best([group.task for group in contest.groups], estimates)
    rows = tuple(
        Row(
            one.group,
            estimates[place],
            frozenset(measure for measure in MEASURES if (place, measure) in best),
            _beside_paper(one, contest.task),
            _paired(one, _opponent(one, measured, against)),
        )
        for place, one in enumerate(measured)
    )
    notes = _notes(contest, moment, asked=at is not None)
    return Results(contest, moment, against, rows, (*notes, *_unlike_the_paper(rows)))


def _last_common(runs: Sequence[RunRecords]) -> int:
    """The last round at which all runs were evaluated; without one, the last that all have."""
    common = set.intersection(*(set(map(int, run.points["round"])) for run in runs))
    return max(common) if common else min(run.rounds for run in runs)


class _Measured:
    """A group's values by seed."""

    def __init__(self, group: Group, at: int) -> None:
        self.group = group
        self.rounds = {run.seed: run.rounds_to() for run in group.runs}
        there = {run.seed: run.metrics_at(at) for run in group.runs}
        self.metrics = {name: _finite(there, name, 100) for name in METRICS}

    def estimates(self) -> dict[str, Estimate]:
        """Its figures over seeds."""
        of_metrics = {name: Estimate(tuple(found.values()), len(found)) for name, found in self.metrics.items()}
        return {ROUNDS: rounds_estimate(list(self.rounds.values())), **of_metrics}

    def like(self, figure: PaperFigure) -> Estimate:
        """What the paper measured, measured here, at the same round."""
        if figure.at is None:
            return rounds_estimate(list(self.rounds.values()))
        there = {run.seed: run.metrics_at(figure.at) for run in self.group.runs}
        scale = 100 if figure.measure in METRICS else 1
        values = tuple(_finite(there, figure.measure, scale).values())
        return Estimate(values, len(values), digits=figure.digits)


def rounds_estimate(milestones: Sequence[RoundsToTarget]) -> Estimate:
    """The rounds to target over seeds; no mean as soon as one did not get there, as it would flatter."""
    short = [milestone.rounds for milestone in milestones if not milestone.reached]
    values = tuple(float(milestone.rounds) for milestone in milestones)
    return Estimate(values, len(values) - len(short), max(short) if short else None, counts=True)


def _finite(by_seed: Mapping[int, Mapping[str, float]], metric: str, scale: int) -> dict[int, float]:
    """A metric by seed, so many times as large (100 for percent), of the runs that have it."""
    values = {seed: scale * metrics.get(metric, math.nan) for seed, metrics in by_seed.items()}
    return {seed: value for seed, value in values.items() if math.isfinite(value)}


def _best(tasks: Sequence[Hashable], estimates: Sequence[dict[str, Estimate]]) -> set[tuple[int, str]]:
    """Which rows are best at what among those of the same task, as printed; nobody is best alone, or without a mean."""
    best = set()
    for task in set(tasks):
        places = [place for place, other in enumerate(tasks) if other == task]
        for measure in MEASURES:
            choose: Callable[[Sequence[float]], float] = min if measure == ROUNDS else max
            means = {place: estimates[place][measure].mean for place in places}
            printed = {place: round(mean, 1) for place, mean in means.items() if mean is not None}
            if len(places) > 1 and printed:
                winner = choose(list(printed.values()))
                best |= {(place, measure) for place, value in printed.items() if value == winner}
    return best


def _beside_paper(one: _Measured, task: str) -> tuple[BesidePaper, ...]:
    """The paper's figures for a group's runs, where it has any and the runs went so far, with ours."""
    figures = paper_figures_of(one.group.runs[0].config, task)
    pairs = (BesidePaper(figure, one.like(figure)) for figure in figures)
    return tuple(pair for pair in pairs if pair.ours.n)


def _opponent(one: _Measured, others: Sequence[_Measured], baseline: str) -> _Measured | None:
    """The baseline's group of the same task; of several, the one whose other settings are nearest, if only one is."""
    named = [other for other in others if other.group.label == baseline]
    same = named or [
        other for other in others if other.group.algorithm == baseline and other.group.task == one.group.task
    ]
    if one in same or not same:
        return None
    ranked = sorted((_distance(one.group, other.group), place) for place, other in enumerate(same))
    if len(ranked) > 1 and ranked[0][0] == ranked[1][0]:
        return None
    chosen = same[ranked[0][1]]
    return chosen if chosen.group.task == one.group.task else None


def _distance(one: Group, other: Group) -> int:
    """How many settings differ, apart from those of the algorithm itself."""
    return len({key for key, _ in one.circumstances ^ other.circumstances})


def _paired(one: _Measured, other: _Measured | None) -> dict[str, Interval]:
    """Differences from the baseline over the seeds that both have; none of rounds where a run missed the target."""
    if other is None:
        return {}
    found: dict[str, Interval | None] = {}
    for name in METRICS:
        mine, theirs = one.metrics[name], other.metrics[name]
        found[name] = interval([mine[seed] - theirs[seed] for seed in mine if seed in theirs])
    common = [seed for seed in one.rounds if seed in other.rounds]
    if all(side.rounds[seed].reached for side in (one, other) for seed in common):
        found[ROUNDS] = interval([float(one.rounds[seed].rounds - other.rounds[seed].rounds) for seed in common])
    return {measure: found[measure] for measure in MEASURES if found.get(measure)}  # type: ignore[misc]


def _notes(contest: Contest, at: int, asked: bool) -> list[str]:
    """What the person should know: of the runs, and of the round that the metrics are at."""
    notes, runs = list(contest.notes), contest.named_runs
    for name, run in runs:
        stopped = [f"{name} stopped. {run.stopped}"] if run.stopped else []
        notes += [*stopped, *run.told_of(name)]
    going = []
    for name, run in runs:
        wanted = run.config.get("rounds")
        if isinstance(wanted, int) and run.rounds < wanted and not run.stopped:
            going.append(f"{name} ({run.rounds} of {wanted} rounds)")
    if going:
        notes.append(f"Not finished: {_some(going)}.")
    if not asked and at < max(run.rounds for _, run in runs):
        name, shortest = min(runs, key=lambda named: named[1].rounds)
        notes.append(
            f"Metrics are at round {at}, the last at which all runs were evaluated; "
            f"the shortest, {name}, has {shortest.rounds} rounds."
        )
    left_out = [name for name, run in runs if run.rounds < at]
    if left_out:
        notes.append(f"Not in the metrics at round {at}, as they ended before: {_some(left_out)}.")
    between = [name for name, run in runs if run.rounds >= at and at not in run.points["round"]]
    if between:
        notes.append(f"Not evaluated at round {at}, so the evaluation before it counts: {_some(between)}.")
    return notes


def _unlike_the_paper(rows: Sequence[Row]) -> list[str]:
    """What stands beside the paper's figures, but was not run on all that the paper was."""
    caps = {row.group.settings.get("data.max_samples") for row in rows if row.beside_paper} - {None}
    return [f"Beside the paper's figures: users keep at most {cap} samples here, in the paper all." for cap in caps]


def _some(names: Sequence[str], most: int = 5) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
