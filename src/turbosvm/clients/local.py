"""One client's local training on a workbench, whoever else trains beside it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from turbosvm.algorithms.local.sgd import SGD
from turbosvm.algorithms.rules import Algorithm, Assignment
from turbosvm.blocks import Layout, Rows
from turbosvm.clients.replies import Failure, Reply
from turbosvm.clients.sampling import drops_out
from turbosvm.clients.training import LocalTraining, too_few
from turbosvm.clients.workbench import Workbench
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError, in_one_line
from turbosvm.inputs import as_model_input
from turbosvm.types import ModelState, Moment, Weights

Assignments = dict[str, Assignment]
"""What each of a client's rules has at hand, by part."""


@dataclass(frozen=True)
class Call:
    """What the server sends to the clients of a round: the model, and what their rules want beside it."""

    model: ModelState
    shared: Mapping[str, Weights]
    moment: Moment


def room_for(ids: Sequence[int], layouts: tuple[Layout, Layout], device: torch.device) -> dict[int, ModelState]:
    """Room for each client's trained numbers, laid out so that the server need not copy them together."""
    parameters, buffers = (Rows(layout, len(ids), device).blocks() for layout in layouts)
    return {client: ModelState(*pair) for client, *pair in zip(ids, parameters, buffers, strict=True)}


def absent(client: int, data: FederatedData, training: LocalTraining, moment: Moment) -> Failure | None:
    """Why a client of the cohort does not train at all, if so."""
    if drops_out(moment.seed, moment.round, client, training.dropout):
        return Failure(client, "it did not answer before the deadline")
    count = int(data.counts[client])
    why = too_few(count, training) if count else "it has no samples"
    return Failure(client, why) if why else None


def attempt(client: int, train: Callable[[], Reply]) -> Reply | Failure:
    """Let a client train; an error is its failure."""
    try:
        return train()
    except Exception as error:  # the person's own model may raise anything
        return failure_of(client, error)


def failure_of(client: int, error: Exception) -> Failure:
    """Tell of an error as a client's failure."""
    own = isinstance(error, TurboSVMError)
    return Failure(client, str(error) if own else f"training failed: {in_one_line(error)}")


def assign(
    algorithm: Algorithm, call: Call, kept: Mapping[str, Weights], learning_rate: float, progress: float | Tensor
) -> Assignments:
    """Hand each of the client's rules what concerns it."""
    return {
        part: Assignment(call.model, call.shared.get(part, {}), kept.get(part, {}), learning_rate, progress)
        for part in algorithm.on_client()
    }


def train_client(
    bench: Workbench,
    call: Call,
    client: int,
    samples: tuple[Tensor, Tensor],
    order: Iterator[Tensor],
    algorithm: Algorithm,
    training: LocalTraining,
    kept: Mapping[str, Weights],
    room: ModelState | None = None,
) -> Reply:
    """Take a step on each batch, batches being indices of the samples; `client` is a name, and may be anyone's.

    The trained numbers are put into `room`, where there is some.
    """
    inputs, labels = samples
    assigned = assign(algorithm, call, kept, training.learning_rate, call.moment.round / call.moment.rounds)
    bench.load(call.model)
    carried = algorithm.local.begin(assigned["local"])
    total, seen, steps = torch.zeros((), dtype=torch.float64, device=bench.device), 0, 0
    for indices in order:
        indices = indices.to(bench.device)
        carried, loss = advance(bench, algorithm, assigned, carried, as_model_input(inputs[indices]), labels[indices])
        total, seen, steps = total + loss * len(indices), seen + len(indices), steps + 1
    return answer(bench, algorithm, assigned, carried, client, lambda: samples, len(labels), total / seen, steps, room)


def advance(
    bench: Workbench, algorithm: Algorithm, assigned: Assignments, carried: Weights, inputs: Tensor, labels: Tensor
) -> tuple[Weights, Tensor]:
    """Take one step on one batch; return what the rule carries to the next, and the loss before the step."""
    batch = _Gradients(bench, algorithm, assigned["objective"], inputs, labels)
    if type(algorithm.local) is SGD:  # the same numbers in place, without a second copy of the weights
        bench.descend(batch.gradient(bench.parameters), assigned["local"].learning_rate)
    else:
        moved, carried = algorithm.local.step(bench.parameters, batch.gradient, carried, assigned["local"])
        bench.set_parameters(moved)
    return carried, batch.first_loss


def answer(
    bench: Workbench,
    algorithm: Algorithm,
    assigned: Assignments,
    carried: Weights,
    client: int,
    samples: Callable[[], tuple[Tensor, Tensor]],
    count: int,
    loss: Tensor,
    steps: int,
    room: ModelState | None = None,
) -> Reply:
    """Make the reply of a client that has taken its last step; its `count` samples are fetched if a rule wants them."""
    classes = len(assigned["objective"].start.parameters[bench.head.weight])
    trained = TrainedOnBench(bench.state(room), steps, bench, samples, classes)
    left = {
        "objective": algorithm.objective.finish(trained, assigned["objective"]),
        "local": algorithm.local.finish(trained, carried, assigned["local"]),
    }
    return Reply(
        client,
        count,
        trained.model,
        loss,
        {part: one.sent for part, one in left.items() if one.sent},
        {part: one.kept for part, one in left.items() if one.kept},
    )


@dataclass(frozen=True)
class BatchOnBench:
    """A batch that went through the model on the bench; see `rules.Batch`."""

    labels: Tensor
    logits: Tensor
    parameters: Weights
    _bench: Workbench
    _inputs: Tensor
    _seen: Tensor | None

    @property
    def features(self) -> Tensor:
        """What the head saw."""
        return self._bench.features(self._seen, len(self._inputs))

    def features_of(self, model: ModelState) -> Tensor:
        """What the head of another model sees."""
        return self._bench.features_of(model, self._inputs)


@dataclass(frozen=True)
class TrainedOnBench:
    """The model on the bench after its last step; see `rules.Trained`."""

    model: ModelState
    steps: int
    _bench: Workbench
    _samples: Callable[[], tuple[Tensor, Tensor]]
    _classes: int

    def class_features(self) -> tuple[Tensor, Tensor]:
        """Sums of features by class, and counts."""
        return self._bench.class_features(*self._samples(), self._classes)


class _Gradients:
    """The gradient of the objective on one batch, at any weights; the first place asked for is the model's own."""

    def __init__(
        self, bench: Workbench, algorithm: Algorithm, client: Assignment, inputs: Tensor, labels: Tensor
    ) -> None:
        self._bench, self._objective, self._client = bench, algorithm.objective, client
        self._inputs, self._labels = inputs, labels
        self.first_loss: Tensor = torch.zeros((), device=bench.device)
        self._asked = False

    def gradient(self, weights: Weights) -> Weights:
        """Return the gradient at `weights`; only the first place counts for the loss and for BatchNorm's statistics."""
        if self._asked:
            with self._bench.buffers_kept():
                return self._gradient(weights)[1]
        self._asked = True
        self.first_loss, gradients = self._gradient(weights)
        return gradients

    def _gradient(self, weights: Weights) -> tuple[Tensor, Weights]:
        moving, logits, seen = self._bench.run_at(weights, self._inputs)
        batch = BatchOnBench(self._labels, logits, moving, self._bench, self._inputs, seen)
        loss = self._objective.loss(batch, self._client)
        wanted = {name: value for name, value in moving.items() if value.requires_grad}
        gradients: Weights = {}
        if wanted:
            found = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True, materialize_grads=True)
            gradients = self._bench.hooked(dict(zip(wanted, found, strict=True)))
        self._bench.take_in_buffers()
        return loss.detach(), {
            name: gradients[name] if name in gradients else torch.zeros_like(value) for name, value in moving.items()
        }
