"""Tables as a stream of batches: Parquet, CSV and npz files, whatever their columns mean."""

import codecs
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from turbosvm.data.federated import Array
from turbosvm.data.sources.sizes import limit_of
from turbosvm.errors import TurboSVMError, in_one_line, unknown

BATCH_ROWS = 8192
BATCH_BYTES = 64 << 20
CSV_BLOCK = 4 << 20

Column = Any
"""One of Arrow's columns, or a NumPy array with anything in a row."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of a table.

    Args:
        columns: by name.
        numbers: of the rows in their file, where the first of all is 1.
        done: the share of the file that has been read.
        bad: a sentence for each row that has another number of columns.
    """

    columns: dict[str, Column]
    numbers: Sequence[int]
    done: float
    bad: tuple[str, ...] = ()


def column_names(file: Path) -> list[str]:
    """Return the names of a table's columns."""
    with broken_table(file):
        names = _column_names(file)
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise ValueError(f"two columns are called '{twice[0]}'")
    return names


def _column_names(file: Path) -> list[str]:
    if file.suffix == ".parquet":
        return list(pq.read_schema(file).names)
    with file.open("rb") as stream:
        if file.suffix == ".npz":
            with np.load(stream, allow_pickle=False) as arrays:
                return list(arrays.files)
        with _open_csv(stream, None, BadRows()) as reader:  # which reads ahead in a thread until it is closed
            return list(reader.schema.names)


def check_columns(file: Path, wanted: Sequence[str]) -> None:
    """Refuse a table that lacks a column, and say which ones it has."""
    names = column_names(file)
    for name in wanted:
        if name not in names:
            raise unknown("column", name, names, where=f"of {file.name}")


def refuse_bomb(file: Path, allow_large: bool) -> None:
    """Refuse a table that grows without measure when it is read."""
    limit = limit_of(file, allow_large)
    with broken_table(file):
        if file.suffix == ".npz":
            with zipfile.ZipFile(file) as arrays:
                limit.check(sum(member.file_size for member in arrays.infolist()))
        elif file.suffix == ".parquet":
            about = pq.read_metadata(file)
            groups = map(about.row_group, range(about.num_row_groups))  # to ask their columns may end the process
            limit.check(sum(group.total_byte_size for group in groups))


def rows_at_once(bytes_of_one: int) -> int:
    """How many rows to read at once, when a sample takes so many bytes."""
    return min(max(BATCH_BYTES // max(bytes_of_one, 1), 16), BATCH_ROWS)


def read_batches(file: Path, columns: Sequence[str], rows: int) -> Iterator[Batch]:
    """Give a table's rows in batches of about so many, which are the same each time."""
    read = {".parquet": _read_parquet, ".csv": _read_csv, ".npz": _read_npz}[file.suffix]
    batches = read(file, columns, rows)
    while True:
        with broken_table(file):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


@contextmanager
def broken_table(file: Path) -> Iterator[None]:
    """Turn what Arrow and NumPy meet broken files with into a sentence that names the file."""
    try:
        yield
    except TurboSVMError:
        raise
    except Exception as error:  # errors of many kinds, some of them of what these libraries use
        kind = file.suffix.removeprefix(".")
        raise TurboSVMError(f"'{file}' cannot be read as {kind}: {in_one_line(error)}") from error


def as_texts(column: Column) -> list[str | None]:
    """A column as words; whole numbers become their digits, and what is neither becomes None."""
    values = column.to_pylist() if isinstance(column, pa.Array) else column.tolist()
    return [_as_text(value) for value in values]


def _as_text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else None
    return str(int(value)) if isinstance(value, int) else None


def _read_parquet(file: Path, columns: Sequence[str], rows: int) -> Iterator[Batch]:
    with pq.ParquetFile(file) as table:
        total, first = max(table.metadata.num_rows, 1), 1
        for batch in table.iter_batches(rows, columns=list(columns)):
            end = first + batch.num_rows
            named = dict(zip(batch.schema.names, batch.columns, strict=True))
            yield Batch(named, range(first, end), min((end - 1) / total, 1.0))
            first = end


def _read_csv(file: Path, columns: Sequence[str], _: int) -> Iterator[Batch]:
    """All columns as words: what they mean, and which rows are wrong, is for the reader of the task to say."""
    size, first, bad = max(file.stat().st_size, 1), 1, BadRows()
    with file.open("rb") as stream, _open_csv(stream, columns, bad) as reader:
        batches = iter(reader)
        while True:
            batch = bad.raise_interrupts(lambda: next(batches, None))
            if batch is None:
                break
            named = dict(zip(batch.schema.names, batch.columns, strict=True))
            numbers = list(islice((number for number in count(first) if number not in bad.found), batch.num_rows))
            first = numbers[-1] + 1 if numbers else first
            yield Batch(named, numbers, min(stream.tell() / size, 1.0), bad.sentences(file, first))
    if bad.found:
        nothing = {name: pa.array([], pa.string()) for name in columns}
        yield Batch(nothing, [], 1.0, bad.sentences(file, max(bad.found) + 1))


class BadRows:
    """Rows with another number of columns, which Arrow tells of while it parses."""

    def __init__(self) -> None:
        self.found: dict[int, str] = {}
        self._interrupt: KeyboardInterrupt | None = None

    def skip(self, row: Any) -> str:
        """Note a row; the header counts as one in Arrow's number."""
        try:
            self.found[row.number - 1] = f"has {row.actual_columns} columns, not {row.expected_columns}"
        except KeyboardInterrupt as interrupt:  # Arrow would swallow it
            self._interrupt = interrupt
        return "skip"

    def raise_interrupts(self, parse: Callable[[], Any]) -> Any:
        """Let Arrow parse on, and let nothing of an interrupt get lost in it."""
        try:
            return parse()
        finally:
            if self._interrupt:
                raise self._interrupt

    def sentences(self, file: Path, end: int) -> tuple[str, ...]:
        """What was wrong with rows up to a number; Arrow may have met later ones, which stay for the next time."""
        numbers = sorted(number for number in self.found if number < end)
        return tuple(f"{file.name}, row {number}: {self.found.pop(number)}." for number in numbers)


def _open_csv(stream: BinaryIO, columns: Sequence[str] | None, bad: BadRows) -> Any:
    words = {name: pa.string() for name in columns or ()}
    return pacsv.open_csv(
        Utf8(stream),
        read_options=pacsv.ReadOptions(block_size=CSV_BLOCK, use_threads=False),
        parse_options=pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=bad.skip),
        convert_options=pacsv.ConvertOptions(
            column_types=words, include_columns=list(columns) if columns else None, strings_can_be_null=False
        ),
    )


class Utf8:
    """A file of text that is read through; what is not UTF-8 is an error of the file, not one of its parser's."""

    closed = False

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def read(self, size: int = -1) -> bytes:
        """Read on, as a file does."""
        block = self._stream.read(size)
        self._decoder.decode(block, final=not block)
        return block


def _read_npz(file: Path, columns: Sequence[str], rows: int) -> Iterator[Batch]:
    """Arrays of one length; NumPy reads each of them whole."""
    with file.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        held: dict[str, Array] = {name: arrays[name] for name in columns}
    if not all(isinstance(array, np.ndarray) for array in held.values()):
        raise ValueError("it holds something other than arrays")
    lengths = {name: len(array) if array.ndim else 0 for name, array in held.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"its arrays differ in length: {told}")
    total = next(iter(lengths.values()))
    for begin in range(0, total, rows):
        end = min(begin + rows, total)
        some = {name: array[begin:end] for name, array in held.items()}
        yield Batch(some, range(begin + 1, end + 1), end / total)
