"""Which runs belong together: a group differs in the seed alone, a contest is all groups on one data set."""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from turbosvm.report.paper import paper_place
from turbosvm.report.records import RunRecords
from turbosvm.report.settings import describe, differing, fingerprint, labels_of, settings_of, short_name, task_of
from turbosvm.visible import visible


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
    task: str
    """What the data was prepared as, or else its name."""
    groups: tuple[Group, ...]
    notes: tuple[str, ...] = ()

    @property
    def runs(self) -> list[RunRecords]:
        """All runs, group by group."""
        return [run for _, run in self.named_runs]

    @property
    def named_runs(self) -> list[tuple[str, RunRecords]]:
        """The same with what sentences call them."""
        return [(f"{group.label} seed {run.seed}", run) for group in self.groups for run in group.runs]


def contests_of(runs: Iterable[RunRecords]) -> list[Contest]:
    """Sort runs by data set, then by algorithm in order of first appearance, then by what differs in their configs.

    The paper's data sets come first, in the paper's order, then others by name.
    """
    sets: dict[tuple[str, str], list[RunRecords]] = {}
    for run in runs:
        digest = _noted(run, "digest")
        sets.setdefault(("" if digest else run.data, digest), []).append(run)
    firsts = [members[0] for members in sets.values()]
    contests = [_contest(title, members) for title, members in zip(_titles(firsts), sets.values(), strict=True)]
    return sorted(contests, key=lambda contest: (paper_place(contest.task), _as_people_count(contest.title)))


def _titles(runs: Sequence[RunRecords]) -> list[str]:
    """The name of each run's data; of sets with one name with what differs in how they were made, or else a hash."""
    titles = []
    for run in runs:
        made = [_data_settings(other) for other in runs if other.data == run.data]
        keys = differing(made)
        told = [describe(settings, {key: short_name(key, settings) for key in keys}) for settings in made]
        if len(set(told)) == len(told):
            titles.append(f"{run.data} {told[made.index(_data_settings(run))]}".strip())
        else:
            titles.append(f"{run.data} ({_noted(run, 'digest')[:8] or 'no digest'})")
    return titles


def _data_settings(run: RunRecords) -> dict[str, Any]:
    """How data that is made here was made, and how much of it is taken."""
    tell = ("data.glyphs.", "data.max_samples")
    return {key: value for key, value in settings_of(run.config).items() if key.startswith(tell)}


def _noted(run: RunRecords, what: str) -> str:
    """What a run has noted of its data, if it has."""
    about = run.environment.get("data")
    return visible(str(about.get(what) or "")) if isinstance(about, dict) else ""


def _contest(title: str, runs: Sequence[RunRecords]) -> Contest:
    members: dict[Hashable, list[RunRecords]] = {}
    for run in runs:
        key = (run.algorithm, run.target, fingerprint(settings_of(run.config)))
        members.setdefault(key, []).append(run)
    labels = labels_of([(same[0].algorithm, settings_of(same[0].config)) for same in members.values()])
    notes = [note for label, same in zip(labels, members.values(), strict=True) for note in _several(label, same)]
    named = [Group(label, _one_a_seed(same)) for label, same in zip(labels, members.values(), strict=True)]
    algorithms = list(dict.fromkeys(run.algorithm for run in runs))
    named.sort(key=lambda group: (algorithms.index(group.algorithm), _as_people_count(group.label)))
    task = _noted(runs[0], "task") or runs[0].data
    return Contest(title, task, tuple(named), (*notes, *_missing_seeds(named)))


def _as_people_count(label: str) -> list[str | float]:
    """A key that sorts numbers in names by their size."""
    parts = re.split(r"(\d+(?:\.\d+)?(?:e-?\d+)?)", label)
    return [float(part) if place % 2 else part for place, part in enumerate(parts)]


def _one_a_seed(runs: Sequence[RunRecords]) -> tuple[RunRecords, ...]:
    """Keep the longest run of each seed."""
    best: dict[int, RunRecords] = {}
    for run in runs:
        best[run.seed] = max(best.get(run.seed, run), run, key=lambda one: one.rounds)
    return tuple(best[seed] for seed in sorted(best))


def _several(label: str, runs: Sequence[RunRecords]) -> list[str]:
    """A sentence for each seed that was run more than once."""
    counts = Counter(run.seed for run in runs)
    return [
        f"{label} seed {seed} was run {count} times with one config; the run with most rounds counts."
        for seed, count in sorted(counts.items())
        if count > 1
    ]


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
