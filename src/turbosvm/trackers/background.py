"""A tracker at work beside the run: rounds do not wait for a database or a server."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

from turbosvm.errors import in_one_line
from turbosvm.trackers.tracker import Status, TrackedRun, Tracker

TO_BEGIN = 20.0
TO_END = 120.0


class Background:
    """Carries a tracker's calls out in order, in a thread of its own; a failure shows at the next call."""

    def __init__(self, tracker: Tracker, to_begin: float = TO_BEGIN, to_end: float = TO_END) -> None:
        self._tracker, self._to_begin, self._to_end = tracker, to_begin, to_end
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, daemon=True)
        self._begun, self._given_up = Event(), Event()
        self._error: BaseException | None = None

    def begin(self, run: TrackedRun) -> None:
        """Start the thread, and let it begin."""
        self._thread.start()
        self._calls.put(lambda: self._tracker.begin(run))
        self._calls.put(self._begun.set)

    def record(self, record: dict[str, Any]) -> None:
        """Put a record in the queue."""
        self._complain()
        self._calls.put(lambda: self._tracker.record(record))

    def end(self, status: Status, summary: dict[str, Any]) -> None:
        """Wait until everything in the queue is done, but not for ever, and less for one that has not even begun."""
        self._calls.put(lambda: self._tracker.end(status, summary))
        self._calls.put(None)
        patience = self._to_begin
        if self._begun.wait(patience):
            patience = self._to_end
            self._thread.join(patience)
        if self._thread.is_alive():
            self._given_up.set()
            raise TimeoutError(f"it was still busy {patience:.0f} seconds after the last round")
        self._complain()

    def _complain(self) -> None:
        if isinstance(self._error, Exception):
            raise self._error
        if self._error:  # what would end this thread must not end the run's
            raise RuntimeError(in_one_line(self._error)) from self._error

    def _work(self) -> None:
        try:
            while (call := self._calls.get()) and not self._given_up.is_set():
                call()
        except BaseException as error:  # also one that would end the thread without a word
            self._error = error
        finally:
            self._begun.set()
