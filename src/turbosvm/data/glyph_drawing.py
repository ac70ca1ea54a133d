"""Ink on paper: the arithmetic half of the glyphs.

Only element-wise addition, multiplication, division, minimum, maximum and floor, which IEEE 754 fixes to the last bit;
no sine, no matrix product and no sum over an axis, which differ between processors.
"""

import numpy as np
import numpy.typing as npt

from turbosvm.data.glyph_faces import CELL, CHARACTERS, GRID, LEVEL, atlas
from turbosvm.data.glyph_styles import NODES, Hands

Floats = npt.NDArray[np.float32]

SIDE = 28
SPANS = NODES - 2
SPAN = SIDE // SPANS


def draw(hands: Hands, labels: npt.NDArray[np.uint8], grain: npt.NDArray[np.int8]) -> npt.NDArray[np.uint8]:
    """Draw each sample; `grain` is noise `[n, SIDE, SIDE]`, evenly spread over all int8."""
    x, y = _bent_page(hands)
    ink = _ink(hands, _field_at(hands, labels, x, y))
    return _grey(hands, ink, grain)


def _each(values: Floats) -> Floats:
    return values[:, None, None]


def _bent_page(hands: Hands) -> tuple[Floats, Floats]:
    """Return where each pixel lies from the character's middle once the writer's bends are taken out, in pixels."""
    axis = np.arange(SIDE, dtype=np.float32) - np.float32((SIDE - 1) / 2)
    x = bend(hands.bend[:, 0])
    x += axis
    x -= _each(hands.shift_x)
    y = bend(hands.bend[:, 1])
    y += axis[:, None]
    y -= _each(hands.shift_y)
    return x, y


def bend(nodes: Floats) -> Floats:
    """Spread displacements at the nodes over the pixels, `[n, SIDE, SIDE]`, as a quadratic B-spline.

    It is as cheap as linear interpolation between nodes, and leaves no kinks in strokes.
    """
    return _spline(_spline(nodes.swapaxes(1, 2)).swapaxes(1, 2))


def _spline(nodes: Floats) -> Floats:
    """Go from NODES to SIDE values along the last axis."""
    t = (np.arange(SPAN, dtype=np.float32) + np.float32(0.5)) / np.float32(SPAN)
    half, one = np.float32(0.5), np.float32(1)
    first, last = half * (one - t) * (one - t), half * t * t
    middle = one - first - last
    spline = nodes[..., :-2, None] * first
    spline += nodes[..., 1:-1, None] * middle
    spline += nodes[..., 2:, None] * last
    return spline.reshape(*nodes.shape[:-1], SIDE)


def _field_at(hands: Hands, labels: npt.NDArray[np.uint8], x: Floats, y: Floats) -> Floats:
    """Read the distance fields of the samples' characters at page positions, between grid points linearly."""
    per_x, per_y = (_each(np.float32(1 / CELL) / size) for size in (hands.width, hands.height))
    column, right = _cell((x + _each(hands.slant) * y) * per_x)
    row, low = _cell((y - _each(hands.rise) * x) * per_y)
    fields = atlas()
    start = (hands.face * len(CHARACTERS) + labels).astype(np.int32) * np.int32(GRID * GRID)
    corner = row * np.int32(GRID) + column + start[:, None, None]
    flat = fields.reshape(-1)

    def at(offset: int) -> Floats:
        return flat[offset:].take(corner, mode="clip").astype(np.float32)

    above, below = at(0), at(GRID)
    above += right * (at(1) - above)
    below += right * (at(GRID + 1) - below)
    below -= above
    below *= low
    below += above
    return below


def _cell(position: Floats) -> tuple[npt.NDArray[np.int32], Floats]:
    """Split a position on the grid into a cell and the way through it; what is off the grid sticks to its border."""
    position += np.float32((GRID - 1) / 2)
    np.maximum(position, np.float32(0), out=position)
    np.minimum(position, np.float32(GRID - 1.001), out=position)
    whole = np.floor(position)
    position -= whole
    return whole.astype(np.int32), position


def _ink(hands: Hands, field: Floats) -> Floats:
    """Turn distances into how much of each pixel is inked, 0 to 1, over a soft edge."""
    steepness = np.float32(LEVEL) * hands.height / hands.edge
    field *= _each(steepness)
    field += _each(hands.bolder * hands.height / hands.edge + np.float32(0.5))
    np.maximum(field, np.float32(0), out=field)
    np.minimum(field, np.float32(1), out=field)
    return field


def _grey(hands: Hands, ink: Floats, grain: npt.NDArray[np.int8]) -> npt.NDArray[np.uint8]:
    """Turn ink into greys, paper white and ink black, each with a grain of its own."""
    noise = ink * _each(hands.ink_grain - hands.paper_grain)
    noise += _each(hands.paper_grain)
    noise *= grain
    noise *= np.float32(1 / 128)
    ink *= _each(hands.ink - hands.paper)
    ink += _each(hands.paper + np.float32(0.5))
    ink += noise
    np.maximum(ink, np.float32(0), out=ink)
    np.minimum(ink, np.float32(255), out=ink)
    return ink.astype(np.uint8)
