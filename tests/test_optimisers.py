"""Server optimisers against PyTorch's own, and against their formulas where PyTorch has none."""

from typing import Any

import pytest
import torch
from torch import Tensor

from turbosvm.errors import TurboSVMError
from turbosvm.optimisers import Optimiser


def gradients(steps: int = 5) -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    return [torch.randn(4, 3, generator=draw, dtype=torch.float64) for _ in range(steps)]


@pytest.mark.parametrize(
    ("name", "oracle"),
    [
        ("sgd", lambda w: torch.optim.SGD([w], lr=0.1)),
        ("adam", lambda w: torch.optim.Adam([w], lr=0.1, eps=1e-5)),
        ("amsgrad", lambda w: torch.optim.Adam([w], lr=0.1, eps=1e-5, amsgrad=True)),
        ("adagrad", lambda w: torch.optim.Adagrad([w], lr=0.1, eps=1e-5)),
    ],
)
def test_equals_pytorchs_optimiser(name: Any, oracle: Any) -> None:
    start = torch.ones(4, 3, dtype=torch.float64)
    theirs, mine, optimiser = start.clone().requires_grad_(), start, Optimiser(name, learning_rate=0.1, eps=1e-5)
    torch_optimiser, moments = oracle(theirs), optimiser.init(start)
    for gradient in gradients():
        theirs.grad = gradient.clone()
        torch_optimiser.step()
        mine, moments = optimiser.step(mine, gradient, moments)
        torch.testing.assert_close(mine, theirs.detach(), rtol=1e-12, atol=1e-12)
    assert moments["steps"].flatten().tolist() == [5.0] * 4
    assert torch.equal(start, torch.ones_like(start))  # nothing handed in is changed


def test_yogi_two_steps_by_hand() -> None:
    optimiser = Optimiser("yogi", learning_rate=1.0, beta1=0.5, beta2=0.5, eps=1e-5)
    w = torch.zeros(1, 1, dtype=torch.float64)
    w, moments = optimiser.step(w, torch.full_like(w, 2.0), optimiser.init(w))
    # m = 1, v = 0 + 0.5 * 4 = 2; corrected m' = 1 / 0.5 = 2, v' = 2 / 0.5 = 4
    assert moments["second"].item() == 2.0
    assert w.item() == pytest.approx(-2 / (2 + 1e-5))
    _, moments = optimiser.step(w, torch.full_like(w, 1.0), moments)
    assert moments["first"].item() == 1.0  # 0.5 * 1 + 0.5 * 1
    assert moments["second"].item() == 1.5  # 2 - 0.5 * sign(2 - 1) * 1


def test_rows_stepped_apart_equal_rows_stepped_together() -> None:
    optimiser, start = Optimiser("adam"), torch.ones(4, 3, dtype=torch.float64)
    together, moments = start, optimiser.init(start)
    for gradient in gradients():
        together, moments = optimiser.step(together, gradient, moments)
    row, own = start[2:3], optimiser.init(start[2:3])
    for gradient in gradients():
        row, own = optimiser.step(row, gradient[2:3], own)
    assert torch.equal(row, together[2:3])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "adamw"}, "Unknown optimiser 'adamw'.*Did you mean 'adam'"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"beta1": 1.0}, "beta1 is 1.0"),
        ({"beta2": -0.1}, "beta2 is -0.1"),
        ({"eps": 0.0}, "eps is 0.0"),
    ],
)
def test_coefficients_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TurboSVMError, match=message):
        Optimiser(**options)
