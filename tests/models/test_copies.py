"""Copies of a person's model keep its hooks, and training honours them."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import turbosvm
from tests.conftest import TinyNet, tiny_net
from turbosvm.data.federated import FederatedData
from turbosvm.models.copies import copy_of, hooked_part

FAST: dict[str, Any] = {"rounds": 2, "clients_per_round": 4, "client": {"batch_size": 4}, "threads": 2, "device": "cpu"}
RULES = ["fedavg", "scaffold", "localamsgrad", "fafed", "centralised"]


class Recorder:
    def __init__(self) -> None:
        self.seen = 0

    def note(self, *_: Any) -> None:
        self.seen += 1


def run(model: nn.Module, data: FederatedData, rule: str = "fedavg", engine: str = "auto") -> turbosvm.Result:
    told = engine == "auto" and rule != "centralised"
    if not told:
        return turbosvm.run(rule, data=data, model=model, engine=engine, **FAST)
    with pytest.warns(UserWarning, match=r"one after another .*: in model TinyNet, .* has a hook"):
        return turbosvm.run(rule, data=data, model=model, engine=engine, **FAST)


def moved(result: turbosvm.Result, model: TinyNet, name: str) -> bool:
    return not torch.equal(result.model.state_dict()[name], model.state_dict()[name])


@pytest.mark.parametrize("rule", RULES)
def test_a_gradient_hook_is_called_and_decides(rule: str, tiny_data: FederatedData) -> None:
    """A hook that makes the head's gradient zero keeps the head where it is, in every rule of clients."""
    model, recorder = tiny_net(), Recorder()

    def still(gradient: Tensor) -> Tensor:
        recorder.note()
        return gradient * 0

    model.head.weight.register_hook(still)
    result = run(model, tiny_data, rule)
    assert recorder.seen
    assert not moved(result, model, "head.weight")
    assert moved(result, model, "body.weight")


@pytest.mark.parametrize("rule", RULES)
def test_a_hook_after_accumulation_is_called_and_decides(rule: str, tiny_data: FederatedData) -> None:
    model, recorder = tiny_net(), Recorder()

    def clear(parameter: Tensor) -> None:
        recorder.note()
        assert parameter.grad is not None
        parameter.grad = None

    model.head.weight.register_post_accumulate_grad_hook(clear)
    result = run(model, tiny_data, rule)
    assert recorder.seen
    assert not moved(result, model, "head.weight")
    assert moved(result, model, "body.weight")


@pytest.mark.parametrize("engine", ["auto", "sequential"])
def test_hooks_of_layers_are_the_very_ones(engine: str, tiny_data: FederatedData) -> None:
    """Also where they are methods of an object, which `deepcopy` would copy."""
    for register in ("register_forward_hook", "register_forward_pre_hook"):
        model, recorder = tiny_net(), Recorder()
        getattr(model.body, register)(recorder.note)
        result = run(model, tiny_data, engine=engine)
        assert recorder.seen >= result.records["samples"].sum() // 4


@pytest.mark.filterwarnings("ignore:Full backward hook")  # PyTorch says so of the first layer
def test_backward_hooks_of_layers_are_called(tiny_data: FederatedData) -> None:
    for register in ("register_full_backward_hook", "register_full_backward_pre_hook"):
        model, recorder = tiny_net(), Recorder()
        getattr(model.head, register)(recorder.note)
        result = run(model, tiny_data)
        assert recorder.seen >= result.records["samples"].sum() // 4


def test_the_same_numbers_as_without_a_hook_that_only_looks(tiny_data: FederatedData) -> None:
    model, plain = tiny_net(), tiny_net()
    model.body.weight.register_hook(lambda gradient: None)
    model.head.bias.register_post_accumulate_grad_hook(lambda parameter: None)
    one, two = run(model, tiny_data), run(plain, tiny_data, engine="sequential")
    assert all(torch.equal(value, two.model.state_dict()[name]) for name, value in one.model.state_dict().items())


def test_the_persons_model_keeps_its_hooks_and_gradients(tiny_data: FederatedData) -> None:
    model = tiny_net()
    model.head.weight.register_post_accumulate_grad_hook(lambda parameter: None)
    copy = copy_of(model)
    assert hooked_part(copy) == hooked_part(model) == "parameter 'head.weight'"
    run(model, tiny_data)
    assert hooked_part(model) == "parameter 'head.weight'"
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_hook_that_belongs_to_the_model_belongs_to_the_copy() -> None:
    class Counts(TinyNet):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0
            self.body.register_forward_hook(self.count)

        def count(self, *_: Any) -> None:
            self.calls += 1

    with torch.random.fork_rng():
        model = Counts()
    copy = copy_of(model)
    assert isinstance(copy, Counts)
    copy(torch.zeros(2, 4))
    assert (model.calls, copy.calls) == (0, 1)


def test_hooks_of_pytorch_itself_do_not_count() -> None:
    with torch.random.fork_rng():
        assert hooked_part(nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)))) is None
        assert hooked_part(nn.utils.spectral_norm(nn.Linear(4, 3))) is None
        assert hooked_part(nn.LazyLinear(3)) is None
    assert hooked_part(tiny_net()) is None
