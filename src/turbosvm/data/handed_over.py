"""What people hand over in Python, checked and made plain: arrays, names of users and classes."""

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from turbosvm.errors import TurboSVMError, in_one_line
from turbosvm.values import as_whole

Array = npt.NDArray[Any]

MOST_CLASSES = 2**16
"""A confusion matrix of so many takes 32 GiB."""

BLOCK = 2**20
"""Numbers that are looked at at a time."""

_KINDS = frozenset("?bBhHiIlLqQefd")
"""NumPy's letters of the numbers that PyTorch has, too."""


def as_array(what: str, given: Any) -> Array:
    """Return real numbers, one entry a sample; memory maps stay memory maps."""
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise TurboSVMError(f"{what} are masked in places; fill those, or leave them out.")
    try:
        array = _plain(given)
    except Exception as error:  # ragged lists, sparse tensors, objects with a will of their own
        raise TurboSVMError(f"{what} cannot be made an array: {in_one_line(error)}.") from error
    if array.ndim == 0:
        raise TurboSVMError(f"{what} are a single {type(given).__name__}; they must be an array, an entry a sample.")
    if array.size and array.dtype.char not in _KINDS:
        raise TurboSVMError(f"{what} hold {_shortly(str(array.dtype))}; they must hold real numbers.")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def as_labels(what: str, given: Any) -> Array:
    """Return whole numbers, one a sample."""
    labels = as_array(what, given)
    if not labels.size and labels.ndim == 1:
        return labels.astype(np.int64)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise TurboSVMError(
            f"{what} must be one whole number a sample, not {labels.dtype} of shape {list(labels.shape)}."
        )
    return labels


def as_names(where: str, what: str, given: Iterable[Any]) -> tuple[str, ...]:
    """Return the names of things that may be of any kind."""
    try:
        return tuple(map(str, given))
    except Exception as error:  # objects with a will of their own
        raise TurboSVMError(f"{where}: the {what} cannot be read: {in_one_line(error)}.") from error


def class_names(where: str, classes: Iterable[str] | int) -> tuple[str, ...]:
    """Return the names of classes, where they are given as names or as their number."""
    if isinstance(classes, str | bytes):
        raise TurboSVMError(f"{where}: classes is {classes!r}; it must be a list of names, or their number.")
    if isinstance(classes, Iterable) and not _is_scalar(classes):
        names = as_names(where, "classes", islice(classes, MOST_CLASSES + 1))
    else:
        names = tuple(map(str, range(min(as_whole(f"{where}: classes", classes, 1), MOST_CLASSES + 1))))
    return check_class_names(where, names)


def check_class_names(where: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse names of classes that are none, alike, too many, or no text."""
    if not 1 <= len(names) <= MOST_CLASSES:
        count = "no classes" if not names else f"more than {MOST_CLASSES:,} classes"
        raise TurboSVMError(f"{where} has {count}; it must have from 1 to {MOST_CLASSES:,}.")
    for name in names:
        if not isinstance(name, str) or not _is_text(name):
            raise TurboSVMError(f"{where}: a class is called {_shortly(ascii(name))}; that must be text.")
    if len(set(names)) < len(names):
        raise TurboSVMError(f"{where} has two classes of the same name, {_shortly(ascii(_met_twice(names)))}.")
    return names


def check_user_names(where: str, names: tuple[str, ...]) -> None:
    """Refuse names of users that are alike, empty, or cannot be printed; a million are looked at in a moment."""
    try:
        fine = "".join(names).isprintable() and all(map(str.strip, names))
    except TypeError:
        fine = False
    if not fine:
        wrong = next(name for name in names if not isinstance(name, str) or not name.isprintable() or not name.strip())
        raise TurboSVMError(
            f"{where}: a user is called {_shortly(ascii(wrong))}; that must be text that can be printed."
        )
    if len(set(names)) < len(names):
        raise TurboSVMError(f"{where} has two users of the same name, '{_met_twice(names)}'.")


def first_bad_input(inputs: Array, tokens: bool) -> int | None:
    """Return the first sample with a number that is not finite (as a token: less than 0), looked for in blocks."""
    signed = inputs.dtype.kind == "i" and tokens
    if inputs.dtype.kind != "f" and not signed:
        return None
    step = max(1, BLOCK // max(1, inputs[:1].size))
    for begin in range(0, len(inputs), step):
        block = inputs[begin : begin + step]
        fine = block >= 0 if signed else np.isfinite(block)
        if not fine.all():
            return begin + int(np.argmin(fine.reshape(len(block), -1).all(axis=1)))
    return None


def _is_scalar(given: Any) -> bool:
    """Whether this is an array without axes, which calls itself iterable."""
    return isinstance(given, np.ndarray | Tensor) and given.ndim == 0


def _plain(given: Any) -> Array:
    if isinstance(given, np.ndarray):
        return given if type(given) in (np.ndarray, np.memmap) else np.asarray(given)
    if isinstance(given, Tensor):
        own = given.detach().to("cpu", torch.float32 if given.dtype == torch.bfloat16 else given.dtype)
        tensor: Array = own.resolve_conj().resolve_neg().numpy()
        return tensor
    if isinstance(given, list | tuple) and given and isinstance(given[0], Tensor | np.ndarray):
        return np.stack([_plain(each) for each in given])
    return np.asarray(given)


def _met_twice(names: tuple[str, ...]) -> str:
    return Counter(names).most_common(1)[0][0]


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shortly(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
