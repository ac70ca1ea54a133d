"""The FedOpt family against PyTorch's optimisers on the pseudo-gradient, and by hand."""

from collections.abc import Callable
from dataclasses import replace
from math import sqrt
from typing import Any

import pytest
import torch

from tests.algorithms.rounds import cohort
from turbosvm.algorithms.body.adaptive import Adaptive
from turbosvm.algorithms.catalogue import find_algorithm
from turbosvm.errors import TurboSVMError
from turbosvm.types import Weights

Make = Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]


def several_rounds(rule: Any, rounds: int = 5) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Weights after rounds of random cohorts, and the mean of each cohort."""
    rng = torch.Generator().manual_seed(3)
    weights = {"w": torch.randn(4, 3, generator=rng, dtype=torch.float64)}
    state, means = rule.init(weights), []
    for _ in range(rounds):
        clients = weights["w"] + 1e-3 * torch.randn(2, 4, 3, generator=rng, dtype=torch.float64)
        means.append(0.25 * clients[0] + 0.75 * clients[1])
        sent = replace(cohort([1, 3], w=[0.0, 0.0]), parameters={"w": clients})
        weights, state, _ = rule.merge(weights, sent, state)
    return weights["w"], means


def torch_rounds(make: Make, means: list[torch.Tensor]) -> torch.Tensor:
    rng = torch.Generator().manual_seed(3)
    parameter = torch.nn.Parameter(torch.randn(4, 3, generator=rng, dtype=torch.float64))
    optimiser = make([parameter])
    for mean in means:
        parameter.grad = parameter.detach() - mean
        optimiser.step()
    return parameter.detach()


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("fedadam", lambda parameters: torch.optim.Adam(parameters, lr=0.001)),
        ("fedams", lambda parameters: torch.optim.Adam(parameters, lr=0.001, amsgrad=True)),
    ],
)
def test_fedadam_and_fedams_are_pytorchs_optimisers_on_the_mean_change(name: str, make: Make) -> None:
    mine, means = several_rounds(find_algorithm(name).body)
    torch.testing.assert_close(mine, torch_rounds(make, means), atol=1e-9, rtol=1e-7)


def test_fedadagrad_is_pytorchs_from_the_same_accumulator() -> None:
    mine, means = several_rounds(find_algorithm("fedadagrad").body)
    theirs = torch_rounds(
        lambda parameters: torch.optim.Adagrad(parameters, lr=0.01, eps=1e-3, initial_accumulator_value=1e-6), means
    )
    torch.testing.assert_close(mine, theirs, atol=1e-9, rtol=1e-7)


@pytest.mark.parametrize("optimiser", ["adam", "yogi"])
def test_reddis_form_two_rounds_by_hand(optimiser: Any) -> None:
    """Algorithm 2 of the paper, one number at a time: Delta is 2 and then 1 (the clients' mean minus the model)."""
    rule = Adaptive(optimiser, 0.1, beta1=0.5, beta2=0.75, eps=0.01, bias_correction=False, initial=0.0001)
    weights: Weights = {"w": torch.tensor([1.0])}
    state = rule.init(weights)
    x, m, v = 1.0, 0.0, 0.0001
    for delta in (2.0, 1.0):
        merged = rule.merge(weights, cohort([1], w=[[x + delta]]), state)
        weights, state = merged.weights, merged.state
        m = 0.5 * m + 0.5 * delta
        if optimiser == "adam":
            v = 0.75 * v + 0.25 * delta**2
        else:
            v = v - 0.25 * delta**2 * (1 if v > delta**2 else -1)
        x = x + 0.1 * m / (sqrt(v) + 0.01)
        assert float(weights["w"]) == pytest.approx(x, abs=1e-6)


def test_adagrad_by_hand() -> None:
    rule = Adaptive("adagrad", 0.1, eps=0.5, initial=0.0)
    merged = rule.merge({"w": torch.tensor([1.0])}, cohort([1], w=[[3.0]]), rule.init({"w": torch.tensor([1.0])}))
    assert float(merged.weights["w"]) == pytest.approx(1 + 0.1 * 2 / (2 + 0.5))


def test_moments_are_kept_for_each_weight_by_name() -> None:
    rule, weights = Adaptive("amsgrad"), {"a/b": torch.ones(2), "c": torch.tensor(3.0)}
    state = rule.init(weights)
    sent: dict[str, list[Any]] = {"a/b": [[2.0, 1.0]], "c": [4.0]}
    assert set(state) == {f"{moment}/{name}" for moment in ("steps", "first", "second", "largest") for name in weights}
    after = rule.merge(weights, cohort([2], **sent), state)
    assert set(after.state) == set(state)
    assert after.weights["a/b"].tolist() == pytest.approx([1.001, 1.0])
    assert float(after.weights["c"]) == pytest.approx(3.001)


@pytest.mark.parametrize(
    "options",
    [{"learning_rate": 0}, {"beta1": 1.0}, {"beta2": -0.1}, {"eps": 0.0}, {"initial": -1.0}, {"bias_correction": "no"}],
)
def test_values_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(TurboSVMError, match="must be"):
        Adaptive(**options)


def test_an_unknown_optimiser_is_answered_with_the_known_ones() -> None:
    with pytest.raises(TurboSVMError, match=r"Unknown optimiser 'adamw'.*Did you mean 'adam'"):
        Adaptive("adamw")  # type: ignore[arg-type]
