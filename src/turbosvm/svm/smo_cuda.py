"""The one-vs-one problems of `smo` on CUDA: one Triton program a pair.

The same method step for step, with both classes' coefficients in registers. Triton comes with PyTorch's CUDA builds;
where it does not (Windows), the compiled loops of `smo` serve CUDA tensors too.
"""

import torch
from torch import Tensor

from turbosvm.svm.smo import FLAT
from turbosvm.transfer import sent_to

try:
    import triton
    import triton.language as tl
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True

    @triton.jit
    def _row(within, cross, stride, clients, owner, n, of_k, i, live, BLOCK: tl.constexpr):  # noqa: N803
        """Row i of the pair's kernel matrix: inside a class from `within`, between the two from `cross`."""
        i_of_k = i < BLOCK
        s = tl.where(i_of_k, i, i - BLOCK)
        same = of_k == i_of_k
        inside = tl.load(within + (owner * clients + s) * clients + n, mask=live & same, other=0.0)
        between = tl.load(cross + tl.where(i_of_k, s * stride + n, n * stride + s), mask=live & ~same, other=0.0)
        return tl.where(same, inside, between).to(tl.float64)

    @triton.jit
    def _at(values, t, i):
        """values[i]"""
        return tl.sum(tl.where(t == i, values, 0.0), axis=0)

    @triton.jit
    def _solve_pair(
        first,
        within,
        cross,
        stride,
        classes,
        clients,
        limits,
        max_iter,
        coef,
        slack,
        facts,
        BLOCK: tl.constexpr,  # noqa: N803
    ):
        k, m = first + tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
        if m <= k:
            return
        cost, tol, flat = tl.load(limits), tl.load(limits + 1), tl.load(limits + 2)
        cross += (k - first) * clients * stride + (m - first) * clients
        t = tl.arange(0, 2 * BLOCK)
        of_k = t < BLOCK
        n = tl.where(of_k, t, t - BLOCK).to(tl.int64)
        owner = tl.where(of_k, k, m)
        live = n < clients
        sign = tl.where(of_k, 1.0, -1.0).to(tl.float64)
        low, high = tl.where(of_k, 0.0, -cost), tl.where(of_k, cost, 0.0)
        diagonal = tl.load(within + (owner * clients + n) * clients + n, mask=live, other=0.0).to(tl.float64)
        nothing = tl.full([2 * BLOCK], float("-inf"), tl.float64)
        b, v = tl.zeros([2 * BLOCK], tl.float64), sign
        iterations, running, converged = 0, True, False
        while running:
            could_grow = tl.where(live & (b < high), v, nothing)
            v_i = tl.max(could_grow, axis=0)
            i = tl.max(tl.where(could_grow == v_i, t, -1), axis=0)
            row_i = _row(within, cross, stride, clients, owner, n, of_k, i, live, BLOCK)
            difference = tl.where(live & (b > low), v_i - v, 0.0)
            curvature = tl.maximum(_at(diagonal, t, i) + diagonal - 2.0 * row_i, flat)
            progress = tl.where(difference > 0.0, difference * difference / curvature, nothing)
            most = tl.max(progress, axis=0)
            violation = tl.max(difference, axis=0)
            converged = violation < tol
            running = (violation >= tol) & (iterations < max_iter)  # numbers that are not finite end here
            if running:
                j = tl.max(tl.where(progress == most, t, -1), axis=0)
                row_j = _row(within, cross, stride, clients, owner, n, of_k, j, live, BLOCK)
                is_i, is_j = t == i, t == j
                room_i, room_j = _at(high - b, t, i), _at(b - low, t, j)
                step = tl.minimum(_at(difference, t, j) / _at(curvature, t, j), tl.minimum(room_i, room_j))
                b = tl.where(is_i, tl.where(step == room_i, high, b + step), b)
                b = tl.where(is_j, tl.where(step == room_j, low, b - step), b)
                v -= step * (row_i - row_j)
                iterations += 1
        free = live & (low < b) & (b < high)
        count = tl.sum(free.to(tl.int32), axis=0)
        top = tl.max(tl.where(live & (b < high), v, nothing), axis=0)
        bottom = -tl.max(tl.where(live & (b > low), -v, nothing), axis=0)
        mean = tl.sum(tl.where(free, v, 0.0), axis=0) / tl.maximum(count, 1)
        intercept = tl.where(count > 0, mean, (top + bottom) / 2.0)
        place = (owner * classes + tl.where(of_k, m, k)) * clients + n
        tl.store(coef + place, b.to(coef.dtype.element_ty), mask=live)
        missing = tl.where(live, tl.maximum(sign * (v - intercept), 0.0), 0.0)
        tl.store(slack + place, missing.to(slack.dtype.element_ty), mask=live)
        squared_norm = tl.sum(tl.where(live, b * (sign - v), 0.0), axis=0)
        weight = tl.sum(tl.where(live, tl.abs(b), 0.0), axis=0)
        gap = tl.maximum(cost * tl.sum(missing, axis=0) + squared_norm - weight, 0.0)
        for mirrored in tl.static_range(2):
            at = facts + 6 * (m * classes + k if mirrored else k * classes + m)
            tl.store(at, intercept)
            tl.store(at + 1, squared_norm)
            tl.store(at + 2, iterations.to(tl.float64))
            tl.store(at + 3, converged.to(tl.float64))
            tl.store(at + 4, weight)
            tl.store(at + 5, gap)


def limits_tensor(cost: float, tol: float, device: torch.device) -> Tensor:
    """Put cost and tol where the programs read them, in float64: a number handed to a program would be rounded."""
    return sent_to(torch.tensor([cost, tol, FLAT], dtype=torch.float64), device)


def solve(
    first: int,
    last: int,
    within: Tensor,
    cross: Tensor,
    limits: Tensor,
    max_iter: int,
    coef: Tensor,
    slack: Tensor,
    facts: Tensor,
) -> None:
    """Solve all pairs (k, m) with first <= k < last and k < m; the other arguments are those of `smo.solve`."""
    classes, clients = within.shape[:2]
    block = max(16, triton.next_power_of_2(clients))
    with torch.cuda.device(within.device):
        _solve_pair[(last - first, classes)](
            first, within, cross, cross.stride(0), classes, clients, limits, max_iter, coef, slack, facts,
            BLOCK=block, num_warps=max(1, min(8, block // 64)),
        )  # fmt: skip
