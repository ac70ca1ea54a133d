"""The nouns of a round. No decisions are made here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from turbosvm.blocks import nbytes, pieces_of

Weights = Mapping[str, Tensor]
"""Named tensors, such as a model's parameters, or its buffers."""


Diagnostics = Mapping[str, float | list[float]]
"""What a server rule tells of its step. Each becomes a column of the records; lists have a number for each client."""


class Moment(NamedTuple):
    """Where in a run one is."""

    round: int
    """From 1 on."""
    rounds: int
    """T, how many there are."""
    seed: int


@dataclass(frozen=True)
class ModelState:
    """The numbers of one model: what an optimiser moves, and what it does not (BatchNorm's running statistics)."""

    parameters: Weights
    buffers: Weights

    @property
    def nbytes(self) -> int:
        """Bytes that sending this model takes, uncompressed."""
        return nbytes(self.parameters, self.buffers)

    @property
    def on_cuda(self) -> bool:
        """Whether it lies on a GPU, which works while the CPU goes on."""
        return all(piece.is_cuda for piece in pieces_of([self.parameters]))


@dataclass(frozen=True)
class Cohort:
    """What one round's clients send to the server: the one seam between clients and server.

    The C clients' tensors are stacked along a first axis. Whoever trains produces a cohort, every server rule consumes
    one, and nothing else passes between the two.
    """

    ids: tuple[int, ...]
    """Who took part, as indices of users."""
    samples: Tensor
    """How many samples each client trained on, [C]."""
    parameters: Weights
    """Trained parameters, each [C, ...]."""
    buffers: Weights
    """Buffers after training, each [C, ...]."""
    train_loss: Tensor
    """Mean loss of each client over its local steps, [C]."""
    sent: dict[str, Weights] = field(default_factory=dict)
    """What the clients' rules send beside the weights (control variates, prototypes, moments), by part, [C, ...]."""


@dataclass(frozen=True)
class ServerState:
    """What the server keeps from round to round beside the model."""

    body: Weights
    head: Weights
    shared: Mapping[str, Weights] = field(default_factory=dict)
    """What is sent to clients with the model, by the part of the algorithm that wants it."""


class Merged(NamedTuple):
    """A server rule's answer: new weights, its own state for the next round, and what it has to tell."""

    weights: Weights
    state: Weights
    diagnostics: Diagnostics
