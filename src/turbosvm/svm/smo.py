"""The dual problem of a binary SVM, solved by sequential minimal optimisation in compiled loops.

With b_t = alpha_t y_t, the coefficient of x_t in the hyperplane's normal h = sum_t b_t x_t, the problem is

    minimise 1/2 b^T G b - y^T b  subject to  sum_t b_t = 0,  0 <= b_t <= cost (y_t = 1),  -cost <= b_t <= 0 (y_t = -1)

Its negative gradient v_t = y_t - h·x_t is the intercept that would put x_t on its own margin. At the optimum all free
coefficients agree on it, those that could grow have none larger, those that could shrink none smaller. Each step moves
two coefficients by the same amount: the one that could grow with the largest v, and the one that could shrink and
lowers the objective most together with it. It ends when the largest and the smallest v differ by less than `tol`. Of
equals the last is taken, as LIBSVM does.

Fan, Chen, Lin: Working Set Selection Using Second Order Information for Training Support Vector Machines. JMLR 2005.

The loops hold no lock, and each problem has outputs of its own: any number of threads gives the same result.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
F = TypeVar("F", bound=Callable[..., Any])

FLAT = 1e-12
"""Stands in for a curvature that is zero or negative (duplicates; kernels that are not positive definite)."""


def _compiled(function: F, **options: Any) -> F:
    """Compile, and keep the machine code on disk wherever numba finds a place for it."""
    options |= {"nogil": True, "error_model": "numpy", "fastmath": {"nnan", "nsz"}}  # finite is checked before
    try:
        return cast(F, numba.njit(cache=True, **options)(function))
    except RuntimeError:  # neither the package's folder nor the person's cache folder can be written
        return cast(F, numba.njit(**options)(function))


def _inlined(function: F) -> F:
    """Compile as part of each caller: a call would cost as much as the few numbers it is about."""
    return _compiled(function, inline="always")


@_inlined
def _row(k: int, m: int, first: int, within: Array, cross: Array, i: int, row: Array) -> None:
    """Copy row i of a problem's kernel matrix.

    One-vs-one: of the samples of classes k and m; `cross` has one of the two blocks between them. One-vs-rest: of all.
    """
    clients = within.shape[1]
    top, left = (k - first) * clients, (m - first) * clients
    if m < 0:
        for t in range(row.size):
            row[t] = cross[i, t]
    elif i < clients:
        for t in range(clients):
            row[t] = within[k, i, t]
            row[clients + t] = cross[top + i, left + t]
    else:
        for t in range(clients):
            row[t] = cross[top + t, left + i - clients]
            row[clients + t] = within[m, i - clients, t]


@_inlined
def _shrinker(i: int, row: Array, diagonal: Array, b: Array, v: Array, low: Array) -> tuple[int, float]:
    """Return which coefficient that may shrink gains most when i grows, or -1, and the largest violation with i."""
    best, gain, violation = -1, 0.0, 0.0
    for t in range(b.size):
        difference = v[i] - v[t] if b[t] > low[t] else 0.0
        violation = difference if difference > violation else violation
        curvature = diagonal[i] + diagonal[t] - 2.0 * row[t]
        curvature = curvature if curvature > FLAT else FLAT
        progress = difference * difference / curvature if difference > 0.0 else -1.0
        best = t if progress >= gain else best
        gain = progress if progress >= gain else gain
    return best, violation


@_inlined
def _move(
    i: int, j: int, row_i: Array, row_j: Array, diagonal: Array, b: Array, v: Array, low: Array, high: Array
) -> int:
    """Let b_i grow and b_j shrink to the minimum, or to their bounds; return who has the largest v and may grow now."""
    curvature = max(diagonal[i] + diagonal[j] - 2.0 * row_i[j], FLAT)
    room_i, room_j = high[i] - b[i], b[j] - low[j]
    step = min((v[i] - v[j]) / curvature, room_i, room_j)
    b[i] = high[i] if step == room_i else b[i] + step  # at a bound exactly, not almost
    b[j] = low[j] if step == room_j else b[j] - step
    best, top = -1, -np.inf
    for t in range(b.size):
        v[t] -= step * (row_i[t] - row_j[t])
        candidate = v[t] if b[t] < high[t] else -np.inf
        best = t if candidate >= top else best
        top = candidate if candidate >= top else top
    return best


@_compiled
def _intercept(b: Array, v: Array, low: Array, high: Array) -> float:
    """Return the mean v of the free coefficients, or the middle of what the others allow."""
    total, free, top, bottom = 0.0, 0, -np.inf, np.inf
    for t in range(b.size):
        if low[t] < b[t] < high[t]:
            total += v[t]
            free += 1
        if b[t] < high[t]:
            top = max(top, v[t])
        if b[t] > low[t]:
            bottom = min(bottom, v[t])
    return total / free if free else (top + bottom) / 2.0


@_compiled
def solve(
    problems: Array,
    within: Array,
    cross: Array,
    first: int,
    cost: float,
    tol: float,
    max_iter: int,
    coef: Array,
    slack: Array,
    facts: Array,
) -> None:
    """Solve problems (k, m): class k against class m, or against all others where m is -1.

    Args:
        problems: [P, 2]
        within: Kernel values inside each class, [K, C, C].
        cross: Those of the classes from `first` on, as far down as the problems need: [.. C, (K - first) C].
        first: See `cross`; 0 for one-vs-rest, which needs all of them.
        cost, tol, max_iter: The box of the coefficients, and when to stop.
        coef, slack, facts: Receive b, max(0, 1 - y_t decision(x_t)), and the facts of each problem, in the layout of
            `turbosvm.svm.solver.Solution`.
    """
    clients = within.shape[1]
    size = 2 * clients if problems[0, 1] >= 0 else cross.shape[0]
    b, v, low, high, diagonal = np.empty(size), np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    row_i, row_j = np.empty(size, within.dtype), np.empty(size, within.dtype)
    for p in range(problems.shape[0]):
        k, m = problems[p, 0], problems[p, 1]
        positive = 0 if m >= 0 else k * clients  # where the samples of class k begin
        for t in range(size):
            is_positive = positive <= t < positive + clients
            b[t], v[t] = 0.0, 1.0 if is_positive else -1.0
            low[t], high[t] = 0.0 if is_positive else -cost, cost if is_positive else 0.0
            owner = t // clients if m < 0 else (k if t < clients else m)
            diagonal[t] = within[owner, t % clients, t % clients]
        i, iterations = positive + clients - 1, 0
        while True:
            _row(k, m, first, within, cross, i, row_i)
            j, violation = _shrinker(i, row_i, diagonal, b, v, low)
            converged = j < 0 or violation < tol
            if converged or iterations >= max_iter:
                break
            _row(k, m, first, within, cross, j, row_j)
            i = _move(i, j, row_i, row_j, diagonal, b, v, low, high)
            iterations += 1
        intercept = _intercept(b, v, low, high)
        squared_norm, weight, gap = 0.0, 0.0, 0.0
        for t in range(size):
            sign = 1.0 if positive <= t < positive + clients else -1.0
            owner = t // clients if m < 0 else (k if t < clients else m)
            problem = k if m < 0 or t >= clients else m
            missing = max(sign * (v[t] - intercept), 0.0)
            coef[owner, problem, t % clients] = b[t]
            slack[owner, problem, t % clients] = missing
            squared_norm += b[t] * (sign - v[t])
            weight += abs(b[t])
            gap += cost * missing
        gap = max(gap + squared_norm - weight, 0.0)  # of the primal objective over the dual
        other = k if m < 0 else m
        for one, two in ((k, other), (other, k)):
            facts[one, two, 0], facts[one, two, 1], facts[one, two, 2] = intercept, squared_norm, iterations
            facts[one, two, 3], facts[one, two, 4], facts[one, two, 5] = converged, weight, gap
