"""What readers hand over, whatever the files are: users' samples in chunks, and what was wrong with them in sentences.

A source is a list of units (a file, a folder of images), a unit gives chunks in an order that does not change, and a
chunk holds samples of one user. So a preparation that was stopped can go on at the chunk after the last one kept.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import numpy as np

from turbosvm.data.federated import Array
from turbosvm.data.windows import Places

Side = Literal["train", "test"]
Where = Callable[[int], str]


@dataclass(frozen=True)
class Form:
    """What every sample of a source looks like.

    Args:
        shape: of one input.
        dtype: NumPy's name of the kind of numbers.
        classes: their names; None where the labels that turn up are the classes.
        tokens: inputs are indices, not quantities.
        window: inputs are windows of that length over text.
    """

    shape: tuple[int, ...]
    dtype: str
    classes: tuple[str, ...] | None
    tokens: bool = False
    window: int | None = None


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some samples of one user.

    Args:
        user: their name.
        inputs: `[n, ...]`; with windows, the text of some segments with their lead-ins.
        labels: `[n]`; numbers of classes, or any values where the form leaves the classes open.
        segments: with windows, the number of samples of each segment.
        bad: a sentence for each thing that had to be left out here; it names file, user and row.
        done: the share of the unit that has been read when this chunk is complete.
        whole: the user's only chunk on this side; a second one means that two users have the same name.
    """

    user: str
    inputs: Array
    labels: Array
    segments: Places | None = None
    bad: tuple[str, ...] = ()
    done: float = 1.0
    whole: bool = False


@dataclass(frozen=True)
class Unit:
    """A part of a source that is read in one go.

    Args:
        name: what to call it in messages.
        size: how much work it is, in bytes or so.
        read: gives its chunks, but for that many at the beginning; a file that cannot be opened is an OSError.
        side: which of LEAF's folders it is in, if it is.
    """

    name: str
    size: int
    read: Callable[[int], Iterator[Chunk]]
    side: Side | None = None


@dataclass(frozen=True)
class Source:
    """Somebody's files, ready to be read.

    Args:
        kind: what the files are, for people.
        form: what the samples look like.
        units: in the order in which they are read.
    """

    kind: str
    form: Form
    units: Sequence[Unit]


@dataclass(frozen=True, eq=False)
class Rows:
    """Samples that were converted, and a sentence for each that could not be."""

    inputs: Array
    labels: Array
    segments: Places | None = None
    bad: tuple[str, ...] = ()


def gather(
    form: Form, places: Iterable[int], inputs: Callable[[int], Array | str], label: Callable[[int], Any], where: Where
) -> Rows:
    """Put samples together one by one; an input that is a text says why there is none."""
    classes = len(form.classes or ())
    good, labels, bad = [], [], []
    for row, place in enumerate(places):
        found, value = inputs(place), label(place)
        number = as_class(value, classes)
        if isinstance(found, str):
            bad.append(f"{where(row)} {found}.")
        elif number is None:
            bad.append(
                f"{where(row)} has the label {_shown(value)}; it must be from 0 to {len(form.classes or ()) - 1}."
            )
        else:
            good.append(found)
            labels.append(number)
    together = np.stack(good) if good else np.empty((0, *form.shape), dtype=form.dtype)
    return Rows(together, np.array(labels, dtype=np.int64), bad=tuple(bad))


def as_class(value: Any, classes: int) -> int | None:
    """Return a label as the number of a class; None if it is none, as are 3.5, 'a' or -1."""
    if isinstance(value, bool | np.bool_):
        value = int(value)
    if not isinstance(value, int | float | Decimal | np.integer | np.floating) or not 0 <= value < classes:
        return None
    return int(value) if int(value) == value else None


def nothing(form: Form, user: str, bad: Iterable[str], done: float) -> Chunk:
    """A chunk without samples, to say what was wrong."""
    shape = (0,) if form.window else (0, *form.shape)
    segments = np.empty(0, dtype=np.int64) if form.window else None
    return Chunk(
        user, np.empty(shape, dtype=form.dtype), np.empty(0, dtype=np.int64), segments, bad=tuple(bad), done=done
    )


def size_of(file: Path) -> int:
    """Return a file's size, at least 1."""
    return max(file.stat().st_size, 1)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
