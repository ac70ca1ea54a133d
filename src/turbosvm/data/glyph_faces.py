"""Font outlines as distance fields: how far each point of a small grid is from the edge of a character.

A field knows no stroke weight and no size: moving the threshold makes strokes bolder or lighter, and reading it at bent
coordinates bends the character. So a few megabytes of fields give an endless number of hands.

Outlines are read as the integers in the font files that come with matplotlib, never through a rasteriser, and all
arithmetic is element by element, so every machine gets the same bytes.
"""

import io
import logging
import os
import string
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from fontTools.pens.basePen import decomposeQuadraticSegment
from fontTools.pens.recordingPen import DecomposingRecordingPen
from fontTools.ttLib import TTFont

from turbosvm.bounded import read_bounded
from turbosvm.cores import usable_cores
from turbosvm.data.store import cache_folder
from turbosvm.errors import TurboSVMError
from turbosvm.files import cannot_write, remove, write_atomically

CHARACTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase

# The scalable faces of matplotlib that hold all 62 characters as letters and digits, in every release since 3.8. The
# order is part of the data set.
FACES = (
    "DejaVuSans",
    "DejaVuSans-Oblique",
    "DejaVuSans-Bold",
    "DejaVuSans-BoldOblique",
    "DejaVuSansMono",
    "DejaVuSansMono-Oblique",
    "DejaVuSansMono-Bold",
    "DejaVuSansMono-BoldOblique",
    "DejaVuSerif",
    "DejaVuSerif-Italic",
    "DejaVuSerif-Bold",
    "DejaVuSerif-BoldItalic",
    "STIXGeneral",
    "STIXGeneralItalic",
    "STIXGeneralBol",
    "STIXGeneralBolIta",
    "cmr10",
    "cmss10",
    "cmtt10",
    "cmb10",
    "cmmi10",
)

GRID = 40
# Lengths are in heights of the capital H, after `fit`.
CELL = 3 / 80
LEVEL = 1 / 512
TALLEST = 1.1

# Raise it whenever a change here changes the fields: it is in the name of the cached file.
VERSION = 3
DIGEST = "2b4a76d4d1916afacbd4a84438097b300ec4439eb05103fe597dab2d444bd7a5"
"""Of all fields; they are the same on every machine."""
MOST_BYTES = 2**24
"""Of the cached file."""

CURVE_PIECES = 4

Point = tuple[float, float]
Contour = list[Point]
Floats = npt.NDArray[np.float32]
Atlas = npt.NDArray[np.int8]


@cache
def atlas() -> Atlas:
    """Return the fields `[face, character, GRID, GRID]` in LEVELs, positive inside, from the cache folder if there."""
    return _read_or_make(cache_folder() / f"glyph-faces-v{VERSION}.npy")


def _read_or_make(path: Path) -> Atlas:
    """Read the fields that are kept in a file; if there are none, or they are damaged, make them anew."""
    fields = _read(path)
    if fields is None:
        if os.path.lexists(path):
            warnings.warn(f"The glyph faces '{path}' were damaged; they are made again.", stacklevel=3)
        fields = make_atlas()
        if _digest(fields) == DIGEST:  # fonts of another release could not be told from damage
            _keep(fields, path)
    fields.setflags(write=False)
    return fields


def _read(path: Path) -> Atlas | None:
    """Return what a file holds, if that is what this module makes."""
    try:
        content = read_bounded(path, MOST_BYTES)
        fields: Atlas = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except Exception:  # NumPy meets broken files with errors of many kinds
        return None
    return fields if _digest(fields) == DIGEST else None


def _keep(fields: Atlas, path: Path) -> None:
    content = io.BytesIO()
    np.save(content, fields, allow_pickle=False)
    with cannot_write("file", path):
        remove(path)
    write_atomically(path, content.getvalue())


def _digest(fields: Atlas) -> str:
    return sha256(f"{fields.dtype} {fields.shape}".encode() + fields.tobytes()).hexdigest()


def make_atlas() -> Atlas:
    """Compute all fields from the font files (a few seconds)."""
    with ThreadPoolExecutor(usable_cores()) as pool:
        return np.stack(list(pool.map(face_fields, FACES)))


def face_fields(face: str) -> Atlas:
    """Compute the fields `[character, GRID, GRID]` of one face."""
    outlines = read_outlines(face)
    capital_height = extent(outlines["H"])[1]
    return np.stack([distance_field(fit(outlines[c], capital_height)) for c in CHARACTERS])


def read_outlines(face: str) -> dict[str, list[Contour]]:
    """Read each character of a face as closed polygons in font units."""
    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{face}.ttf"
    try:
        with _without_date_warnings(), TTFont(path) as font:
            glyphs, name_of = font.getGlyphSet(), font.getBestCmap()
            outlines = {}
            for character in CHARACTERS:
                pen = DecomposingRecordingPen(glyphs)
                glyphs[name_of[ord(character)]].draw(pen)
                outlines[character] = polygons(pen.value)
            return outlines
    except OSError as error:
        raise TurboSVMError(f"Cannot read matplotlib's font '{path}': {error.strerror or error}.") from error


@contextmanager
def _without_date_warnings() -> Iterator[None]:
    """Some faces carry a creation date before 1970, which fontTools would report on the terminal."""
    log = logging.getLogger("fontTools.ttLib.tables._h_e_a_d")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def polygons(commands: list[tuple[str, tuple[Any, ...]]]) -> list[Contour]:
    """Turn pen commands (lines and quadratic curves) into polygons, each curve cut into CURVE_PIECES."""
    contours: list[Contour] = []
    for command, points in commands:
        match command:
            case "moveTo":
                contours.append([points[0]])
            case "lineTo":
                contours[-1].append(points[0])
            case "qCurveTo":
                if points[-1] is None:  # a closed curve with control points only, begun by no moveTo
                    start = _middle(points[-2], points[0])
                    contours.append([start])
                    points = (*points[:-1], start)
                for control, end in decomposeQuadraticSegment(points):
                    contours[-1].extend(_curve(contours[-1][-1], control, end))
            case "closePath":
                pass
            case _:
                raise TurboSVMError(f"Glyph outlines must be lines and quadratic curves, not '{command}'.")
    return contours


def _middle(a: Point, b: Point) -> Point:
    return (a[0] + b[0]) / 2, (a[1] + b[1]) / 2


def _curve(start: Point, control: Point, end: Point) -> Contour:
    def between(a: float, b: float, c: float, t: float) -> float:
        return (1 - t) * (1 - t) * a + 2 * t * (1 - t) * b + t * t * c

    times = [piece / CURVE_PIECES for piece in range(1, CURVE_PIECES + 1)]
    return [(between(start[0], control[0], end[0], t), between(start[1], control[1], end[1], t)) for t in times]


def _box(contours: list[Contour]) -> tuple[float, float, float, float]:
    xs = [x for contour in contours for x, _ in contour]
    ys = [y for contour in contours for _, y in contour]
    return min(xs), min(ys), max(xs), max(ys)


def extent(contours: list[Contour]) -> Point:
    """Return the width and height of an outline."""
    left, low, right, high = _box(contours)
    return right - left, high - low


def fit(contours: list[Contour], capital_height: float) -> list[Contour]:
    """Centre a character on (0, 0), its y axis down, so that all characters fill a frame about equally.

    Low letters grow and those with tails shrink towards the height of a capital, as people do who write into boxes;
    o and O stay apart by size, but not by much. Wide ones are squeezed.
    """
    left, low, right, high = _box(contours)
    width, height = (right - left) / capital_height, (high - low) / capital_height
    zoom = 1 / (0.4 + 0.6 * height)
    squeeze = min(1.0, TALLEST / (width * zoom))
    x_scale, y_scale = squeeze * zoom / capital_height, zoom / capital_height
    x_middle, y_middle = (left + right) / 2, (low + high) / 2
    return [[((x - x_middle) * x_scale, (y_middle - y) * y_scale) for x, y in contour] for contour in contours]


def distance_field(contours: list[Contour]) -> npt.NDArray[np.int8]:
    """Measure the distance of each grid point `[y, x]` to the outline, in LEVELs, positive where there is ink."""
    starts = np.array([point for contour in contours for point in contour], dtype=np.float32)
    ends = np.array([point for contour in contours for point in contour[1:] + contour[:1]], dtype=np.float32)
    moves = np.any(starts != ends, axis=1)
    starts, ends = starts[moves], ends[moves]
    axis = ((np.arange(GRID) - (GRID - 1) / 2) * CELL).astype(np.float32)
    distance = np.sqrt(_squared_distance(starts, ends, axis))
    signed = np.where(_winding(starts, ends, axis) != 0, distance, -distance)
    return np.clip(np.rint(signed / np.float32(LEVEL)), -127, 127).astype(np.int8)


def _squared_distance(starts: Floats, ends: Floats, axis: Floats) -> Floats:
    """Squared distance to the nearest of the segments, `[y, x]`."""
    dx, dy = ends[:, 0] - starts[:, 0], ends[:, 1] - starts[:, 1]
    from_x, from_y = axis[:, None] - starts[:, 0], axis[:, None] - starts[:, 1]
    squared_length = dx * dx + dy * dy
    along = (from_x * dx + (from_y * dy)[:, None]) / squared_length
    np.maximum(along, np.float32(0), out=along)
    np.minimum(along, np.float32(1), out=along)
    off_x, off_y = from_x - along * dx, from_y[:, None] - along * dy
    off_x *= off_x
    off_y *= off_y
    off_x += off_y
    nearest: Floats = np.min(off_x, axis=2)
    return nearest


def _winding(starts: Floats, ends: Floats, axis: Floats) -> npt.NDArray[np.int8]:
    """How often the outline goes round each grid point, `[y, x]`: outlines may overlap, so parity would not do."""
    below_start, below_end = axis[:, None] >= starts[:, 1], axis[:, None] >= ends[:, 1]
    turn = below_start.astype(np.int8) - below_end.astype(np.int8)
    dy = ends[:, 1] - starts[:, 1]
    slope = (ends[:, 0] - starts[:, 0]) / np.where(dy == 0, np.float32(1), dy)
    crossing = starts[:, 0] + (axis[:, None] - starts[:, 1]) * slope
    to_the_right = crossing[:, None, :] > axis[None, :, None]
    turns: npt.NDArray[np.int8] = np.sum(to_the_right * turn[:, None, :], axis=2, dtype=np.int8)
    return turns


@cache
def stroke_half_width() -> tuple[int, ...]:
    """Return a typical half width of each face's main strokes, in LEVELs: the median over its characters."""
    deepest = np.sort(atlas().max(axis=(2, 3)), axis=1)
    return tuple(int(width) for width in deepest[:, len(CHARACTERS) // 2])
