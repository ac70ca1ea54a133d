"""First weights drawn from a given generator, by the rules that PyTorch's own layers use.

PyTorch's constructors draw from the global generator. Built-in models are therefore built without memory (on the "meta"
device), given memory, and filled here.
"""

from collections.abc import Callable, Iterable
from math import sqrt

import torch
from torch import Tensor, nn


def build_from_stream(build: Callable[[], nn.Module], rng: torch.Generator) -> nn.Module:
    """Build a model whose weights come from `rng` alone."""
    with torch.device("meta"):
        module = build()
    module.to_empty(device="cpu")
    for layer in module.modules():
        _fill(layer, rng)
    return module


@torch.no_grad()
def _fill(layer: nn.Module, rng: torch.Generator) -> None:
    match layer:
        case nn.Linear() | nn.Conv2d():
            _uniform(layer.parameters(recurse=False), 1 / sqrt(layer.weight[0].numel()), rng)
        case nn.LSTM():
            _uniform(layer.parameters(), 1 / sqrt(layer.hidden_size), rng)
        case nn.Embedding():
            layer.weight.normal_(generator=rng)
        case nn.BatchNorm2d():
            layer.reset_parameters()  # ones and zeros: nothing is drawn
        case _ if any(True for _ in layer.parameters(recurse=False)):
            raise TypeError(f"no rule for the first weights of {type(layer).__name__}")


def _uniform(tensors: Iterable[Tensor], bound: float, rng: torch.Generator) -> None:
    for tensor in tensors:
        tensor.uniform_(-bound, bound, generator=rng)
