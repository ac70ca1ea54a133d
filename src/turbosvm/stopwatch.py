"""Seconds by phase, true on devices that work asynchronously too."""

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
        self.seconds: dict[str, float] = {}
        self._device = device
        self._last = perf_counter()

    def lap(self, phase: str) -> None:
        """Add the time since the last lap to `phase`."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        now = perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        self._last = now
