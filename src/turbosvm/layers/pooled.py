"""Convolution, BatchNorm, 2x2 max-pooling and ReLU, which most small CNNs are made of, as one layer on CUDA.

    convolution, pooling, ReLU              one kernel of our own; where channels are few
    convolution, BatchNorm, pooling, ReLU   the convolution is cuDNN's, the rest one kernel
                                            in evaluation, where BatchNorm is a factor and a term: as without it

A convolution's bias in front of BatchNorm is not added: the mean over the batch takes it away again, and its gradient
is zero. Only the running mean knows of it.
"""

from collections import Counter

import torch
from torch import Tensor, nn
from torch.nn import functional

from turbosvm.layers.convolution_cuda import AVAILABLE, ConvolvePoolRelu
from turbosvm.layers.norm_cuda import NormPoolRelu

MOST_CHANNELS = 64
"""Of wider convolutions, the product takes most of the time, which cuDNN does best."""
MOST_NUMBERS = 2**31 - 2**16
"""Of any tensor: the kernels count in 32 bits."""


class PooledConv2d(nn.Conv2d):
    """A `Conv2d` with pooling and ReLU behind it; what the kernels do not take goes the ordinary way."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return relu(max_pool2d(conv2d(inputs), 2))."""
        if self.bias is None or not _poolable(inputs, self.out_channels):
            return functional.relu(functional.max_pool2d(super().forward(inputs), 2))
        convolved: Tensor = ConvolvePoolRelu.apply(inputs, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return convolved


class NormedConv2d(nn.Conv2d):
    """A `Conv2d` with BatchNorm, pooling and ReLU behind it; what the kernel does not take goes the ordinary way."""

    norm: tuple[nn.BatchNorm2d]
    """The BatchNorm, which stays where it was in the model, and passes everything on."""
    narrow: bool
    """Whether `ConvolvePoolRelu` takes the convolution."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return relu(max_pool2d(norm(conv2d(inputs)), 2))."""
        norm = self.norm[0]
        if not norm.training and self.narrow and _poolable(inputs, self.out_channels):
            return self._folded(inputs, norm)
        convolved = self._conv_forward(inputs, self.weight, None) if norm.training and self._taken(inputs) else None
        if convolved is None or convolved.numel() > MOST_NUMBERS:
            return functional.relu(functional.max_pool2d(nn.BatchNorm2d.forward(norm, super().forward(inputs)), 2))
        mean, variance, batches = norm.running_mean, norm.running_var, norm.num_batches_tracked
        assert mean is not None  # noqa: S101 (only such are taken)
        assert batches is not None  # noqa: S101
        batches.add_(1)
        bias = torch.zeros_like(mean) if self.bias is None else self.bias.detach()
        given = (norm.weight, norm.bias, bias, mean, variance, norm.eps, norm.momentum)
        pooled: Tensor = NormPoolRelu.apply(convolved, *given)  # type: ignore[no-untyped-call]
        return pooled

    def _folded(self, inputs: Tensor, norm: nn.BatchNorm2d) -> Tensor:
        """Go through a convolution that does what BatchNorm does, too."""
        assert norm.running_mean is not None  # noqa: S101 (only such are taken)
        assert norm.running_var is not None  # noqa: S101
        factor = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
        term = norm.bias + factor * ((0 if self.bias is None else self.bias) - norm.running_mean)
        weight = self.weight * factor.view(-1, 1, 1, 1)
        pooled: Tensor = ConvolvePoolRelu.apply(inputs, weight, term)  # type: ignore[no-untyped-call]
        return pooled

    @staticmethod
    def _taken(inputs: Tensor) -> bool:
        plain = inputs.is_cuda and inputs.dtype in (torch.float32, torch.float64)
        return plain and inputs.ndim == 4 and inputs.numel() > 0 and not torch.is_autocast_enabled("cuda")


class Passing(nn.BatchNorm2d):
    """A BatchNorm whose work is done by the convolution before it; its numbers stay here."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the inputs."""
        return inputs


def with_pooled_convolutions(module: nn.Module) -> None:
    """Put them in the place of such layers in a row, which keep their names."""
    if not AVAILABLE:
        return
    uses = Counter(id(layer) for _, layer in module.named_modules(remove_duplicate=False))
    for row in list(module.modules()):
        if type(row) is not nn.Sequential:  # others may run their layers in another order
            continue
        layers = [layer if uses[id(layer)] == 1 and not _watched(layer) else nn.Identity() for layer in row]
        for index, convolution in enumerate(layers):
            if _narrow(convolution) and convolution.bias is not None and _halves(*layers[index + 1 : index + 3]):
                convolution.__class__ = PooledConv2d
                row[index + 1], row[index + 2] = nn.Identity(), nn.Identity()
            if _normed(*layers[index : index + 2]) and _halves(*layers[index + 2 : index + 4]):
                norm, narrow = layers[index + 1], _narrow(convolution)
                convolution.__class__, norm.__class__ = NormedConv2d, Passing
                convolution.norm, convolution.narrow = (norm,), narrow  # type: ignore[assignment]
                row[index + 2], row[index + 3] = nn.Identity(), nn.Identity()


def _poolable(inputs: Tensor, channels: int) -> bool:
    """Whether `ConvolvePoolRelu` takes such inputs."""
    plain = inputs.is_cuda and inputs.dtype == torch.float32 and not torch.is_autocast_enabled("cuda")
    even = inputs.ndim == 4 and inputs.shape[2] % 2 == inputs.shape[3] % 2 == 0
    if not (plain and even):
        return False
    images, own, height, width = inputs.shape
    return 0 < images * max(own, channels) * height * width < MOST_NUMBERS


def _watched(layer: nn.Module) -> bool:
    """Whether someone wants to know of, or to change, what goes in or comes out."""
    kinds = ("forward_pre_hooks", "forward_hooks", "backward_pre_hooks", "backward_hooks")
    return any(getattr(layer, f"_{kind}") for kind in kinds)


def _narrow(layer: nn.Module) -> bool:
    return (
        type(layer) is nn.Conv2d
        and layer.groups == 1
        and max(layer.in_channels, layer.out_channels) <= MOST_CHANNELS
        and layer.kernel_size[0] == layer.kernel_size[1]
        and _keeps_size(layer)
    )


def _keeps_size(layer: nn.Conv2d) -> bool:
    """Whether a convolution gives an output of its input's size, padded by zeros."""
    sizes = layer.kernel_size
    same = layer.padding in ("same", tuple(size // 2 for size in sizes)) and all(size % 2 for size in sizes)
    return same and (layer.stride, layer.dilation, layer.padding_mode) == ((1, 1), (1, 1), "zeros")


def _normed(*layers: nn.Module) -> bool:
    """Whether these are a convolution and an ordinary BatchNorm."""
    if [type(layer) for layer in layers] != [nn.Conv2d, nn.BatchNorm2d]:
        return False
    norm = layers[1]
    return bool(norm.affine and norm.track_running_stats and norm.momentum is not None)


def _halves(*layers: nn.Module) -> bool:
    """Whether these are ReLU and a pooling that takes the largest of each two by two; their order does not matter."""
    pooling, relu = sorted(layers, key=lambda layer: type(layer) is nn.ReLU) if len(layers) == 2 else (None, None)
    if type(pooling) is not nn.MaxPool2d or type(relu) is not nn.ReLU:
        return False
    two = (2, (2, 2))
    ordinary = not (pooling.ceil_mode or pooling.return_indices) and pooling.dilation == 1 and pooling.padding == 0
    return pooling.kernel_size in two and pooling.stride in two and ordinary
