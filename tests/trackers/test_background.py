from threading import Event, get_ident
from typing import Any

import pytest

from turbosvm.trackers.background import Background
from turbosvm.trackers.tracker import Status, TrackedRun

RUN = TrackedRun("run", "blobs", {}, None)


class Slow:
    """Waits in each record until it is let go."""

    def __init__(self) -> None:
        self.go, self.seen, self.threads = Event(), list[Any](), set[int]()

    def begin(self, run: TrackedRun) -> None:
        self.threads.add(get_ident())

    def record(self, record: dict[str, Any]) -> None:
        self.go.wait(10)
        self.threads.add(get_ident())
        self.seen.append(record["round"])
        if record["round"] == 13:
            raise RuntimeError("bad luck")

    def end(self, status: Status, summary: dict[str, Any]) -> None:
        self.seen.append(status)


def test_rounds_do_not_wait_and_everything_arrives_in_order() -> None:
    slow = Slow()
    tracker = Background(slow)
    tracker.begin(RUN)
    for number in (1, 2, 3):
        tracker.record({"round": number})
    assert slow.seen == []
    slow.go.set()
    tracker.end("finished", {})
    assert slow.seen == [1, 2, 3, "finished"]
    assert len(slow.threads) == 1
    assert get_ident() not in slow.threads


def test_a_failure_shows_at_a_later_call_and_nothing_is_called_after_it() -> None:
    slow = Slow()
    slow.go.set()
    tracker = Background(slow)
    tracker.begin(RUN)
    tracker.record({"round": 13})
    with pytest.raises(RuntimeError, match="bad luck"):
        tracker.end("finished", {})
    assert slow.seen == [13]


def test_a_tracker_that_hangs_is_given_up_and_not_called_again() -> None:
    slow = Slow()
    tracker = Background(slow, to_end=0.05)
    tracker.begin(RUN)
    for number in (1, 2):
        tracker.record({"round": number})
    with pytest.raises(TimeoutError, match="still busy 0 seconds after the last round"):
        tracker.end("finished", {})
    slow.go.set()
    tracker._thread.join(10)
    assert slow.seen == [1]


def test_a_tracker_that_cannot_begin_is_given_up_sooner() -> None:
    slow = Slow()
    slow.begin = lambda run: slow.record({"round": 0})  # type: ignore[method-assign]
    tracker = Background(slow, to_begin=0.05, to_end=1000)
    tracker.begin(RUN)
    with pytest.raises(TimeoutError, match="still busy 0 seconds after the last round"):
        tracker.end("finished", {})
    slow.go.set()
    tracker._thread.join(10)
    assert slow.seen == [0]


def test_one_that_fails_to_begin_is_not_waited_for() -> None:
    slow = Slow()
    slow.go.set()
    slow.begin = lambda run: slow.record({"round": 13})  # type: ignore[method-assign]
    tracker = Background(slow, to_begin=1000)
    tracker.begin(RUN)
    with pytest.raises(RuntimeError, match="bad luck"):
        tracker.end("finished", {})
