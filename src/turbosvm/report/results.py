"""The figures of a contest: rounds to target, metrics at a round, what the paper has, paired differences."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from turbosvm.errors import TurboSVMError, unknown
from turbosvm.report.estimates import MEASURES, METRICS, BesidePaper, Estimate, Measured, beside_paper
from turbosvm.report.groups import Contest, Group
from turbosvm.report.notes import notes_of_baseline, notes_of_paper, notes_of_runs
from turbosvm.report.paper import ROUNDS
from turbosvm.report.reading import BASELINE
from turbosvm.report.records import RunRecords
from turbosvm.report.student import Interval, interval


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
    measured = [Measured(group, moment) for group in contest.groups]
    estimates = [one.estimates() for one in measured]
    best = _best([group.task for group in contest.groups], estimates)
    pairs = {one.group: beside_paper(one, contest.task) for one in measured}
    rows = tuple(
        Row(
            one.group,
            estimates[place],
            frozenset(measure for measure in MEASURES if (place, measure) in best),
            tuple(pair for pair in pairs[one.group] if pair.ours.n),
            _paired(one, _opponent(one, measured, against)),
        )
        for place, one in enumerate(measured)
    )
    compared = [row.group for row in rows if row.paired]
    notes = (
        *notes_of_runs(contest, moment, asked=at is not None),
        *notes_of_paper(pairs, contest.task),
        *(notes_of_baseline(contest, baseline) if baseline and not compared else ()),
    )
    return Results(contest, moment, against, rows, notes)


def _last_common(runs: Sequence[RunRecords]) -> int:
    """The last round at which all runs were evaluated; without one, the last that all have."""
    common = set.intersection(*(set(map(int, run.points["round"])) for run in runs))
    return max(common) if common else min(run.rounds for run in runs)


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


def _opponent(one: Measured, others: Sequence[Measured], baseline: str) -> Measured | None:
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


def _paired(one: Measured, other: Measured | None) -> dict[str, Interval]:
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
