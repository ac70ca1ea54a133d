"""A copy of a person's model for a run, with the hooks that the person has put on it.

`deepcopy` leaves the hooks of parameters behind, and copies the objects whose methods are hooks of modules. A copy here
calls the very hooks of the model, so that what they record is where the person looks for it.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import torch
from torch import nn

from turbosvm.errors import TurboSVMError, in_one_line

Hook = Callable[..., Any]

OF_MODULES = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
OF_PARAMETERS = ("_backward_hooks", "_post_accumulate_grad_hooks")


def copy_of(module: nn.Module) -> nn.Module:
    """A copy with the same hooks; refused where the model cannot be copied."""
    inside = {id(layer) for layer in module.modules()}
    hooks = [hook for _, hook in _of_modules(module) if id(getattr(hook, "__self__", None)) not in inside]
    try:
        copy = deepcopy(module, {id(hook): hook for hook in hooks})
    except Exception as error:  # the person's own model may hold anything
        raise TurboSVMError(
            f"Model {type(module).__name__} cannot be copied for a run ({in_one_line(error)}); "
            "leave out of it what has no copy, such as a lock or an open file."
        ) from error
    if not isinstance(copy, nn.Module):
        raise TurboSVMError(f"A copy of model {type(module).__name__} is a {type(copy).__name__}, not a model.")
    others = dict(copy.named_parameters())
    for name, value in module.named_parameters():
        if name in others and others[name] is not value and value.requires_grad:
            for hook in hooks_of(value, "_backward_hooks"):
                others[name].register_hook(hook)
            for hook in hooks_of(value, "_post_accumulate_grad_hooks"):
                others[name].register_post_accumulate_grad_hook(hook)
    return copy


def hooks_of(parameter: torch.Tensor, kind: str) -> list[Hook]:
    """The hooks of one of the kinds in `OF_PARAMETERS`."""
    return list((getattr(parameter, kind, None) or {}).values())


def hooked_part(module: nn.Module) -> str | None:
    """The first part of a model that has a hook, in words; PyTorch's own, as weight_norm has, do not count."""
    for name, value in module.named_parameters():
        if any(hooks_of(value, kind) for kind in OF_PARAMETERS):
            return f"parameter '{name}'"
    for name, _ in _of_modules(module):
        return f"layer '{name}'" if name else "the model itself"
    return None


def _of_modules(module: nn.Module) -> Iterator[tuple[str, Hook]]:
    """The hooks of layers, with the layers' names."""
    for name, layer in module.named_modules():
        for kind in OF_MODULES:
            for hook in getattr(layer, kind).values():
                if not str(getattr(hook, "__module__", "")).startswith("torch."):
                    yield name, hook
