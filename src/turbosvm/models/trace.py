"""Which layer of a model does something that a faster way of training cannot follow."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle


def layer_that_draws(module: nn.Module, inputs: Tensor) -> str | None:
    """The layer that draws random numbers in training mode, in words; None if none does.

    Such numbers come from PyTorch's global generator, of which there is one for all clients.
    """
    states: list[Tensor] = []
    drawing: list[str] = []

    def enter(name: str, layer: nn.Module) -> None:  # noqa: ARG001
        states.append(_generator_state(inputs.device))

    def leave(name: str, layer: nn.Module) -> None:
        if not torch.equal(states.pop(), _generator_state(inputs.device)):
            drawing.append(_told(name, layer))

    with torch.random.fork_rng(), torch.no_grad(), _in_training(module), _hooked(module, enter, leave):
        module(inputs)
    return drawing[0] if drawing else None  # the innermost ends first


@contextmanager
def watched(module: nn.Module) -> Iterator[list[str]]:
    """Layers that are running, the innermost last, in words: if an error ends the block, the last one is its place."""
    inside: list[str] = []

    def enter(name: str, layer: nn.Module) -> None:
        inside.append(_told(name, layer))

    def leave(name: str, layer: nn.Module) -> None:  # noqa: ARG001
        inside.pop()

    with _hooked(module, enter, leave):
        yield inside


def _told(name: str, layer: nn.Module) -> str:
    kind = type(layer).__name__
    return f"layer '{name}' ({kind})" if name else f"the model itself ({kind})"


def _generator_state(device: torch.device) -> Tensor:
    """What changes with each random number."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


@contextmanager
def _in_training(module: nn.Module) -> Iterator[None]:
    """Training mode for a while; buffers get their numbers back."""
    was_training, buffers = module.training, {name: value.clone() for name, value in module.named_buffers()}
    module.train()
    try:
        yield
    finally:
        module.train(was_training)
        for name, value in module.named_buffers():
            value.copy_(buffers[name])


@contextmanager
def _hooked(
    module: nn.Module,
    before: Callable[[str, nn.Module], None],
    after: Callable[[str, nn.Module], None],
) -> Iterator[None]:
    """Have functions called with each layer's name, before and after it runs."""
    hooks: list[RemovableHandle] = []
    for name, layer in module.named_modules():
        hooks.append(layer.register_forward_pre_hook(lambda one, _, name=name: before(name, one)))
        hooks.append(layer.register_forward_hook(lambda one, *_, name=name: after(name, one)))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
