"""The recurrence of an LSTM layer on CUDA, in Triton: a kernel a time step, forwards and backwards.

    i, f, o = sigmoid(...),  g = tanh(...)     of  x_t W_x' + h_{t-1} W_h' + b, in PyTorch's order i, f, g, o
    c_t = f c_{t-1} + i g,   h_t = o tanh(c_t)

A program computes a few cells for some rows of the batch: its part of the product with W_h, and all that is done to
each number after it. What does not depend on the step before (products with x, gradients of the weights) is left to
large matrix products. Recorded in CUDA graphs, many such layers, one a client, run side by side, where cuDNN's kernels,
made to have the GPU alone, queue up.

Triton comes with PyTorch's CUDA builds; where it does not (Windows), cuDNN stays.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

try:
    import triton
    import triton.language as tl
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True

    @triton.jit
    def _tanh(x):
        return 2 * tl.sigmoid(2 * x) - 1

    @triton.jit
    def _forward(
        gates,  # [B, T, 4 H]: in, x_t W_x' + b; out, i, f, g, o
        weight,  # [4 H, H]
        hidden,  # [B, T, H]: h
        cells,  # [B, T, H]: c
        rows,
        steps,
        t,
        SIZE: tl.constexpr,  # noqa: N803
        ROWS: tl.constexpr,  # noqa: N803
        CELLS: tl.constexpr,  # noqa: N803
        DEPTH: tl.constexpr,  # noqa: N803
        PRECISION: tl.constexpr,  # noqa: N803
    ):
        """Step t."""
        row = (tl.program_id(1) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
        live = (row < rows)[:, None]
        cell = (tl.program_id(0) * CELLS + tl.arange(0, CELLS))[None, :]
        at = (row * steps + t)[:, None]
        x = gates + at * (4 * SIZE) + cell
        i = tl.load(x, mask=live, other=0.0)
        f = tl.load(x + SIZE, mask=live, other=0.0)
        g = tl.load(x + 2 * SIZE, mask=live, other=0.0)
        o = tl.load(x + 3 * SIZE, mask=live, other=0.0)
        c = cells + at * SIZE + cell
        before = tl.zeros_like(i)
        if t > 0:
            before = tl.load(c - SIZE, mask=live, other=0.0)
            for start in range(0, SIZE, DEPTH):
                depth = start + tl.arange(0, DEPTH)
                h = tl.load(hidden + (at - 1) * SIZE + depth[None, :], mask=live, other=0.0)
                w = weight + cell * SIZE + depth[:, None]
                i = tl.dot(h, tl.load(w), i, input_precision=PRECISION)
                f = tl.dot(h, tl.load(w + SIZE * SIZE), f, input_precision=PRECISION)
                g = tl.dot(h, tl.load(w + 2 * SIZE * SIZE), g, input_precision=PRECISION)
                o = tl.dot(h, tl.load(w + 3 * SIZE * SIZE), o, input_precision=PRECISION)
        i, f, g, o = tl.sigmoid(i), tl.sigmoid(f), _tanh(g), tl.sigmoid(o)
        new = f * before + i * g
        tl.store(c, new, mask=live)
        tl.store(hidden + at * SIZE + cell, o * _tanh(new), mask=live)
        tl.store(x, i, mask=live)
        tl.store(x + SIZE, f, mask=live)
        tl.store(x + 2 * SIZE, g, mask=live)
        tl.store(x + 3 * SIZE, o, mask=live)

    @triton.jit
    def _backward(
        gates,  # [B, T, 4 H]: i, f, g, o
        changes,  # [B, T, 4 H]: the gradient of what they are made from
        weight,  # [4 H, H]
        cells,  # [B, T, H]
        arriving,  # [B, T, H]: the gradient of h, but for what comes from the next step
        carried,  # [B, H]: the gradient of c
        rows,
        steps,
        t,
        SIZE: tl.constexpr,  # noqa: N803
        ROWS: tl.constexpr,  # noqa: N803
        CELLS: tl.constexpr,  # noqa: N803
        DEPTH: tl.constexpr,  # noqa: N803
        PRECISION: tl.constexpr,  # noqa: N803
    ):
        """Step t, after t + 1."""
        row = (tl.program_id(1) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
        live = (row < rows)[:, None]
        cell = (tl.program_id(0) * CELLS + tl.arange(0, CELLS))[None, :]
        at = (row * steps + t)[:, None]
        dh = tl.load(arriving + at * SIZE + cell, mask=live, other=0.0)
        if t < steps - 1:
            for start in range(0, 4 * SIZE, DEPTH):
                depth = start + tl.arange(0, DEPTH)
                d = tl.load(changes + (at + 1) * (4 * SIZE) + depth[None, :], mask=live, other=0.0)
                w = tl.load(weight + depth[:, None] * SIZE + cell)
                dh = tl.dot(d, w, dh, input_precision=PRECISION)
        x = gates + at * (4 * SIZE) + cell
        i = tl.load(x, mask=live, other=0.0)
        f = tl.load(x + SIZE, mask=live, other=0.0)
        g = tl.load(x + 2 * SIZE, mask=live, other=0.0)
        o = tl.load(x + 3 * SIZE, mask=live, other=0.0)
        c = cells + at * SIZE + cell
        squashed = _tanh(tl.load(c, mask=live, other=0.0))
        before = tl.zeros_like(i)
        if t > 0:
            before = tl.load(c - SIZE, mask=live, other=0.0)
        keep = carried + row[:, None] * SIZE + cell
        dc = tl.load(keep, mask=live, other=0.0) + dh * o * (1 - squashed * squashed)
        tl.store(keep, dc * f, mask=live)
        y = changes + at * (4 * SIZE) + cell
        tl.store(y, dc * g * i * (1 - i), mask=live)
        tl.store(y + SIZE, dc * before * f * (1 - f), mask=live)
        tl.store(y + 2 * SIZE, dc * i * (1 - g * g), mask=live)
        tl.store(y + 3 * SIZE, dh * squashed * o * (1 - o), mask=live)


# The fastest shapes of those tried on an H200, eight layers of 256 cells side by side, batches of 64.
_FORWARD = {"ROWS": 64, "CELLS": 16, "DEPTH": 64, "num_warps": 4, "num_stages": 2}
_BACKWARD = {"ROWS": 32, "CELLS": 32, "DEPTH": 64, "num_warps": 4, "num_stages": 4}


def fits(size: int) -> bool:
    """Whether the kernels take a layer with so many cells."""
    return AVAILABLE and size % 64 == 0


class Recurrence(torch.autograd.Function):
    """From `x_t W_x' + b`, `[B, T, 4 H]`, and W_h, `[4 H, H]`, to h of all steps, `[B, T, H]`, and the last c."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Run all steps."""
        rows, steps, gates = projected.shape
        projected, weight = projected.clone(memory_format=torch.contiguous_format), weight.contiguous()
        hidden, cells = projected.new_empty(2, rows, steps, gates // 4)
        for t in range(steps):
            _launch(_forward, _FORWARD, t, hidden, projected, weight, hidden, cells)
        ctx.save_for_backward(projected, weight, hidden, cells)
        return hidden, cells[:, -1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *arriving: Tensor) -> tuple[Tensor, Tensor]:
        """Run all steps backwards."""
        gates, weight, hidden, cells = ctx.saved_tensors
        _, steps, size = hidden.shape
        changes, of_hidden = torch.empty_like(gates), arriving[0].contiguous()
        of_cells = arriving[1].clone(memory_format=torch.contiguous_format)
        for t in reversed(range(steps)):
            _launch(_backward, _BACKWARD, t, hidden, gates, changes, weight, cells, of_hidden, of_cells)
        later = changes[:, 1:].reshape(-1, 4 * size)
        return changes, later.T @ hidden[:, :-1].reshape(-1, size)


def _launch(kernel: Any, shape: dict[str, int], t: int, hidden: Tensor, *tensors: Tensor) -> None:
    """Run one step of a kernel; TF32 is used where cuDNN would use it."""
    rows, steps, size = hidden.shape
    grid = (size // shape["CELLS"], triton.cdiv(rows, shape["ROWS"]))
    precision = "tf32" if torch.backends.cudnn.allow_tf32 else "ieee"
    kernel[grid](*tensors, rows, steps, t, SIZE=size, PRECISION=precision, **shape)
