"""The body/head contract: a classifier is f(x) = W g(x), and it says which of its layers is W.

The head W is an `nn.Linear`, one row per class; everything else is the body g. Any `nn.Module` fits by naming that
layer. Server rules see the head as one matrix `[K, D]` of class embeddings, a bias being its last column.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from turbosvm.blocks import copied, copy_into
from turbosvm.errors import TurboSVMError, in_one_line, unknown
from turbosvm.types import ModelState, Weights


@dataclass(frozen=True)
class Head:
    """Which parameters of a model are its head."""

    weight: str
    bias: str | None
    layer: str = ""
    """The name of the linear layer itself."""

    @property
    def names(self) -> tuple[str, ...]:
        """The head's parameter names."""
        return (self.weight,) if self.bias is None else (self.weight, self.bias)

    def embeddings(self, parameters: Weights) -> Tensor:
        """The class embeddings, `[K, D]`, or `[C, K, D]` from stacked parameters; a bias is the last column."""
        weight = parameters[self.weight]
        return weight if self.bias is None else torch.cat([weight, parameters[self.bias].unsqueeze(-1)], dim=-1)

    def parameters(self, embeddings: Tensor) -> Weights:
        """Turn class embeddings back into the head's parameters; the inverse of `embeddings`."""
        if self.bias is None:
            return {self.weight: embeddings}
        return {self.weight: embeddings[..., :-1].contiguous(), self.bias: embeddings[..., -1].contiguous()}


def find_head(module: nn.Module, name: str | None = None) -> Head:
    """Return the head of a model: the layer called `name`, or the one that the model's `head_name` names.

    Raises:
        TurboSVMError: the layer is missing, is not linear, or no name was given; the text lists the linear layers.
    """
    layers = dict(module.named_modules())
    linear = [layer for layer, kind in layers.items() if isinstance(kind, nn.Linear)]
    kind = type(module).__name__
    name = getattr(module, "head_name", None) if name is None else name
    if name is None:
        raise TurboSVMError(
            f"Model {kind} does not say which layer is its head; name one of its linear layers: {_listing(linear)}."
        )
    if name not in layers:
        raise unknown("head layer", name, linear, where=f"of model {kind}")
    if not isinstance(layer := layers[name], nn.Linear):
        raise TurboSVMError(
            f"The head '{name}' of model {kind} is a {type(layer).__name__}, not a linear layer; "
            f"linear layers: {_listing(linear)}."
        )
    names = {id(parameter): key for key, parameter in module.named_parameters()}  # one name each, also where shared
    own = [layer.weight] if layer.bias is None else [layer.weight, layer.bias]
    if any(id(parameter) not in names for parameter in own):
        raise TurboSVMError(
            f"The head '{name}' of model {kind} is computed from other parameters; it cannot be merged."
        )
    return Head(names[id(layer.weight)], None if layer.bias is None else names[id(layer.bias)], name)


def check_fit(module: nn.Module, head: Head, inputs: Tensor, classes: int) -> None:
    """Refuse a model that does not give `classes` logits for each of these inputs; its numbers stay as they are.

    A lazy model gets its first numbers here.
    """
    kind = type(module).__name__
    weight = dict(module.named_parameters())[head.weight]
    lazy = is_lazy(weight)  # its shape comes with its first inputs
    _refuse_other_classes(kind, head, classes if lazy else len(weight), classes)
    was_training = module.training
    module.eval()
    try:
        with torch.no_grad():
            logits = module(inputs)
    except Exception as error:  # the person's own code may raise anything
        hint = " (NumPy's default is float64, PyTorch's float32)" if inputs.dtype == torch.float64 else ""
        raise TurboSVMError(
            f"Model {kind} cannot take inputs of shape {list(inputs.shape)} and type {inputs.dtype}{hint}: "
            f"{in_one_line(error)}"
        ) from error
    finally:
        module.train(was_training)
    unused = [name for name, value in [*module.named_parameters(), *module.named_buffers()] if is_lazy(value)]
    if unused:
        raise TurboSVMError(f"Model {kind} does not use its lazy parameter '{unused[0]}', whose shape is then unknown.")
    _refuse_other_classes(kind, head, len(weight), classes)
    if not isinstance(logits, Tensor) or logits.shape != (len(inputs), classes):
        got = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise TurboSVMError(f"Model {kind} must give logits of shape {[len(inputs), classes]}, not {got}.")


def _refuse_other_classes(kind: str, head: Head, rows: int, classes: int) -> None:
    if rows != classes:
        raise TurboSVMError(f"The head '{head.weight}' of model {kind} has {rows} classes, the data has {classes}.")


def placed(module: nn.Module, device: torch.device) -> nn.Module:
    """The model where it is to compute; refused where its numbers cannot be brought there."""
    try:
        return module.to(device)
    except Exception as error:  # numbers on no device, and whatever a model's own `to` raises
        raise TurboSVMError(
            f"Model {type(module).__name__} cannot be put on device '{device}': {in_one_line(error)}"
        ) from error


def frozen_in(module: nn.Module) -> tuple[str, ...]:
    """The names of the parameters that nobody is to move: those that ask for no gradient."""
    return tuple(name for name, value in module.named_parameters() if not value.requires_grad)


def state_of(module: nn.Module) -> ModelState:
    """Copy a model's numbers out of it."""
    return ModelState(copied(dict(module.named_parameters())), copied(dict(module.named_buffers())))


def load_state(module: nn.Module, state: ModelState) -> None:
    """Copy numbers into a model, in place; a buffer that the model has given another shape gets its own back."""
    parameters = dict(module.named_parameters())
    copy_into({name: parameters[name] for name in state.parameters}, state.parameters)
    buffers = dict(module.named_buffers())
    for name, value in state.buffers.items():
        if name not in buffers or buffers[name].shape != value.shape:
            layer, _, own = name.rpartition(".")
            buffers[name] = value.detach().clone()
            setattr(module.get_submodule(layer), own, buffers[name])
    copy_into({name: buffers[name] for name in state.buffers}, state.buffers)


def _listing(names: list[str]) -> str:
    return ", ".join(name or "'' (the model itself)" for name in names) if names else "(it has none)"
