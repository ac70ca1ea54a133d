"""Products of large matrices, in pieces that several threads share."""

from itertools import pairwise

from torch import Tensor, mm

from turbosvm.workers import side_by_side

LEAST_PER_THREAD = 2**28
"""Multiplications that make a thread worth its start: a few milliseconds of work."""
COLUMNS = 256
"""Of a piece; the last has the rest, too. Of narrow products, libraries sum up in another order."""


def product(left: Tensor, right: Tensor) -> Tensor:
    """left @ right, for matrices; on the CPU in pieces, where that is work for more than one thread."""
    size, width = left.shape[0] * right.numel(), right.shape[1]
    if left.is_cuda or size < 2 * LEAST_PER_THREAD:
        return left @ right
    result = left.new_empty(left.shape[0], width)

    def fill(piece: tuple[int, int]) -> None:
        start, end = piece
        mm(left, right[:, start:end], out=result[:, start:end])

    pieces = list(pairwise([*range(0, max(COLUMNS, width - COLUMNS + 1), COLUMNS), width]))
    side_by_side(fill, pieces, size, LEAST_PER_THREAD)
    return result
