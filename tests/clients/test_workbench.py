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


def normed() -> nn.Module:
    torch_state = torch.get_rng_state()
    net = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
    torch.set_rng_state(torch_state)
    return net


def test_references_run_in_training_mode_as_the_trained_model_does() -> None:
    net = normed()
    bench, inputs = Workbench(net, find_head(net, "2")), torch.randn(6, 4)
    start = state_of(net)
    bench.load(start)
    assert torch.equal(bench.features_of(start, inputs), bench.features(bench.run(inputs)[1], 6))
    assert torch.equal(start.buffers["1.running_mean"], torch.zeros(5))  # the reference's own numbers stay


def test_class_features_are_taken_in_evaluation_mode_and_change_nothing() -> None:
    net = normed()
    bench, inputs, labels = Workbench(net, find_head(net, "2")), torch.randn(6, 4), torch.tensor([0, 2, 2, 0, 0, 2])
    bench.load(state_of(net))
    for _ in range(3):
        bench.run(inputs)  # moves the running statistics
    before = state_of(net)
    sums, counts = bench.class_features(inputs, labels, 3)
    net.eval()
    with torch.no_grad():
        features = net[1](net[0](inputs))  # type: ignore[index]
    torch.testing.assert_close(sums[0], features[labels == 0].sum(dim=0))
    assert counts.tolist() == [3, 0, 3]
    assert all(torch.equal(value, before.buffers[name]) for name, value in net.named_buffers())


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
