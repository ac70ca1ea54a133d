"""The paper's models: sizes, shapes, and first weights that come from named streams."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from turbosvm.models.registry import MODELS, build_model
from turbosvm.randomness import lend_to_global

INPUTS: dict[str, Tensor] = {
    "celeba": torch.zeros(2, 3, 84, 84),
    "femnist": torch.zeros(2, 1, 28, 28),
    "shakespeare": torch.zeros(2, 80, dtype=torch.int64),
    "small": torch.zeros(2, 1, 28, 28),
}


@pytest.mark.parametrize(
    ("name", "parameters", "classes"),
    # Counted by hand from the tables of the paper's appendix (small: ours).
    [("femnist", 6_603_710, 62), ("celeba", 30_498, 2), ("shakespeare", 819_920, 80), ("small", 111_902, 62)],
)
def test_sizes(name: str, parameters: int, classes: int) -> None:
    model = build_model(name, {}, seed=0)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    assert model(INPUTS[name]).shape == (2, classes)


def test_the_embedding_size_is_a_parameter() -> None:
    model = build_model("femnist", {"embedding": 64}, seed=0)
    assert model.get_submodule("head").weight.shape == (62, 64)


@pytest.mark.parametrize("name", MODELS)
def test_first_weights_depend_on_the_seed_alone(name: str) -> None:
    before = torch.get_rng_state()
    one, same, other = (dict(build_model(name, {}, seed).named_parameters()) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert not torch.equal(one["head.weight"], other["head.weight"])


@pytest.mark.parametrize("name", MODELS)
def test_first_weights_are_spread_like_pytorchs_own(name: str) -> None:
    """Compared by standard deviation and range with what PyTorch's constructors draw, from a stream of ours here."""
    with lend_to_global(1, "init"):
        theirs = dict(MODELS[name]().named_parameters())
    for key, ours in build_model(name, {}, seed=0).named_parameters():
        if ours.numel() >= 500:
            assert ours.std().item() == pytest.approx(theirs[key].std().item(), rel=0.06), key
            assert ours.abs().max().item() == pytest.approx(theirs[key].abs().max().item(), rel=0.3), key
        assert ours.isfinite().all()


def test_small_pools_before_relu_without_changing_the_function() -> None:
    model = build_model("small", {}, seed=0)
    images = torch.rand(4, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    body = model.get_submodule("body")
    swapped = nn.Sequential(*(body[place] for place in (0, 2, 1, 3, 5, 4, 6, 7, 8)))  # type: ignore[index]
    assert torch.equal(swapped(images), body(images))


def test_shakespeare_reads_the_last_step() -> None:
    model = build_model("shakespeare", {}, seed=0)
    rng = np.random.default_rng(0)
    text = torch.from_numpy(rng.integers(0, 80, (1, 80)))
    changed = text.clone()
    changed[0, -1] = (changed[0, -1] + 1) % 80
    assert not torch.allclose(model(text), model(changed))
