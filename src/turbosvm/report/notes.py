"""What the reader of a report should know beside its figures, in sentences."""

from collections.abc import Mapping, Sequence
from typing import Any

from turbosvm.report.estimates import BesidePaper
from turbosvm.report.groups import Contest, Group
from turbosvm.report.paper import unlike_the_paper

MOST = 5
"""How many runs or rows a note names."""


def notes_of_runs(contest: Contest, at: int, asked: bool) -> list[str]:
    """What the person should know of the runs, and of the round that the metrics are at."""
    notes, runs = list(contest.notes), contest.named_runs
    stopped = [f"{name} stopped. {run.stopped}" for name, run in runs if run.stopped]
    notes += stopped[:MOST]
    notes += [f"{len(stopped) - MOST} more stopped; their folders say why."] if len(stopped) > MOST else []
    notes += [note for name, run in runs for note in run.told_of(name)]
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


def notes_of_paper(pairs: Mapping[Group, Sequence[BesidePaper]], task: str) -> list[str]:
    """What was not run as the paper was, and which of the paper's figures have none of ours beside them, and why."""
    unlike: dict[str, list[str]] = {}
    missing: dict[str, list[str]] = {}
    for group, found in pairs.items():
        shown = [pair.paper.at for pair in found if pair.ours.n]
        if shown:
            for key, (ours, theirs) in unlike_the_paper(group.settings, task).items():
                unlike.setdefault(f"{key}={_value(theirs)}", []).append(f"{_value(ours)} in {group.label}")
        if not any(shown) and (rounds := {pair.paper.at for pair in found if pair.paper.at}):
            missing.setdefault(" and ".join(map(str, sorted(rounds))), []).append(group.label)
    return [
        *(f"The paper has {said}; here it is {_some(names)}." for said, names in unlike.items()),
        *(
            f"The paper's metrics are at round {rounds}, where these were not evaluated: {_some(names)}."
            for rounds, names in missing.items()
        ),
    ]


def _value(value: Any) -> str:
    return "nothing" if value is None else str(value)


def notes_of_baseline(contest: Contest, baseline: str) -> list[str]:
    """Why there are no differences from a baseline that was asked for."""
    rows = [group.label for group in contest.groups if group.algorithm == baseline]
    if len(rows) > 1 and baseline not in rows:
        return [f"No differences from {baseline}, as several rows are that; name one of them: {_some(rows)}."]
    if rows or baseline in [group.label for group in contest.groups]:
        return [f"No differences from {baseline}: they take two seeds, and conditions, that both rows have."]
    return []


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST
    return ", ".join(names[:MOST]) + (f" and {more} more" if more > 0 else "")
