"""A run's folder, which one process at a time may write into; `run_files.py` says what is in it.

Records are JSON lines, written as each round ends: `pandas.read_json("records.jsonl", lines=True)` reads them, also
while the run goes on or after it was killed.
"""

import os
import re
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout
from safetensors.torch import save as to_safetensors
from torch import nn

from turbosvm.bounded import open_regular
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.ending import write_ending
from turbosvm.experiment.recorded import Record
from turbosvm.files import cannot_write, new_folder, temporary_files, write_atomically
from turbosvm.record_lines import MOST_BYTES, line_of
from turbosvm.run_files import CHECKPOINTS, CONFIG, ENDED, ENVIRONMENT, ERROR, MODEL, RECORDS

LOCK = ".lock"
PATIENCE = 0.3
"""Seconds to wait for a folder, which somebody may only be asking about."""

OWN = re.compile("|".join(map(re.escape, (CONFIG, ENVIRONMENT, RECORDS, MODEL, ENDED, ERROR))))
"""Files that are written here."""


class InUseError(TurboSVMError):
    """Another process is at a run."""


class RunFolder:
    """The folder of a run, which one process at a time may write into."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = _locked(path)
        self._records: BinaryIO | None = None
        self._digest = sha256()

    @classmethod
    def new(cls, root: Path, name: str) -> "RunFolder":
        """Make a folder under `root` that was not there."""
        return cls(new_folder(root, name))

    @classmethod
    def reopen(cls, path: Path) -> "RunFolder":
        """Open the folder of a run that has been planned, and remove what a killed process left half written."""
        if not path.is_dir():
            raise TurboSVMError(f"There is no folder '{path}'.")
        for name in (CONFIG, ENVIRONMENT):
            if not os.path.lexists(path / name):
                raise TurboSVMError(f"'{path}' is not a run's folder: there is no {name} in it.")
        folder = cls(path)
        try:
            _refuse_links(path)
            with cannot_write("folder", path):
                for half in temporary_files(path, OWN):
                    half.unlink(missing_ok=True)
        except BaseException:
            folder.release()
            raise
        return folder

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints go."""
        return self.path / CHECKPOINTS

    @property
    def begun(self) -> bool:
        """Whether any process has been at the run's rounds."""
        return (self.path / RECORDS).exists()

    @property
    def records_digest(self) -> str:
        """The SHA-256 of all lines that have been recorded."""
        return self._digest.hexdigest()

    def begin(self, done: int = 0) -> None:
        """Keep the records of so many rounds; later ones are forgotten, and so is how the run once ended."""
        path = self.path / RECORDS
        kept = _first_lines(path, done)
        with cannot_write("records in", self.path):
            for name in (ENDED, ERROR, MODEL):  # what vouches for the others goes first
                (self.path / name).unlink(missing_ok=True)
        write_atomically(path, kept)
        self._digest = sha256(kept)
        with cannot_write("records in", self.path):
            self._records = path.open("ab")

    def write(self, name: str, content: str) -> None:
        """Write a text file of the run."""
        write_atomically(self.path / name, content)

    def append(self, record: Record) -> None:
        """Add a round's record; it is in the file when this returns."""
        assert self._records is not None  # noqa: S101 (it has begun)
        line = line_of(record).encode()
        with cannot_write("records in", self.path):
            self._records.write(line)
            self._records.flush()
        self._digest.update(line)

    def sync(self) -> None:
        """See the records to the disk, where they survive the machine."""
        assert self._records is not None  # noqa: S101 (it has begun)
        with cannot_write("records in", self.path):
            os.fsync(self._records.fileno())

    def save_model(self, module: nn.Module) -> None:
        """Save a model as `load_state_dict` takes it."""
        tensors = {name: value.cpu().clone().contiguous() for name, value in module.state_dict().items()}
        write_atomically(self.path / MODEL, to_safetensors(tensors))

    def end(self, after_round: int, stopped: str | None) -> None:
        """Say that the run has ended, and vouch for what lies in its folder."""
        self._close_records()
        write_ending(self.path, after_round, stopped)

    def release(self) -> None:
        """Let go of the folder."""
        try:
            self._close_records()
        finally:
            self._lock.release()

    def discard(self) -> None:
        """Remove a folder in which nothing has been done but to plan a run, as far as it is ours."""
        with suppress(OSError):
            for path in [*temporary_files(self.path, OWN), *map(self.path.joinpath, (CONFIG, ENVIRONMENT))]:
                path.unlink(missing_ok=True)
        self.release()
        with suppress(OSError):
            (self.path / LOCK).unlink(missing_ok=True)
            self.path.rmdir()

    def _close_records(self) -> None:
        with suppress(OSError):  # every record was written when it was appended, or complained of then
            if self._records:
                self._records.close()
        self._records = None


def _first_lines(path: Path, count: int) -> bytes:
    """The first lines of a file, as they are."""
    if count == 0:
        return b""
    with open_regular(path) as file:
        return b"".join(file.readline(MOST_BYTES) for _ in range(count))


def is_in_use(path: Path) -> bool:
    """Whether a process is at a run."""
    if not (path / LOCK).exists():
        return False
    try:
        _locked(path, patience=0.0).release()
    except InUseError:
        return True
    except TurboSVMError:  # nobody may write there
        return False
    return False


def _refuse_links(path: Path) -> None:
    """Refuse a folder whose parts lie elsewhere, or are not what they are called: nothing there is ours to remove."""
    if (path / CHECKPOINTS).is_symlink() or not ((path / CHECKPOINTS).is_dir() or not (path / CHECKPOINTS).exists()):
        raise TurboSVMError(f"'{path / CHECKPOINTS}' is a link or a file; it must be a folder of the run's own.")
    for name in (RECORDS, MODEL, ENDED, ERROR):
        if (path / name).is_dir():
            raise TurboSVMError(f"'{path / name}' is a folder, where the run has a file; move it away.")


def _locked(path: Path, patience: float = PATIENCE) -> FileLock:
    """Take hold of a folder until the process lets go of it, or ends."""
    if (path / LOCK).is_symlink():  # some locks empty the file that they open
        raise TurboSVMError(f"'{path / LOCK}' is a link; it must be a file of the run's own.")
    lock = FileLock(path / LOCK, timeout=patience)
    with cannot_write("folder", path):
        try:
            lock.acquire(poll_interval=0.02)
        except Timeout as error:
            raise InUseError(f"'{path}' is in use: another process is at this run.") from error
    return lock
