"""Glyphs: a built-in data set in the manner of FEMNIST, made on this machine from the fonts of matplotlib.

Sixty-two characters, 28 x 28 greys, white paper. Each user is a writer with a hand of their own (face, slant, weight,
size, wobble, paper, ink), their own liking for some characters, and their own number of samples. A writer is a function
of (seed, user): user 17 is the same whatever else is made, and on whatever machine.
"""

import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from turbosvm.cores import usable_cores
from turbosvm.data import store
from turbosvm.data.federated import FederatedData
from turbosvm.data.glyph_drawing import SIDE, draw
from turbosvm.data.glyph_faces import CHARACTERS, atlas
from turbosvm.data.glyph_styles import Stream, draw_count, draw_hands, draw_labels, draw_own
from turbosvm.errors import TurboSVMError
from turbosvm.files import cannot_write, refuse_unwritable, remove

__all__ = ["CHARACTERS", "FULL_SIZE", "GlyphOptions", "load", "sample_count", "writer"]

# Raise it whenever a change alters a pixel or a label: it is in the name of the cached folder.
VERSION = 3

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class GlyphOptions:
    """Which glyphs to make.

    Args:
        users: number of writers.
        samples_per_user: their mean number of samples; the spread grows with it, as in FEMNIST.
        heterogeneity: the chance that a sample is in its writer's own hand, with a label as the writer likes it;
            otherwise it is in a stranger's, with a label from the population. 0 is IID, 1 is wholly by writer, and
            all writers together look the same in either case.
        seed: another seed gives other writers.
    """

    users: int = 200
    samples_per_user: float = 100.0
    heterogeneity: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.users < 1:
            raise TurboSVMError(f"Glyphs need users of at least 1, not {self.users}.")
        if not 1 <= self.samples_per_user <= 1e6:
            raise TurboSVMError(f"Glyphs need samples_per_user from 1 to 1,000,000, not {self.samples_per_user}.")
        if self.seed < 0:
            raise TurboSVMError(f"Glyphs need a seed of at least 0, not {self.seed}.")
        if not 0 <= self.heterogeneity <= 1:
            raise TurboSVMError(f"Glyphs need heterogeneity from 0 to 1, not {self.heterogeneity}.")


FULL_SIZE = GlyphOptions(users=3550, samples_per_user=226.8)


def sample_count(options: GlyphOptions, user: int) -> int:
    """Return how many samples a writer has, without drawing them."""
    return draw_count(Stream(options.seed, user), options.samples_per_user)


def writer(options: GlyphOptions, user: int) -> tuple[Images, Labels]:
    """Make one writer's images `[n, 28, 28]` and labels `[n]`; `options.users` plays no part."""
    stream = Stream(options.seed, user)
    n = sample_count(options, user)
    own = draw_own(stream, n, options.heterogeneity)
    labels = draw_labels(stream, own)
    grain = stream.raw("grain", n * SIDE * SIDE // 8).astype("<u8").view(np.int8).reshape(n, SIDE, SIDE)
    return draw(draw_hands(stream, labels, own), labels, grain), labels


def load(options: GlyphOptions, on_progress: Callable[[int, int], None] | None = None) -> FederatedData:
    """Open the data set from the cache folder as a memory map, making it first if it is not there, or is damaged.

    `on_progress(made, of)` is told the number of writers done, from the calling thread.
    """
    folder = cached_at(options)
    if os.path.lexists(folder):
        try:
            return store.load(folder)
        except TurboSVMError as error:
            why = str(error).partition("; ")[0]
        try:
            refuse_unwritable(folder.parent)
        except TurboSVMError as error:
            raise TurboSVMError(f"{why}, and it cannot be made again: {error}") from error
        return _make_again(options, folder, on_progress)
    refuse_unwritable(folder.parent)
    _save(options, folder, on_progress)
    return store.load(folder)


def _make_again(options: GlyphOptions, folder: Path, on_progress: Callable[[int, int], None] | None) -> FederatedData:
    """Make a set anew in the place of a damaged one, in one process of those that have noticed it."""
    with cannot_write("folder", folder), FileLock(folder.with_name(f".{folder.name}.lock")):
        try:
            return store.load(folder)  # another process has made it meanwhile
        except TurboSVMError as error:
            warnings.warn(f"{str(error).partition('; ')[0]}; glyphs are made again.", stacklevel=3)
        anew, aside = (folder.with_name(f".{folder.name}.{which}") for which in ("anew", "aside"))
        remove(anew)
        remove(aside)
        _save(options, anew, on_progress)
        folder.rename(aside)
        anew.rename(folder)
        remove(aside)
    return store.load(folder)


def _save(options: GlyphOptions, folder: Path, on_progress: Callable[[int, int], None] | None) -> None:
    data = _make(options, on_progress)
    store.save(data, folder, made_by={"glyphs": VERSION, **asdict(options)}, keep_existing=True)


def cached_at(options: GlyphOptions) -> Path:
    """Return the folder that holds, or would hold, this data set."""
    return store.cache_folder() / (
        f"glyphs-v{VERSION}-{options.users}x{float(options.samples_per_user)}"
        f"-heterogeneity{float(options.heterogeneity)}-seed{options.seed}"
    )


def _make(options: GlyphOptions, on_progress: Callable[[int, int], None] | None) -> FederatedData:
    counts = [sample_count(options, user) for user in range(options.users)]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    inputs = np.empty((offsets[-1], 1, SIDE, SIDE), dtype=np.uint8)
    labels = np.empty(offsets[-1], dtype=np.uint8)

    def fill(user: int) -> None:
        own = slice(offsets[user], offsets[user + 1])
        inputs[own, 0], labels[own] = writer(options, user)

    atlas()  # once, before many threads want it
    # Threads suffice, as NumPy lets go of the interpreter's lock, and they need nothing of the calling script.
    with ThreadPoolExecutor(usable_cores()) as pool:
        try:
            for done, _ in enumerate(pool.map(fill, range(options.users)), start=1):
                if on_progress:
                    on_progress(done, options.users)
        except BaseException:
            pool.shutdown(cancel_futures=True)  # a person who interrupts should not wait for the rest
            raise
    return FederatedData(
        name="glyphs",
        inputs=inputs,
        labels=labels,
        offsets=offsets,
        users=tuple(f"writer-{user:05d}" for user in range(options.users)),
        classes=tuple(CHARACTERS),
    )
