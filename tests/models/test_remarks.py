"""What runs, but may not be meant, is told of; what is as it should be is not."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests.conftest import TinyNet, tiny_net
from turbosvm.models.contract import find_head, state_of
from turbosvm.models.registry import MODELS, build_model
from turbosvm.models.remarks import remarks_on


class Behind(TinyNet):
    """A function of its head's answers."""

    def __init__(self, function: Callable[[Tensor], Tensor], bias: bool = True) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            super().__init__(bias)
        self.function = function

    def forward(self, inputs: Tensor) -> Tensor:
        return self.function(super().forward(inputs))


def remarks(module: nn.Module, inputs: Tensor | None = None, head_rule: bool = False) -> list[str]:
    inputs = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)) if inputs is None else inputs
    return remarks_on(module, find_head(module), inputs, head_rule)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("function", "words"),
    [
        (
            lambda logits: logits.softmax(dim=1),
            "gives probabilities, as a Softmax behind its head does: the loss takes",
        ),
        (lambda logits: logits.log_softmax(dim=1), "gives logarithms of probabilities, as a LogSoftmax"),
        (lambda logits: logits.sigmoid(), "gives numbers from 0 to 1, as a Sigmoid behind its head does"),
    ],
)
def test_what_is_squashed_is_told_of(function: Callable[[Tensor], Tensor], words: str, bias: bool) -> None:
    for head_rule in (False, True):
        (remark,) = remarks(Behind(function, bias), head_rule=head_rule)
        assert words in remark


def test_logits_that_look_like_probabilities_are_not_taken_for_them() -> None:
    """At the first weights, logits may be anything: all 0, or from 0 to 1 and of sum 1 by chance."""
    zero, even = tiny_net(), tiny_net()
    for module, bias in ((zero, 0.0), (even, 1 / 3)):
        nn.init.zeros_(module.head.weight)
        nn.init.constant_(module.head.bias, bias)
        assert not remarks(module, head_rule=True)
    assert not remarks(Behind(lambda logits: logits.relu()))


def test_what_stands_behind_the_head_matters_to_head_rules_alone() -> None:
    module = Behind(lambda logits: logits * 3)
    assert not remarks(module)
    (remark,) = remarks(module, head_rule=True)
    assert remark.startswith("The answers of model Behind are not those of its head 'head'")


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_told_of_the_models_that_come_with_it(name: str) -> None:
    module = build_model(name, {}, seed=0)
    shape = {"celeba": (3, 84, 84), "shakespeare": (80,)}.get(name, (1, 28, 28))
    inputs = torch.zeros(4, *shape, dtype=torch.int64) if name == "shakespeare" else torch.rand(4, *shape)
    before, mode = state_of(module), module.training
    assert remarks_on(module, find_head(module), inputs, head_rule=True) == []
    after = state_of(module)
    assert module.training == mode
    assert all(torch.equal(value, after.parameters[key]) for key, value in before.parameters.items())
    assert all(torch.equal(value, after.buffers[key]) for key, value in before.buffers.items())
