"""The three choices an algorithm is made of, as interfaces.

Each is a frozen dataclass of hyperparameters with pure functions. No state hides in it, so a checkpoint is the state
that these functions are handed and hand back.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor, nn

from turbosvm.types import Cohort, Diagnostics, Merged, Moment, Weights


class Objective(Protocol):
    """What does a client minimise?"""

    def loss(self, module: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of one batch."""


class BodyRule(Protocol):
    """How are the clients' weights merged? It sees the parameters that it is to merge, and no others."""

    def init(self, weights: Weights) -> Weights:
        """Return the rule's state before the first round."""

    def merge(self, weights: Weights, cohort: Cohort, state: Weights) -> Merged:
        """Return the new global weights, given the old ones and the round's cohort."""


class MergedHead(NamedTuple):
    """A head rule's answer; see `Merged`."""

    embeddings: Tensor
    state: Weights
    diagnostics: Diagnostics


class HeadRule(Protocol):
    """How are the class embeddings merged?"""

    def init(self, embeddings: Tensor) -> Weights:
        """Return the rule's state before the first round, given the global embeddings `[K, D]`."""

    def merge(self, embeddings: Tensor, clients: Tensor, samples: Tensor, state: Weights, moment: Moment) -> MergedHead:
        """Return new embeddings `[K, D]`, given the old ones, the clients' `[C, K, D]` and sample counts `[C]`."""


@dataclass(frozen=True)
class Algorithm:
    """A federated algorithm: one row of the catalogue."""

    name: str
    objective: Objective
    body: BodyRule
    head: HeadRule | None = None
    """None: the head is merged by the body rule, like every other layer."""
