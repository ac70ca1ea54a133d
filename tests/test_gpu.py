"""What holds on a CUDA device; run with `pytest -m gpu` on a machine that has one."""

from typing import Any

import numpy as np
import pytest
import torch

import turbosvm
from tests.conftest import tiny_net
from turbosvm.algorithms.catalogue import CATALOGUE
from turbosvm.data.federated import FederatedData

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

INPUTS: dict[str, tuple[type[np.generic], int, tuple[int, ...], int]] = {
    "celeba": (np.uint8, 256, (3, 84, 84), 2),
    "femnist": (np.uint8, 256, (1, 28, 28), 62),
    "shakespeare": (np.uint8, 80, (80,), 80),
    "small": (np.uint8, 256, (1, 28, 28), 62),
}
FAST: dict[str, Any] = {"rounds": 4, "clients_per_round": 3, "client": {"batch_size": 8}}


def noise(model: str) -> FederatedData:
    """Six users with twenty random samples each."""
    dtype, high, shape, classes = INPUTS[model]
    rng = np.random.default_rng(0)
    samples = {
        str(user): (rng.integers(0, high, (20, *shape)).astype(dtype), rng.integers(0, classes, 20))
        for user in range(6)
    }
    return FederatedData.from_users(samples, classes, tokens=model == "shakespeare")


@pytest.mark.parametrize("model", INPUTS)
def test_the_same_seed_gives_the_same_numbers_bit_for_bit(model: str) -> None:
    one, two = (turbosvm.run(data=noise(model), model=model, device="cuda", **FAST) for _ in range(2))
    for name, value in one.model.state_dict().items():
        assert value.device.type == "cuda"
        assert torch.equal(value, two.model.state_dict()[name]), name
    same = one.records.filter(regex="^(?!seconds_)").equals(two.records.filter(regex="^(?!seconds_)"))
    assert same


@pytest.mark.parametrize("algorithm", CATALOGUE)
def test_cuda_agrees_with_the_cpu(algorithm: str, tiny_data: FederatedData) -> None:
    here, there = (
        turbosvm.run(algorithm, data=tiny_data, model=tiny_net(), device=device, **FAST) for device in ("cpu", "cuda")
    )
    assert here.records["cohort"].tolist() == there.records["cohort"].tolist()
    for name, value in here.model.state_dict().items():
        assert torch.allclose(there.model.state_dict()[name].cpu(), value, rtol=1e-3, atol=1e-4), name


def test_dropout_draws_from_the_runs_own_streams_on_the_device(tiny_data: FederatedData) -> None:
    model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(4, 3))
    before = torch.cuda.get_rng_state()
    one = turbosvm.run(data=tiny_data, model=model, head="1", device="cuda", **FAST)
    assert torch.equal(torch.cuda.get_rng_state(), before)
    torch.rand(3, device="cuda")
    two = turbosvm.run(data=tiny_data, model=model, head="1", device="cuda", **FAST)
    assert torch.equal(one.model.state_dict()["1.weight"], two.model.state_dict()["1.weight"])
