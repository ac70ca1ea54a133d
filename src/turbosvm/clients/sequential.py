"""Local training, one client after another: the plain reference that every faster way must agree with."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from turbosvm.algorithms.rules import Objective
from turbosvm.clients.training import LocalTraining, batches
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError, in_one_line
from turbosvm.inputs import as_model_input
from turbosvm.models.contract import load_state
from turbosvm.randomness import lend_to_global
from turbosvm.types import Cohort, ModelState, Weights


def train_cohort(
    module: nn.Module,
    start: ModelState,
    data: FederatedData,
    ids: Sequence[int],
    objective: Objective,
    training: LocalTraining,
    seed: int,
    number: int,
) -> Cohort:
    """Train each client of round `number` from the same start. `module` is the workbench: its weights change."""
    parameters = _stack_like(start.parameters, len(ids))
    buffers = _stack_like(start.buffers, len(ids))
    losses, counts = [], []
    for place, client in enumerate(ids):
        load_state(module, start)
        try:
            with lend_to_global(seed, "layers", number, client):
                loss, count = _train_client(module, data, client, objective, training, seed, number)
        except (RuntimeError, ValueError, IndexError) as error:
            where = f"user '{data.users[client]}' in round {number}"
            raise TurboSVMError(f"Training failed at {where}: {in_one_line(error)}") from error
        losses.append(loss)
        counts.append(count)
        for stacked, named in ((parameters, module.named_parameters()), (buffers, module.named_buffers())):
            for name, value in named:
                stacked[name][place] = value.detach()
    return Cohort(tuple(ids), torch.tensor(counts), parameters, buffers, torch.stack(losses))


def _train_client(
    module: nn.Module,
    data: FederatedData,
    client: int,
    objective: Objective,
    training: LocalTraining,
    seed: int,
    number: int,
) -> tuple[Tensor, int]:
    """Run a client's local steps on `module`, in place; return the mean loss over its samples, and their number."""
    device = next(module.parameters()).device
    inputs, labels = data.user_tensors(client, device)
    optimiser = torch.optim.SGD(module.parameters(), lr=training.learning_rate)
    total = torch.zeros((), device=device)
    module.train()
    for batch in batches(len(labels), training, seed, number, client):
        batch = batch.to(device)
        loss = objective.loss(module, as_model_input(inputs[batch]), labels[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        total += loss.detach() * len(batch)
    return total / (len(labels) * training.epochs), len(labels)


def _stack_like(weights: Weights, count: int) -> Weights:
    return {name: value.new_empty((count, *value.shape)) for name, value in weights.items()}
