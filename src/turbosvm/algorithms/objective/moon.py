"""MOON's objective: features should look like the global model's, and unlike those of the client's last local model.

    l(x, y) + mu l_con,   l_con = -log( e^{s(z, z_G) / tau} / (e^{s(z, z_G) / tau} + e^{s(z, z_prev) / tau}) )

z, z_G and z_prev are what the heads of the model being trained, of the global model and of the client's own model from
its last round see of x; s is the cosine of the angle between them. A client that takes part for the first time has no
previous model: its l_con is left out.

Li, He, Song: Model-Contrastive Federated Learning. CVPR 2021.

The two reference models run in training mode, as the trained one does (BatchNorm on the batch's own statistics), so
that like is compared with like. Features are the head's inputs; no projection layer is added to anyone's model.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from turbosvm.algorithms.objective.plain import Plain
from turbosvm.algorithms.rules import Assignment, Batch, Left, Trained
from turbosvm.types import ModelState, Weights
from turbosvm.values import as_flag, as_not_negative, as_positive


@dataclass(frozen=True)
class ModelContrastive(Plain):
    """Cross-entropy with the model-contrastive term; `mu = 0` is the plain objective.

    Args:
        mu: Weight of the contrastive term, at least 0.
        temperature: tau; smaller ones look at the nearest only.
        contrast: False leaves the term out, as the paper's published code does at one epoch a round.
    """

    mu: float = 1.0
    temperature: float = 0.5
    contrast: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", as_not_negative("MOON's mu", self.mu))
        object.__setattr__(self, "temperature", as_positive("MOON's temperature", self.temperature))
        object.__setattr__(self, "contrast", as_flag("MOON's contrast", self.contrast))

    def loss(self, batch: Batch, client: Assignment) -> Tensor:
        """Return the loss of one batch."""
        plain = super().loss(batch, client)
        if not client.memory or not self._active:
            return plain
        references = (client.start, _unpack(client.memory, client.start))
        cosines = [
            functional.cosine_similarity(batch.features, batch.features_of(model), dim=1) for model in references
        ]
        logits = torch.stack(cosines, dim=1) / self.temperature
        return plain + self.mu * functional.cross_entropy(logits, torch.zeros_like(batch.labels))

    def finish(self, trained: Trained, client: Assignment) -> Left:  # noqa: ARG002
        """Keep the local model for the client's next time."""
        return Left({}, {**trained.model.parameters, **trained.model.buffers} if self._active else {})

    @property
    def _active(self) -> bool:
        return self.contrast and self.mu > 0


def _unpack(memory: Weights, like: ModelState) -> ModelState:
    """A remembered model as it was: names of parameters and of buffers never meet."""
    return ModelState({name: memory[name] for name in like.parameters}, {name: memory[name] for name in like.buffers})
