"""The four choices an algorithm is made of, as interfaces.

Each is a frozen dataclass of hyperparameters with pure functions. No state hides in it, so a checkpoint is the state
that these functions are handed and hand back. Two of them act on the clients, and may have the server send something
beside the model (`share`), have a client send something beside its weights or keep something for its next time
(`finish`), and have the server merge what was sent (`merge`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from turbosvm.models.contract import Head
from turbosvm.types import Cohort, Diagnostics, Merged, ModelState, Moment, Weights

PARTS = {"objective": "objective", "local": "local rule", "body": "body rule", "head": "head rule"}
"""The choices by their names in a config, and in words."""


@dataclass(frozen=True)
class Assignment:
    """What a client has at hand in a round, as far as one of its rules is concerned."""

    start: ModelState
    """The global model that it was sent."""
    shared: Weights
    """What the server sent beside it."""
    memory: Weights
    """What the client kept when it last took part; empty if it never did."""
    learning_rate: float
    progress: float | Tensor
    """t / T; a tensor where steps are recorded once and repeated in later rounds."""


class Batch(Protocol):
    """A batch of samples that went through the client's model."""

    @property
    def labels(self) -> Tensor:
        """`[B]`."""

    @property
    def logits(self) -> Tensor:
        """`[B, K]`."""

    @property
    def features(self) -> Tensor:
        """What the head saw, `[B, d]`."""

    @property
    def parameters(self) -> Weights:
        """The weights that gave these logits."""

    def features_of(self, model: ModelState) -> Tensor:
        """What the head of another model sees of the same samples; no gradient flows through it."""


class Trained(Protocol):
    """A client's model after its local steps."""

    @property
    def model(self) -> ModelState:
        """Its numbers."""

    @property
    def steps(self) -> int:
        """How many local steps led there."""

    def class_features(self) -> tuple[Tensor, Tensor]:
        """Sums of the features of the client's samples by class, `[K, d]`, and how many there are, `[K]`."""


class Left(NamedTuple):
    """What a client sends beside its weights, and what it keeps."""

    sent: Weights
    kept: Weights


NOTHING = Left({}, {})


class ClientSide:
    """What the two rules on the client's side have in common: by default, nothing is shared, sent or kept."""

    def share(self, model: ModelState, head: Head) -> Weights:  # noqa: ARG002
        """Return what the server sends beside the model, before the first round."""
        return {}

    def merge(self, shared: Weights, sent: Weights, cohort: Cohort, population: int) -> Weights:  # noqa: ARG002
        """Return what the server shares next, given what the cohort sent (stacked, `[C, ...]`)."""
        return shared


class Objective(Protocol):
    """What does a client minimise?"""

    def share(self, model: ModelState, head: Head) -> Weights:
        """See `ClientSide`."""

    def loss(self, batch: Batch, client: Assignment) -> Tensor:
        """Return the loss of one batch."""

    def finish(self, trained: Trained, client: Assignment) -> Left:
        """Return what the client sends and keeps."""

    def merge(self, shared: Weights, sent: Weights, cohort: Cohort, population: int) -> Weights:
        """See `ClientSide`."""


Gradient = Callable[[Weights], Weights]
"""The gradient of the objective on the batch at hand, at any weights."""


class Stepped(NamedTuple):
    """Where a local step has led, and what the rule carries to the next."""

    parameters: Weights
    carried: Weights


class LocalRule(Protocol):
    """How does a client step along its gradient?"""

    def share(self, model: ModelState, head: Head) -> Weights:
        """See `ClientSide`."""

    def begin(self, client: Assignment) -> Weights:
        """Return what is carried into the client's first step."""

    def step(self, parameters: Weights, gradient: Gradient, carried: Weights, client: Assignment) -> Stepped:
        """Take one step on one batch."""

    def finish(self, trained: Trained, carried: Weights, client: Assignment) -> Left:
        """Return what the client sends and keeps."""

    def merge(self, shared: Weights, sent: Weights, cohort: Cohort, population: int) -> Weights:
        """See `ClientSide`."""


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


@runtime_checkable
class Compiled(Protocol):
    """A head rule that runs compiled code, which can be made ready before the first round."""

    def warm_up(self, embeddings: Tensor, clients: int) -> None:
        """Compile, or load, what merging so many clients' embeddings `[K, D]` runs."""


@dataclass(frozen=True)
class Algorithm:
    """A federated algorithm: one row of the catalogue."""

    name: str
    objective: Objective
    local: LocalRule
    body: BodyRule
    head: HeadRule | None = None
    """None: the head is merged by the body rule, like every other layer."""
    frozen_buffers: bool = False
    """Whether the global model's buffers stay as they were at first, instead of being averaged."""
    pooled: bool = False
    """Whether all samples lie in one place: no federation, but what one is measured against."""
    about: str = field(default="", compare=False)
    """What it does, in a line."""
    as_published: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Settings under which it behaves like the paper's published code."""

    def on_client(self) -> dict[str, Objective | LocalRule]:
        """The rules on the client's side, by the names of their parts."""
        return {"objective": self.objective, "local": self.local}
