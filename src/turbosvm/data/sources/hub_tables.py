"""The three tasks as the hub has them: Parquet with images (FEMNIST, CelebA), and windows of text (Shakespeare)."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from turbosvm.data.sources import text
from turbosvm.data.sources.grouped import Take, table_units
from turbosvm.data.sources.images import ImageRule, decode_all
from turbosvm.data.sources.reading import Form, Rows, Unit, Where, gather
from turbosvm.data.sources.tables import Batch, Column, check_columns
from turbosvm.data.windows import Places


def image_units(files: Sequence[Path], form: Form, rule: ImageRule, image: str, user: str, label: str) -> list[Unit]:
    """Read tables with a column of images, encoded as PNG or JPEG."""
    for file in files:
        check_columns(file, (image, user, label))

    def open_batch(batch: Batch) -> Take:
        images = decode_all(image_bytes(batch.columns[image]), rule)
        labels = batch.columns[label].to_pylist()

        def take(places: Places, where: Where) -> Rows:
            return gather(form, places.tolist(), images.__getitem__, labels.__getitem__, where)

        return take

    return table_units(files, form, user, (image, label), open_batch)


def text_units(files: Sequence[Path]) -> list[Unit]:
    """Read tables with windows of 80 characters and the character after each."""
    columns = ("character_id", "x", "y")
    for file in files:
        check_columns(file, columns)

    def open_batch(batch: Batch) -> Take:
        before, after = (batch.columns[name].to_pylist() for name in ("x", "y"))

        def take(places: Places, where: Where) -> Rows:
            chosen = places.tolist()
            return text.windows_to_rows([before[at] for at in chosen], [after[at] for at in chosen], where)

        return take

    return table_units(files, text.FORM, "character_id", columns[1:], open_batch)


def holds_images(kind: pa.DataType) -> bool:
    """Whether a column is of a kind that holds encoded images."""
    if pa.types.is_struct(kind):
        return kind.get_field_index("bytes") >= 0 and holds_images(kind.field("bytes").type)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def image_bytes(column: Column) -> list[bytes | None]:
    """The encoded images of a column: the hub's pairs of bytes and path, or bytes alone."""
    if not isinstance(column, pa.Array) or not holds_images(column.type):
        raise ValueError(f"images must be bytes of PNG or JPEG files, not {getattr(column, 'type', 'numbers')}")
    if pa.types.is_struct(column.type):
        column = column.field("bytes")
    values: list[bytes | None] = column.to_pylist()
    return values
