"""FEMNIST: 62 characters by writers of NIST's Special Database 19, 28 x 28 greys, white paper = 255.

From LEAF's JSON (784 numbers from 0 to 1 a sample), from the hub's Parquet (PNG images), or from NIST's own images,
which are brought to 28 x 28 as LEAF does it.
"""

import string
from typing import Any

import numpy as np
from PIL import Image

from turbosvm.data.federated import Array
from turbosvm.data.sources.images import ImageRule
from turbosvm.data.sources.reading import Form, Rows, Where, as_class, gather

CLASSES = tuple(string.digits + string.ascii_uppercase + string.ascii_lowercase)
SIDE = 28
FORM = Form((1, SIDE, SIDE), "uint8", CLASSES)
HUB_IMAGE = ImageRule(sizes=((SIDE, SIDE),), target=None, colour=False)
NIST_IMAGE = ImageRule(((128, 128),), (SIDE, SIDE), colour=False, resampling=Image.Resampling.LANCZOS)


def from_json(x: list[Any], y: list[Any], where: Where) -> Rows:
    """Turn LEAF's numbers into greys."""
    pixels, labels = _as_pixels(x), [as_class(label, len(CLASSES)) for label in y]
    if pixels is not None and None not in labels:
        return Rows(pixels, np.array(labels, dtype=np.int64))
    return gather(FORM, range(len(x)), lambda place: _one_image(x[place]), lambda place: y[place], where)


def _one_image(numbers: Any) -> Array | str:
    pixels = _as_pixels([numbers])
    return f"must have {SIDE * SIDE} numbers from 0 to 1" if pixels is None else pixels[0]


def _as_pixels(x: list[Any]) -> Array | None:
    """Samples of 784 numbers from 0 to 1 as greys; None if they are anything else."""
    try:
        numbers = np.array(x)
    except (TypeError, ValueError, OverflowError):
        return None
    if (
        numbers.dtype.kind not in "iuf"
        or numbers.shape != (len(x), SIDE * SIDE)
        or not (numbers.min() >= 0 and numbers.max() <= 1)
    ):
        return None
    pixels: Array = np.rint(numbers * 255).astype(np.uint8).reshape(-1, 1, SIDE, SIDE)
    return pixels
