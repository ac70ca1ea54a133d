"""Shakespeare as characters: LEAF's vocabulary, and windows of 80 characters with the one to guess."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from turbosvm.data.sources.reading import Form, Rows, Where
from turbosvm.data.windows import Tokens, as_segments

VOCABULARY = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
LENGTH = 80
UNKNOWN = 255
FORM = Form((LENGTH,), "uint8", tuple(VOCABULARY), tokens=True, window=LENGTH)

_TOKENS = np.full(128, UNKNOWN, dtype=np.uint8)
_TOKENS[np.frombuffer(VOCABULARY.encode("ascii"), dtype=np.uint8)] = np.arange(len(VOCABULARY))


def encode(text: str) -> Tokens:
    """Turn characters into tokens; those outside the vocabulary become UNKNOWN."""
    if text.isascii():
        return _TOKENS[np.frombuffer(text.encode("ascii"), dtype=np.uint8)]
    codes = np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype=np.uint32)
    return np.where(codes < len(_TOKENS), _TOKENS[np.minimum(codes, len(_TOKENS) - 1)], UNKNOWN).astype(np.uint8)


def windows_to_rows(x: Sequence[Any], y: Sequence[Any], where: Where) -> Rows:
    """Turn windows and next characters into text."""
    bad: list[str] = []
    fits = [_fits(before, after) for before, after in zip(x, y, strict=True)]
    if not all(fits):
        bad += [
            f"{where(place)} must have {LENGTH} characters in 'x' and one in 'y'."
            for place, fit in enumerate(fits)
            if not fit
        ]
    places = [place for place, fit in enumerate(fits) if fit]
    windows = encode("".join(x[place] for place in places)).reshape(-1, LENGTH)
    labels = encode("".join(y[place] for place in places))
    known = (windows != UNKNOWN).all(axis=1) & (labels != UNKNOWN)
    for place in np.array(places)[~known].tolist():
        strange = next(each for each in x[place] + y[place] if each not in VOCABULARY)
        bad.append(f"{where(place)} has the character {strange!r}, which is not one of LEAF's 80.")
    text, segments = as_segments(windows[known], labels[known])
    return Rows(text, labels[known], segments, tuple(bad))


def _fits(before: Any, after: Any) -> bool:
    return isinstance(before, str) and isinstance(after, str) and len(before) == LENGTH and len(after) == 1
