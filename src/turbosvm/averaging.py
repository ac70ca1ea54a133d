"""Weighted means over a cohort, the step that all server rules share."""

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from turbosvm import averaging_cuda
from turbosvm.blocks import Block, chosen
from turbosvm.transfer import sent_to

AT_A_TIME = 2**15
"""Numbers of a model that are averaged at a time on the CPU, so that what is needed on the way stays in its caches.

PyTorch starts no threads for so few: they would wait for one another at each of many short operations.
"""


def shares(samples: Tensor) -> Tensor:
    """|D_n| / |D_G| of each client, in float64 so that large counts keep their digits."""
    counts = samples.double()
    return counts / counts.sum()


def weighted_mean(stacked: Tensor, samples: Tensor) -> Tensor:
    """Mean over the first axis, weighted by sample counts: sum_n |D_n| / |D_G| theta_n.

    Numbers on which all clients agree (a frozen layer, a mask of infinities) come out exactly as they went in.
    """
    weights = shares(samples)
    if not stacked.is_cuda:
        return _mean_on_cpu(stacked.reshape(len(stacked), -1), weights).view(stacked.shape[1:])
    weights = sent_to(weights.to(stacked.dtype), stacked.device)
    return averaging_cuda.mean(stacked, weights) if averaging_cuda.takes(stacked) else _mean(stacked, weights)


def _mean(stacked: Tensor, weights: Tensor) -> Tensor:
    first = stacked[0]
    mean: Tensor = first + torch.tensordot(weights, stacked - first, dims=1)
    return torch.where((stacked == first).all(dim=0), first, mean)


def _mean_on_cpu(stacked: Tensor, weights: Tensor) -> Tensor:
    """The mean of rows, some columns at a time."""
    mean = torch.empty_like(stacked[0])
    for part, place in zip(stacked.split(AT_A_TIME, dim=1), mean.split(AT_A_TIME), strict=True):
        _mean_into(place, part, weights)
    return mean


def _mean_into(mean: Tensor, stacked: Tensor, weights: Tensor) -> None:
    """Put the mean into its place, by sums in place where all numbers are finite: a third of the time."""
    first, change = stacked[0], torch.empty_like(mean)
    if first.dtype.itemsize >= 4:  # in half precision, sums would be rounded at every client
        mean.zero_()
        for one, weight in zip(stacked[1:], weights.tolist()[1:], strict=True):
            mean.add_(torch.sub(one, first, out=change), alpha=weight)
        if mean.add_(first).sum().isfinite():
            return
    mean.copy_(_mean(stacked, weights.to(stacked)))


def weighted_means(
    stacked: Mapping[str, Tensor], samples: Tensor, names: Collection[str] | None = None
) -> Mapping[str, Tensor]:
    """The weighted mean of each, or of those of some names; of all of them at once, where they lie in a block."""
    names = stacked.keys() if names is None else names
    if isinstance(stacked, Block):
        return chosen(Block(stacked.layout, [_merged(piece, samples) for piece in stacked.pieces]), names)
    return {name: _merged(stacked[name], samples) for name in names}


def _merged(stacked: Tensor, samples: Tensor) -> Tensor:
    """The weighted mean; counters (integers), such as BatchNorm's, take the largest."""
    whole = not (stacked.is_floating_point() or stacked.is_complex())
    return stacked.amax(dim=0) if whole else weighted_mean(stacked, samples)
