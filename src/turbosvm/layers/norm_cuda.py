"""BatchNorm in training mode, 2x2 max-pooling and ReLU in one kernel on CUDA, in Triton, forwards and backwards.

    z = (x - mean) / sqrt(var + eps) * scale + shift,    y[p] = relu(max over the four z of p)

A program has a channel to itself: it reads it for the mean, for the variance and once more to normalise and pool it,
mostly from the cache. Between the layers nothing is written.

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

    @triton.jit(do_not_specialize=["images"])
    def _forward(
        x,  # [B, C, H, W]
        scale,  # [C]
        shift,
        bias,  # what the convolution before would have added to x; only the running mean sees it
        running_mean,  # [C], moved towards the batch's
        running_var,
        out,  # [B, C, H // 2, W // 2]
        chosen,  # the same: which of the four was the largest; 4 where ReLU gives zero
        means,  # [C]
        inverses,  # [C]: 1 / sqrt(var + eps)
        images,
        channels,
        H: tl.constexpr,  # noqa: N803
        W: tl.constexpr,  # noqa: N803
        EPS: tl.constexpr,  # noqa: N803
        MOMENTUM: tl.constexpr,  # noqa: N803
        BLOCK: tl.constexpr,  # noqa: N803
    ):
        channel = tl.program_id(0)
        kind: tl.constexpr = x.dtype.element_ty
        size: tl.constexpr = H * W
        count, number = images * size, (images * size).to(kind)
        at = tl.arange(0, BLOCK)
        total = tl.zeros((BLOCK,), kind)
        for start in range(0, count, BLOCK):
            i = start + at
            total += tl.load(x + ((i // size) * channels + channel) * size + i % size, mask=i < count, other=0.0)
        mean = tl.sum(total) / number
        total = tl.zeros((BLOCK,), kind)
        for start in range(0, count, BLOCK):
            i = start + at
            value = tl.load(x + ((i // size) * channels + channel) * size + i % size, mask=i < count, other=0.0)
            total += tl.where(i < count, (value - mean) * (value - mean), 0.0)
        spread = tl.sum(total)
        inverse = 1.0 / tl.sqrt(spread / number + EPS)
        tl.store(means + channel, mean)
        tl.store(inverses + channel, inverse)
        before = tl.load(running_mean + channel)
        tl.store(running_mean + channel, before + MOMENTUM * (mean + tl.load(bias + channel) - before))
        before = tl.load(running_var + channel)
        tl.store(running_var + channel, before + MOMENTUM * (spread / (number - 1.0) - before))
        height: tl.constexpr = H // 2
        width: tl.constexpr = W // 2
        pooled: tl.constexpr = height * width
        k, s = tl.load(scale + channel) * inverse, tl.load(shift + channel)
        for start in range(0, images * pooled, BLOCK):
            i = start + at
            live, p = i < images * pooled, i % pooled
            own = x + ((i // pooled) * channels + channel) * size + 2 * (p // width) * W + 2 * (p % width)
            a = (tl.load(own, mask=live, other=0.0) - mean) * k + s
            which = tl.zeros((BLOCK,), tl.int32)
            for quarter in tl.static_range(1, 4):
                b = (tl.load(own + (quarter // 2) * W + quarter % 2, mask=live, other=0.0) - mean) * k + s
                larger = (b > a) | (b != b)
                which, a = tl.where(larger, quarter, which), tl.where(larger, b, a)
            place = ((i // pooled) * channels + channel) * pooled + p
            tl.store(out + place, tl.where(a <= 0, 0.0, a), mask=live)
            tl.store(chosen + place, tl.where(a <= 0, 4, which).to(tl.uint8), mask=live)

    @triton.jit(do_not_specialize=["images"])
    def _backward(
        x,  # [B, C, H, W]
        scale,  # [C]
        means,
        inverses,
        arriving,  # [B, C, H // 2, W // 2]
        chosen,
        out,  # [B, C, H, W]: the gradient of x
        of_scale,  # [C]
        of_shift,
        images,
        channels,
        H: tl.constexpr,  # noqa: N803
        W: tl.constexpr,  # noqa: N803
        BLOCK: tl.constexpr,  # noqa: N803
    ):
        channel = tl.program_id(0)
        kind: tl.constexpr = x.dtype.element_ty
        size: tl.constexpr = H * W
        height: tl.constexpr = H // 2
        width: tl.constexpr = W // 2
        pooled: tl.constexpr = height * width
        at = tl.arange(0, BLOCK)
        mean, inverse = tl.load(means + channel), tl.load(inverses + channel)
        sums, products = tl.zeros((BLOCK,), kind), tl.zeros((BLOCK,), kind)
        for start in range(0, images * pooled, BLOCK):
            i = start + at
            p, place = i % pooled, ((i // pooled) * channels + channel) * pooled + i % pooled
            q = tl.load(chosen + place, mask=i < images * pooled, other=4).to(tl.int32)
            g = tl.load(arriving + place, mask=q < 4, other=0.0)
            own = x + ((i // pooled) * channels + channel) * size + 2 * (p // width) * W + 2 * (p % width)
            value = tl.load(own + (q // 2) * W + q % 2, mask=q < 4, other=0.0)
            sums += g
            products += tl.where(q < 4, g * ((value - mean) * inverse), 0.0)
        total, product = tl.sum(sums), tl.sum(products)
        tl.store(of_shift + channel, total)
        tl.store(of_scale + channel, product)
        count, number = images * size, (images * size).to(kind)
        k = tl.load(scale + channel) * inverse
        for start in range(0, count, BLOCK):
            i = start + at
            image, row, column = i // size, (i % size) // W, i % W
            inside = (i < count) & (row < 2 * height) & (column < 2 * width)
            place = (image * channels + channel) * pooled + (row // 2) * width + column // 2
            mine = tl.load(chosen + place, mask=inside, other=4).to(tl.int32) == (row % 2) * 2 + column % 2
            g = tl.where(mine, tl.load(arriving + place, mask=inside, other=0.0), 0.0)
            own = (image * channels + channel) * size + i % size
            normal = (tl.load(x + own, mask=i < count, other=0.0) - mean) * inverse
            tl.store(out + own, k * (g - total / number - normal * (product / number)), mask=i < count)


class NormPoolRelu(torch.autograd.Function):
    """From `x [B, C, H, W]`, `scale [C]` and `shift [C]` to `[B, C, H // 2, W // 2]`; running statistics are moved."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        scale: Tensor,
        shift: Tensor,
        bias: Tensor,
        running_mean: Tensor,
        running_var: Tensor,
        eps: float,
        momentum: float,
    ) -> Tensor:
        """Normalise, pool, cut off below zero."""
        images, channels, height, width = x.shape
        x = x.contiguous()
        out = x.new_empty(images, channels, height // 2, width // 2)
        chosen = torch.empty_like(out, dtype=torch.uint8)
        means, inverses = x.new_empty(2, channels)
        _forward[channels,](
            *(x, scale, shift, bias, running_mean, running_var, out, chosen, means, inverses, images, channels),
            H=height,
            W=width,
            EPS=eps,
            MOMENTUM=momentum,
            **_SHAPE,
        )
        ctx.save_for_backward(x, scale, means, inverses, chosen)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *arrived: Tensor) -> tuple[Tensor | None, ...]:
        """Send the gradient of each pooled position to the place it was taken from, and through the normalisation."""
        x, scale, means, inverses, chosen = ctx.saved_tensors
        images, channels, height, width = x.shape
        out, (of_scale, of_shift) = torch.empty_like(x), x.new_empty(2, channels)
        _backward[channels,](
            *(x, scale, means, inverses, arrived[0].contiguous(), chosen, out, of_scale, of_shift, images, channels),
            H=height,
            W=width,
            **_SHAPE,
        )
        return out, of_scale, of_shift, None, None, None, None, None


_SHAPE = {"BLOCK": 2048, "num_warps": 8}
