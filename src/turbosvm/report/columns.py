"""The columns of `records.jsonl` that reports need, each line checked."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic_core import from_json

from turbosvm.evaluation.divergence import OF, SAMPLES, USER
from turbosvm.record_lines import is_whole

Floats = npt.NDArray[np.float64]

METRICS = ("accuracy", "macro_f1", "mcc", "loss", "auc")
TRAFFIC = ("bytes_down", "bytes_up")
SECONDS = ("seconds_train", "seconds_merge")
SUPPORT = ("svm_support_mean", "svm_support_min", "svm_support_max")
COLUMNS = ("round", *METRICS, *TRAFFIC, *SECONDS, *SUPPORT, SAMPLES, OF)
"""What reports need of the records."""

AT_ONCE = 2**23
"""Bytes of lines that are parsed together: few enough for memory, and many enough to be fast."""
RANGES = {
    **dict.fromkeys(("accuracy", "macro_f1", "auc"), (0.0, 1.0)),
    "mcc": (-1.0, 1.0),
    "loss": (-1e100, 1e100),
    **dict.fromkeys((*TRAFFIC, *SECONDS, *SUPPORT, SAMPLES, OF), (0.0, 1e18)),
}
SLACK = 1e-6
"""By which rounding may take a share past its range."""
NUMBERS = {int, float, type(None)}


def read_columns(content: bytes) -> tuple[dict[str, Any], bool]:
    """The columns as numbers, those that no line has left out, and whether a last line was cut off.

    Raises:
        ValueError: a line is not what was written, or not the record of its round.
    """
    lines = content.split(b"\n")
    cut = bool(lines.pop())  # what was written ends with a line's end
    values: dict[str, list[Any]] = {name: [] for name in COLUMNS[1:]}
    there, done, users = set[str](), 0, list[str]()
    for some in _batches(lines) if len(content) > AT_ONCE else [lines]:
        rows = _parse(some, done)
        for name, column in values.items():
            if any(name in row for row in rows):
                there.add(name)
                column += [row.get(name) for row in rows]
            else:
                column += [None] * len(rows)
        users += [str(row.get(USER)) for row in rows]
        done += len(rows)
    columns: dict[str, Any] = {name: _numbers(name, column) for name, column in values.items() if name in there}
    if SAMPLES in columns:
        columns[USER] = users
    return {"round": np.arange(1, done + 1), **columns} if done else {}, cut


def _batches(lines: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Lines in their order, some at a time."""
    first = size = 0
    for place, line in enumerate(lines):
        size += len(line)
        if size >= AT_ONCE:
            yield lines[first : place + 1]
            first, size = place + 1, 0
    if first < len(lines):
        yield lines[first:]


def _parse(lines: Sequence[bytes], before: int) -> list[Mapping[str, Any]]:
    """The records of some lines, which come after so many others."""
    for number, line in enumerate(lines, before + 1):
        if not is_whole(line):
            raise ValueError(
                f"line {number} of records.jsonl is not what was written: its checksum is missing or wrong"
            )
    try:
        rows = from_json(b"[" + b",".join(lines) + b"]", allow_inf_nan=False)  # all at once is faster
        numbers = [row["round"] for row in rows]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"after line {before} of records.jsonl, a line is not a round's record") from error
    if numbers != list(range(before + 1, before + len(lines) + 1)):
        first = next((place for place, number in enumerate(numbers, before + 1) if number != place), before + 1)
        raise ValueError(f"line {first} of records.jsonl is not the record of round {first}")
    return rows  # type: ignore[no-any-return]


def _numbers(name: str, column: Sequence[Any]) -> Floats:
    if not set(map(type, column)) <= NUMBERS:
        line = next(place for place, value in enumerate(column, 1) if type(value) not in NUMBERS)
        raise ValueError(f"'{name}' in line {line} of records.jsonl is not a number")
    low, high = RANGES[name]
    numbers = np.array(column, dtype=float)
    wrong = (numbers < low - SLACK) | (numbers > high + SLACK)
    if wrong.any():
        line = int(wrong.argmax()) + 1
        raise ValueError(f"'{name}' in line {line} of records.jsonl is {column[line - 1]:.3g}, which cannot be")
    return numbers
