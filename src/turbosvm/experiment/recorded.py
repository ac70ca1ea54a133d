"""Rounds as records: what a round's line says, and how the lines of a run are read, as far as they are whole."""

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turbosvm.bounded import open_regular
from turbosvm.errors import TurboSVMError
from turbosvm.evaluation.divergence import OF, SAMPLES, USER
from turbosvm.record_lines import MOST_BYTES, parse_line
from turbosvm.run_files import RECORDS
from turbosvm.simulation import Round

Record = dict[str, Any]


class _Failure(BaseModel):
    model_config = ConfigDict(strict=True)

    client: int
    user: str
    why: str


class _Checked(BaseModel):
    """What of a record others rely on."""

    model_config = ConfigDict(strict=True, extra="ignore")

    round: int = Field(ge=1)
    failures: list[_Failure]
    failed: str | None


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


def recorded(folder: Path) -> list[Record]:
    """The records in a run's folder, up to a line that is not what was written."""
    path = folder / RECORDS
    if not path.exists():
        return []
    records: list[Record] = []
    with open_regular(path) as file:
        for line in iter(lambda: file.readline(MOST_BYTES), b""):
            record = _checked(line)
            if record is None or record["round"] != len(records) + 1:
                break
            records.append(record)
    return records


def last_record(folder: Path) -> Record | None:
    """The newest record in a run's folder, read from the end of the file; None where none can be read."""
    try:
        with open_regular(folder / RECORDS) as file:
            return _checked(_last_line(file, os.fstat(file.fileno()).st_size))
    except TurboSVMError:
        return None


def _checked(line: bytes) -> Record | None:
    """The record of a line with its end; None where it is not what was written."""
    if not line.endswith(b"\n"):
        return None
    try:
        record = parse_line(line[:-1])
        _Checked.model_validate(record)
    except (ValueError, ValidationError):
        return None
    return record


def _last_line(file: BinaryIO, size: int) -> bytes:
    """The last line that was ended, with its end; nothing, if there is none."""
    some = 2**16
    while True:
        file.seek(max(0, size - some))
        lines = file.read(some).split(b"\n")
        if len(lines) > 2 or some >= min(size, MOST_BYTES):  # with the end of the line before it, or from the beginning
            return lines[-2] + b"\n" if len(lines) > 1 else b""
        some *= 4
