"""A data set at a glance: its classes and its users as rows of pictures.

Works for any data with uint8 images of one channel or of three; text gets a sheet of its own (`text_sheet.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from turbosvm.data import text_sheet
from turbosvm.data.text_sheet import DPI, SIZE, fitted, pixels
from turbosvm.data.windows import Windows
from turbosvm.errors import TurboSVMError

if TYPE_CHECKING:
    from turbosvm.data.federated import FederatedData

Image = npt.NDArray[np.uint8]  # [height, width], or with colours [height, width, 3]

PAPER = 255
GREYS = 16
# Lengths on the sheet are in pixels; images of 28 to 84 pixels come out one to one.
CELL, LARGEST_CELL = 30, 86
ROWS, COLUMNS = 16, 20
PANEL_WIDTH, PANEL_HEIGHT = 600, 860
FEW_CLASSES = 4
MARGIN, HEADING, CLASS_NAME, USER_NAME, NAME_GAP = 14, 44, 16, 82, 4.5


@dataclass(frozen=True)
class Layout:
    """How large a cell is, how many make a panel, and whether panels stand one above the other."""

    cell_height: int = CELL
    cell_width: int = CELL
    rows: int = ROWS
    columns: int = COLUMNS
    stacked: bool = False


@dataclass(frozen=True)
class Panel:
    """Rows of images with a name before each, under one heading."""

    heading: str
    names: tuple[str, ...]
    rows: tuple[tuple[Image, ...], ...]
    columns: int
    name_width: int
    layout: Layout = Layout()

    @property
    def blocks(self) -> int:
        """How many blocks of at most as many rows as the layout has stand side by side."""
        return -(-len(self.rows) // self.layout.rows)

    @property
    def block_width(self) -> int:
        """Return a block's width in pixels, names and images."""
        return self.name_width + self.columns * self.layout.cell_width

    @property
    def width(self) -> int:
        """Return the width in pixels."""
        return self.blocks * self.block_width

    @property
    def height(self) -> int:
        """Return the height in pixels."""
        return HEADING + min(len(self.rows), self.layout.rows) * self.layout.cell_height


def save(path: Path, data: "FederatedData") -> None:
    """Write one PNG with the classes on the left and the users on the right, or below if classes are few."""
    if isinstance(data.inputs, Windows):
        text_sheet.save(path, data)
    else:
        text_sheet.write_png(_compose([class_panel(data), writer_panel(data)], lay_out(data).stacked), path)


def lay_out(data: "FederatedData") -> Layout:
    """Choose cells that images fill one to one, as far as that goes, and as many as fit; large ones are fewer."""
    height, width = _size(data)
    longest = max(height, width) + 2
    scale = min(max(longest, CELL), LARGEST_CELL) / longest
    cell_height, cell_width = round((height + 2) * scale), round((width + 2) * scale)
    stacked = max(cell_height, cell_width) > CELL and len(data.classes) <= FEW_CLASSES
    return Layout(
        cell_height,
        cell_width,
        rows=min(ROWS, round(PANEL_HEIGHT / cell_height)),
        columns=min(COLUMNS, round((2 if stacked else 1) * PANEL_WIDTH / cell_width)),
        stacked=stacked,
    )


def class_panel(data: "FederatedData") -> Panel:
    """Collect a few samples of each class (the first 64 of them), one a user as far as that goes."""
    layout = lay_out(data)
    names = data.classes[: 4 * layout.rows]
    columns = max(layout.columns // -(-len(names) // layout.rows), 1)
    rows = tuple(tuple(_image(data, i) for i in found) for found in _of_many_users(data, len(names), columns))
    wanted = max((ceil(pixels(name) + NAME_GAP) for name in names), default=0)
    name_width = USER_NAME if layout.stacked else min(max(wanted, CLASS_NAME), USER_NAME)
    return Panel("Each class, by several users", names, rows, columns, name_width, layout)


def writer_panel(data: "FederatedData") -> Panel:
    """Collect the first samples of the first users."""
    layout = lay_out(data)
    starts, ends = data.offsets[:-1][: layout.rows].tolist(), data.offsets[1:][: layout.rows].tolist()
    rows = tuple(
        tuple(_image(data, index) for index in range(start, min(end, start + layout.columns)))
        for start, end in zip(starts, ends, strict=True)
    )
    names = data.users[: layout.rows]
    return Panel("Each user, several samples", names, rows, layout.columns, USER_NAME, layout)


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


def _size(data: "FederatedData") -> tuple[int, int]:
    """Return the images' height and width; refuse what is no image."""
    shape = data.inputs.shape[1:]
    if data.inputs.dtype != np.uint8 or len(shape) < 2 or shape[:-2] not in ((), (1,), (3,)):
        raise TurboSVMError(
            f"A contact sheet needs text, or uint8 images of one channel or three; data '{data.name}' has "
            f"{data.inputs.dtype} of shape {shape}."
        )
    height, width = shape[-2:]
    return height, width


def _image(data: "FederatedData", index: int) -> Image:
    image = np.asarray(data.inputs[index])
    return np.moveaxis(image, 0, -1) if image.ndim == 3 and len(image) == 3 else image.reshape(image.shape[-2:])


def mosaic(rows: Sequence[Sequence[Image]], columns: int) -> Image:
    """Lay images out in a grid with a thin white gap; short rows end in white."""
    height, width, *colours = next((image.shape for row in rows for image in row), (1, 1))
    picture = np.full((len(rows) * (height + 2), columns * (width + 2), *colours), PAPER, dtype=np.uint8)
    for y, row in enumerate(rows):
        for x, image in enumerate(row):
            top, left = y * (height + 2) + 1, x * (width + 2) + 1
            picture[top : top + height, left : left + width] = image
    return picture


def _compose(panels: Sequence[Panel], stacked: bool) -> Figure:
    """Put panels on one sheet, side by side or one above the other."""
    widths, heights = [panel.width for panel in panels], [panel.height for panel in panels]
    width = (max(widths) if stacked else sum(widths) + MARGIN * (len(panels) - 1)) + 2 * MARGIN
    height = (sum(heights) if stacked else max(heights)) + MARGIN
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="white")
    left, top = MARGIN, 0
    for panel in panels:
        _draw(figure, panel, left, top)
        if stacked:
            top += panel.height
        else:
            left += panel.width + MARGIN
    return figure


def _draw(figure: Figure, panel: Panel, left: int, top: int) -> None:
    """Place a panel on the sheet, its blocks side by side."""
    width, height = figure.get_size_inches() * DPI
    figure.text(left / width, 1 - (top + HEADING / 2) / height, panel.heading, va="center", size=11, weight="bold")
    for block in range(panel.blocks):
        here = slice(block * panel.layout.rows, (block + 1) * panel.layout.rows)
        rows, names = panel.rows[here], panel.names[here]
        right = left + (block + 1) * panel.block_width
        box_width, box_height = panel.columns * panel.layout.cell_width, len(rows) * panel.layout.cell_height
        axes = figure.add_axes(
            (
                (right - box_width) / width,
                1 - (top + HEADING + box_height) / height,
                box_width / width,
                box_height / height,
            )
        )
        picture = mosaic(rows, panel.columns)
        shrunk = len(picture) > box_height
        axes.imshow(
            picture if picture.ndim == 3 else _few_greys(picture),
            cmap="gray",
            vmin=0,
            vmax=1,
            interpolation="antialiased" if shrunk else "nearest",
            aspect="auto",
        )
        axes.axis("off")
        step, gap = len(picture) / len(rows), NAME_GAP * picture.shape[1] / box_width
        for y, name in enumerate(names):
            shown = fitted(name, panel.name_width - NAME_GAP)
            axes.text(-gap, (y + 0.5) * step, shown, ha="right", va="center", size=SIZE, color="0.35", parse_math=False)


def _few_greys(picture: Image) -> npt.NDArray[np.float64]:
    """Bring greys to 0..1, few of them: nobody sees the difference, and the file is half as large."""
    return np.rint(picture / PAPER * (GREYS - 1)) / (GREYS - 1)
