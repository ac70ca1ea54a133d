"""What a tracker is told of a run: its beginning, each round's record, its end."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

Status = Literal["finished", "interrupted", "stopped", "failed"]


@dataclass(frozen=True)
class TrackedRun:
    """A run as a tracker sees it."""

    name: str
    """Algorithm and seed, as its folder is called."""
    data: str
    """Name of the data."""
    config: dict[str, Any]
    """The resolved config as plain data."""
    folder: Path | None
    """Where the run is saved, if it is."""
    resumed_from: int = 0
    """The round after which it goes on; 0 for a new run."""


@runtime_checkable
class Tracker(Protocol):
    """Follows one run at a time; whatever it raises ends the tracking of that run, not the run."""

    def begin(self, run: TrackedRun) -> None:
        """Take note of a run that begins, or goes on."""

    def record(self, record: dict[str, Any]) -> None:
        """Take note of a round: its line of `records.jsonl`."""

    def end(self, status: Status, summary: dict[str, Any]) -> None:
        """Take note of the end: the run's files are written, `summary` has the last evaluated metrics."""
