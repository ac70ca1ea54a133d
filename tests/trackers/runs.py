"""Runs that trackers follow in tests."""

from pathlib import Path
from typing import Any

from turbosvm.trackers.tracker import Status, TrackedRun, Tracker

CONFIG = {"algorithm": {"name": "fedavg", "body": {}}, "rounds": 4, "client": {"learning_rate": 0.1}}


def record(number: int, accuracy: float | None = None) -> dict[str, Any]:
    """A short record, whose accuracy is a tenth of its number unless it is said."""
    shown = number / 10 if accuracy is None else accuracy
    return {"round": number, "accuracy": shown, "seconds_train": 0.5, "cohort": [1, 2], "failures": [], "failed": None}


def follow(
    tracker: Tracker,
    folder: Path | None,
    records: list[dict[str, Any]],
    resumed_from: int = 0,
    status: Status = "finished",
) -> None:
    """Tell a tracker of a whole run, whose files lie in its folder by the end."""
    if folder:
        folder.mkdir(exist_ok=True)
        (folder / "config.yaml").write_text("rounds: 4\n")
        (folder / "model.safetensors").write_bytes(b"weights")
    tracker.begin(TrackedRun("fedavg-seed0", "blobs", CONFIG, folder, resumed_from))
    for each in records:
        tracker.record(each)
    summary = {"rounds": records[-1]["round"], "accuracy": records[-1]["accuracy"]}
    tracker.end(status, {**summary, "stopped": "too few clients"} if status == "stopped" else summary)
