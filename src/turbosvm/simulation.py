"""The round loop: sample a cohort, train it, merge it, evaluate the new model.

Nothing is written, printed or remembered here. Whoever iterates over `simulate` gets each round as it ends, holds all
that a checkpoint needs, and may stop at any time.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from turbosvm.algorithms.rules import Algorithm
from turbosvm.algorithms.server import init_server, merge
from turbosvm.clients.sampling import sample_cohort
from turbosvm.clients.sequential import train_cohort
from turbosvm.clients.training import LocalTraining
from turbosvm.data.federated import FederatedData
from turbosvm.data.split import Split
from turbosvm.evaluation.metrics import Metrics, evaluate
from turbosvm.models.contract import Head, load_state, state_of
from turbosvm.randomness import lend_to_global
from turbosvm.stopwatch import Stopwatch
from turbosvm.types import Diagnostics, ModelState, Moment, ServerState


@dataclass(frozen=True)
class Federation:
    """What is learnt, by whom: data with its users split in two, and a model with its head named."""

    data: FederatedData
    split: Split
    module: nn.Module
    head: Head


@dataclass(frozen=True)
class Plan:
    """How long and how wide: T rounds of C clients, each training as `training` says."""

    rounds: int
    clients_per_round: int
    training: LocalTraining
    evaluate_every: int = 1
    seed: int = 0


@dataclass(frozen=True)
class Round:
    """One finished round."""

    number: int
    cohort: tuple[int, ...]
    samples: int
    train_loss: float
    metrics: Metrics | None
    diagnostics: Diagnostics
    bytes_down: int
    bytes_up: int
    seconds: dict[str, float]
    model: ModelState
    server: ServerState


def simulate(federation: Federation, algorithm: Algorithm, plan: Plan) -> Iterator[Round]:
    """Run an algorithm round by round, from the weights that the model has now."""
    module, data = federation.module, federation.data
    device = next(module.parameters()).device
    test_inputs, test_labels = held_out_samples(federation, device)
    model = state_of(module)
    server = init_server(algorithm, model, federation.head)
    for number in range(1, plan.rounds + 1):
        watch = Stopwatch(device)
        ids = sample_cohort(plan.seed, number, federation.split.train, plan.clients_per_round)
        cohort = train_cohort(module, model, data, ids, algorithm.objective, plan.training, plan.seed, number)
        watch.lap("train")
        moment = Moment(number, plan.rounds, plan.seed)
        model, server, diagnostics = merge(algorithm, model, cohort, server, federation.head, moment)
        load_state(module, model)
        watch.lap("merge")
        due = number % plan.evaluate_every == 0 or number == plan.rounds
        with lend_to_global(plan.seed, "layers", number, "evaluation"):
            metrics = evaluate(module, test_inputs, test_labels, len(data.classes)) if due else None
        watch.lap("evaluate")
        traffic = len(ids) * model.nbytes
        yield Round(
            number=number,
            cohort=ids,
            samples=int(cohort.samples.sum()),
            train_loss=float(cohort.train_loss.mean()),
            metrics=metrics,
            diagnostics=diagnostics,
            bytes_down=traffic,
            bytes_up=traffic,
            seconds=watch.seconds,
            model=model,
            server=server,
        )


def held_out_samples(federation: Federation, device: torch.device) -> tuple[Tensor, Tensor]:
    """All samples of the held-out users, pooled on the device in their stored type."""
    pairs = [federation.data.user_tensors(user, device) for user in federation.split.held_out]
    return torch.cat([inputs for inputs, _ in pairs]), torch.cat([labels for _, labels in pairs])
