"""How many users have how many samples: bins, bars for a terminal, and a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

COLOUR, TAIL_COLOUR = "#0072B2", "#56B4E9"
MOST_BINS = 20
STEPS = (1, 2, 2.5, 5)
# From nothing to full, for a cell of a bar that runs to the right, and of one that stands.
BLOCKS, PLAIN_BLOCKS = " ▏▎▍▌▋▊▉█", " #"
PILLARS, PLAIN_PILLARS = " ▁▂▃▄▅▆▇█", " .:-=+*#"

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Histogram:
    """Bin i holds the users with `edges[i]` to `edges[i + 1] - 1` samples; an open last bin, those with more, too."""

    edges: tuple[int, ...]
    users: tuple[int, ...]
    open_end: bool

    @property
    def names(self) -> tuple[str, ...]:
        """What each bin holds, in words."""
        names = [_name(low, high - 1) for low, high in zip(self.edges, self.edges[1:], strict=False)]
        if self.open_end:
            names[-1] = f"{self.edges[-2]:,} and more"
        return tuple(names)


def histogram(counts: Counts, most: int = MOST_BINS) -> Histogram:
    """Sort users by their samples into at most `most` bins of a round width, and one more for the end of a long tail.

    The tail is long where the largest user has more than twice the samples that 99 of 100 users stay below.
    """
    if not len(counts):
        return Histogram((0, 1), (0,), open_end=False)
    lowest, highest = int(counts.min()), int(counts.max())
    usual = int(np.quantile(counts, 0.99))
    open_end = highest > 2 * max(usual, 1)
    if not open_end:
        usual = highest
    width = next(width for width in _round_widths() if usual // width - lowest // width < most)
    first, last = lowest // width, usual // width + open_end
    edges = np.arange(first, last + 2) * width
    bins = np.minimum(counts // width - first, last - first)
    users = np.bincount(bins, minlength=last - first + 1)
    return Histogram(tuple(edges.tolist()), tuple(users.tolist()), open_end)


def lines(bars: Histogram, width: int = 40, blocks: str = BLOCKS) -> list[str]:
    """Draw the bins as lines of text: what a bin holds, its bar, its number of users."""
    names, highest = bars.names, max(bars.users)
    longest = max(map(len, names))
    return [
        f"{name:>{longest}} {bar(users / max(highest, 1), width, blocks)} {users:,}".rstrip()
        for name, users in zip(names, bars.users, strict=True)
    ]


def bar(share: float, width: int, blocks: str = BLOCKS) -> str:
    """Draw a bar of a share of `width` cells; what is more than nothing can be seen."""
    levels = len(blocks) - 1
    filled = max(round(share * width * levels), int(share > 0))
    whole, part = divmod(filled, levels)
    return blocks[-1] * whole + (blocks[part] if part else "")


def pillars(values: Sequence[int] | Counts, blocks: str = PILLARS) -> str:
    """Draw numbers as pillars, a character each; what is more than nothing can be seen."""
    levels, highest = len(blocks) - 1, max(*values, 1)
    return "".join(blocks[max(round(int(value) / highest * levels), int(value > 0))] for value in values)


def draw(bars: Histogram, counts: Counts, title: str) -> Figure:
    """Draw the bins as a picture, with the mean."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained", dpi=150)
    panel = figure.subplots()
    edges = np.array(bars.edges) - 0.5  # a bar stands around its whole numbers
    colours = [COLOUR] * len(bars.users)
    if bars.open_end:
        colours[-1] = TAIL_COLOUR
    panel.bar(edges[:-1], bars.users, np.diff(edges), align="edge", color=colours, edgecolor="white", linewidth=0.6)
    note: dict[str, Any] = {"textcoords": "offset points", "color": "0.35", "fontsize": 8}
    if bars.open_end:
        top = ((edges[-2] + edges[-1]) / 2, bars.users[-1])
        panel.annotate(f"{bars.names[-1]}\n(up to {counts.max():,})", top, (0, 4), ha="right", **note)
    mean = float(counts.mean()) if len(counts) else 0.0
    panel.axvline(mean, color="0.45", linewidth=1, linestyle="--")
    panel.annotate(f"mean {mean:,.1f}", (mean, 1), (4, -3), xycoords=("data", "axes fraction"), va="top", **note)
    panel.set(xlabel="samples per user", ylabel="users")
    panel.set_title(title, fontsize=11, parse_math=False)
    panel.set_xlim(edges[0], edges[-1])
    panel.margins(y=0.12)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    panel.yaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    panel.grid(alpha=0.25)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
    return figure


def _round_widths() -> Sequence[int]:
    """1, 2, 5, 10, 20, 25, 50, 100, ...: widths of bins that people read easily."""
    return [int(step * 10**power) for power in range(18) for step in STEPS if step * 10**power % 1 == 0]


def _name(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} - {high:,}"
