"""Convolution, 2x2 max-pooling and ReLU, which most small CNNs are made of, as one layer on CUDA."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from turbosvm.layers.convolution import is_same
from turbosvm.layers.convolution_cuda import AVAILABLE, ConvolvePoolRelu

MOST_CHANNELS = 64
"""Of wider convolutions, the product takes most of the time, which cuDNN does best."""
MOST_NUMBERS = 2**26
"""Of an input: the kernels count in 32 bits."""


class PooledConv2d(nn.Conv2d):
    """A `Conv2d` with pooling and ReLU behind it; what the kernels do not take goes the ordinary way."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return relu(max_pool2d(conv2d(inputs), 2))."""
        if self.bias is None or not self._taken(inputs):
            return functional.relu(functional.max_pool2d(super().forward(inputs), 2))
        convolved: Tensor = ConvolvePoolRelu.apply(inputs, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return convolved

    @staticmethod
    def _taken(inputs: Tensor) -> bool:
        plain = inputs.is_cuda and inputs.dtype == torch.float32 and not torch.is_autocast_enabled("cuda")
        even = inputs.ndim == 4 and inputs.shape[2] % 2 == inputs.shape[3] % 2 == 0
        return plain and even and 0 < inputs.numel() < MOST_NUMBERS


def with_pooled_convolutions(module: nn.Module) -> None:
    """Put them in the place of such three layers in a row, which keep their names."""
    for row in module.modules():
        if not (AVAILABLE and isinstance(row, nn.Sequential)):
            continue
        layers = list(row)
        for index, (convolution, *rest) in enumerate(zip(layers, layers[1:], layers[2:], strict=False)):
            if _narrow(convolution) and (_is_halving(rest[0], rest[1]) or _is_halving(rest[1], rest[0])):
                convolution.__class__ = PooledConv2d
                row[index + 1], row[index + 2] = nn.Identity(), nn.Identity()


def _narrow(layer: nn.Module) -> bool:
    return (
        type(layer) is nn.Conv2d
        and layer.bias is not None
        and layer.groups == 1
        and max(layer.in_channels, layer.out_channels) <= MOST_CHANNELS
        and layer.kernel_size[0] == layer.kernel_size[1]
        and is_same(layer)
    )


def _is_halving(pooling: nn.Module, relu: nn.Module) -> bool:
    """Whether these are ReLU and a pooling that takes the largest of each two by two; their order does not matter."""
    if type(pooling) is not nn.MaxPool2d or type(relu) is not nn.ReLU:
        return False
    two = (2, (2, 2))
    ordinary = not (pooling.ceil_mode or pooling.return_indices) and pooling.dilation == 1 and pooling.padding == 0
    return pooling.kernel_size in two and pooling.stride in two and ordinary
