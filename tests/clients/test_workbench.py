"""What the head sees, whatever the model does with it."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import turbosvm
from tests.conftest import tiny_net
from turbosvm.clients.workbench import Workbench
from turbosvm.data.federated import FederatedData
from turbosvm.models.contract import find_head, state_of
from turbosvm.models.registry import build_model
from turbosvm.types import ModelState


def test_features_are_the_heads_inputs() -> None:
    net = tiny_net()
    bench, inputs = Workbench(net, find_head(net)), torch.randn(6, 4)
    logits, seen = bench.run(inputs)
    assert torch.equal(bench.features(seen, 6), net.body(inputs).relu())
    assert torch.equal(logits, net(inputs))


def test_another_models_features_leave_the_one_on_the_bench_alone() -> None:
    net, other = tiny_net(0), tiny_net(1)
    bench, inputs = Workbench(net, find_head(net)), torch.randn(6, 4)
    bench.load(state_of(net))
    reference = state_of(other)
    features = bench.features_of(reference, inputs)
    assert torch.equal(features, other.body(inputs).relu())
    assert not features.requires_grad
    assert torch.equal(net.body.weight, tiny_net(0).body.weight)
    third = state_of(tiny_net(2))
    assert torch.equal(bench.features_of(third, inputs), tiny_net(2).body(inputs).relu())
    assert torch.equal(bench.features_of(reference, inputs), features)
    bench.load(state_of(net))
    assert torch.equal(bench.features_of(third, inputs), tiny_net(2).body(inputs).relu())


def test_recurrent_models_have_features_too() -> None:
    module = build_model("shakespeare", {}, 0)
    bench = Workbench(module, find_head(module))
    tokens = torch.randint(0, 80, (3, 12), generator=torch.Generator().manual_seed(0))
    start = state_of(module)
    bench.load(start)
    halved = ModelState({name: value / 2 for name, value in start.parameters.items()}, start.buffers)
    assert bench.features(bench.run(tokens)[1], 3).shape == (3, 256)
    assert bench.features_of(start, tokens).shape == (3, 256)
    assert not torch.equal(bench.features_of(halved, tokens), bench.features_of(start, tokens))


class UsesItsHeadByHand(nn.Module):
    """Never calls the head as a layer."""

    head_name = "head"

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return functional.linear(self.body(inputs).relu(), self.head.weight, self.head.bias)


def test_a_head_that_is_not_called_is_in_nobodys_way_but_moons_and_fedprocs(tiny_data: FederatedData) -> None:
    settings = {"data": tiny_data, "rounds": 2, "clients_per_round": 3, "max_failed_rounds": 0, "threads": 1}
    assert turbosvm.run("turbosvm", model=UsesItsHeadByHand(), **settings).stopped is None  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="The head 'head' of model UsesItsHeadByHand is not called once, as a layer"):
        turbosvm.run("fedproc", model=UsesItsHeadByHand(), **settings)  # type: ignore[arg-type]
