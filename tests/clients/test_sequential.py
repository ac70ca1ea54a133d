from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.conftest import tiny_net
from turbosvm.algorithms.catalogue import find_algorithm
from turbosvm.clients.local import Call
from turbosvm.clients.memory import ClientMemory
from turbosvm.clients.replies import Failure, Reply, stack
from turbosvm.clients.sequential import train_clients
from turbosvm.clients.training import LocalTraining
from turbosvm.clients.workbench import Workbench
from turbosvm.data.federated import FederatedData
from turbosvm.models.contract import find_head, state_of
from turbosvm.models.registry import build_model
from turbosvm.types import Cohort, ModelState, Moment


def replies(
    module: nn.Module,
    start: ModelState,
    data: FederatedData,
    ids: list[int],
    training: LocalTraining,
    seed: int = 0,
    number: int = 1,
) -> list[Reply | Failure]:
    name = getattr(module, "head_name", "1" if isinstance(module, nn.Sequential) else "")
    bench, call = Workbench(module, find_head(module, name)), Call(start, {}, Moment(number, 10, seed))
    return list(train_clients(bench, call, data, ids, find_algorithm("fedavg"), training, ClientMemory(0)))


def train_cohort(*arguments: Any, **named: Any) -> Cohort:
    """The good ones of `replies`, stacked."""
    return stack([reply for reply in replies(*arguments, **named) if isinstance(reply, Reply)])


def test_one_step_by_hand() -> None:
    """W = 0, so p = (1/2, 1/2); a step of size 1 on a sample x = 1 of class 0 moves W by e_0 - p = (1/2, -1/2)."""
    data = FederatedData.from_users(
        {"a": (np.ones((1, 1), np.float32), [0]), "b": (np.ones((3, 1), np.float32), [1, 1, 1])}, classes=2
    )
    module = nn.Linear(1, 2, bias=False)
    nn.init.zeros_(module.weight)
    cohort = train_cohort(module, state_of(module), data, [0, 1], LocalTraining(1, 8, 1.0))
    assert cohort.ids == (0, 1)
    assert cohort.samples.tolist() == [1, 3]
    assert cohort.parameters["weight"].squeeze(-1).tolist() == [[0.5, -0.5], [-0.5, 0.5]]
    assert cohort.train_loss.tolist() == pytest.approx([np.log(2)] * 2)


def test_every_client_starts_from_the_same_weights_and_order_does_not_matter(tiny_data: FederatedData) -> None:
    module = tiny_net()
    start, training = state_of(module), LocalTraining(2, 4, 0.1)
    forth = train_cohort(module, start, tiny_data, [3, 5, 8], training)
    back = train_cohort(module, start, tiny_data, [8, 5, 3], training)
    for name, value in forth.parameters.items():
        assert torch.equal(value, back.parameters[name].flip(0))


def test_start_is_not_changed(tiny_data: FederatedData) -> None:
    module = tiny_net()
    start = state_of(module)
    before = {name: value.clone() for name, value in start.parameters.items()}
    train_cohort(module, start, tiny_data, [0, 1], LocalTraining(1, 4, 0.5))
    assert all(torch.equal(start.parameters[name], value) for name, value in before.items())


def test_matches_a_loop_written_the_long_way(tiny_data: FederatedData) -> None:
    """One batch per epoch, so the shuffling plays no part (up to rounding)."""
    module = tiny_net()
    start = state_of(module)
    cohort = train_cohort(module, start, tiny_data, [2], LocalTraining(3, 100, 0.2))
    plain = tiny_net()
    inputs, labels = (torch.tensor(part) for part in tiny_data.user(2))
    for _ in range(3):
        loss = nn.CrossEntropyLoss()(plain(inputs), labels)
        grads = torch.autograd.grad(loss, list(plain.parameters()))
        with torch.no_grad():
            for parameter, grad in zip(plain.parameters(), grads, strict=True):
                parameter.sub_(0.2 * grad)
    for name, value in plain.named_parameters():
        assert torch.allclose(cohort.parameters[name][0], value, atol=1e-6)


def test_batchnorm_buffers_come_along_per_client() -> None:
    rng = np.random.default_rng(0)
    data = FederatedData.from_users(
        {str(user): (rng.integers(0, 256, (5, 3, 84, 84), np.uint8), [0, 1, 0, 1, 1]) for user in range(2)}, classes=2
    )
    module = build_model("celeba", {}, 0)
    cohort = train_cohort(module, state_of(module), data, [0, 1], LocalTraining(1, 2, 0.01))
    counters = [value for name, value in cohort.buffers.items() if name.endswith("num_batches_tracked")]
    assert [counter.tolist() for counter in counters] == [[3, 3]] * 4
    means = cohort.buffers["body.0.1.running_mean"]
    assert means.shape == (2, 32)
    assert not torch.equal(means[0], means[1])


def test_an_error_while_training_is_that_clients_failure(tiny_data: FederatedData) -> None:
    samples = {
        "ann": (np.ones((3, 4), np.float32), [0, 1, 1]),
        "bob": (np.ones((4, 4), np.float32), [0, 1, 1, 0]),
        "eve": (np.ones((0, 4), np.float32), []),
    }
    with pytest.warns(UserWarning, match="1 of 3 users have no samples, such as 'eve'"):
        data = FederatedData.from_users(samples, classes=2)
    module = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2))  # cannot train on a batch of one sample
    ann, bob, eve = replies(module, state_of(module), data, [0, 1, 2], LocalTraining(1, 2, 0.1))
    assert isinstance(ann, Failure)
    assert ann.why.startswith("training failed: ValueError: Expected more than 1 value per channel")
    assert isinstance(bob, Reply)
    assert eve == Failure(2, "it has no samples")


def test_some_clients_drop_out_and_always_the_same(tiny_data: FederatedData) -> None:
    module = tiny_net()
    ids, training = list(range(20)), LocalTraining(1, 4, 0.1, dropout=0.3)
    gone = [
        [
            one.client
            for one in replies(module, state_of(module), tiny_data, ids, training, seed=seed)
            if isinstance(one, Failure)
        ]
        for seed in (0, 0, 1)
    ]
    later = replies(module, state_of(module), tiny_data, ids, training, number=2)
    assert gone[0] != [one.client for one in later if isinstance(one, Failure)]
    assert gone[0] == gone[1] != gone[2]
    assert 2 <= len(gone[0]) <= 12


class Dropping(nn.Module):
    """Dropout has no generator argument: it can only draw from the global one."""

    head_name = "head"

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(nn.functional.dropout(inputs, 0.5, self.training))  # type: ignore[no-any-return]


def test_dropout_draws_from_the_runs_own_streams(tiny_data: FederatedData) -> None:
    module = Dropping()
    start = state_of(module)
    state = torch.get_rng_state()
    one = train_cohort(module, start, tiny_data, [1, 2], LocalTraining(1, 4, 0.1))
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(99)
    two = train_cohort(module, start, tiny_data, [1, 2], LocalTraining(1, 4, 0.1))
    other = train_cohort(module, start, tiny_data, [1, 2], LocalTraining(1, 4, 0.1), 1)
    assert torch.equal(one.parameters["head.weight"], two.parameters["head.weight"])
    assert not torch.equal(one.parameters["head.weight"], other.parameters["head.weight"])
