"""A data set at a glance: its classes and its users as rows of pictures.

Works for any data with square uint8 images of one channel.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from turbosvm.errors import TurboSVMError
from turbosvm.files import write_atomically

if TYPE_CHECKING:
    from turbosvm.data.federated import FederatedData

Image = npt.NDArray[np.uint8]

PAPER = 255
GREYS = 16
# Lengths on the sheet are in pixels; glyphs of 28 pixels come out one to one.
DPI = 100
CELL = 30
ROWS = 16
CLASS_CELLS = 20
WRITER_CELLS = 20
MARGIN, HEADING, CLASS_NAME, USER_NAME = 14, 44, 16, 82


@dataclass(frozen=True)
class Panel:
    """Rows of images with a name before each, under one heading."""

    heading: str
    names: tuple[str, ...]
    rows: tuple[tuple[Image, ...], ...]
    columns: int
    name_width: int

    @property
    def blocks(self) -> int:
        """How many blocks of at most ROWS rows stand side by side."""
        return -(-len(self.rows) // ROWS)

    @property
    def width(self) -> int:
        """Return the width in pixels."""
        return self.blocks * (self.name_width + self.columns * CELL)

    @property
    def height(self) -> int:
        """Return the height in pixels."""
        return HEADING + min(len(self.rows), ROWS) * CELL


def save(path: Path, data: "FederatedData") -> None:
    """Write one PNG with the classes on the left and the users on the right."""
    _write(path, [class_panel(data), writer_panel(data)])


def class_panel(data: "FederatedData") -> Panel:
    """Collect a few samples of each class (the first 64 of them), one a user as far as that goes."""
    names = data.classes[: 4 * ROWS]
    columns = CLASS_CELLS // -(-len(names) // ROWS)
    rows = tuple(tuple(_image(data, i) for i in found) for found in _of_many_users(data, len(names), columns))
    return Panel("Each class, by several users", names, rows, columns, CLASS_NAME)


def writer_panel(data: "FederatedData") -> Panel:
    """Collect the first samples of the first users."""
    starts, ends = data.offsets[:-1][:ROWS].tolist(), data.offsets[1:][:ROWS].tolist()
    rows = tuple(
        tuple(_image(data, index) for index in range(start, min(end, start + WRITER_CELLS)))
        for start, end in zip(starts, ends, strict=True)
    )
    return Panel("Each user, several samples", data.users[:ROWS], rows, WRITER_CELLS, USER_NAME)


def _of_many_users(data: "FederatedData", classes: int, samples: int) -> list[list[int]]:
    """Find up to `samples` places of each class, a user's second one only where there are not enough users."""
    first: list[list[int]] = [[] for _ in data.classes]
    further: list[list[int]] = [[] for _ in data.classes]
    for user, start in enumerate(data.offsets[:-1].tolist()):
        seen: set[int] = set()
        for place, label in enumerate(data.user(user)[1].tolist(), start):
            (further if label in seen else first)[label].append(place)
            seen.add(label)
        if all(len(found) >= samples for found in first[:classes]):
            break
    return [(one_each + more)[:samples] for one_each, more in zip(first, further, strict=True)][:classes]


def _image(data: "FederatedData", index: int) -> Image:
    image = np.asarray(data.inputs[index])
    if image.dtype != np.uint8 or image.ndim < 2 or image.size != image.shape[-1] * image.shape[-1]:
        raise TurboSVMError(
            f"A contact sheet needs square uint8 images of one channel; data '{data.name}' has {image.dtype} "
            f"of shape {image.shape}."
        )
    return image.reshape(image.shape[-2:])


def mosaic(rows: Sequence[Sequence[Image]], columns: int) -> Image:
    """Lay images out in a grid with a thin white gap; short rows end in white."""
    side = next((len(image) for row in rows for image in row), 1)
    step = side + 2
    picture = np.full((len(rows) * step, columns * step), PAPER, dtype=np.uint8)
    for y, row in enumerate(rows):
        for x, image in enumerate(row):
            picture[y * step + 1 : (y + 1) * step - 1, x * step + 1 : (x + 1) * step - 1] = image
    return picture


def _write(path: Path, panels: Sequence[Panel]) -> None:
    width = sum(panel.width for panel in panels) + MARGIN * (len(panels) + 1)
    height = max(panel.height for panel in panels) + MARGIN
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="white")
    left = MARGIN
    for panel in panels:
        _draw(figure, panel, left)
        left += panel.width + MARGIN
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=DPI, pil_kwargs={"optimize": True})
    write_atomically(path, content.getvalue())


def _draw(figure: Figure, panel: Panel, left: int) -> None:
    """Place a panel on the sheet, its blocks side by side."""
    width, height = figure.get_size_inches() * DPI
    figure.text(left / width, 1 - HEADING / 2 / height, panel.heading, va="center", size=11, weight="bold")
    for block in range(panel.blocks):
        here = slice(block * ROWS, (block + 1) * ROWS)
        rows, names = panel.rows[here], panel.names[here]
        right = left + (block + 1) * (panel.name_width + panel.columns * CELL)
        box_width, box_height = panel.columns * CELL, len(rows) * CELL
        axes = figure.add_axes(
            (
                (right - box_width) / width,
                1 - (HEADING + box_height) / height,
                box_width / width,
                box_height / height,
            )
        )
        # Few greys: nobody sees the difference, and the file is half as large.
        picture = np.rint(mosaic(rows, panel.columns) / PAPER * (GREYS - 1)) / (GREYS - 1)
        axes.imshow(picture, cmap="gray", vmin=0, vmax=1, interpolation="nearest", aspect="auto")
        axes.axis("off")
        step = len(picture) / len(rows)
        for y, name in enumerate(names):
            axes.text(-0.15 * step, (y + 0.5) * step, name, ha="right", va="center", size=7.5, color="0.35")
