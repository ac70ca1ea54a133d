"""A copy of a model for training: the same parameters and the same function, laid out and computed as suits the device.

On the CPU, images lie channels last, which PyTorch's convolutions and poolings prefer. On CUDA, LSTMs, and convolutions
with what is behind them, run in kernels of our own. A copy is only taken if it gives the answers that the model gives:
some models depend on the layout (`view`).
"""

from copy import deepcopy

import torch
from torch import Tensor, nn

from turbosvm.layers.lstm import QuickLSTM
from turbosvm.layers.pooled import with_pooled_convolutions

CLOSE = 1e-3
"""How far answers may differ, relative to the largest: rounding does, another function differs by more."""


def twin(module: nn.Module) -> nn.Module:
    """A copy; the weights of recurrent layers lie side by side in it, as cuDNN wants them."""
    copy = deepcopy(module)
    for layer in copy.modules():
        if isinstance(layer, nn.RNNBase):
            layer.flatten_parameters()
    return copy


def quicken(module: nn.Module, inputs: Tensor) -> nn.Module:
    """Return the faster copy, or a plain one if that does not do the same on these inputs."""
    quick = twin(module)
    if inputs.is_cuda:
        for layer in quick.modules():
            if type(layer) is nn.LSTM:
                layer.__class__ = QuickLSTM
        with_pooled_convolutions(quick)
    else:
        quick = quick.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return quick if _agree(module, quick, inputs) else twin(module)


@torch.no_grad()
def _agree(module: nn.Module, quick: nn.Module, inputs: Tensor) -> bool:
    """Whether both give the same answers, in evaluation and in training, and keep the same statistics meanwhile."""
    one, two = twin(module), twin(quick)
    try:
        for training in (False, True):
            if not _close(one.train(training)(inputs), two.train(training)(inputs)):
                return False
    except Exception:  # a model that depends on how its inputs lie in memory raises anything
        return False
    return all(_close(value, two.get_buffer(name)) for name, value in one.named_buffers())


def _close(wanted: Tensor, got: Tensor) -> bool:
    if wanted.shape != got.shape or not wanted.is_floating_point():
        return torch.equal(wanted, got)
    return not wanted.numel() or bool((wanted - got).abs().max() <= CLOSE * wanted.abs().max())
