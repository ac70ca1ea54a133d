"""Where samples lie while a data set is being prepared, in the order in which they come.

A hidden folder beside the place of the data set. Samples are appended to flat files, and the journal gets a line
whenever they have reached the disk; a preparation that was stopped, in whatever way, goes on after the last line.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import numpy as np
from filelock import FileLock, Timeout

from turbosvm.data.federated import Array
from turbosvm.data.preparation import journal
from turbosvm.data.preparation.journal import STREAMS, Entry, LeftOut, Run
from turbosvm.data.sources.reading import Chunk, Form, Side
from turbosvm.errors import TurboSVMError
from turbosvm.files import cannot_write

ENOUGH_BYTES, ENOUGH_SECONDS = 32 << 20, 5.0
LABEL, SEGMENT = np.dtype(np.int32), np.dtype(np.int64)
LOCK, PLAN, JOURNAL = "lock", "plan.json", "journal.jsonl"


def hidden_folder(folder: Path) -> Path:
    """The workshop of a data set that shall lie in `folder`."""
    return folder.with_name(f".{folder.name}.part")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a workshop's folder and hold it; refuse one that another process holds."""
    with cannot_write("folder", folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise TurboSVMError(f"Another preparation is at work in '{folder}'; wait for it, or stop it.") from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def tidied(folder: Path) -> Iterator[None]:
    """Leave nothing of a workshop behind, unless the person stopped the work: then it can go on another time."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException:
        discard(folder)
        raise
    discard(folder)


def discard(folder: Path) -> None:
    """Remove a workshop, its plan first: what is left if that is interrupted is not taken for the work of a plan."""
    (folder / PLAN).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def claim(folder: Path, plan: str) -> None:
    """Forget what an earlier preparation left in a workshop's folder, unless it had the same plan."""
    path = folder / PLAN
    with cannot_write("folder", folder):
        if path.exists() and path.read_text(encoding="utf-8") == plan:
            return
        path.unlink(missing_ok=True)
        for old in folder.iterdir():
            if old.is_dir():
                shutil.rmtree(old)
            elif old.name != LOCK:
                old.unlink()
        path.write_text(plan, encoding="utf-8")


class Workshop:
    """Takes chunks in; `so_far` tells all that is on the disk."""

    def __init__(self, folder: Path, form: Form) -> None:
        self.folder, self.form = folder, form
        with cannot_write("folder", folder):
            self.so_far = journal.recover(folder / JOURNAL)
            if any(self._length(name) < self.so_far.bytes[name] for name in STREAMS):
                (folder / JOURNAL).unlink()
                self.so_far = Entry()
            for name in STREAMS:
                with self.stream(name).open("ab") as file:
                    file.truncate(self.so_far.bytes[name])
        self._codes = {value: code for code, value in enumerate(self.so_far.labels)}
        self._met = {(run.user, run.side): run.unit for run in self.so_far.runs}
        self._begin_entry(self.so_far.unit, self.so_far.chunks)

    def keep(self, unit: int, chunks: int, side: Side | None, chunk: Chunk) -> None:
        """Take a chunk in; with it, that many chunks of the unit have been read."""
        self._entry.unit, self._entry.chunks = unit, chunks
        self._entry.left_out.add(chunk.bad)
        if len(chunk.labels):
            segments = np.empty(0, dtype=SEGMENT) if chunk.segments is None else chunk.segments
            self._append("inputs", chunk.inputs.astype(self.form.dtype, copy=False))
            self._append("labels", self._coded(chunk.labels))
            self._append("segments", segments.astype(SEGMENT, copy=False))
            self._entry.runs.append(Run(chunk.user, side, unit, len(chunk.labels), len(segments)))
            self._met.setdefault((chunk.user, side), unit)
        if self._buffered > ENOUGH_BYTES or monotonic() - self._begun > ENOUGH_SECONDS:
            self.flush()

    def met_in(self, user: str, side: Side | None) -> int | None:
        """The unit in which a user was first met on this side."""
        return self._met.get((user, side))

    def flush(self) -> None:
        """Bring everything to the disk, and say so in the journal."""
        with cannot_write("folder", self.folder):
            for name, parts in self._buffers.items():
                with self.stream(name).open("ab") as file:
                    file.writelines(parts)
                    file.flush()
                    os.fsync(file.fileno())
                    self._entry.bytes[name] = file.tell()
            journal.append(self.folder / JOURNAL, self._entry)
        self.so_far.then(self._entry)
        self._begin_entry(self._entry.unit, self._entry.chunks)

    def stream(self, name: str) -> Path:
        """The flat file of a stream."""
        return self.folder / f"{name}.bin"

    def _length(self, name: str) -> int:
        return self.stream(name).stat().st_size if self.stream(name).exists() else 0

    def _begin_entry(self, unit: int, chunks: int) -> None:
        self._entry = Entry(unit, chunks, left_out=LeftOut())
        self._buffers: dict[str, list[bytes]] = {name: [] for name in STREAMS}
        self._buffered, self._begun = 0, monotonic()

    def _append(self, name: str, array: Array) -> None:
        self._buffers[name].append(array.tobytes())
        self._buffered += array.nbytes

    def _coded(self, labels: Array) -> Array:
        """Labels as numbers: those of the classes, or where these are open, numbers in order of appearance."""
        if self.form.classes is not None:
            return labels.astype(LABEL, copy=False)
        values, places = np.unique(labels, return_inverse=True)
        for value in values.tolist():
            if value not in self._codes:
                self._codes[value] = len(self._codes)
                self._entry.labels.append(value)
        return np.array([self._codes[value] for value in values.tolist()], dtype=LABEL)[places]
