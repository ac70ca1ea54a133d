"""Text at a glance: what some users say, one of their samples each, and how often each character is to be guessed.

A sample is a window of text and the character after it. The sheet shows the window, the character to guess in a box,
and, faintly, how the text goes on.
"""

import io
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from turbosvm.data.summary import count_classes
from turbosvm.data.windows import Windows
from turbosvm.files import write_atomically

if TYPE_CHECKING:
    from turbosvm.data.federated import FederatedData

# Lengths on the sheet are in pixels.
DPI = 100
MARGIN, HEADING, ROW, USER_NAME, SHARE = 14, 44, 24, 190, 118
USERS = 16
FONT, MONO, SIZE, MONO_SIZE = "DejaVu Sans", "DejaVu Sans Mono", 7.5, 8.0
AFTER = 32  # characters that are shown after the one to guess
BAR_ROWS, BAR_BLOCKS, BAR_ROW = 20, 4, 19
SIGNS = {"\n": "↵", " ": "␣", "\t": "→"}
ELLIPSIS, LEAD_IN, NO_SIGN = "…", "·", "□"
BLUE, DARK, MIDDLE, FAINT = "#0072B2", "0.15", "0.35", "0.62"
HEADLINE: dict[str, Any] = {"size": 11, "weight": "bold", "color": "black"}
TYPED: dict[str, Any] = {"family": MONO, "size": MONO_SIZE}


@dataclass(frozen=True)
class Line:
    """A sample of a user: the text before (`lead_in` characters only fill it up), the one to guess, the text after."""

    user: str
    lead_in: int
    before: str
    guess: str
    after: str


def save(path: Path, data: "FederatedData") -> None:
    """Write one PNG with some users' text on the left and the characters' shares on the right."""
    write_png(draw(data), path)


def lines(data: "FederatedData", users: int = USERS) -> tuple[Line, ...]:
    """Choose users who have samples from all over the data, and a sample at the beginning of what each says."""
    speaking = np.flatnonzero(data.counts)
    chosen = speaking[np.unique(np.linspace(0, len(speaking) - 1, min(users, len(speaking))).round().astype(int))]
    return tuple(_line(data, int(user)) for user in chosen)


def shares(data: "FederatedData", most: int = BAR_ROWS * BAR_BLOCKS) -> tuple[tuple[str, float], ...]:
    """Return the most frequent characters, and the share of samples in which each is to be guessed."""
    counts = count_classes(data)
    order = np.argsort(-counts, kind="stable")[:most]
    return tuple((data.classes[place], float(counts[place]) / max(len(data.labels), 1)) for place in order)


def sign(character: str) -> str:
    """Make a character visible that is not; what is no single character gets a box."""
    return SIGNS.get(character, character if len(character) == 1 and character.isprintable() else NO_SIGN)


def fitted(text: str, width: float, size: float = SIZE) -> str:
    """Shorten a text in the middle until it fits into `width` pixels, as ends of names tell them apart as well."""
    if pixels(text, size) <= width:
        return text
    kept = bisect_right(range(len(text)), width, key=lambda kept: pixels(_without_middle(text, kept), size)) - 1
    return _without_middle(text, max(kept, 0))


def pixels(text: str, size: float = SIZE, family: str = FONT) -> float:
    """Return how long a text is on the sheet, as it is drawn."""
    drawn = Figure(dpi=DPI).text(0, 0, text, size=size, family=family, parse_math=False)
    return float(drawn.get_window_extent().width)


def write_png(figure: Figure, path: Path) -> None:
    """Write a sheet as PNG, whole or not at all."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=DPI, pil_kwargs={"optimize": True})
    write_atomically(path, content.getvalue())


def draw(data: "FederatedData") -> Figure:
    """Draw the sheet."""
    shown, bars = lines(data), shares(data)
    step = pixels("MM", MONO_SIZE, MONO) - pixels("M", MONO_SIZE, MONO)
    window = max((len(line.before) for line in shown), default=0)
    text_width = USER_NAME + (window + 2 + AFTER) * step
    bar_rows = -(-len(bars) // BAR_BLOCKS)
    width = 4 * MARGIN + text_width + BAR_BLOCKS * SHARE
    height = HEADING + max(len(shown) * ROW, bar_rows * BAR_ROW) + MARGIN
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="white")
    sheet = figure.add_axes((0, 0, 1, 1))
    sheet.set(xlim=(0, width), ylim=(height, 0))
    sheet.axis("off")
    _write_lines(sheet, shown, window, step)
    _draw_shares(sheet, bars, bar_rows, 3 * MARGIN + text_width)
    return figure


def _without_middle(text: str, kept: int) -> str:
    return text[: kept // 2] + ELLIPSIS + text[len(text) - (kept - kept // 2) :]


def _write_lines(sheet: Axes, shown: Sequence[Line], window: int, step: float) -> None:
    """Write a row for each user, so that the characters to guess stand under each other."""
    _write(sheet, MARGIN, HEADING / 2, "Each user, a sample: some text, and the next character to guess", **HEADLINE)
    guess_at = MARGIN + USER_NAME + (window + 0.5) * step
    for place, line in enumerate(shown):
        y = HEADING + (place + 0.5) * ROW
        _write(sheet, MARGIN + USER_NAME - 10, y, fitted(line.user, USER_NAME - 10), ha="right")
        begin = guess_at - (len(line.before) + 0.5) * step
        _write(sheet, begin, y, LEAD_IN * line.lead_in, color=FAINT, **TYPED)
        _write(sheet, begin + line.lead_in * step, y, line.before[line.lead_in :], color=DARK, **TYPED)
        sheet.add_patch(Rectangle((guess_at - 0.2 * step, y - 8), 1.4 * step, 16, color=BLUE, linewidth=0))
        _write(sheet, guess_at + step / 2, y, line.guess, color="white", ha="center", weight="bold", **TYPED)
        _write(sheet, guess_at + 1.5 * step, y, line.after, color=FAINT, **TYPED)


def _draw_shares(sheet: Axes, bars: Sequence[tuple[str, float]], rows: int, left: float) -> None:
    """Draw a bar for each character, from the most frequent on, in blocks side by side."""
    _write(sheet, left, HEADING / 2, "Each character, how often it is to guess", **HEADLINE)
    highest = max((share for _, share in bars), default=0.0) or 1.0
    for place, (character, share) in enumerate(bars):
        block, row = divmod(place, rows)
        x, y = left + block * SHARE, HEADING + (row + 0.5) * BAR_ROW
        length = share / highest * (SHARE - 64)
        _write(sheet, x + 6, y, sign(character), color=DARK, ha="center", **TYPED)
        sheet.add_patch(Rectangle((x + 16, y - 5), length, 10, color=BLUE, linewidth=0))
        _write(sheet, x + 20 + length, y, _percent(share), size=6.5)


def _write(sheet: Axes, x: float, y: float, words: str, **kind: Any) -> None:
    sheet.text(x, y, words, **{"va": "center", "size": SIZE, "color": MIDDLE, "parse_math": False, **kind})


def _line(data: "FederatedData", user: int) -> Line:
    """Take the user's first sample; where its window is all lead-in, one further on in the same segment."""
    first = int(data.offsets[user])
    end = min(_end_of_segment(data, first), int(data.offsets[user + 1]))
    ahead = min(_lead_in(data.inputs[first]) // 2, 2 * (end - first) // 3)
    window = data.inputs[first + ahead]
    lead_in = _lead_in(window)
    guess, *after = data.labels[first + ahead : min(first + ahead + AFTER + 1, end)]
    return Line(data.users[user], lead_in, _as_text(data, window), _as_text(data, [guess]), _as_text(data, after))


def _end_of_segment(data: "FederatedData", place: int) -> int:
    """Return where the text that a sample stands in ends."""
    if not isinstance(data.inputs, Windows):
        return place + 1
    segments = data.inputs.segments
    return int(segments[np.searchsorted(segments, place, side="right")])


def _lead_in(window: npt.NDArray[Any]) -> int:
    """Count the tokens that do nothing but fill a window up: one and the same, more than twice, at its beginning."""
    others = np.flatnonzero(window != window[0])
    run = int(others[0]) if len(others) else len(window)
    return run if run > 2 else 0


def _as_text(data: "FederatedData", tokens: Iterable[Any]) -> str:
    """Turn tokens into characters that can be seen; spaces stay spaces, but for one that stands alone."""
    signs = "".join(sign(data.classes[token]) if token < len(data.classes) else NO_SIGN for token in tokens)
    return signs if len(signs) == 1 else signs.replace(SIGNS[" "], " ")


def _percent(share: float) -> str:
    if share == 0:
        return "none"
    return f"{share:.1%}" if share >= 0.00995 else f"{share:.2%}" if share >= 0.0001 else "<0.01%"
