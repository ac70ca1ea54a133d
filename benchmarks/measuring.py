"""What the benchmarks share: timed rounds, memory, tables, and where it was measured."""

import argparse
import ctypes
import gc
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import Any

import numpy as np
import torch

from turbosvm.algorithms.rules import Algorithm
from turbosvm.experiment.environment import describe_environment
from turbosvm.experiment.runner import repeatable
from turbosvm.files import write_atomically
from turbosvm.simulation import Federation, Plan, simulate

MIB = 2**20


@dataclass(frozen=True)
class Lap:
    """Seconds of one round, in all and by phase, and the samples that its clients trained on."""

    seconds: float
    train: float
    merge: float
    evaluate: float
    samples: int


def rounds_of(federation: Federation, algorithm: Algorithm, plan: Plan) -> Iterator[Lap]:
    """Run an algorithm, timing each round; a round that went differently than asked for ends it with an error."""
    device = next(federation.module.parameters()).device
    with repeatable(device, None):
        wait(device)
        start = perf_counter()
        for finished in simulate(federation, algorithm, plan):
            wait(device)
            seconds = perf_counter() - start
            if finished.failed or finished.failures or finished.notes:
                raise RuntimeError(f"{finished.failed or ''} {finished.failures[:1]} {finished.notes}".strip())
            phases = finished.seconds
            yield Lap(seconds, phases["train"], phases["merge"], phases["evaluate"], finished.samples)
            start = perf_counter()


def enough(laps: Iterator[Lap], seconds: float, least: int, most: int) -> list[Lap]:
    """Take laps for some seconds, not fewer and not more than so many."""
    taken: list[Lap] = []
    while len(taken) < least or (len(taken) < most and sum(lap.seconds for lap in taken) < seconds):
        if (lap := next(laps, None)) is None:
            break
        taken.append(lap)
    return taken


def fastest(laps: Sequence[Lap]) -> dict[str, float]:
    """The seconds of the fastest round, in all and by phase."""
    lap = min(laps, key=lambda lap: lap.seconds)
    return {"seconds": lap.seconds, "train": lap.train, "merge": lap.merge}


def means(laps: Sequence[Lap]) -> dict[str, float]:
    """The mean of the seconds by phase, and of the samples."""
    return {name: fmean(getattr(lap, name) for lap in laps) for name in ("seconds", "train", "merge", "samples")}


def least_seconds(work: Callable[[], object], device: torch.device, repeats: int, limit: float = 2.0) -> float:
    """How long some work takes at least; it is done once before, and fewer times where it takes long."""
    work()
    laps: list[float] = []
    while len(laps) < repeats and (len(laps) < 3 or sum(laps) < limit):
        wait(device)
        start = perf_counter()
        work()
        wait(device)
        laps.append(perf_counter() - start)
    return min(laps)


def usable(name: str) -> torch.device:
    """The device of that name; a sentence where there is none."""
    if name == "cuda" and not torch.cuda.is_available():
        raise SystemExit("Device 'cuda' is not available on this machine; allowed: cpu.")
    return torch.device(name)


def positive(text: str) -> int:
    """A whole number from 1 on, for argparse."""
    if not (text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 on")
    return int(text)


def wait(device: torch.device) -> None:
    """Let the device finish."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def growth(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The exponent p of seconds ~ sizes^p: the slope of a straight line through their logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


class Memory:
    """How much more memory than at its creation was in use at most; nothing is known of a system other than Linux."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
            self._gpu = torch.cuda.memory_allocated(device)
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)  # what was freed counts no longer
            Path("/proc/self/clear_refs").write_text("5")  # the peak is the present
        self._host = _status("VmRSS")

    @property
    def host_mib(self) -> float | None:
        """Of the process."""
        peak = _status("VmHWM")
        return None if peak is None or self._host is None else (peak - self._host) / 1024

    @property
    def gpu_mib(self) -> float | None:
        """Of the GPU."""
        if self._device.type != "cuda":
            return None
        return (torch.cuda.max_memory_allocated(self._device) - self._gpu) / MIB


def _status(name: str) -> int | None:
    """A number of the process's own status, in KiB."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
    return None


def hardware(device: torch.device) -> dict[str, Any]:
    """What it was measured on."""
    about = describe_environment(device)
    if device.type == "cpu":
        threads = torch.get_num_threads()
        about["device"] = f"{threads} {'thread' if threads == 1 else 'threads'} of {_processor()}"
    return {**about, "kind": device.type}


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return f"{os.cpu_count()} cores"


def title(device: torch.device) -> str:
    """One line that says where this is measured."""
    about = hardware(device)
    return f"{about['device']}, PyTorch {about['packages']['torch']}, turbosvm {about['turbosvm']}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text, the first being the header, as Markdown whose columns stand in line."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = [" | ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    rule = " | ".join("-" * (width - 1) + ":" for width in widths)
    return "".join(f"| {line} |\n" for line in (lines[0], rule, *lines[1:]))


def in_ms(seconds: float) -> str:
    """Seconds as milliseconds, in three figures."""
    value = 1e3 * seconds
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def in_mib(size: float | None) -> str:
    """Mebibytes, or that they are not known."""
    return "" if size is None else f"{size:,.0f}"


def save(path: str | None, measured: dict[str, Any]) -> None:
    """Write what was measured, if it is asked for."""
    if path:
        write_atomically(Path(path), json.dumps(measured, indent=1) + "\n")
        print(f"written to {path}", file=sys.stderr)
