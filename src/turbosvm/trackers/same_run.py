"""How a tracker finds a run again that was begun before: its id stands in a small file in the run's folder."""

from turbosvm.bounded import read_bounded
from turbosvm.files import write_atomically
from turbosvm.seals import sealed, unsealed
from turbosvm.trackers.tracker import TrackedRun


def keep_id(run: TrackedRun, tracker: str, run_id: str) -> None:
    """Write down under which id a tracker knows the run."""
    if run.folder:
        write_atomically(run.folder / f"{tracker}.json", sealed({"run_id": run_id}))


def known_id(run: TrackedRun, tracker: str) -> str | None:
    """Return the id that the tracker gave to the run when it was first begun, if it was."""
    file = run.folder / f"{tracker}.json" if run.folder else None
    if file is None or not file.is_file():
        return None
    return str(unsealed(read_bounded(file))["run_id"])
