"""Samples that came in any order, put in order by user: sorted by name, each user's in the order in which they came.

Everything is copied in pieces, so that memory stays small however large the data is.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from turbosvm.data.federated import Array
from turbosvm.data.partition import Partition, user_names
from turbosvm.data.preparation.journal import Run
from turbosvm.data.preparation.workshop import LABEL, SEGMENT, Workshop

PIECE = 16 << 20
TEST = " (test)"


@dataclass(frozen=True)
class Owner:
    """A user of the finished set, whether the set's own split holds them out, and their runs by number."""

    name: str
    held_out: bool
    runs: tuple[int, ...]


def owners_of(runs: list[Run], own_split: bool, min_samples: int) -> tuple[list[Owner], int]:
    """Group runs by user, and leave out users of too few samples; returns how many these were, too.

    With a split of its own, someone who is on both sides becomes two users: the samples under test are held out.
    """
    groups: dict[tuple[str, bool], list[int]] = {}
    for place, run in enumerate(runs):
        groups.setdefault((run.user, own_split and run.side == "test"), []).append(place)
    owners = [
        Owner(f"{user}{TEST}" if held_out and (user, False) in groups else user, held_out, tuple(places))
        for (user, held_out), places in groups.items()
        if sum(runs[place].samples for place in places) >= min_samples
    ]
    return sorted(owners, key=lambda owner: owner.name), len(groups) - len(owners)


def classes_of(labels: Iterable[Any]) -> tuple[str, ...]:
    """Name classes after the labels that turned up: whole numbers in their order, words by the alphabet."""
    names = {str(label) for label in labels}
    return tuple(sorted(names, key=lambda name: (0, int(name), name) if _is_whole(name) else (1, 0, name)))


def divided(workshop: Workshop, partition: Partition) -> list[Run]:
    """Give samples to made-up users: each sample a run of its own, or with its neighbours of the same user."""
    labels = np.fromfile(workshop.stream("labels"), dtype=LABEL)
    users = partition.assign(labels)
    begins = np.flatnonzero(np.diff(users, prepend=-1))
    counts = np.diff(begins, append=len(users))
    names = user_names(partition.users)
    return [
        Run(names[user], None, 0, samples)
        for user, samples in zip(users[begins].tolist(), counts.tolist(), strict=True)
    ]


def write_arrays(
    workshop: Workshop, runs: list[Run], owners: list[Owner], classes: tuple[str, ...], folder: Path
) -> None:
    """Write the arrays of the finished set; `runs` tells how samples lie in the workshop."""
    form = workshop.form
    order = np.array([run for owner in owners for run in owner.runs], dtype=np.int64)
    samples = np.array([run.samples for run in runs], dtype=np.int64)
    segments = np.array([run.segments for run in runs], dtype=np.int64)
    one_input = np.dtype((form.dtype, () if form.window else form.shape))
    entries = samples + (form.window or 0) * segments
    with (folder / "inputs.npy").open("wb") as file:
        _write_header(file, one_input, int(entries[order].sum()))
        for piece in _in_order(workshop.stream("inputs"), one_input, entries, order):
            file.write(piece.tobytes())
    class_of = _class_of_code(workshop, classes)
    with (folder / "labels.npy").open("wb") as file:
        _write_header(file, class_of.dtype, int(samples[order].sum()))
        for piece in _in_order(workshop.stream("labels"), LABEL, samples, order):
            file.write(class_of[piece].tobytes())
    if form.window:
        lengths = np.concatenate([[0], *_in_order(workshop.stream("segments"), SEGMENT, segments, order)])
        np.save(folder / "segments.npy", np.cumsum(lengths, dtype=np.int64), allow_pickle=False)
    owned = [0, *(samples[list(owner.runs)].sum() for owner in owners)]
    np.save(folder / "offsets.npy", np.cumsum(owned, dtype=np.int64), allow_pickle=False)


def _in_order(stream: Path, kind: np.dtype[Any], counts: Array, order: Array) -> Iterator[Array]:
    """Give the entries of the runs in this order, in pieces."""
    begins = np.cumsum(counts) - counts
    with stream.open("rb") as file:
        for begin, count in zip(begins[order].tolist(), counts[order].tolist(), strict=True):
            file.seek(begin * kind.itemsize)
            while count:
                piece = np.fromfile(file, dtype=kind, count=min(count, max(PIECE // kind.itemsize, 1)))
                yield piece
                count -= len(piece)


def _class_of_code(workshop: Workshop, classes: tuple[str, ...]) -> Array:
    """The class of each number that stands for a label in the workshop."""
    kind = np.uint8 if len(classes) <= 256 else LABEL
    if workshop.form.classes is not None:
        return np.arange(len(classes), dtype=kind)
    place = {name: number for number, name in enumerate(classes)}
    return np.array([place[str(label)] for label in workshop.so_far.labels], dtype=kind)


def _write_header(file: IO[bytes], kind: np.dtype[Any], entries: int) -> None:
    """Begin a file of NumPy's format that is written bit by bit."""
    described = {
        "descr": np.lib.format.dtype_to_descr(kind.base),
        "fortran_order": False,
        "shape": (entries, *kind.shape),
    }
    np.lib.format.write_array_header_1_0(file, described)


def _is_whole(name: str) -> bool:
    return name.removeprefix("-").isdecimal()
