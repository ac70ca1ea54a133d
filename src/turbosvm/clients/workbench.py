"""The module that clients train on: their numbers are loaded into it, one client after another."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import functional_call

from turbosvm.errors import TurboSVMError
from turbosvm.inputs import as_model_input
from turbosvm.models.contract import Head, load_state
from turbosvm.precision import Precision, mixed
from turbosvm.types import ModelState, Weights


class Workbench:
    """A module, with a view of what its head sees, run at its own weights or at others."""

    def __init__(self, module: nn.Module, head: Head, precision: Precision = "float32") -> None:
        self.module, self.head = module, head
        self.device = next(module.parameters()).device
        self._precision = precision

    def on(self, module: nn.Module) -> "Workbench":
        """A workbench like this one for another copy of the model."""
        return Workbench(module, self.head, self._precision)

    @property
    def parameters(self) -> Weights:
        """The module's own weights, which change as it trains."""
        return {name: value.detach() for name, value in self.module.named_parameters()}

    def load(self, model: ModelState) -> None:
        """Put a model's numbers in, in training mode."""
        load_state(self.module, model)
        self.module.train()

    def run_at(self, weights: Weights, inputs: Tensor) -> tuple[Weights, Tensor, Tensor | None]:
        """Return weights that gradients can be asked for, the logits there, and what the head saw."""
        own: Weights = dict(self.module.named_parameters())
        if all(weights[name].data_ptr() == value.data_ptr() for name, value in own.items()):
            return own, *self.run(inputs)
        moving = {name: weights[name].detach().requires_grad_(value.requires_grad) for name, value in own.items()}
        return moving, *self.run(inputs, moving)

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

    @torch.no_grad()
    def set_parameters(self, parameters: Weights) -> None:
        """Put parameters in, leaving buffers as they are."""
        for name, parameter in self.module.named_parameters():
            parameter.copy_(parameters[name])

    @torch.no_grad()
    def descend(self, direction: Weights, learning_rate: float) -> None:
        """Move the module's own weights against a direction, in place."""
        own = dict(self.module.named_parameters())
        torch._foreach_add_(list(own.values()), [direction[name] for name in own], alpha=-learning_rate)

    @contextmanager
    def buffers_kept(self) -> Iterator[None]:
        """Give the buffers back their numbers afterwards."""
        before = {name: value.clone() for name, value in self.module.named_buffers()}
        yield
        for name, value in self.module.named_buffers():
            value.copy_(before[name])

    @torch.no_grad()
    def class_features(self, inputs: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
        """Sums of features by class, `[K, d]`, and counts, `[K]`, with the module in evaluation mode."""
        self.module.eval()
        features = torch.cat(
            [self.features(self.run(as_model_input(some))[1], len(some)) for some in inputs.split(1024)]
        )
        self.module.train()
        sums = features.new_zeros((classes, features.shape[1])).index_add_(0, labels, features)
        return sums, torch.bincount(labels, minlength=classes)

    def run(self, inputs: Tensor, numbers: Weights | None = None) -> tuple[Tensor, Tensor | None]:
        """Return the logits, and what the head saw; None where the model does not call its head as a layer."""
        seen: list[Tensor] = []
        layer = self.module.get_submodule(self.head.layer)
        hook = layer.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
        try:
            with mixed(self._precision, self.device):
                logits = self.module(inputs) if numbers is None else functional_call(self.module, numbers, (inputs,))
        finally:
            hook.remove()
        if self._precision == "bfloat16":
            logits, seen = logits.float(), [one.float() for one in seen]
        return logits, seen[0] if len(seen) == 1 else None
