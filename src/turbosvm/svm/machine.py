"""`fit`: support vector machines between classes of embeddings, and the fitted machine with all that they know."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Any, get_args

import torch
from torch import Tensor

from turbosvm.errors import TurboSVMError, unknown
from turbosvm.stopwatch import Laps, Stopwatch
from turbosvm.svm.arrays import Array, as_embeddings, refuse_not_finite, to_tensor
from turbosvm.svm.gram import Samples
from turbosvm.svm.kernels import Kernel, KernelName
from turbosvm.svm.precision import full_precision, precisions, trusted
from turbosvm.svm.solver import Fact, Scheme, Solution, Stopping, solve
from turbosvm.values import as_positive, as_whole
from turbosvm.workers import own_threads

NO_LIMIT = 10_000_000
"""Iterations after which even a solver without a limit gives a problem up, as LIBSVM does."""


def fit(
    embeddings: Array | Iterable[Array],
    cost: float = 1.0,
    kernel: KernelName = "linear",
    scheme: Scheme = "ovo",
    tol: float = 1e-3,
    max_iter: int | None = None,
    *,
    degree: int = 3,
    a: float = 1.0,
    b: float = 1.0,
) -> "Machine":
    """Fit a support vector machine to each pair of classes (or to each class and the rest).

    Args:
        embeddings: `[C, K, D]`: C samples (one a client) of each of K classes, D numbers each. NumPy or PyTorch, on
            the CPU or CUDA; results are of the same kind, on the same device.
        cost: Largest dual coefficient. The smaller it is, the wider the margins, and the more support vectors.
        kernel: "linear", "poly", "rbf" or "sigmoid"; see `turbosvm.svm.kernels` for the formulas with degree, a and b.
        scheme: "ovo": K(K-1)/2 machines, one for each pair. "ovr": K machines, each class against all others.
        tol: Largest violation of the optimality conditions that counts as solved.
        max_iter: Most iterations a problem; None goes on until it is solved, or hopeless. `converged_` tells.
        degree, a, b: The kernel's coefficients.

    Example:
        >>> import numpy as np
        >>> embeddings = np.array([[[2.0, 0.0], [0.0, 0.0]], [[4.0, 1.0], [-1.0, -1.0]]])  # two clients, two classes
        >>> machine = fit(embeddings)
        >>> machine.support_.tolist()  # of each class, the first client's embedding alone
        [[True, False], [True, False]]
        >>> machine.hyperplanes().round(3).tolist(), machine.intercept_.round(3).tolist()
        ([[1.0, 0.0]], [-1.0])
    """
    tensor, as_numpy = as_embeddings(embeddings)
    limits, watch = stopping(cost, tol, max_iter), Stopwatch(tensor.device)
    with full_precision(), own_threads():
        samples, solution = fit_samples(tensor, Kernel(kernel, degree, a, b), scheme, limits, watch)
    return Machine(samples, solution, as_numpy)


def stopping(cost: float, tol: float, max_iter: int | None) -> Stopping:
    """Check a solver's limits."""
    most = NO_LIMIT if max_iter is None else as_whole("The SVM's max_iter", max_iter, 1)
    return Stopping(as_positive("The SVM's cost", cost), as_positive("The SVM's tol", tol), most)


def fit_samples(
    embeddings: Tensor, kernel: Kernel, scheme: Scheme, limits: Stopping, watch: Laps
) -> tuple[Samples, Solution]:
    """Fit to checked embeddings `[C, K, D]`; in float32, unless its rounding could be felt at `tol`."""
    if scheme not in get_args(Scheme):
        raise unknown("scheme", scheme, get_args(Scheme))
    for dtype in precisions(embeddings):
        samples = Samples.of(embeddings, kernel, dtype)
        rounding = float(samples.rounding)
        if rounding < inf:
            solution = solve(samples, scheme, limits, watch)
            if trusted(dtype, rounding, solution.of_problems(solution.facts).cpu().numpy(), limits.tol):
                return samples, solution
    raise unfit(embeddings, kernel)


def unfit(embeddings: Tensor, kernel: Kernel) -> TurboSVMError:
    """Say why no precision would do: an embedding, or its kernel, is not finite."""
    refuse_not_finite(embeddings)
    return TurboSVMError(f"The {kernel.name} kernel of these embeddings overflows; scale them, or lower its a.")


@dataclass(frozen=True, eq=False)
class Machine:
    """Fitted support vector machines, P of them, between K classes of C embeddings each.

    Attributes end in `_` and are of the kind (NumPy or PyTorch) that was fitted.
    """

    samples: Samples
    solution: Solution
    as_numpy: bool

    @property
    def pairs_(self) -> Any:
        """Which classes each problem separates, `[P, 2]`; -1 stands for all others."""
        return self._out(self.solution.problems)

    @property
    def dual_coef_(self) -> Any:
        """Signed dual coefficients: `[P, 2, C]` (class k's positive, class m's negative), or `[K, K, C]` for "ovr"."""
        if self.solution.scheme == "ovr":
            return self._out(self.solution.coef.transpose(0, 1).clone())
        k, m = self.solution.problems.T
        return self._out(torch.stack([self.solution.coef[k, m], self.solution.coef[m, k]], dim=1))

    @property
    def support_(self) -> Any:
        """Whether client n's embedding of class k is a support vector in any of its problems, `[K, C]`."""
        return self._out(support(self.solution))

    @property
    def slack_(self) -> Any:
        """How far inside (or beyond) its margin each embedding lies, mean over its problems, `[K, C]`."""
        return self._out(mean_slack(self.solution))

    @property
    def intercept_(self) -> Any:
        """The constant of each problem's decision function, `[P]`."""
        intercept = self._facts(Fact.INTERCEPT)
        if self.samples.kernel.name == "linear":  # found relative to the centre
            with full_precision():
                intercept = intercept - self._sums(self.samples.rows @ self.samples.centre)
        return self._out(intercept.to(self.samples.rows.dtype))

    @property
    def n_iter_(self) -> Any:
        """Iterations that each problem took, `[P]`."""
        return self._out(self._facts(Fact.ITERATIONS).long())

    @property
    def converged_(self) -> Any:
        """Whether each problem was solved to `tol` within `max_iter`, `[P]`."""
        return self._out(self._facts(Fact.CONVERGED).bool())

    @property
    def margin_(self) -> Any:
        """Width of each problem's margin, 2 / |h|, `[P]`."""
        return self._out((2 / self._facts(Fact.SQUARED_NORM).clamp(min=0).sqrt()).to(self.samples.rows.dtype))

    def hyperplanes(self) -> Any:
        """Return the normals h, `[P, D]`; for the linear kernel, others have none among the embeddings."""
        if self.samples.kernel.name != "linear":
            raise TurboSVMError(f"Hyperplanes of the {self.samples.kernel.name} kernel are not vectors of this space.")
        with full_precision():
            of_class = self.solution.coef @ self.samples.rows  # [K, K, D]: class k's part of its normal with j
            if self.solution.scheme == "ovr":
                return self._out(of_class.sum(dim=0))
            k, m = self.solution.problems.T
            return self._out(of_class[k, m] + of_class[m, k])

    def decision(self, points: Array) -> Any:
        """Return the decision function at points `[M, D]`, `[M, P]`: positive on the side of class k."""
        tensor = to_tensor(points, "points")
        if tensor.is_complex():
            raise TurboSVMError("The points are complex; expected plain numbers.")
        tensor = tensor.to(self.samples.rows)
        if tensor.ndim != 2 or tensor.shape[1] != self.samples.rows.shape[2]:
            raise TurboSVMError(
                f"Points have the shape {tuple(tensor.shape)}; expected [points, {self.samples.rows.shape[2]}]."
            )
        with full_precision():
            values = [self._sums(self.samples.against(part)) for part in tensor.split(64)]
        return self._out((torch.cat(values) + self._facts(Fact.INTERCEPT)).to(self.samples.rows.dtype))

    def _sums(self, values: Tensor) -> Tensor:
        """Sum `[..., K, C]` over each problem's samples, weighted by their coefficients: `[..., P]` in float64."""
        by_class = torch.einsum("...kn,kjn->...kj", values.double(), self.solution.coef.double())
        if self.solution.scheme == "ovr":
            return by_class.sum(dim=-2)
        k, m = self.solution.problems.T
        return by_class[..., k, m] + by_class[..., m, k]

    def _facts(self, which: Fact) -> Tensor:
        """One of the solution's facts for each problem, `[P]`."""
        return self.solution.of_problems(self.solution.facts[..., which])

    def _out(self, values: Tensor) -> Any:
        return values.cpu().numpy() if self.as_numpy else values


def support(solution: Solution) -> Tensor:
    """Whether each embedding is a support vector in any of its problems, `[K, C]`."""
    return (solution.coef != 0).any(dim=1)


def mean_slack(solution: Solution) -> Tensor:
    """Mean slack of each embedding over its problems, `[K, C]`."""
    classes = len(solution.slack)
    return solution.slack.sum(dim=1) / (classes - 1 if solution.scheme == "ovo" else classes)
