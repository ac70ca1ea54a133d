"""Stochastic gradient descent, the local rule of most algorithms.

theta <- theta - eta g
"""

from dataclasses import dataclass

from turbosvm.algorithms.rules import NOTHING, Assignment, ClientSide, Gradient, Left, Stepped, Trained
from turbosvm.types import Weights


@dataclass(frozen=True)
class SGD(ClientSide):
    """Plain steps, with the learning rate that all clients have. It has no hyperparameters of its own."""

    def begin(self, client: Assignment) -> Weights:  # noqa: ARG002
        """Carry nothing."""
        return {}

    def step(self, parameters: Weights, gradient: Gradient, carried: Weights, client: Assignment) -> Stepped:
        """Take one step on one batch."""
        return Stepped(descend(parameters, gradient(parameters), client.learning_rate), carried)

    def finish(self, trained: Trained, carried: Weights, client: Assignment) -> Left:  # noqa: ARG002
        """Send the weights alone, keep nothing."""
        return NOTHING


def descend(parameters: Weights, direction: Weights, learning_rate: float) -> Weights:
    """Move against a direction."""
    return {name: value.add(direction[name], alpha=-learning_rate) for name, value in parameters.items()}
