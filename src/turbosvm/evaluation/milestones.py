"""Rounds to a target, with censoring: a run that has not got there in T rounds took ">T", not T and not infinity."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class RoundsToTarget:
    """The first round at which a target was reached, or the last round looked at if it never was."""

    target: float
    rounds: int
    reached: bool

    def __str__(self) -> str:
        return str(self.rounds) if self.reached else f">{self.rounds}"


def rounds_to_target(rounds: Iterable[int], accuracies: Iterable[float], target: float) -> RoundsToTarget:
    """Find the first round whose accuracy is at least `target`; rounds not evaluated (NaN) are passed over."""
    last = 0
    for number, accuracy in zip(rounds, accuracies, strict=True):
        last = number
        if accuracy >= target:
            return RoundsToTarget(target, number, reached=True)
    return RoundsToTarget(target, last, reached=False)
