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
from turbosvm.data.windows import Places
from turbosvm.errors import TurboSVMError

PIECE = 16 << 20
TEST = " (test)"


@dataclass(frozen=True, eq=False)
class Layout:
    """Who has which runs of samples, and in which order these go.

    Args:
        users: by name.
        held_out: for each user, whether the set's own split holds them out.
        owned: `[users]`, samples of each user.
        order: numbers of runs, user after user.
        samples: `[runs]`, samples of each run as they lie in the workshop.
        segments: `[runs]`, segments of text of each run.
        small: how many users were left out for having too few samples.
    """

    users: tuple[str, ...]
    held_out: tuple[bool, ...]
    owned: Places
    order: Places
    samples: Places
    segments: Places
    small: int = 0


def by_user(runs: list[Run], own_split: bool, min_samples: int) -> Layout:
    """Give everyone their samples, and leave out users of too few.

    With a split of its own, someone who is on both sides becomes two users, of whom the one under test is held out;
    both sides together must have enough samples.
    """
    samples = np.array([run.samples for run in runs], dtype=np.int64)
    sides: dict[str, dict[bool, list[int]]] = {}
    for place, run in enumerate(runs):
        sides.setdefault(run.user, {}).setdefault(own_split and run.side == "test", []).append(place)
    enough = {
        user: own for user, own in sides.items() if sum(samples[each].sum() for each in own.values()) >= min_samples
    }
    owners: dict[str, tuple[bool, list[int]]] = {}
    for user in sorted(enough):
        for held_out, places in sorted(enough[user].items()):
            name = user
            while held_out and len(enough[user]) == 2 and (name in sides or name in owners):
                name += TEST
            owners[name] = (held_out, places)
    names = tuple(sorted(owners))
    return Layout(
        users=names,
        held_out=tuple(owners[name][0] for name in names),
        owned=np.array([samples[owners[name][1]].sum() for name in names], dtype=np.int64),
        order=np.array([place for name in names for place in owners[name][1]], dtype=np.int64),
        samples=samples,
        segments=np.array([run.segments for run in runs], dtype=np.int64),
        small=len(sides) - len(enough),
    )


def by_partition(workshop: Workshop, partition: Partition, min_samples: int) -> Layout:
    """Give samples to made-up users."""
    given = partition.assign(np.fromfile(workshop.stream("labels"), dtype=LABEL))
    counts = np.bincount(given, minlength=partition.users)
    enough = counts >= min_samples
    order = np.argsort(given, kind="stable")
    return Layout(
        users=tuple(name for name, fine in zip(user_names(partition.users), enough, strict=True) if fine),
        held_out=(False,) * int(enough.sum()),
        owned=counts[enough],
        order=order[enough[given[order]]],
        samples=np.ones(len(given), dtype=np.int64),
        segments=np.zeros(len(given), dtype=np.int64),
        small=int((~enough).sum()),
    )


def classes_of(labels: Iterable[Any]) -> tuple[str, ...]:
    """Name classes after the labels that turned up: whole numbers in their order, words by the alphabet."""
    names = {str(label) for label in labels}
    return tuple(sorted(names, key=lambda name: (0, int(name), name) if _is_whole(name) else (1, 0, name)))


def write_arrays(workshop: Workshop, layout: Layout, classes: tuple[str, ...], folder: Path) -> None:
    """Write the arrays of the finished set."""
    form, order = workshop.form, layout.order
    one_input = np.dtype((form.dtype, () if form.window else form.shape))
    entries = layout.samples + (form.window or 0) * layout.segments
    with (folder / "inputs.npy").open("wb") as file:
        _write_header(file, one_input, int(entries[order].sum()))
        for piece in _in_order(workshop.stream("inputs"), one_input, entries, order):
            file.write(piece.tobytes())
    class_of = _class_of_code(workshop, classes)
    with (folder / "labels.npy").open("wb") as file:
        _write_header(file, class_of.dtype, int(layout.samples[order].sum()))
        for piece in _in_order(workshop.stream("labels"), LABEL, layout.samples, order):
            file.write(class_of[piece].tobytes())
    if form.window:
        lengths = np.concatenate([[0], *_in_order(workshop.stream("segments"), SEGMENT, layout.segments, order)])
        np.save(folder / "segments.npy", np.cumsum(lengths, dtype=np.int64), allow_pickle=False)
    np.save(folder / "offsets.npy", np.cumsum([0, *layout.owned], dtype=np.int64), allow_pickle=False)


def _in_order(stream: Path, kind: np.dtype[Any], counts: Places, order: Places) -> Iterator[Array]:
    """Give the entries of the runs in this order, in pieces."""
    if stream.stat().st_size != counts.sum() * kind.itemsize:
        raise TurboSVMError(f"What was kept in '{stream.parent}' has been damaged; prepare it again.")
    begins = (np.cumsum(counts) - counts)[order]
    lengths = counts[order]
    ends = np.cumsum(lengths)
    firsts = ends - lengths
    step = max(PIECE // max(kind.itemsize, 8), 1)  # a place takes 8 bytes
    for start in range(0, int(lengths.sum()), step):
        stop = min(start + step, int(ends[-1]))
        runs = slice(int(np.searchsorted(ends, start, side="right")), int(np.searchsorted(ends, stop)) + 1)
        # Of the first and the last of these runs, only a part may be in this piece.
        before = np.maximum(start - firsts[runs], 0)
        inside = lengths[runs] - before - np.maximum(ends[runs] - stop, 0)
        places = np.repeat(begins[runs] + before - (np.cumsum(inside) - inside), inside) + np.arange(stop - start)
        # Mapped anew for each piece, so that the pages of the last one are given back.
        yield np.memmap(stream, dtype=kind.base, mode="r").reshape(-1, *kind.shape)[places]


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
    return name.isascii() and name.removeprefix("-").isdecimal()
