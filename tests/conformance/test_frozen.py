"""Parameters that ask for no gradient stay what they are, to the last bit, in every algorithm of the catalogue."""

import warnings
from typing import Any

import pytest
import torch

import turbosvm
from tests.conftest import tiny_net
from turbosvm.algorithms.catalogue import CATALOGUE, find_algorithm
from turbosvm.data.federated import FederatedData

FAST: dict[str, Any] = {"rounds": 4, "clients_per_round": 5, "client": {"batch_size": 4}, "threads": 2, "device": "cpu"}
NAMES = [*CATALOGUE, "fedavgm+turbosvm", "scaffold+fedams+fedaws", "fedproc+fafed+fedyogi+turbosvm"]
FROZEN = {
    "the head": ("head.weight", "head.bias"),
    "the head's bias": ("head.bias",),
    "the body": ("body.weight", "body.bias"),
    "everything": ("body.weight", "body.bias", "head.weight", "head.bias"),
}


@pytest.mark.parametrize("what", FROZEN)
@pytest.mark.parametrize("name", NAMES)
def test_frozen_parameters_stay(name: str, what: str, tiny_data: FederatedData) -> None:
    model = tiny_net()
    for parameter in FROZEN[what]:
        model.get_parameter(parameter).requires_grad = False
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result = turbosvm.run(name, data=tiny_data, model=model, **FAST)
    assert result.stopped is None
    after = dict(result.model.named_parameters())
    moved = {key for key, value in model.named_parameters() if not torch.equal(value, after[key])}
    assert moved == {key for key, _ in model.named_parameters()} - set(FROZEN[what])
    sentences = " ".join(str(one.message) for one in told)
    ruled = find_algorithm(name).head is not None and {"head.weight", "head.bias"} <= set(FROZEN[what])
    assert (f"{find_algorithm(name).name} leaves it as it is" in sentences) == ruled
    assert ("nothing is trained" in sentences) == (what == "everything")
    assert len(told) == ruled + (what == "everything")
