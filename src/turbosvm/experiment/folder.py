"""A run's folder: config.yaml, environment.json, records.jsonl (a line a round), checkpoints, model.safetensors.

Records are JSON lines, written as each round ends: `pandas.read_json("records.jsonl", lines=True)` reads them, also
while the run goes on or after it was killed. A file stopped.txt says why a run could not go on to its last round.
"""

import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from filelock import FileLock, Timeout
from safetensors.torch import save as to_safetensors
from torch import nn

from turbosvm.errors import TurboSVMError
from turbosvm.evaluation.divergence import OF, SAMPLES, USER
from turbosvm.files import cannot_read, cannot_write, new_folder, write_atomically
from turbosvm.simulation import Round

Record = dict[str, Any]

PATIENCE = 0.3
"""Seconds to wait for a folder, which somebody may only be asking about."""


class InUseError(TurboSVMError):
    """Another process is at a run."""


class RunFolder:
    """The folder of a run, which one process at a time may write into."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = _locked(path)
        self._records: TextIO | None = None

    @classmethod
    def new(cls, root: Path, name: str) -> "RunFolder":
        """Make a folder under `root` that was not there."""
        return cls(new_folder(root, name))

    @classmethod
    def reopen(cls, path: Path) -> "RunFolder":
        """Open the folder of a run that has begun."""
        if not path.is_dir():
            raise TurboSVMError(f"There is no folder '{path}'.")
        for name in ("config.yaml", "environment.json"):
            if not (path / name).is_file():
                raise TurboSVMError(f"'{path}' is not a run's folder: there is no {name} in it.")
        return cls(path)

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints go."""
        return self.path / "checkpoints"

    @property
    def begun(self) -> bool:
        """Whether any process has been at the run's rounds."""
        return (self.path / "records.jsonl").exists()

    def begin(self, records: Sequence[Record] = ()) -> None:
        """Let these be the records so far; others are forgotten, and so is how the run once ended."""
        path = self.path / "records.jsonl"
        write_atomically(path, "".join(_line(record) for record in records))
        with cannot_write("records in", self.path):
            for name in ("stopped.txt", "error.txt", "model.safetensors"):
                (self.path / name).unlink(missing_ok=True)
            self._records = path.open("a")

    def write(self, name: str, content: str) -> None:
        """Write a text file of the run."""
        write_atomically(self.path / name, content)

    def append(self, record: Record) -> None:
        """Add a round's record; it is in the file when this returns."""
        assert self._records is not None  # noqa: S101 (it has begun)
        with cannot_write("records in", self.path):
            self._records.write(_line(record))
            self._records.flush()

    def sync(self) -> None:
        """See the records to the disk, where they survive the machine."""
        assert self._records is not None  # noqa: S101 (it has begun)
        with cannot_write("records in", self.path):
            os.fsync(self._records.fileno())

    def close(self, model: nn.Module | None) -> None:
        """Let go of the folder, and save the model that the run ended with as `load_state_dict` takes it."""
        try:
            with suppress(OSError):  # every record was written when it was appended, or complained of then
                if self._records:
                    self._records.close()
            if model is not None:
                tensors = {name: value.cpu().clone().contiguous() for name, value in model.state_dict().items()}
                write_atomically(self.path / "model.safetensors", to_safetensors(tensors))
        finally:
            self._lock.release()


def is_in_use(path: Path) -> bool:
    """Whether a process is at a run."""
    if not (path / ".lock").exists():
        return False
    try:
        _locked(path, patience=0.0).release()
    except InUseError:
        return True
    except TurboSVMError:  # nobody may write there
        return False
    return False


def recorded(folder: Path) -> list[Record]:
    """The records in a run's folder, up to a line that was cut off."""
    path = folder / "records.jsonl"
    with cannot_read(path):
        return list(_whole(path.read_bytes().splitlines() if path.exists() else []))


def last_record(folder: Path) -> Record | None:
    """The newest record in a run's folder, read from the end of the file."""
    path = folder / "records.jsonl"
    try:
        with path.open("rb") as file:
            record = json.loads(_last_line(file, os.fstat(file.fileno()).st_size))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def _last_line(file: BinaryIO, size: int) -> bytes:
    """The last line that was ended; nothing, if there is none."""
    some = 2**16
    while True:
        file.seek(max(0, size - some))
        lines = file.read(some).split(b"\n")
        if len(lines) > 2 or some >= size:  # with the end of the line before it, or from the beginning
            return lines[-2] if len(lines) > 1 else b""
        some *= 4


def _locked(path: Path, patience: float = PATIENCE) -> FileLock:
    """Take hold of a folder until the process lets go of it, or ends."""
    lock = FileLock(path / ".lock", timeout=patience)
    with cannot_write("folder", path):
        try:
            lock.acquire(poll_interval=0.02)
        except Timeout as error:
            raise InUseError(f"'{path}' is in use: another process is at this run.") from error
    return lock


def _whole(lines: Iterable[bytes]) -> Iterator[Record]:
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except ValueError:
            return
        if not isinstance(record, dict) or record.get("round") != number:
            return
        yield record


def _line(record: Record) -> str:
    return json.dumps(record, allow_nan=False) + "\n"


def record_of(finished: Round, users: Sequence[str]) -> Record:
    """Flatten a round into one row; numbers that are not finite become null, so that the file stays plain JSON.

    Clients are indices of `users`, whose names stand beside those that failed.
    """
    row = {
        "round": finished.number,
        **_metrics(finished, users),
        "train_loss": finished.train_loss,
        "samples": finished.samples,
        "bytes_down": finished.bytes_down,
        "bytes_up": finished.bytes_up,
        **finished.diagnostics,
        **{f"seconds_{phase}": round(seconds, 6) for phase, seconds in finished.seconds.items()},
        "cohort": list(finished.cohort),
        "failures": [
            {"client": client, "user": users[client] if client >= 0 else "", "why": why}
            for client, why in finished.failures
        ],
        "failed": finished.failed,
    }
    return {key: _plain(value) for key, value in row.items()}


def _metrics(finished: Round, users: Sequence[str]) -> dict[str, Any]:
    """What was measured on held-out users, with columns for answers that are not finite only where there are some."""
    if finished.metrics is None:
        return {}
    metrics = {name: value for name, value in vars(finished.metrics).items() if name != "unanswered"}
    lost = finished.metrics.unanswered
    if lost is None or finished.unanswered is None:
        return metrics
    return {**metrics, SAMPLES: lost.samples, OF: lost.of, USER: users[finished.unanswered]}


def _plain(value: Any) -> Any:
    """Replace what JSON has no word for, in a number or a list of them."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
