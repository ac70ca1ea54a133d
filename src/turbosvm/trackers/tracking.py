"""All trackers of a run: one that fails is told of in a sentence, and left alone from then on."""

from collections.abc import Iterable
from contextlib import ExitStack
from copy import deepcopy
from typing import Any

from turbosvm.errors import in_one_line
from turbosvm.trackers.tracker import Status, TrackedRun, Tracker


class Tracking:
    """Passes a run's news on to its trackers, and outlives their failures; an interrupt is passed on."""

    def __init__(self, trackers: Iterable[tuple[str, Tracker]]) -> None:
        self._active = list(trackers)
        self.notes: list[str] = []

    def begin(self, run: TrackedRun) -> None:
        """Tell all trackers that a run begins."""
        for name, tracker in list(self._active):
            self._call(name, tracker, "begin", run)

    def record(self, record: dict[str, Any]) -> None:
        """Give all trackers a copy of a round's record."""
        for name, tracker in list(self._active):
            self._call(name, tracker, "record", deepcopy(record))

    def end(self, status: Status, summary: dict[str, Any]) -> None:
        """Tell all trackers that the run is over, also if one of them is interrupted."""
        with ExitStack() as stack:
            for name, tracker in reversed(self._active):
                stack.callback(self._call, name, tracker, "end", status, dict(summary))

    def _call(self, name: str, tracker: Tracker, what: str, *news: Any) -> None:
        try:
            getattr(tracker, what)(*news)
        except Exception as error:
            self._active = [(other, each) for other, each in self._active if each is not tracker]
            self.notes.append(f"the tracker {name} failed, and was not called again: {in_one_line(error)}.")
