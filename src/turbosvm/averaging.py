"""Weighted means over a cohort, the step that all server rules share."""

import torch
from torch import Tensor


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


def merge_buffers(stacked: dict[str, Tensor], samples: Tensor) -> dict[str, Tensor]:
    """Average running statistics; counters (integers) take the largest."""
    return {
        name: weighted_mean(value, samples) if value.is_floating_point() or value.is_complex() else value.amax(dim=0)
        for name, value in stacked.items()
    }
