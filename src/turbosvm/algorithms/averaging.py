"""Weighted means over a cohort, the step that all server rules share."""

import torch
from torch import Tensor

from turbosvm.types import Weights


def shares(samples: Tensor) -> Tensor:
    """|D_n| / |D_G| of each client, in float64 so that large counts keep their digits."""
    counts = samples.double()
    return counts / counts.sum()


def weighted_mean(stacked: Tensor, samples: Tensor) -> Tensor:
    """Mean over the first axis, weighted by sample counts: sum_n |D_n| / |D_G| theta_n.

    Taken about the first client, so that numbers which no client changed (a frozen layer) come out as they went in.
    """
    about = stacked[0]
    mean: Tensor = about + torch.tensordot(shares(samples).to(stacked), stacked - about, dims=1)
    return mean


def merge_buffers(stacked: Weights, samples: Tensor) -> Weights:
    """Average running statistics; counters (integers) take the largest."""
    return {
        name: weighted_mean(value, samples) if value.is_floating_point() else value.amax(dim=0)
        for name, value in stacked.items()
    }
