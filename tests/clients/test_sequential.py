import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.conftest import tiny_net
from turbosvm.algorithms.objective.plain import Plain
from turbosvm.clients.sequential import train_cohort
from turbosvm.clients.training import LocalTraining
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError
from turbosvm.models.contract import state_of
from turbosvm.models.registry import build_model


def test_one_step_by_hand() -> None:
    """W = 0, so p = (1/2, 1/2); a step of size 1 on a sample x = 1 of class 0 moves W by e_0 - p = (1/2, -1/2)."""
    data = FederatedData.from_users(
        {"a": (np.ones((1, 1), np.float32), [0]), "b": (np.ones((3, 1), np.float32), [1, 1, 1])}, classes=2
    )
    module = nn.Linear(1, 2, bias=False)
    nn.init.zeros_(module.weight)
    cohort = train_cohort(module, state_of(module), data, [0, 1], Plain(), LocalTraining(1, 8, 1.0), seed=0, number=1)
    assert cohort.ids == (0, 1)
    assert cohort.samples.tolist() == [1, 3]
    assert cohort.parameters["weight"].squeeze(-1).tolist() == [[0.5, -0.5], [-0.5, 0.5]]
    assert cohort.train_loss.tolist() == pytest.approx([np.log(2)] * 2)


def test_every_client_starts_from_the_same_weights_and_order_does_not_matter(tiny_data: FederatedData) -> None:
    module = tiny_net()
    start, training = state_of(module), LocalTraining(2, 4, 0.1)
    forth = train_cohort(module, start, tiny_data, [3, 5, 8], Plain(), training, 0, 1)
    back = train_cohort(module, start, tiny_data, [8, 5, 3], Plain(), training, 0, 1)
    for name, value in forth.parameters.items():
        assert torch.equal(value, back.parameters[name].flip(0))


def test_start_is_not_changed(tiny_data: FederatedData) -> None:
    module = tiny_net()
    start = state_of(module)
    before = {name: value.clone() for name, value in start.parameters.items()}
    train_cohort(module, start, tiny_data, [0, 1], Plain(), LocalTraining(1, 4, 0.5), 0, 1)
    assert all(torch.equal(start.parameters[name], value) for name, value in before.items())


def test_matches_a_loop_written_the_long_way(tiny_data: FederatedData) -> None:
    """One batch per epoch, so the shuffling plays no part (up to rounding)."""
    module = tiny_net()
    start = state_of(module)
    cohort = train_cohort(module, start, tiny_data, [2], Plain(), LocalTraining(3, 100, 0.2), 0, 1)
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
    cohort = train_cohort(module, state_of(module), data, [0, 1], Plain(), LocalTraining(1, 2, 0.01), 0, 1)
    counters = [value for name, value in cohort.buffers.items() if name.endswith("num_batches_tracked")]
    assert [counter.tolist() for counter in counters] == [[3, 3]] * 4
    means = cohort.buffers["body.0.1.running_mean"]
    assert means.shape == (2, 32)
    assert not torch.equal(means[0], means[1])


def test_a_failure_names_the_user_and_the_round() -> None:
    data = FederatedData.from_users({"ann": (np.ones((3, 4), np.float32), [0, 1, 1])}, classes=2)
    module = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2))  # cannot train on the last batch, of one sample
    with pytest.raises(
        TurboSVMError, match="Training failed at user 'ann' in round 5: ValueError: Expected more than 1 value"
    ):
        train_cohort(module, state_of(module), data, [0], Plain(), LocalTraining(1, 2, 0.1), seed=0, number=5)


class Dropping(nn.Module):
    """Dropout has no generator argument: it can only draw from the global one."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(nn.functional.dropout(inputs, 0.5, self.training))  # type: ignore[no-any-return]


def test_dropout_draws_from_the_runs_own_streams(tiny_data: FederatedData) -> None:
    module = Dropping()
    start = state_of(module)
    state = torch.get_rng_state()
    one = train_cohort(module, start, tiny_data, [1, 2], Plain(), LocalTraining(1, 4, 0.1), 0, 1)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(99)
    two = train_cohort(module, start, tiny_data, [1, 2], Plain(), LocalTraining(1, 4, 0.1), 0, 1)
    other = train_cohort(module, start, tiny_data, [1, 2], Plain(), LocalTraining(1, 4, 0.1), 1, 1)
    assert torch.equal(one.parameters["head.weight"], two.parameters["head.weight"])
    assert not torch.equal(one.parameters["head.weight"], other.parameters["head.weight"])
