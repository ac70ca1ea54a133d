"""A tracker at work beside the run: rounds do not wait for a database or a server."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any

from turbosvm.trackers.tracker import Status, TrackedRun, Tracker

PATIENCE = 120.0


class Background:
    """Carries a tracker's calls out in order, in a thread of its own; a failure shows at the next call."""

    def __init__(self, tracker: Tracker, patience: float = PATIENCE) -> None:
        self._tracker, self._patience = tracker, patience
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, daemon=True)
        self._error: Exception | None = None

    def begin(self, run: TrackedRun) -> None:
        """Start the thread, and let it begin."""
        self._thread.start()
        self._calls.put(lambda: self._tracker.begin(run))

    def record(self, record: dict[str, Any]) -> None:
        """Put a record in the queue."""
        self._complain()
        self._calls.put(lambda: self._tracker.record(record))

    def end(self, status: Status, summary: dict[str, Any]) -> None:
        """Wait until everything in the queue is done, but not for ever."""
        self._calls.put(lambda: self._tracker.end(status, summary))
        self._calls.put(None)
        self._thread.join(self._patience)
        if self._thread.is_alive():
            raise TimeoutError(f"it was still busy {self._patience:.0f} seconds after the last round")
        self._complain()

    def _complain(self) -> None:
        if self._error:
            raise self._error

    def _work(self) -> None:
        try:
            while call := self._calls.get():
                call()
        except Exception as error:
            self._error = error
