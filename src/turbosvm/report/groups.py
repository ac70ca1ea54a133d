"""Which runs belong together: a group differs in the seed alone, a contest is all groups on one data set."""

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from turbosvm.report.records import RunRecords
from turbosvm.report.settings import fingerprint, labels_of, settings_of, task_of


@dataclass(frozen=True, eq=False)
class Group:
    """Runs of one config, a seed each, and how they are called among the others on their data."""

    label: str
    runs: tuple[RunRecords, ...]

    @property
    def algorithm(self) -> str:
        """The name of their algorithm."""
        return self.runs[0].algorithm

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What they have in common: all that makes them what they are."""
        return settings_of(self.runs[0].config)

    @cached_property
    def task(self) -> Hashable:
        """What must be the same in another group to compare with it."""
        return self.runs[0].target, fingerprint(task_of(self.settings))

    @cached_property
    def circumstances(self) -> frozenset[tuple[str, str]]:
        """All settings but those of the algorithm itself."""
        return frozenset(pair for pair in fingerprint(self.settings) if not pair[0].startswith("algorithm."))

    @property
    def by_seed(self) -> dict[int, RunRecords]:
        """The runs by their seeds."""
        return {run.seed: run for run in self.runs}


@dataclass(frozen=True, eq=False)
class Contest:
    """All groups that ran on one data set."""

    title: str
    data: str
    groups: tuple[Group, ...]
    notes: tuple[str, ...] = ()

    @property
    def runs(self) -> list[RunRecords]:
        """All runs, group by group."""
        return [run for group in self.groups for run in group.runs]


def contests_of(runs: Iterable[RunRecords]) -> list[Contest]:
    """Sort runs by data set and algorithm, in order of first appearance, then by what differs in their configs."""
    sets: dict[tuple[str, str], list[RunRecords]] = {}
    for run in runs:
        sets.setdefault((run.data, _digest(run)), []).append(run)
    names = [data for data, _ in sets]
    return [
        _contest(data if names.count(data) == 1 else f"{data} ({digest[:8] or 'no digest'})", members)
        for (data, digest), members in sets.items()
    ]


def _digest(run: RunRecords) -> str:
    """What tells data of the same name apart, if the run has noted it."""
    about = run.environment.get("data")
    return str(about.get("digest") or "") if isinstance(about, dict) else ""


def _contest(title: str, runs: Sequence[RunRecords]) -> Contest:
    members: dict[Hashable, list[RunRecords]] = {}
    for run in runs:
        key = (run.algorithm, run.target, fingerprint(settings_of(run.config)))
        members.setdefault(key, []).append(run)
    notes: list[str] = []
    groups = [Group(same[0].algorithm, tuple(_one_a_seed(same, notes))) for same in members.values()]
    labels = labels_of([(group.algorithm, group.settings) for group in groups])
    named = [Group(label, group.runs) for label, group in zip(labels, groups, strict=True)]
    algorithms = list(dict.fromkeys(run.algorithm for run in runs))
    named.sort(key=lambda group: (algorithms.index(group.algorithm), _as_people_count(group.label)))
    return Contest(title, runs[0].data, tuple(named), (*notes, *_missing_seeds(named)))


def _as_people_count(label: str) -> list[str | float]:
    """A key that sorts numbers in names by their size."""
    parts = re.split(r"(\d+(?:\.\d+)?(?:e-?\d+)?)", label)
    return [float(part) if place % 2 else part for place, part in enumerate(parts)]


def _one_a_seed(runs: Sequence[RunRecords], notes: list[str]) -> list[RunRecords]:
    """Keep the longest run of each seed, and note where there were others."""
    best: dict[int, RunRecords] = {}
    for run in runs:
        best[run.seed] = max(best.get(run.seed, run), run, key=lambda one: one.rounds)
    for seed, kept in sorted(best.items()):
        count = sum(run.seed == seed for run in runs)
        if count > 1:
            notes.append(f"{kept.label} was run {count} times with one config; the run with most rounds counts.")
    return [best[seed] for seed in sorted(best)]


def _missing_seeds(groups: Sequence[Group]) -> list[str]:
    """A sentence for each group that lacks seeds which a comparable one has."""
    seeds: dict[Hashable, set[int]] = {}
    for group in groups:
        seeds.setdefault(group.task, set()).update(group.by_seed)
    notes = []
    for group in groups:
        missing = sorted(seeds[group.task] - set(group.by_seed))
        if missing:
            word = "seed" if len(missing) == 1 else "seeds"
            notes.append(f"{group.label} has no {word} {', '.join(map(str, missing))}, which others have.")
    return notes
