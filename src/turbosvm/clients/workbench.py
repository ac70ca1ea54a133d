"""The module that clients train on: their numbers are loaded into it, one client after another."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

import torch
from torch import Tensor, nn

from turbosvm.errors import TurboSVMError
from turbosvm.inputs import as_model_input
from turbosvm.models.contract import Head, load_state
from turbosvm.types import ModelState, Weights


class Workbench:
    """A module, with a view of what its head sees, and copies of it for models that are looked at while it trains."""

    def __init__(self, module: nn.Module, head: Head) -> None:
        self.module, self.head = module, head
        self.device = next(module.parameters()).device
        self._spares: list[nn.Module] = []
        self._held: list[ModelState] = []

    def load(self, model: ModelState) -> None:
        """Put a model's numbers in, in training mode; forget the reference models of the client before."""
        load_state(self.module, model)
        self.module.train()
        self._held = []

    def run(self, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the logits, and what the head saw; None where the model does not call its head as a layer."""
        return _run(self.module, self.head, inputs)

    def features(self, seen: Tensor | None, samples: int) -> Tensor:
        """What the head saw, a row a sample; refused where a model's way of using its head does not give that."""
        if seen is None or seen.ndim != 2 or len(seen) != samples:
            raise TurboSVMError(
                f"The head '{self.head.layer}' of model {type(self.module).__name__} is not called once, as a layer, "
                "with a row for each sample; MOON and FedProc compare what it sees"
            )
        return seen

    def features_of(self, model: ModelState, inputs: Tensor) -> Tensor:
        """What the head of another model sees, in training mode; that model is loaded once for all batches."""
        place = next((place for place, held in enumerate(self._held) if _same(held, model)), len(self._held))
        if place == len(self._held):
            if place == len(self._spares):
                self._spares.append(deepcopy(self.module))
            load_state(self._spares[place], model)
            self._spares[place].train()
            self._held.append(model)
        with torch.no_grad():
            return self.features(_run(self._spares[place], self.head, inputs)[1], len(inputs))

    @torch.no_grad()
    def set_parameters(self, parameters: Weights) -> None:
        """Put parameters in, leaving buffers as they are."""
        for name, parameter in self.module.named_parameters():
            parameter.copy_(parameters[name])

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


def _same(one: ModelState, two: ModelState) -> bool:
    """Whether two models are made of the very same tensors."""
    pairs = ((one.parameters, two.parameters), (one.buffers, two.buffers))
    return all(value is second[name] for first, second in pairs for name, value in first.items())


def _run(module: nn.Module, head: Head, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
    seen: list[Tensor] = []
    hook = module.get_submodule(head.layer).register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    try:
        logits = module(inputs)
    finally:
        hook.remove()
    return logits, seen[0] if len(seen) == 1 else None
