"""Apple's pfl-research: its simulated backend with federated averaging, one process."""

import sys
from itertools import pairwise
from time import perf_counter
from typing import Any

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn
from torch.nn import functional
from workload import Workload, serve

work = Workload.read(sys.argv[1])
users = [(work.as_input(inputs), labels) for inputs, labels in work.users()]


class Classifier(nn.Module):
    """The workload's model with the two functions that the library asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = work.module()

    def loss(self, inputs: Tensor, labels: Tensor, eval: bool = False) -> Tensor:  # noqa: A002
        """Cross-entropy."""
        self.inner.train(not eval)
        return functional.cross_entropy(self.inner(inputs), labels)

    def metrics(self, inputs: Tensor, labels: Tensor, eval: bool = True) -> dict[str, Any]:  # noqa: A002, ARG002
        """None are asked for."""
        return {}


class Times(TrainingProcessCallback):  # type: ignore[misc]
    """When each round ended."""

    def __init__(self) -> None:
        self.ends = [perf_counter()]

    def after_central_iteration(self, aggregate_metrics: Any, model: Any, *, central_iteration: int) -> Any:  # noqa: ARG002
        """Take note."""
        work.wait()
        self.ends.append(perf_counter())
        return False, Metrics()


def dataset(user: int) -> Dataset:
    """One user's samples in a new order, as batches are taken from the front."""
    inputs, labels = users[user]
    order = torch.randperm(len(labels), device=work.device)
    return Dataset(raw_data=[inputs[order], labels[order]], user_id=str(user))


number = 0


def sampler() -> int:
    """The next user of the cohorts."""
    global number
    number, place = number + 1, number
    return work.cohort(place // work.clients, len(users))[place % work.clients]


module = Classifier()
central = torch.optim.SGD(module.parameters(), lr=1.0)
model = PyTorchModel(module, torch.optim.SGD, central)
data = FederatedDataset(dataset, sampler)


def rounds(count: int) -> list[float]:
    """Run rounds one after another."""
    times = Times()
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=count, evaluation_frequency=10**9, train_cohort_size=work.clients, val_cohort_size=0
        ),
        backend=SimulatedBackend(training_data=data, val_data=data),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_num_epochs=1, local_learning_rate=work.learning_rate, local_batch_size=work.batch_size
        ),
        callbacks=[times],
        send_metrics_to_platform=False,
    )
    return [end - start for start, end in pairwise(times.ends)]


serve(rounds)
