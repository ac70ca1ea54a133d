"""One round on data small enough for pencil and paper, for the tests of algorithms."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from turbosvm.algorithms.catalogue import find_algorithm
from turbosvm.algorithms.rules import Algorithm
from turbosvm.clients.local import Call
from turbosvm.clients.memory import ClientMemory
from turbosvm.clients.replies import Reply
from turbosvm.clients.sequential import train_clients
from turbosvm.clients.training import LocalTraining
from turbosvm.clients.workbench import Workbench
from turbosvm.data.federated import FederatedData
from turbosvm.experiment.algorithm import build_algorithm
from turbosvm.models.contract import Head, state_of
from turbosvm.types import Cohort, Moment, Weights

HEAD, FIRST = Head("weight", None, ""), Moment(1, 10, 0)


def linear(weight: list[list[float]]) -> nn.Linear:
    """A model that is nothing but a head."""
    values = torch.tensor(weight)
    module = nn.Linear(values.shape[1], values.shape[0], bias=False)
    with torch.no_grad():
        module.weight.copy_(values)
    return module


def one_user(inputs: list[list[float]], labels: list[int], classes: int = 2) -> FederatedData:
    return FederatedData.from_users({"ann": (np.array(inputs, np.float32), labels)}, classes=classes)


def train(
    module: nn.Module,
    data: FederatedData,
    algorithm: Algorithm,
    training: LocalTraining,
    shared: Mapping[str, Weights] | None = None,
    memory: ClientMemory | None = None,
    head: Head = HEAD,
    moment: Moment = FIRST,
) -> list[Reply]:
    """Train all users of the data once, from the module's weights."""
    model = state_of(module)
    told = shared or {part: rule.share(model, head) for part, rule in algorithm.on_client().items()}
    call, ids = Call(model, told, moment), range(len(data.users))
    memory = memory or ClientMemory(2**20)
    replies = list(train_clients(Workbench(module, head), call, data, ids, algorithm, training, memory))
    assert all(isinstance(reply, Reply) for reply in replies), replies
    return replies  # type: ignore[return-value]


def with_options(name: str, part: str = "objective", **options: Any) -> Algorithm:
    return build_algorithm(name, {part: options}) if options else find_algorithm(name)


def cohort(samples: list[int], **parameters: list[Any]) -> Cohort:
    """Clients that sent these parameters."""
    return Cohort(
        ids=tuple(range(len(samples))),
        samples=torch.tensor(samples),
        parameters={name: torch.tensor(value) for name, value in parameters.items()},
        buffers={},
        train_loss=torch.zeros(len(samples)),
    )


def kept_by(reply: Reply) -> dict[str, Weights]:
    """What a client keeps."""
    assert reply.kept is not None
    return reply.kept
