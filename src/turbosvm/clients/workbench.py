"""The module that clients train on: their numbers are loaded into it, one client after another."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import functional_call

from turbosvm.blocks import Layout, copied, copy_into, laid_out
from turbosvm.errors import TurboSVMError
from turbosvm.inputs import as_model_input
from turbosvm.models.contract import Head
from turbosvm.models.copies import hooks_of
from turbosvm.precision import Precision, mixed
from turbosvm.types import ModelState, Weights


class Workbench:
    """A module, with a view of what its head sees, run at its own weights or at others."""

    def __init__(self, module: nn.Module, head: Head, precision: Precision = "float32") -> None:
        self.module, self.head = module, head
        self.device = next(module.parameters()).device
        self._precision = precision
        self._parameters: Weights = dict(module.named_parameters())
        self._buffers: Weights = dict(module.named_buffers())
        self._seats = [
            (layer._buffers, name, value)
            for layer in module.modules()
            for name, value in layer._buffers.items()
            if value is not None
        ]
        self._after_accumulation = {
            name: value for name, value in self._parameters.items() if hooks_of(value, "_post_accumulate_grad_hooks")
        }
        self._laid_out: ModelState | None = None

    def lay_out(self, parameters: Layout, buffers: Layout) -> None:
        """Have the module's numbers lie side by side in memory, so that one copy puts in or takes out all of them."""
        self._laid_out = ModelState(laid_out(parameters, self.device), laid_out(buffers, self.device))
        copy_into(self._laid_out.parameters, self._parameters)
        copy_into(self._laid_out.buffers, self._buffers)
        for name, value in self._parameters.items():
            value.data = self._laid_out.parameters[name]
        for name, value in self._buffers.items():
            value.data = self._laid_out.buffers[name]
        for layer in self.module.modules():
            if isinstance(layer, nn.RNNBase):
                layer.flatten_parameters = _stay  # type: ignore[method-assign]

    def on(self, module: nn.Module) -> "Workbench":
        """A workbench like this one for another copy of the model."""
        return Workbench(module, self.head, self._precision)

    @property
    def parameters(self) -> Weights:
        """The module's own weights, which change as it trains."""
        return {name: value.detach() for name, value in self._parameters.items()}

    def load(self, model: ModelState) -> None:
        """Put a model's numbers in, in training mode."""
        own = self._numbers()
        for buffers, name, value in self._seats:
            buffers[name] = value
        copy_into(own.parameters, model.parameters)
        copy_into(own.buffers, model.buffers)
        if not self.module.training:
            self.module.train()

    def state(self, room: ModelState | None = None) -> ModelState:
        """Copy the module's numbers out of it, into `room` if there is some."""
        own = self._numbers()
        if room is None:
            return ModelState(copied(own.parameters), copied(own.buffers))
        copy_into(room.parameters, own.parameters)
        copy_into(room.buffers, own.buffers)
        return room

    def layouts(self) -> tuple[Layout, Layout]:
        """How the parameters and the buffers of such a module may be laid out."""
        return Layout(self._parameters), Layout(self._buffers)

    def run_at(self, weights: Weights, inputs: Tensor) -> tuple[Weights, Tensor, Tensor | None]:
        """Return weights that gradients can be asked for, the logits there, and what the head saw."""
        own = self._parameters
        if all(weights[name].data_ptr() == value.data_ptr() for name, value in own.items()):
            return own, *self.run(inputs)
        moving = {name: weights[name].detach().requires_grad_(value.requires_grad) for name, value in own.items()}
        for name, value in own.items():
            for hook in hooks_of(value, "_backward_hooks") if value.requires_grad else ():
                moving[name].register_hook(hook)
        return moving, *self.run(inputs, moving)

    def hooked(self, gradients: Weights) -> Weights:
        """Gradients as the hooks leave them that want to see each one when it lies at its parameter."""
        seen = dict(gradients)
        for name, value in self._after_accumulation.items():
            value.grad = gradients[name].detach().clone()
            for hook in hooks_of(value, "_post_accumulate_grad_hooks"):
                hook(value)
            seen[name] = torch.zeros_like(value) if value.grad is None else value.grad.detach()
            value.grad = None
        return seen

    def features(self, seen: Tensor | None, samples: int) -> Tensor:
        """What the head saw, a row a sample; refused where a model's way of using its head does not give that."""
        if seen is None or seen.ndim != 2 or len(seen) != samples:
            raise TurboSVMError(
                f"The head '{self.head.layer}' of model {type(self.module).__name__} is not called once, as a layer, "
                "with a row for each sample; MOON and FedProc compare what it sees"
            )
        return seen

    @torch.no_grad()
    def features_of(self, model: ModelState, inputs: Tensor) -> Tensor:
        """What the head of another model sees, in training mode; that model's own numbers stay as they are."""
        buffers = {name: value.clone() for name, value in model.buffers.items()}
        _, seen = self.run(inputs, {**model.parameters, **buffers})
        return self.features(seen, len(inputs))

    def set_parameters(self, parameters: Weights) -> None:
        """Put parameters in, leaving buffers as they are."""
        copy_into(self._parameters, parameters)

    @torch.no_grad()
    def descend(self, direction: Weights, learning_rate: float) -> None:
        """Move the module's own weights against a direction, in place."""
        steps = [direction[name] for name in self._parameters]
        torch._foreach_add_(list(self._parameters.values()), steps, alpha=-learning_rate)

    @torch.no_grad()
    def take_in_buffers(self) -> None:
        """Where the model has put another tensor in the place of a buffer, take its numbers in, and put ours back."""
        for buffers, name, value in self._seats:
            new = buffers.get(name)
            if new is value:
                continue
            if new is None or new.shape != value.shape:
                raise TurboSVMError(
                    f"Model {type(self.module).__name__} gives its buffer '{name}' another shape as it trains; "
                    "it cannot be merged"
                )
            value.copy_(new)
            buffers[name] = value

    @contextmanager
    def buffers_kept(self) -> Iterator[None]:
        """Give the buffers back their numbers afterwards."""
        before = copied(self._buffers)
        yield
        copy_into(self._buffers, before)

    @torch.no_grad()
    def class_features(self, inputs: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
        """Sums of features by class, `[K, d]`, and counts, `[K]`, with the module in evaluation mode."""
        self.module.eval()
        try:
            features = torch.cat(
                [self.features(self.run(as_model_input(some))[1], len(some)) for some in inputs.split(1024)]
            )
        finally:
            self.module.train()
        sums = features.new_zeros((classes, features.shape[1])).index_add_(0, labels, features)
        return sums, torch.bincount(labels, minlength=classes)

    def _numbers(self) -> ModelState:
        return self._laid_out or ModelState(self._parameters, self._buffers)

    def run(self, inputs: Tensor, numbers: Weights | None = None) -> tuple[Tensor, Tensor | None]:
        """Return the logits, and what the head saw; None where the model does not call its head as a layer."""
        seen: list[Tensor] = []
        layer = self.module.get_submodule(self.head.layer)
        hook = layer.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
        try:
            with mixed(self._precision, self.device):
                logits = (
                    self.module(inputs) if numbers is None else functional_call(self.module, dict(numbers), (inputs,))
                )
        finally:
            hook.remove()
        if not isinstance(logits, Tensor):
            mode = "training" if self.module.training else "evaluation"
            raise TurboSVMError(
                f"Model {type(self.module).__name__} gives a {type(logits).__name__} in {mode} mode, not logits"
            )
        if self._precision == "bfloat16":
            logits, seen = logits.float(), [one.float() for one in seen]
        return logits, seen[0] if len(seen) == 1 else None


def _stay() -> None:
    """In the place of a recurrent layer's `flatten_parameters`, which would move its weights elsewhere."""
