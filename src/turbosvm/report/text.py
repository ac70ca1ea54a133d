"""Numbers as tables show them."""

from collections.abc import Sequence
from math import isfinite
from statistics import fmean, stdev

NOTHING = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"


def number(value: float, digits: int = 1) -> str:
    """A number with so many digits after its point, and a minus for a minus; nothing is not below nothing."""
    text = f"{value:.{digits}f}"
    return text.replace("-", MINUS) if float(text) else text.removeprefix("-")


def signed(value: float, digits: int = 1) -> str:
    """A number with its sign; what rounds to nothing has none."""
    text = number(value, digits)
    return f"+{text}" if value > 0 and float(text) else text


def spread(values: Sequence[float], counts: bool = False, digits: int = 1) -> str:
    """Mean ± sample standard deviation, or the value alone where there is one, which is whole if it counts things.

    There is neither of what is no number.
    """
    if not values or not all(map(isfinite, values)):
        return NOTHING
    if len(values) > 1:
        return f"{number(fmean(values), digits)} ± {number(stdev(values), digits)}"
    return number(values[0], 0 if counts else digits)
