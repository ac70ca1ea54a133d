"""Rows of tables, grouped by user: what the readers of hub data and of people's own tables have in common."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from pathlib import Path

import numpy as np

from turbosvm.data.sources.reading import Chunk, Form, Rows, Unit, Where, nothing, size_of
from turbosvm.data.sources.tables import Batch, as_texts, broken_table, read_batches, rows_at_once
from turbosvm.data.windows import Places

NOBODY = "nobody"

Take = Callable[[Places, Where], Rows]
"""Turn these rows of a batch, which belong to one user, into samples."""

Open = Callable[[Batch], Take]
"""Decode what is best decoded for a whole batch at once; return what takes rows out of it."""


def table_units(
    files: Sequence[Path], form: Form, user: str | None, columns: Sequence[str], open_batch: Open
) -> list[Unit]:
    """Make a unit of each table; without a column for the user, every row is nobody's."""
    return [
        Unit(file.name, size_of(file), partial(read_table, file, form, user, columns, open_batch)) for file in files
    ]


def read_table(
    file: Path, form: Form, user: str | None, columns: Sequence[str], open_batch: Open, skip: int = 0
) -> Iterator[Chunk]:
    """Give a chunk for each user in each batch, but for the first `skip` of them."""
    wanted = list(dict.fromkeys([*([user] if user else []), *columns]))
    for batch in read_batches(file, wanted, rows_at_once(prod(form.shape) * np.dtype(form.dtype).itemsize)):
        with broken_table(file):
            names = as_texts(batch.columns[user]) if user else [NOBODY] * len(batch.numbers)
        groups = _places_by_user(names)
        if batch.bad:
            groups = {None: [], **groups}
        if skip >= len(groups):
            skip -= len(groups)
            continue
        with broken_table(file):
            take = open_batch(batch)
        for name, places in list(groups.items())[skip:]:
            if name is None:
                nameless = (f"{file.name}, row {batch.numbers[place]}: has no user." for place in places)
                bad = [*batch.bad, *nameless]
                yield nothing(form, "", bad, batch.done)
            else:
                rows = take(np.array(places, dtype=np.int64), _namer(file, batch, places, name))
                yield Chunk(name, rows.inputs, rows.labels, rows.segments, rows.bad, batch.done)
        skip = 0


def _namer(file: Path, batch: Batch, places: Sequence[int], user: str) -> Where:
    return lambda place: f"{file.name}, row {batch.numbers[places[place]]}: user '{user}'"


def _places_by_user(names: Sequence[str | None]) -> dict[str | None, list[int]]:
    groups: dict[str | None, list[int]] = {}
    for place, name in enumerate(names):
        groups.setdefault(name if name and name.strip() and name.isprintable() else None, []).append(place)
    return groups
