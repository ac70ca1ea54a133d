"""Student's t distribution for whole degrees of freedom, from its finite sums (Abramowitz and Stegun, 26.7.3 and 4)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean, stdev

LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean, and where the true one lies with 95 % confidence."""

    mean: float
    low: float
    high: float
    n: int


def interval(values: Sequence[float]) -> Interval | None:
    """The t interval of the values' mean; None for fewer than two values, which tell nothing of their spread."""
    if len(values) < 2:
        return None
    mean, half = fmean(values), quantile(LEVEL, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half, len(values))


@lru_cache
def quantile(level: float, freedom: int) -> float:
    """The t that |T| stays below with probability `level`, by halving the angle's range until floats are used up."""
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < level else (low, middle)
    return math.tan(low) * math.sqrt(freedom)


def _within(angle: float, freedom: int) -> float:
    """The probability of |T| < sqrt(freedom) tan(angle)."""
    cosine, odd = math.cos(angle), freedom % 2
    term, total = (cosine if odd else 1.0), 0.0
    for step in range(1 + odd, freedom, 2):
        total += term
        term *= cosine * cosine * step / (step + 1)
    return 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total
