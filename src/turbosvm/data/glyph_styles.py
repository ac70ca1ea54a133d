"""Who writes what, and how: the random half of the glyphs.

Every number comes from the raw 64-bit integers of PCG64, whose stream NumPy promises to keep (it does not promise that
for the methods of its Generator), and reaches a style by element-wise arithmetic. Where a logarithm or an exponential
is wanted, the result is rounded to an integer at once, so that the last bit of a mathematics library cannot show.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from turbosvm.data.glyph_faces import CHARACTERS, FACES, LEVEL, stroke_half_width
from turbosvm.randomness import stream_key

Floats = npt.NDArray[np.float32]
Raw = npt.NDArray[np.uint64]

# FEMNIST's samples per user: mean 226.8, standard deviation 88.9.
STD_OVER_MEAN = 88.9 / 226.8

# Half the samples are digits, a quarter capitals, a quarter small letters: 26 shares for each of ten digits, five for
# each letter.
POPULATION_WEIGHTS = tuple(26 if character.isdigit() else 5 for character in CHARACTERS)
LABEL_SKEW = 0.8

# The displacements that bend a character are given at the nodes of a NODES x NODES mesh, in x and in y.
NODES = 6


@dataclass(frozen=True)
class Spread:
    """The range that a quantity of a style is drawn from, evenly."""

    low: float
    high: float

    def at(self, uniform: npt.NDArray[np.float64]) -> Floats:
        """Return the values at these points of the range, 0 being its low end and 1 its high end."""
        return (self.low + (self.high - self.low) * uniform).astype(np.float32)


# What differs between writers. Lengths are in pixels of the 28 x 28 frame, greys from 0 (ink) to 255 (paper).
SLANT = Spread(-0.15, 0.45)
RISE = Spread(-0.12, 0.12)
CAPITAL_HEIGHT = Spread(16.5, 20.0)
ASPECT = Spread(0.8, 1.15)
SHIFT = Spread(-1.4, 1.4)
STROKE_HALF_WIDTH = Spread(0.075, 0.125)
EDGE = Spread(0.9, 1.5)
PAPER = Spread(243.0, 255.0)
INK = Spread(0.0, 40.0)
PAPER_GRAIN = Spread(0.0, 12.0)
INK_GRAIN = Spread(5.0, 50.0)
# A writer's own way with each character, and what is left to chance each time.
HABIT = Spread(1.5, 5.0)
CHANCE = Spread(0.5, 2.0)

# What differs from one sample of a writer to the next.
SLANT_JITTER = Spread(-0.07, 0.07)
HEIGHT_JITTER = Spread(0.93, 1.07)
SHIFT_JITTER = Spread(-0.7, 0.7)

# How much a stroke may be thinned or thickened away from its face, in heights of a capital: hairlines must survive.
THINNEST, BOLDEST = -0.03, 0.05

STYLE_UNIFORMS = 14
JITTER_UNIFORMS = 4


@dataclass(frozen=True)
class Hands:
    """How each of n samples is drawn; arrays of n, in the units of the spreads above."""

    face: npt.NDArray[np.int64]
    slant: Floats
    rise: Floats
    width: Floats
    height: Floats
    shift_x: Floats
    shift_y: Floats
    bolder: Floats
    edge: Floats
    paper: Floats
    ink: Floats
    paper_grain: Floats
    ink_grain: Floats
    bend: Floats
    """`[n, 2, NODES, NODES]`: displacements in x and y."""


@dataclass(frozen=True)
class Stream:
    """The random numbers of one writer, each purpose having its own, so that none shifts another."""

    seed: int
    user: int

    def raw(self, purpose: str, count: int) -> Raw:
        """Return `count` random 64-bit integers."""
        key = stream_key(self.seed, "glyphs", self.user, purpose)
        numbers: Raw = np.random.PCG64(key).random_raw(count)
        return numbers

    def uniform(self, purpose: str, *shape: int) -> npt.NDArray[np.float64]:
        """Return numbers evenly spread inside (0, 1), neither end included."""
        bits = self.raw(purpose, math.prod(shape)).reshape(shape) >> np.uint64(12)
        # 52 bits and a half: exact in a double.
        return (bits.astype(np.float64) + 0.5) * 2.0**-52

    def triangular(self, purpose: str, *shape: int) -> npt.NDArray[np.float64]:
        """Return numbers inside (-1, 1), those near 0 being likelier."""
        return self.uniform(f"{purpose}, first half", *shape) - self.uniform(f"{purpose}, second half", *shape)


def draw_count(stream: Stream, mean: float) -> int:
    """Draw how many samples a writer has."""
    return count_at(float(stream.uniform("count", 1)[0]), mean)


def count_at(quantile: float, mean: float) -> int:
    """Return a quantile of the counts: lognormal with the given mean and FEMNIST's ratio of deviation to mean."""
    variance = math.log(1 + STD_OVER_MEAN * STD_OVER_MEAN)
    normal = NormalDist().inv_cdf(quantile)
    return max(1, round(math.exp(math.log(mean) - variance / 2 + math.sqrt(variance) * normal)))


def draw_own_weights(stream: Stream) -> tuple[int, ...]:
    """Draw how often a writer writes each character, relative to the others.

    The average over writers is the population's distribution, exactly: characters of a kind (digits, capitals, small
    letters) are skewed alike, and the shares of the kinds are even about the population's.
    """
    digits, capitals = (0.3 + 0.4 * float(u) for u in stream.uniform("kinds", 2))
    shares = (digits, (1 - digits) * capitals, (1 - digits) * (1 - capitals))
    normals = [NormalDist().inv_cdf(float(u)) for u in stream.uniform("skew", len(CHARACTERS))]
    liking = [math.exp(LABEL_SKEW * normal) for normal in normals]
    weights: list[int] = []
    for share, kind in zip(shares, (liking[:10], liking[10:36], liking[36:]), strict=True):
        total = math.fsum(kind)
        weights += [round(2**24 * share * each / total) for each in kind]
    return tuple(weights)


def draw_labels(stream: Stream, own: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    """Draw a label for each sample, from the writer's own distribution or from the population's."""
    numbers = stream.raw("label", len(own)) >> np.uint64(32)
    labels = _pick(POPULATION_WEIGHTS, numbers)
    labels[own] = _pick(draw_own_weights(stream), numbers[own])
    return labels


def _pick(weights: tuple[int, ...], numbers: Raw) -> npt.NDArray[np.uint8]:
    """Map 32-bit random numbers to indices, each as likely as its weight."""
    upto = np.cumsum(np.array(weights, dtype=np.uint64))
    labels: npt.NDArray[np.uint8] = np.searchsorted(upto, (numbers * upto[-1]) >> np.uint64(32), side="right").astype(
        np.uint8
    )
    return labels


def draw_own(stream: Stream, count: int, heterogeneity: float) -> npt.NDArray[np.bool_]:
    """Draw which samples are in the writer's own hand; the others are in that of a stranger each."""
    return stream.uniform("own", count) < heterogeneity


def draw_hands(stream: Stream, labels: npt.NDArray[np.uint8], own: npt.NDArray[np.bool_]) -> Hands:
    """Draw how each sample is written."""
    n, mesh = len(labels), (2, NODES, NODES)
    style = np.broadcast_to(stream.uniform("style", STYLE_UNIFORMS), (n, STYLE_UNIFORMS))
    habit = stream.triangular("habit", len(CHARACTERS), *mesh)[labels]
    if not own.all():
        style = np.where(own[:, None], style, stream.uniform("strangers' style", n, STYLE_UNIFORMS))
        habit = np.where(own[:, None, None, None], habit, stream.triangular("strangers' habit", n, *mesh))
    return _hands(style.T, stream.uniform("jitter", JITTER_UNIFORMS, n), habit, stream.triangular("chance", n, *mesh))


def _hands(
    style: npt.NDArray[np.float64],
    jitter: npt.NDArray[np.float64],
    habit: npt.NDArray[np.float64],
    chance: npt.NDArray[np.float64],
) -> Hands:
    face = np.floor(style[0] * len(FACES)).astype(np.int64)
    height = CAPITAL_HEIGHT.at(style[3]) * HEIGHT_JITTER.at(jitter[0])
    own_half_width = np.array(stroke_half_width(), dtype=np.float32)[face] * np.float32(LEVEL)
    bolder = STROKE_HALF_WIDTH.at(style[7]) - own_half_width
    habit_size, chance_size = HABIT.at(style[12]), CHANCE.at(style[13])
    return Hands(
        face=face,
        slant=SLANT.at(style[1]) + SLANT_JITTER.at(jitter[1]),
        rise=RISE.at(style[2]),
        width=height * ASPECT.at(style[4]),
        height=height,
        shift_x=SHIFT.at(style[5]) + SHIFT_JITTER.at(jitter[2]),
        shift_y=SHIFT.at(style[6]) + SHIFT_JITTER.at(jitter[3]),
        bolder=np.minimum(np.maximum(bolder, np.float32(THINNEST)), np.float32(BOLDEST)),
        edge=EDGE.at(style[8]),
        paper=PAPER.at(style[9]),
        ink=INK.at(style[10]),
        paper_grain=PAPER_GRAIN.at(style[11]),
        ink_grain=INK_GRAIN.at(style[11]),
        bend=habit.astype(np.float32) * _over_mesh(habit_size) + chance.astype(np.float32) * _over_mesh(chance_size),
    )


def _over_mesh(sizes: Floats) -> Floats:
    return sizes[:, None, None, None]
