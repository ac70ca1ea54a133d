"""Convolution, bias, 2x2 max-pooling and ReLU in one pass on CUDA, in Triton, forwards and backwards.

    y[p] = relu(b + max over q of sum_k x[p, q, k] w[k])     p a pooled position, q one of its four, k in the window

The convolution's own output, four times as large as what is left after pooling, is never written: forwards, a program
computes the four sums of each of its pooled positions and keeps the largest, with its place q; backwards, a gradient
that arrives at p belongs to place q alone. Images of few channels spend most of their time on such passes over memory.
Windows run over (row, column, channel), so that neighbours in memory are read together: activations lie channels last.

Triton comes with PyTorch's CUDA builds; where it does not (Windows), PyTorch's own layers stay.
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
    def _dot(one, two, total, PRECISION: tl.constexpr):  # noqa: N803
        """Add a product; numbers are rounded to TF32, where the hardware would cut them off."""
        if PRECISION == "tf32":
            one = tl.inline_asm_elementwise("cvt.rna.tf32.f32 $0, $1;", "=r,r", [one], tl.float32, True, 1)
            two = tl.inline_asm_elementwise("cvt.rna.tf32.f32 $0, $1;", "=r,r", [two], tl.float32, True, 1)
        return tl.dot(one, two, total, input_precision=PRECISION)

    @triton.jit
    def _window(
        x,
        image,
        row,
        column,
        at,
        live,
        strides,
        C: tl.constexpr,  # noqa: N803
        H: tl.constexpr,  # noqa: N803
        W: tl.constexpr,  # noqa: N803
        SIDE: tl.constexpr,  # noqa: N803
    ):
        """What lies at places `at` of the windows around pixels: `[pixels, places]`, zero outside of the image."""
        channel, tap = at % C, at // C
        y = row[:, None] + (tap // SIDE)[None, :] - SIDE // 2
        x_ = column[:, None] + (tap % SIDE)[None, :] - SIDE // 2
        inside = live[:, None] & (tap < SIDE * SIDE)[None, :] & (y >= 0) & (y < H) & (x_ >= 0) & (x_ < W)
        place = image[:, None] * strides[0] + channel[None, :] * strides[1] + y * strides[2] + x_ * strides[3]
        return tl.load(x + place, mask=inside, other=0.0)

    @triton.jit
    def _forward(
        x,  # [B, C, H, W], in any layout
        weight,  # [SIDE * SIDE * C, N]
        bias,  # [N]
        out,  # [B, H / 2, W / 2, N]
        chosen,  # the same: which of the four was the largest; 4 where ReLU gives zero
        images,
        s0,
        s1,
        s2,
        s3,
        C: tl.constexpr,  # noqa: N803
        H: tl.constexpr,  # noqa: N803
        W: tl.constexpr,  # noqa: N803
        N: tl.constexpr,  # noqa: N803
        SIDE: tl.constexpr,  # noqa: N803
        ROWS: tl.constexpr,  # noqa: N803
        COLUMNS: tl.constexpr,  # noqa: N803
        DEPTH: tl.constexpr,  # noqa: N803
        PRECISION: tl.constexpr,  # noqa: N803
    ):
        position = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        live = position < images * (H // 2) * (W // 2)
        image, within = position // ((H // 2) * (W // 2)), position % ((H // 2) * (W // 2))
        row, column = 2 * (within // (W // 2)), 2 * (within % (W // 2))
        channel = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        some = channel < N
        strides = (s0, s1, s2, s3)
        a = tl.zeros((ROWS, COLUMNS), tl.float32)
        b, c, d = a, a, a
        for start in range(0, SIDE * SIDE * C, DEPTH):
            at = start + tl.arange(0, DEPTH)
            w = tl.load(
                weight + at[:, None] * N + channel[None, :],
                mask=(at < SIDE * SIDE * C)[:, None] & some[None, :],
                other=0.0,
            )
            a = _dot(_window(x, image, row, column, at, live, strides, C, H, W, SIDE), w, a, PRECISION)
            b = _dot(_window(x, image, row, column + 1, at, live, strides, C, H, W, SIDE), w, b, PRECISION)
            c = _dot(_window(x, image, row + 1, column, at, live, strides, C, H, W, SIDE), w, c, PRECISION)
            d = _dot(
                _window(x, image, row + 1, column + 1, at, live, strides, C, H, W, SIDE),
                w,
                d,
                PRECISION,
            )
        which = tl.zeros((ROWS, COLUMNS), tl.int32)
        which = tl.where((b > a) | (b != b), 1, which)
        a = tl.where((b > a) | (b != b), b, a)
        which = tl.where((c > a) | (c != c), 2, which)
        a = tl.where((c > a) | (c != c), c, a)
        which = tl.where((d > a) | (d != d), 3, which)
        a = tl.where((d > a) | (d != d), d, a)
        a += tl.load(bias + channel, mask=some, other=0.0)[None, :]
        place, mask = position[:, None] * N + channel[None, :], live[:, None] & some[None, :]
        tl.store(out + place, tl.where(a <= 0, 0.0, a), mask=mask)
        tl.store(chosen + place, tl.where(a <= 0, 4, which).to(tl.uint8), mask=mask)

    @triton.jit
    def _of_inputs(
        arriving,  # [B, H / 2, W / 2, N]
        chosen,
        weight,  # [SIDE * SIDE * N, C]: turned round
        out,  # [B, H, W, C]
        images,
        C: tl.constexpr,  # noqa: N803
        H: tl.constexpr,  # noqa: N803
        W: tl.constexpr,  # noqa: N803
        N: tl.constexpr,  # noqa: N803
        SIDE: tl.constexpr,  # noqa: N803
        ROWS: tl.constexpr,  # noqa: N803
        COLUMNS: tl.constexpr,  # noqa: N803
        DEPTH: tl.constexpr,  # noqa: N803
        PRECISION: tl.constexpr,  # noqa: N803
    ):
        """The gradient of the inputs: each pixel gathers from the windows that it is in."""
        position = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        live = position < images * H * W
        image, within = position // (H * W), position % (H * W)
        row, column = within // W, within % W
        channel = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        total = tl.zeros((ROWS, COLUMNS), tl.float32)
        for start in range(0, SIDE * SIDE * N, DEPTH):
            at = start + tl.arange(0, DEPTH)
            n, tap = at % N, at // N
            y = row[:, None] + (tap // SIDE)[None, :] - SIDE // 2
            x = column[:, None] + (tap % SIDE)[None, :] - SIDE // 2
            inside = live[:, None] & (tap < SIDE * SIDE)[None, :] & (y >= 0) & (y < H) & (x >= 0) & (x < W)
            place = ((image[:, None] * (H // 2) + y // 2) * (W // 2) + x // 2) * N + n[None, :]
            mine = tl.load(chosen + place, mask=inside, other=4) == (y % 2) * 2 + x % 2
            g = tl.where(mine, tl.load(arriving + place, mask=inside, other=0.0), 0.0)
            w = tl.load(
                weight + at[:, None] * C + channel[None, :],
                mask=(at < SIDE * SIDE * N)[:, None] & (channel < C)[None, :],
                other=0.0,
            )
            total = _dot(g, w, total, PRECISION)
        tl.store(out + position[:, None] * C + channel[None, :], total, mask=live[:, None] & (channel < C)[None, :])

    @triton.jit
    def _of_weights(
        x,  # [B, C, H, W], in any layout
        arriving,  # [B, H / 2, W / 2, N]
        chosen,
        parts,  # [parts, SIDE * SIDE * C + 1, N]: of the weights, and of the bias
        images,
        each,  # positions a part
        s0,
        s1,
        s2,
        s3,
        C: tl.constexpr,  # noqa: N803
        H: tl.constexpr,  # noqa: N803
        W: tl.constexpr,  # noqa: N803
        N: tl.constexpr,  # noqa: N803
        SIDE: tl.constexpr,  # noqa: N803
        ROWS: tl.constexpr,  # noqa: N803
        COLUMNS: tl.constexpr,  # noqa: N803
        DEPTH: tl.constexpr,  # noqa: N803
        PRECISION: tl.constexpr,  # noqa: N803
    ):
        """The gradient of weights and bias, from some of the pooled positions."""
        at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        channel = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        some, part, strides = channel < N, tl.program_id(2), (s0, s1, s2, s3)
        total, of_bias = tl.zeros((ROWS, COLUMNS), tl.float32), tl.zeros((COLUMNS,), tl.float32)
        for start in range(0, each, DEPTH):
            position = part * each + start + tl.arange(0, DEPTH)
            live = (start + tl.arange(0, DEPTH) < each) & (position < images * (H // 2) * (W // 2))
            image, within = position // ((H // 2) * (W // 2)), position % ((H // 2) * (W // 2))
            row, column = 2 * (within // (W // 2)), 2 * (within % (W // 2))
            place, mask = position[:, None] * N + channel[None, :], live[:, None] & some[None, :]
            g = tl.load(arriving + place, mask=mask, other=0.0)
            q = tl.load(chosen + place, mask=mask, other=4)
            of_bias += tl.sum(tl.where(q < 4, g, 0.0), axis=0)
            for quarter in tl.static_range(4):
                seen = _window(x, image, row + quarter // 2, column + quarter % 2, at, live, strides, C, H, W, SIDE)
                total = _dot(tl.trans(seen), tl.where(q == quarter, g, 0.0), total, PRECISION)
        own = parts + part * (SIDE * SIDE * C + 1) * N
        tl.store(own + at[:, None] * N + channel[None, :], total, mask=(at < SIDE * SIDE * C)[:, None] & some[None, :])
        if tl.program_id(0) == 0:
            tl.store(own + SIDE * SIDE * C * N + channel, of_bias, mask=some)


class ConvolvePoolRelu(torch.autograd.Function):
    """From `x [B, C, H, W]`, `w [N, C, SIDE, SIDE]` and `b [N]` to `[B, N, H / 2, W / 2]`; H, W even, SIDE odd."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Convolve, pool, cut off below zero."""
        images, (n, c, side, _), (h, w) = len(x), weight.shape, x.shape[2:]
        taps = weight.permute(2, 3, 1, 0).reshape(side * side * c, n).contiguous()
        out = x.new_empty(images, h // 2, w // 2, n)
        chosen = torch.empty_like(out, dtype=torch.uint8)
        shape = _shape("forward", c, n)
        grid = (triton.cdiv(images * h * w // 4, shape["ROWS"]), triton.cdiv(n, shape["COLUMNS"]))
        _forward[grid](
            x,
            taps,
            bias,
            out,
            chosen,
            images,
            *x.stride(),
            C=c,
            H=h,
            W=w,
            N=n,
            SIDE=side,
            PRECISION=_precision(),
            **shape,
        )
        ctx.save_for_backward(x, weight, chosen)
        return out.permute(0, 3, 1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *arrived: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        """Send the gradient of each pooled position to the place it was taken from."""
        x, weight, chosen = ctx.saved_tensors
        images, (n, c, side, _), (h, w) = len(x), weight.shape, x.shape[2:]
        arriving = arrived[0].permute(0, 2, 3, 1).contiguous()
        common = {"C": c, "H": h, "W": w, "N": n, "SIDE": side, "PRECISION": _precision()}
        of_inputs = None
        if ctx.needs_input_grad[0]:
            turned = weight.flip(2, 3).permute(2, 3, 0, 1).reshape(side * side * n, c).contiguous()
            of_inputs, shape = x.new_empty(images, h, w, c), _shape("of_inputs", c, n)
            grid = (triton.cdiv(images * h * w, shape["ROWS"]), triton.cdiv(c, shape["COLUMNS"]))
            _of_inputs[grid](arriving, chosen, turned, of_inputs, images, **common, **shape)
            of_inputs = of_inputs.permute(0, 3, 1, 2)
        shape, window, positions = _shape("of_weights", c, n), side * side * c, images * h * w // 4
        tiles = triton.cdiv(window, shape["ROWS"]) * triton.cdiv(n, shape["COLUMNS"])
        count = max(1, min(PARTS // tiles, positions // shape["DEPTH"]))
        each = triton.cdiv(triton.cdiv(positions, count), shape["DEPTH"]) * shape["DEPTH"]
        count = triton.cdiv(positions, each)
        parts = x.new_empty(count, window + 1, n)
        _of_weights[triton.cdiv(window, shape["ROWS"]), triton.cdiv(n, shape["COLUMNS"]), count](
            x, arriving, chosen, parts, images, each, *x.stride(), **common, **shape
        )
        total = parts.sum(dim=0)
        of_weight = total[:-1].view(side, side, c, n).permute(3, 2, 0, 1).contiguous()
        return of_inputs, of_weight, total[-1]


PARTS = 104
"""Programs that share the sums of the weights' gradient."""

# The fastest shapes of those tried on an H200, eight clients side by side, at the two convolutions of FEMNIST's CNN.
_GREY = {
    "forward": {"ROWS": 64, "DEPTH": 32, "num_warps": 4, "num_stages": 1},
    "of_inputs": {"ROWS": 64, "DEPTH": 32, "num_warps": 4, "num_stages": 1},
    "of_weights": {"ROWS": 32, "DEPTH": 32, "num_warps": 4, "num_stages": 1},
}
_SHAPES = {
    "forward": {"ROWS": 32, "DEPTH": 32, "num_warps": 4, "num_stages": 3},
    "of_inputs": {"ROWS": 64, "DEPTH": 32, "num_warps": 4, "num_stages": 1},
    "of_weights": {"ROWS": 128, "DEPTH": 32, "num_warps": 4, "num_stages": 1},
}


def _shape(kernel: str, inputs: int, outputs: int) -> dict[str, int]:
    """How much of its work a program does."""
    columns = inputs if kernel == "of_inputs" else outputs
    shape = _GREY[kernel] if inputs == 1 else _SHAPES[kernel]
    return {**shape, "COLUMNS": min(64, max(16, triton.next_power_of_2(columns)))}


def _precision() -> str:
    """TF32 where cuDNN would use it."""
    return "tf32" if torch.backends.cudnn.allow_tf32 else "ieee"
