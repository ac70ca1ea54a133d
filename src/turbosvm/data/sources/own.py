"""Tables of one's own: a column for the input (or several), one for the label, one for the user.

Inputs are numbers, lists of numbers or encoded images. Labels are whole numbers or words. Without a column for the
user, samples are everybody's, for a partition to give out.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from turbosvm.data.federated import Array
from turbosvm.data.sources.grouped import Take, table_units
from turbosvm.data.sources.hub_tables import holds_images, image_bytes
from turbosvm.data.sources.images import ImageRule, decode_all
from turbosvm.data.sources.reading import Form, Rows, Unit, Where
from turbosvm.data.sources.request import Columns
from turbosvm.data.sources.tables import (
    Batch,
    Column,
    as_texts,
    broken_table,
    check_columns,
    column_names,
    read_batches,
)
from turbosvm.data.windows import Places
from turbosvm.errors import TurboSVMError

LONGEST_LABEL = 100

Inputs = list[Array | str]
"""For each row its input, or what is wrong with it."""


def own_units(files: Sequence[Path], columns: Columns, classes: int | None, tokens: bool) -> tuple[Form, list[Unit]]:
    """Read tables as the columns say; the first good row tells what all inputs must look like."""
    columns = columns.among(column_names(files[0]))
    wanted = [*columns.inputs, columns.label, *([columns.user] if columns.user else [])]
    for file in files:
        check_columns(file, wanted)
    if not columns.inputs:
        raise TurboSVMError(f"{files[0].name} has no column left for the inputs.")
    first = _first_input(files, columns, tokens)
    form = Form(first.shape, str(first.dtype), None if classes is None else tuple(map(str, range(classes))), tokens)

    def open_batch(batch: Batch) -> Take:
        inputs = _inputs(batch, columns, tokens, form)
        labels = as_texts(batch.columns[columns.label])

        def take(places: Places, where: Where) -> Rows:
            return _rows(form, places.tolist(), inputs, labels, where)

        return take

    return form, table_units(files, form, columns.user, (*columns.inputs, columns.label), open_batch)


def _first_input(files: Sequence[Path], columns: Columns, tokens: bool) -> Array:
    """Find the first row that has an input, in any of the tables."""
    wrong = "has no rows"
    for file in files:
        for batch in read_batches(file, columns.inputs, rows=16):
            with broken_table(file):
                inputs = _inputs(batch, columns, tokens, None)
            for found in inputs:
                if not isinstance(found, str):
                    return found
                wrong = f"has no good rows: the first {found}; --input says which columns are the inputs"
    raise TurboSVMError(f"{files[0].name} {wrong}.")


def _inputs(batch: Batch, columns: Columns, tokens: bool, form: Form | None) -> Inputs:
    """The inputs of a batch; those of another form than the first one's are not good."""
    first = batch.columns[columns.inputs[0]]
    if len(columns.inputs) > 1 or _is_plain(first):
        rows = _numbers([batch.columns[name] for name in columns.inputs], columns.inputs)
        inputs = [row if isinstance(row, str) else _tidy(row, tokens) for row in rows]
    elif isinstance(first, np.ndarray):
        inputs = [_tidy(row, tokens) for row in first]
    elif holds_images(first.type):
        inputs = _images(image_bytes(first), form)
    else:
        kind = _kind_inside(first.type)
        inputs = [_list_of_numbers(row, kind, tokens) for row in first.to_pylist()]
    return [_checked(found, form) for found in inputs] if form else inputs


def _is_plain(column: Column) -> bool:
    """Whether a column holds one number or word in each row."""
    if isinstance(column, np.ndarray):
        return column.ndim == 1
    kinds = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_boolean,
        pa.types.is_string,
        pa.types.is_large_string,
    )
    return any(is_kind(column.type) for is_kind in kinds)


def _numbers(columns: Sequence[Column], names: Sequence[str]) -> Inputs:
    """Put several columns of numbers side by side."""
    values = np.column_stack([_as_floats(column) for column in columns])
    good = np.isfinite(values)
    if good.all():
        return list(values)
    return [
        row if fine.all() else f"has no number in column '{names[int(np.argmin(fine))]}'"
        for row, fine in zip(values, good, strict=True)
    ]


def _as_floats(column: Column) -> Array:
    """A column as numbers; what is none becomes NaN."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind not in "biuf":
            return np.full(len(column), np.nan)
        return column.astype(np.float64)
    try:
        floats: Array = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # words that are no numbers are among them
        floats = np.array([_as_float(word) for word in column.to_pylist()], dtype=np.float64)
    return floats


def _as_float(word: Any) -> float:
    try:
        return float(word)
    except (TypeError, ValueError):
        return float("nan")


def _kind_inside(kind: pa.DataType) -> Any:
    """What lists, and lists of lists, are made of, as NumPy calls it."""
    while pa.types.is_nested(kind) and kind.num_fields == 1:
        kind = kind.field(0).type
    return None if pa.types.is_boolean(kind) else kind.to_pandas_dtype()  # None: a null is not false


def _list_of_numbers(row: Any, kind: Any, tokens: bool) -> Array | str:
    if row is None:
        return "has no input"
    try:
        array = np.array(row, dtype=kind)
    except (TypeError, ValueError, OverflowError):
        return "has an input that is not a list of numbers"
    return _tidy(array, tokens)


def _images(contents: Sequence[bytes | None], form: Form | None) -> Inputs:
    if form is None or len(form.shape) != 3:
        return [*decode_all(contents, ImageRule((), None, None))]
    channels, height, width = form.shape
    return [*decode_all(contents, ImageRule(((width, height),), None, colour=True if channels == 3 else None))]


def _tidy(array: Array, tokens: bool) -> Array | str:
    """Numbers of one of three kinds: uint8 (taken as pixels), float32, or int64 for tokens."""
    if array.dtype.kind not in "biuf" or not array.size:
        return "has an input that is not made of numbers"
    if tokens:
        with np.errstate(invalid="ignore"):
            whole = array.astype(np.int64)
        fine = (whole == array).all() and whole.min() >= 0
        return whole if fine else "has an input that is not made of tokens, whole numbers from 0 on"
    if array.dtype == np.uint8:
        return array
    with np.errstate(over="ignore"):
        tidy = array.astype(np.float32)
    return tidy if np.isfinite(tidy).all() else "has an input that is not made of finite numbers"


def _checked(found: Array | str, form: Form) -> Array | str:
    if isinstance(found, str) or (found.shape, str(found.dtype)) == (form.shape, form.dtype):
        return found
    return f"has an input of shape {list(found.shape)} and kind {found.dtype}, not {list(form.shape)} and {form.dtype}"


def _rows(form: Form, places: list[int], inputs: Inputs, labels: Sequence[str | None], where: Where) -> Rows:
    known = frozenset(form.classes or ())
    good, names, bad = [], [], []
    for row, place in enumerate(places):
        found, label = inputs[place], labels[place]
        if isinstance(found, str):
            bad.append(f"{where(row)} {found}.")
        elif not label or not label.isprintable() or len(label) > LONGEST_LABEL:
            bad.append(f"{where(row)} has no label that is a whole number or a word.")
        elif form.classes is not None and label not in known:
            bad.append(f"{where(row)} has the label '{label}'; it must be from 0 to {len(form.classes) - 1}.")
        else:
            good.append(found)
            names.append(label)
    together = np.stack(good) if good else np.empty((0, *form.shape), dtype=form.dtype)
    if form.classes is not None:
        return Rows(together, np.array([int(name) for name in names], dtype=np.int64), bad=tuple(bad))
    return Rows(together, np.array(names, dtype=np.str_), bad=tuple(bad))
