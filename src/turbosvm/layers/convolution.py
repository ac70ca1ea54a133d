"""A convolution of one input channel, such as a model's first on grey images, with a faster gradient on the CPU.

The gradient of the weights is itself a convolution: of the images with the gradient of the output, the samples of the
batch being its channels. PyTorch's own way takes two to three times as long where there is one channel alone.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class GreyConv2d(nn.Conv2d):
    """A `Conv2d` of one channel; inputs that need a gradient go the ordinary way."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the convolution."""
        if inputs.requires_grad or inputs.ndim != 4 or torch.is_autocast_enabled("cpu"):
            return super().forward(inputs)
        convolved: Tensor = _Convolve.apply(inputs, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return convolved


def with_grey_convolutions(module: nn.Module) -> None:
    """Put them in the place of convolutions of one channel, as far as those are of the ordinary kind."""
    for layer in module.modules():
        if type(layer) is nn.Conv2d and layer.in_channels == 1 and is_same(layer):
            layer.__class__ = GreyConv2d


def is_same(layer: nn.Conv2d) -> bool:
    """Whether a convolution gives an output of its input's size, padded by zeros."""
    sizes = layer.kernel_size
    same = layer.padding in ("same", tuple(size // 2 for size in sizes)) and all(size % 2 for size in sizes)
    return same and (layer.stride, layer.dilation, layer.padding_mode) == ((1, 1), (1, 1), "zeros")


class _Convolve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(inputs)
        ctx.padding = [size // 2 for size in weight.shape[2:]]
        return functional.conv2d(inputs, weight, bias, padding=ctx.padding)

    @staticmethod
    def backward(ctx: Any, *arriving: Tensor) -> tuple[None, Tensor, Tensor | None]:
        (inputs,), change = ctx.saved_tensors, arriving[0]
        images, kernels = inputs.transpose(0, 1), change.transpose(0, 1)
        weight = functional.conv2d(images, kernels, padding=ctx.padding).transpose(0, 1)
        return None, weight, change.sum(dim=(0, 2, 3)) if ctx.needs_input_grad[2] else None
