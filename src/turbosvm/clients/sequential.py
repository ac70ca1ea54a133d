"""Local training, one client after another: the plain reference that every faster way must agree with."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from turbosvm.algorithms.rules import Algorithm, Assignment
from turbosvm.clients.memory import ClientMemory
from turbosvm.clients.replies import Failure, Reply
from turbosvm.clients.sampling import drops_out
from turbosvm.clients.training import LocalTraining, batches
from turbosvm.clients.workbench import Workbench
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError, in_one_line
from turbosvm.inputs import as_model_input
from turbosvm.models.contract import state_of
from turbosvm.randomness import lend_to_global
from turbosvm.types import ModelState, Moment, Weights


@dataclass(frozen=True)
class Call:
    """What the server sends to the clients of a round: the model, and what their rules want beside it."""

    model: ModelState
    shared: Mapping[str, Weights]
    moment: Moment


def train_clients(
    bench: Workbench,
    call: Call,
    data: FederatedData,
    ids: Sequence[int],
    algorithm: Algorithm,
    training: LocalTraining,
    memory: ClientMemory,
) -> Iterator[Reply | Failure]:
    """Train each client from the same start. Whatever goes wrong with one of them is its failure alone."""
    moment = call.moment
    for client in ids:
        if drops_out(moment.seed, moment.round, client, training.dropout):
            yield Failure(client, "it did not answer before the deadline")
            continue
        if not data.counts[client]:
            yield Failure(client, "it has no samples")
            continue

        def train(client: int = client) -> Reply:
            samples = data.user_tensors(client, bench.device)
            order = batches(len(samples[1]), training, moment.seed, moment.round, client)
            kept = memory.recall(client, bench.device)
            with lend_to_global(moment.seed, "layers", moment.round, client):
                return train_client(bench, call, client, samples, order, algorithm, training, kept)

        yield attempt(client, train)


def attempt(client: int, train: Callable[[], Reply]) -> Reply | Failure:
    """Let a client train; an error is its failure."""
    try:
        return train()
    except TurboSVMError as error:
        return Failure(client, str(error))
    except Exception as error:  # the person's own model may raise anything
        return Failure(client, f"training failed: {in_one_line(error)}")


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
    _samples: tuple[Tensor, Tensor]
    _classes: int

    def class_features(self) -> tuple[Tensor, Tensor]:
        """Sums of features by class, and counts."""
        return self._bench.class_features(*self._samples, self._classes)


def train_client(
    bench: Workbench,
    call: Call,
    client: int,
    samples: tuple[Tensor, Tensor],
    order: Iterator[Tensor],
    algorithm: Algorithm,
    training: LocalTraining,
    kept: Mapping[str, Weights],
) -> Reply:
    """Take a step on each batch, batches being indices of the samples; `client` is a name, and may be anyone's."""
    inputs, labels = samples
    assigned = {
        part: Assignment(call.model, call.shared.get(part, {}), kept.get(part, {}), training.learning_rate, call.moment)
        for part in algorithm.on_client()
    }
    bench.load(call.model)
    parameters = call.model.parameters
    carried = algorithm.local.begin(assigned["local"])
    total, seen, steps = torch.zeros((), device=bench.device), 0, 0
    for indices in order:
        indices = indices.to(bench.device)
        batch = _Gradients(bench, algorithm, assigned["objective"], as_model_input(inputs[indices]), labels[indices])
        parameters, carried = algorithm.local.step(parameters, batch.gradient, carried, assigned["local"])
        total, seen, steps = total + batch.first_loss * len(indices), seen + len(indices), steps + 1
    bench.set_parameters(parameters)
    classes = len(call.model.parameters[bench.head.weight])
    trained = TrainedOnBench(state_of(bench.module), steps, bench, samples, classes)
    left = {
        "objective": algorithm.objective.finish(trained, assigned["objective"]),
        "local": algorithm.local.finish(trained, carried, assigned["local"]),
    }
    return Reply(
        client,
        len(labels),
        trained.model,
        total / seen,
        {part: one.sent for part, one in left.items() if one.sent},
        {part: one.kept for part, one in left.items() if one.kept},
    )


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
        self._bench.set_parameters(weights)
        if self._asked:
            with self._bench.buffers_kept():
                return self._gradient()[1]
        self._asked = True
        self.first_loss, gradients = self._gradient()
        return gradients

    def _gradient(self) -> tuple[Tensor, Weights]:
        parameters: Weights = dict(self._bench.module.named_parameters())
        logits, seen = self._bench.run(self._inputs)
        batch = BatchOnBench(self._labels, logits, parameters, self._bench, self._inputs, seen)
        loss = self._objective.loss(batch, self._client)
        moving = {name: value for name, value in parameters.items() if value.requires_grad}
        gradients: Weights = {}
        if moving:
            found = torch.autograd.grad(loss, list(moving.values()), allow_unused=True, materialize_grads=True)
            gradients = dict(zip(moving, found, strict=True))
        return loss.detach(), {
            name: gradients[name] if name in gradients else torch.zeros_like(value)
            for name, value in parameters.items()
        }
