"""The plain objective: mean cross-entropy on the client's own samples."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from turbosvm.algorithms.rules import NOTHING, Assignment, Batch, ClientSide, Left, Trained


@dataclass(frozen=True)
class Plain(ClientSide):
    """l(x, y) = -log softmax(f(x))_y, averaged over the batch."""

    def loss(self, batch: Batch, client: Assignment) -> Tensor:  # noqa: ARG002
        """Return the loss of one batch."""
        return functional.cross_entropy(batch.logits, batch.labels)

    def finish(self, trained: Trained, client: Assignment) -> Left:  # noqa: ARG002
        """Send the weights alone, keep nothing."""
        return NOTHING
