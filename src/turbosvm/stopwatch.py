"""Seconds by phase, true on devices that work asynchronously too, and without waiting for them at each phase."""

from itertools import pairwise
from time import perf_counter
from typing import Protocol

import torch


class Laps(Protocol):
    """Whoever wants to know that a phase has ended."""

    def lap(self, phase: str) -> None:
        """Take note of it."""


class Stopwatch:
    """Starts on creation; each `lap` names the phase that has just ended."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._phases: list[str] = []
        self._moments = [self._now()]

    def lap(self, phase: str) -> None:
        """Add the time since the last lap to `phase`."""
        self._phases.append(phase)
        self._moments.append(self._now())

    @property
    def seconds(self) -> dict[str, float]:
        """The time of each phase so far; a GPU is waited for."""
        total = dict.fromkeys(self._phases, 0.0)
        for phase, (start, end) in zip(self._phases, pairwise(self._moments), strict=True):
            total[phase] += _between(start, end)
        return total

    def _now(self) -> "float | torch.cuda.Event":
        if self._device.type != "cuda":
            return perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event


def _between(start: "float | torch.cuda.Event", end: "float | torch.cuda.Event") -> float:
    if isinstance(start, float) and isinstance(end, float):
        return end - start
    assert isinstance(start, torch.cuda.Event)  # noqa: S101 (a watch has one kind of moments)
    assert isinstance(end, torch.cuda.Event)  # noqa: S101
    end.synchronize()
    return float(start.elapsed_time(end)) / 1000
