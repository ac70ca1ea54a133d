"""Numbers that people hand over, checked and made plain: Python's own, NumPy's or PyTorch's in, Python's out."""

import operator
from math import isfinite
from typing import Any, SupportsFloat

from turbosvm.errors import TurboSVMError


def as_real(what: str, value: Any) -> float:
    """Return a finite number as a float."""
    try:
        own = type(value) in (float, int)  # the others take twenty times as long to tell
        if own or (isinstance(value, SupportsFloat) and not isinstance(value, bool | str | complex)):
            number = float(value)
            if isfinite(number):
                return number
    except (TypeError, ValueError, OverflowError, RuntimeError):
        pass
    raise TurboSVMError(f"{what} is {shown(value)}; it must be a finite number.")


def as_positive(what: str, value: Any) -> float:
    """Return a finite number greater than 0 as a float."""
    number = as_real(what, value)
    if number <= 0:
        raise TurboSVMError(f"{what} is {value}; it must be greater than 0.")
    return number


def as_not_negative(what: str, value: Any) -> float:
    """Return a finite number that is at least 0 as a float."""
    number = as_real(what, value)
    if number < 0:
        raise TurboSVMError(f"{what} is {value}; it must be at least 0.")
    return number


def as_decay(what: str, value: Any) -> float:
    """Return a number from 0 to just below 1 as a float."""
    number = as_real(what, value)
    if not 0 <= number < 1:
        raise TurboSVMError(f"{what} is {number}; it must be at least 0 and less than 1.")
    return number


def as_whole(what: str, value: Any, least: int) -> int:
    """Return a whole number that is at least `least` as an int."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or not least <= number < 2**62:
        raise TurboSVMError(f"{what} is {shown(value)}; it must be a whole number from {least} on.")
    return number


def as_flag(what: str, value: Any) -> bool:
    """Return true or false as a bool."""
    if value is not True and value is not False and type(value).__name__ not in ("bool", "bool_"):
        raise TurboSVMError(f"{what} is {shown(value)}; it must be true or false.")
    return bool(value)


def shown(value: Any) -> str:
    """Write a value into a sentence, shortly."""
    text = repr(value).replace("\n", " ")
    return text if len(text) <= 40 else f"{text[:37]}..."
