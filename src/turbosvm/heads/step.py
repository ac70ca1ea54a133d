"""The head step's arithmetic: fit, select, spread. Nothing is read back from the device on the way.

What the step has to tell is packed into one tensor, so that it leaves the device in one go.
"""

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from turbosvm.heads.options import HeadOptions
from turbosvm.heads.spread import hyperplanes_of, project, spread_gradient
from turbosvm.optimisers import Moments
from turbosvm.stopwatch import Laps
from turbosvm.svm.gram import Samples
from turbosvm.svm.machine import mean_slack, support
from turbosvm.svm.solver import Fact, Stopping, solve


class Stepped(NamedTuple):
    """Merged embeddings `[K, D]`, the optimiser's moments, and what `Told.unpack` reads."""

    embeddings: Tensor
    moments: Moments
    packed: Tensor


class StepInputs(NamedTuple):
    """What differs from round to round."""

    heads: Tensor
    """[C, K, D]"""
    shares: Tensor
    """Of the samples, [C]; they sum to 1."""
    moments: Moments
    limits: Stopping


def step(inputs: StepInputs, options: HeadOptions, dtype: torch.dtype, watch: Laps) -> Stepped | None:
    """Merge heads, working in `dtype`.

    None where the numbers, or their kernel, are not finite. On CUDA that is told by `Told.rounding` instead.
    """
    heads, shares, moments, limits = inputs
    samples = Samples.of(heads, options.kernel_function, dtype)
    if not (samples.rows.is_cuda or float(samples.rounding) < inf):
        return None
    solution = solve(samples, options.scheme, limits, watch)
    supports = support(solution)
    weights = supports * shares if options.selection else shares.expand(supports.shape)
    weights = (weights / weights.sum(dim=1, keepdim=True)).to(dtype)
    embeddings = (weights[:, None] @ samples.rows).squeeze(1)  # relative to the samples' centre
    losses = []
    if options.spread_out:
        watch.lap("select")
        optimiser, planes = options.server_optimiser, hyperplanes_of(samples, solution)
        kept, moments = moments, {name: value.to(dtype) for name, value in moments.items()}
        at = project(embeddings, planes)
        losses = [at.loss]
        for _ in range(options.steps):
            embeddings, moments = optimiser.step(embeddings, spread_gradient(at, planes), moments)
            at = project(embeddings, planes)
        losses += [at.loss]
        moments = {name: value.to(kept[name].dtype) for name, value in moments.items()}
    facts = solution.of_problems(solution.facts)
    embeddings = (embeddings + samples.centre).to(heads.dtype)
    told = [samples.rounding, embeddings.isfinite().all(), supports, mean_slack(solution), facts, *losses]
    packed = torch.cat([part.double().flatten() for part in told])
    watch.lap("spread" if options.spread_out else "select")
    return Stepped(embeddings, moments, packed)


@dataclass(frozen=True)
class Told:
    """What a step tells of itself."""

    rounding: float
    """How far off kernel values may be; not finite where the heads, or their kernel, are not."""
    finite: bool
    """Whether the merged embeddings are."""
    selected: NDArray[np.float64]
    """1 where an embedding was a support vector, [K, C]."""
    slack: NDArray[np.float64]
    """[K, C]"""
    facts: NDArray[np.float64]
    """Each problem's `Fact`s, [P, 6]."""
    losses: NDArray[np.float64]
    """l_sp before and after the step, or nothing."""

    @classmethod
    def unpack(cls, packed: Tensor, classes: int, clients: int, options: HeadOptions) -> "Told":
        """Take a step's numbers from the device."""
        numbers, size = packed.cpu().numpy(), classes * clients
        end = len(numbers) - 2 * options.spread_out
        selected, slack, facts = np.split(numbers[2:end], [size, 2 * size])
        selected, slack = selected.reshape(classes, clients), slack.reshape(classes, clients)
        return cls(float(numbers[0]), bool(numbers[1]), selected, slack, facts.reshape(-1, len(Fact)), numbers[end:])
