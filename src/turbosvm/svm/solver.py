"""All problems of a scheme, solved on the kernel matrix: one-vs-one strip by strip, one-vs-rest on the whole."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from turbosvm.stopwatch import Laps
from turbosvm.svm import smo, smo_cuda
from turbosvm.svm.gram import Samples
from turbosvm.workers import side_by_side

Scheme = Literal["ovo", "ovr"]


class Fact(IntEnum):
    """What is known of each problem, in this order."""

    INTERCEPT = 0
    SQUARED_NORM = 1
    """|h|^2"""
    ITERATIONS = 2
    CONVERGED = 3
    WEIGHT = 4
    """The sum of |b|."""
    GAP = 5
    """Of the primal objective over the dual."""


LEAST_PER_THREAD = 2**14
"""Coefficients that make a thread worth its start: a few milliseconds of work."""
A_PORTION = 2**12
"""Coefficients of the problems that a thread takes at a time; problems take unequal time."""


@dataclass(frozen=True)
class Stopping:
    """The box of the dual coefficients, and when a problem counts as solved."""

    cost: float
    tol: float
    max_iter: int
    on_device: Tensor | None = None
    """Cost and tol as `smo_cuda` reads them, where they are to change without a change of this."""


@dataclass(frozen=True)
class Solution:
    """The solved problems, in tables of classes.

    Entry (k, j) of a table is about class k in its problem with class j (one-vs-one), or in the problem of class j
    against the rest (one-vs-rest). What a one-vs-one problem has one of stands at both (k, m) and (m, k); what a
    one-vs-rest problem has one of, at (k, k).
    """

    scheme: Scheme
    coef: Tensor
    """Signed dual coefficients, [K, K, C]."""
    slack: Tensor
    """max(0, 1 - y decision(x)) of each sample, [K, K, C]."""
    facts: Tensor
    """Each problem's `Fact`s, [K, K, 6] in float64."""

    def by_normal(self, which: Fact) -> Tensor:
        """One of the facts for each normal: `[K, K]` for one-vs-one, `[K]` for one-vs-rest."""
        return self.facts[..., which] if self.scheme == "ovo" else torch.diagonal(self.facts[..., which])

    @property
    def problems(self) -> Tensor:
        """[P, 2]: class k against class m, all pairs k < m in order; or against the rest, where m is -1."""
        classes, device = len(self.coef), self.coef.device
        if self.scheme == "ovo":
            return torch.triu_indices(classes, classes, 1, device=device).T.contiguous()
        k = torch.arange(classes, device=device)
        return torch.stack([k, torch.full_like(k, -1)], dim=1)

    def of_problems(self, table: Tensor) -> Tensor:
        """Take from a table `[K, K, ...]` what each problem has one of, `[P, ...]`."""
        k, m = self.problems.T
        return table[k, m] if self.scheme == "ovo" else table[k, k]


def solve(samples: Samples, scheme: Scheme, stopping: Stopping, watch: Laps) -> Solution:
    """Solve every problem of the scheme; the watch tells the kernel matrix from the solver."""
    classes, clients, _ = samples.rows.shape
    within = samples.within()
    coef = within.new_zeros(2, classes, classes, clients)
    solution = Solution(scheme, coef[0], coef[1], coef.new_zeros(classes, classes, len(Fact), dtype=torch.float64))
    for first, last in samples.strips() if scheme == "ovo" else [(0, classes)]:
        cross = samples.across(first, last) if scheme == "ovo" else samples.whole()
        watch.lap("gram")
        on_cuda = cross.is_cuda and scheme == "ovo" and smo_cuda.AVAILABLE
        (_solve_on_cuda if on_cuda else _solve_on_cpu)(first, last, within, cross, stopping, solution)
        watch.lap("solve")
    return solution


def _solve_on_cuda(
    first: int, last: int, within: Tensor, cross: Tensor, stopping: Stopping, solution: Solution
) -> None:
    """Solve the pairs whose first class is in first..last-1 where the tensors are."""
    outputs = (solution.coef, solution.slack, solution.facts)
    limits = stopping.on_device
    if limits is None:
        limits = smo_cuda.limits_tensor(stopping.cost, stopping.tol, within.device)
    smo_cuda.solve(first, last, within, cross, limits, stopping.max_iter, *outputs)


def _solve_on_cpu(first: int, last: int, within: Tensor, cross: Tensor, stopping: Stopping, solution: Solution) -> None:
    """Solve them side by side; tensors of other devices are copied to and fro."""
    classes = len(within)
    outputs = (solution.coef, solution.slack, solution.facts)
    on_cpu = [tensor.cpu() for tensor in outputs]
    inside, across = within.cpu().numpy(), cross.cpu().numpy()
    coef, slack, facts = (tensor.numpy() for tensor in on_cpu)
    if solution.scheme == "ovo":
        pairs = [(k, m) for k in range(first, last) for m in range(k + 1, classes)]
    else:
        pairs = [(k, -1) for k in range(classes)]
    problems = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    size = len(problems) * (2 if solution.scheme == "ovo" else classes) * within.shape[1]
    portions = np.array_split(problems, min(len(problems), -(-size // A_PORTION))) if len(problems) else []

    def solve_portion(portion: smo.Array) -> None:
        limits = (stopping.cost, stopping.tol, stopping.max_iter)
        smo.solve(portion, inside, across, first, *limits, coef, slack, facts)

    side_by_side(solve_portion, portions, size, LEAST_PER_THREAD)
    for tensor, result in zip(outputs, on_cpu, strict=True):
        if tensor.device != result.device:
            tensor.copy_(result)
