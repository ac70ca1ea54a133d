"""Windows over text, made when they are asked for: a sample is the `length` characters before the one to guess.

Text is kept in segments, such as the lines that a character speaks. A segment is a lead-in of `length` tokens and then
its own text, and every token of its own text is the label of one sample. So n samples cost about n bytes, not n times
`length`.
"""

from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from turbosvm.errors import TurboSVMError

Array = npt.NDArray[Any]
Tokens = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Windows:
    """Behaves like an array `[n, length]` of tokens, as far as reading goes.

    Args:
        text: all segments, one after another, each with its lead-in.
        segments: `[segments + 1]`, rising from 0; segment s has the samples `segments[s]` to `segments[s + 1]`.
        length: tokens in a window.
    """

    text: Tokens
    segments: Places
    length: int

    def __post_init__(self) -> None:
        if self.text.ndim != 1 or self.text.dtype != np.uint8 or self.segments.dtype.kind not in "iu":
            raise TurboSVMError("Windows need a text of bytes, and segments of whole numbers.")
        some = self.segments.ndim == 1 and len(self.segments) > 0
        rising = some and self.segments[0] == 0 and not np.any(np.diff(self.segments) < 0)
        if self.length < 1 or not rising:
            raise TurboSVMError("Windows need a length of at least 1, and segments that rise from 0.")
        needed = len(self) + self.length * (len(self.segments) - 1)
        if len(self.text) != needed:
            raise TurboSVMError(f"Windows of {len(self)} samples need a text of {needed} tokens, not {len(self.text)}.")

    def __len__(self) -> int:
        return int(self.segments[-1])

    @property
    def shape(self) -> tuple[int, int]:
        """As the array would have it."""
        return len(self), self.length

    @property
    def ndim(self) -> int:
        """As the array would have it."""
        return 2

    @property
    def dtype(self) -> np.dtype[Any]:
        """As the array would have it."""
        return self.text.dtype

    def __getitem__(self, places: SupportsIndex | slice | Places) -> Tokens:
        """Make the windows at these places."""
        if isinstance(places, slice):
            start, stop, step = places.indices(len(self))
            return self._at(np.arange(start, stop, step))
        if not isinstance(places, np.ndarray):
            one: Tokens = self[np.array([int(places)])][0]
            return one
        wanted = np.asarray(places, dtype=np.int64)
        if wanted.size and not -len(self) <= wanted.min() <= wanted.max() < len(self):
            raise IndexError(f"windows are numbered 0 to {len(self) - 1}")
        return self._at(np.where(wanted < 0, wanted + len(self), wanted))

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        """All windows at once, as `np.asarray` asks for them."""
        return self[:].astype(dtype or self.dtype, copy=False)

    def _at(self, places: Places) -> Tokens:
        if not len(places):
            return np.empty((0, self.length), dtype=self.text.dtype)
        begins = places + self.length * (np.searchsorted(self.segments, places, side="right") - 1)
        every = np.lib.stride_tricks.sliding_window_view(self.text, self.length)
        made: Tokens = every[begins]
        return made


def as_segments(windows: Tokens, labels: Tokens) -> tuple[Tokens, Places]:
    """Turn windows back into text: one segment for as long as each window goes on where the one before ended.

    Returns the text with lead-ins, and the number of samples of each segment.
    """
    count, length = windows.shape
    if not count:
        return np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.int64)
    goes_on = (windows[1:, :-1] == windows[:-1, 1:]).all(axis=1) & (windows[1:, -1] == labels[:-1])
    begins = np.concatenate([[0], np.flatnonzero(~goes_on) + 1])
    counts = np.diff(np.append(begins, count))
    lead_ins = (begins + length * np.arange(len(begins)))[:, None] + np.arange(length)
    text = np.empty(count + length * len(begins), dtype=np.uint8)
    own = np.ones(len(text), dtype=bool)
    own[lead_ins] = False
    text[lead_ins] = windows[begins]
    text[own] = labels
    return text, counts
