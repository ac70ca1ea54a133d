"""Weighted means over a cohort, the step that all server rules share."""

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from turbosvm import averaging_cuda
from turbosvm.blocks import Block
from turbosvm.transfer import sent_to

AT_A_TIME = 2**16
"""Numbers of a model that are averaged at a time on the CPU, so that what is needed on the way stays in its caches."""


def shares(samples: Tensor) -> Tensor:
    """|D_n| / |D_G| of each client, in float64 so that large counts keep their digits."""
    counts = samples.double()
    return counts / counts.sum()


def weighted_mean(stacked: Tensor, samples: Tensor) -> Tensor:
    """Mean over the first axis, weighted by sample counts: sum_n |D_n| / |D_G| theta_n.

    Numbers on which all clients agree (a frozen layer, a mask of infinities) come out exactly as they went in.
    """
    weights = sent_to(shares(samples).to(stacked.dtype), stacked.device)
    if averaging_cuda.takes(stacked):
        return averaging_cuda.mean(stacked, weights)
    parts = stacked.reshape(len(stacked), -1)
    size = max(1, parts.shape[1]) if stacked.is_cuda else AT_A_TIME
    return torch.cat([_mean(part, weights) for part in parts.split(size, dim=1)]).view(stacked.shape[1:])


def _mean(stacked: Tensor, weights: Tensor) -> Tensor:
    first = stacked[0]
    mean: Tensor = first + torch.tensordot(weights, stacked - first, dims=1)
    return torch.where((stacked == first).all(dim=0), first, mean)


def weighted_means(
    stacked: Mapping[str, Tensor], samples: Tensor, names: Collection[str] | None = None
) -> Mapping[str, Tensor]:
    """The weighted mean of each, or of those of some names; of all of them at once, where they lie in a block."""
    chosen = stacked.keys() if names is None else names
    if isinstance(stacked, Block):
        means = Block(stacked.layout, [_merged(piece, samples) for piece in stacked.pieces])
        return means if len(chosen) == len(means) else {name: means[name] for name in chosen}
    return {name: _merged(stacked[name], samples) for name in chosen}


def _merged(stacked: Tensor, samples: Tensor) -> Tensor:
    """The weighted mean; counters (integers), such as BatchNorm's, take the largest."""
    whole = not (stacked.is_floating_point() or stacked.is_complex())
    return stacked.amax(dim=0) if whole else weighted_mean(stacked, samples)
