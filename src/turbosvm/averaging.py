"""Weighted means over a cohort, the step that all server rules share."""

import torch
from torch import Tensor

from turbosvm.blocks import blocks_of


def shares(samples: Tensor) -> Tensor:
    """|D_n| / |D_G| of each client, in float64 so that large counts keep their digits."""
    counts = samples.double()
    return counts / counts.sum()


def weighted_mean(stacked: Tensor, samples: Tensor) -> Tensor:
    """Mean over the first axis, weighted by sample counts: sum_n |D_n| / |D_G| theta_n.

    Numbers on which all clients agree (a frozen layer, a mask of infinities) come out exactly as they went in.
    """
    first = stacked[0]
    mean: Tensor = first + torch.tensordot(shares(samples).to(stacked), stacked - first, dims=1)
    return torch.where((stacked == first).all(dim=0), first, mean)


def weighted_means(stacked: dict[str, Tensor], samples: Tensor) -> dict[str, Tensor]:
    """The weighted mean of each; of all of them at once, where they lie in one block."""
    blocks = blocks_of(list(stacked.values()))
    if not blocks:
        return {name: weighted_mean(value, samples) for name, value in stacked.items()}
    means = {block.data_ptr(): weighted_mean(block.view(len(samples), -1), samples) for block in blocks}
    return {
        name: means[value.untyped_storage().data_ptr()].as_strided(
            value.shape[1:], value.stride()[1:], value.storage_offset()
        )
        for name, value in stacked.items()
    }


def merge_buffers(stacked: dict[str, Tensor], samples: Tensor) -> dict[str, Tensor]:
    """Average running statistics; counters (integers) take the largest."""
    statistics = {name: value for name, value in stacked.items() if value.is_floating_point() or value.is_complex()}
    means = weighted_means(statistics, samples)
    return {name: means[name] if name in means else value.amax(dim=0) for name, value in stacked.items()}
