"""The plain objective: mean cross-entropy on the client's own samples."""

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Plain:
    """l(x, y) = -log softmax(f(x))_y, averaged over the batch."""

    def loss(self, module: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of one batch."""
        return functional.cross_entropy(module(inputs), labels)
