"""All problems of a scheme, solved on the kernel matrix: one-vs-one strip by strip, one-vs-rest on the whole."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from turbosvm.stopwatch import Stopwatch
from turbosvm.svm import smo, smo_cuda
from turbosvm.svm.gram import Samples

Scheme = Literal["ovo", "ovr"]

LEAST_PER_THREAD = 2**15
"""Coefficients that make a thread worth its start, and its quarrel with PyTorch's threads, which wait awake."""
PORTIONS_PER_THREAD = 4
"""Problems take unequal time, so each thread takes several portions of them."""


@dataclass(frozen=True)
class Stopping:
    """The box of the dual coefficients, and when a problem counts as solved."""

    cost: float
    tol: float
    max_iter: int


@dataclass(frozen=True)
class Solution:
    """P solved problems. One-vs-one has two classes in each (S = 2), one-vs-rest has all K (S = K)."""

    scheme: Scheme
    problems: Tensor
    """[P, 2]: class k against class m, or against the rest, where m is -1."""
    coef: Tensor
    """Signed dual coefficients, [P, S, C]."""
    slack: Tensor
    """max(0, 1 - y decision(x)) of each sample, [P, S, C]."""
    facts: Tensor
    """Intercept, |h|^2, iterations, converged; [P, 4] in float64."""

    @property
    def squared_norm(self) -> Tensor:
        """|h|^2 of each problem, [P]."""
        return self.facts[:, 1]

    def by_class(self, values: Tensor, classes: int) -> Tensor:
        """Turn `[P, S, C]` into `[K, K, C]`: entry (k, j) is of class k in its problem with j, or in problem j."""
        if self.scheme == "ovr":
            return values.transpose(0, 1)
        k, m = self.problems.T
        table = values.new_zeros(classes, classes, values.shape[-1])
        table[k, m], table[m, k] = values[:, 0], values[:, 1]
        return table


def solve(samples: Samples, scheme: Scheme, stopping: Stopping, watch: Stopwatch) -> Solution:
    """Solve every problem of the scheme; the watch tells the kernel matrix from the solver."""
    classes, clients, _ = samples.rows.shape
    within = samples.within()
    problems = problems_of(scheme, classes, within.device)
    coef = within.new_empty(len(problems), 2 if scheme == "ovo" else classes, clients)
    slack, facts = torch.empty_like(coef), coef.new_empty(len(problems), 4, dtype=torch.float64)
    done = 0
    for first, last in samples.strips() if scheme == "ovo" else [(0, classes)]:
        upto = last * (2 * classes - last - 1) // 2 if scheme == "ovo" else classes  # pairs whose k is below `last`
        part = slice(done, upto)
        cross = samples.across(first, last) if scheme == "ovo" else samples.whole()
        watch.lap("gram")
        run = smo_cuda.solve if cross.is_cuda and scheme == "ovo" and smo_cuda.AVAILABLE else _solve_on_cpu
        run(problems[part], within, cross, first, stopping.cost, stopping.tol, stopping.max_iter,
            coef[part].flatten(1), slack[part].flatten(1), facts[part])  # fmt: skip
        watch.lap("solve")
        done = upto
    return Solution(scheme, problems, coef, slack, facts)


def problems_of(scheme: Scheme, classes: int, device: torch.device) -> Tensor:
    """List the problems, `[P, 2]`: all pairs k < m in order, or each class with -1 for the rest."""
    if scheme == "ovo":
        return torch.triu_indices(classes, classes, 1, device=device).T.contiguous()
    k = torch.arange(classes, device=device)
    return torch.stack([k, torch.full_like(k, -1)], dim=1)


def _solve_on_cpu(
    problems: Tensor,
    within: Tensor,
    cross: Tensor,
    first: int,
    cost: float,
    tol: float,
    max_iter: int,
    coef: Tensor,
    slack: Tensor,
    facts: Tensor,
) -> None:
    """Share the problems out over PyTorch's number of threads at most; other devices' tensors are copied to and fro."""
    inputs = [tensor.cpu().numpy() for tensor in (problems, within, cross)]
    outputs = (coef, slack, facts)
    on_cpu = [tensor if tensor.device.type == "cpu" else torch.empty_like(tensor, device="cpu") for tensor in outputs]
    results = [tensor.numpy() for tensor in on_cpu]
    threads = max(1, min(torch.get_num_threads(), coef.numel() // LEAST_PER_THREAD))
    size = -(-len(problems) // (threads * PORTIONS_PER_THREAD))

    def solve_from(start: int) -> None:
        part = slice(start, start + size)
        smo.solve(inputs[0][part], inputs[1], inputs[2], first, cost, tol, max_iter, *(out[part] for out in results))

    starts = range(0, len(problems), size)
    if threads == 1:
        list(map(solve_from, starts))
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(solve_from, starts))
    for tensor, result in zip(outputs, on_cpu, strict=True):
        if tensor is not result:
            tensor.copy_(result)
