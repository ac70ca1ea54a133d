"""FedAwS: the mean of the heads, then a step that spreads them."""

from math import sqrt

import pytest
import torch

from turbosvm.algorithms.head.fedaws import FedAwS
from turbosvm.averaging import weighted_mean
from turbosvm.errors import TurboSVMError
from turbosvm.types import Moment

MOMENT = Moment(1, 10, 0)


def test_one_step_of_gradient_descent_by_hand() -> None:
    """Directions (1, 0) and (0, 1), sqrt(2) apart; nu = 2. d/dw_1 of (2 - d)^2 is -2 (2 - d) (u_1 - u_2) / d, less its
    part along u_1 (length does not count), over |w_1|."""
    rule = FedAwS(margin=2.0, optimiser="sgd", learning_rate=1.0)
    clients = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [0.0, 5.0]]])
    old = torch.full((2, 2), 9.0)
    merged = rule.merge(old, clients, torch.tensor([3, 1]), rule.init(old), MOMENT)
    force = 2 * (2 - sqrt(2)) / sqrt(2)
    expected = torch.tensor([[2.0, -force / 2], [-force / 2, 2.0]])  # both embeddings have length 2
    torch.testing.assert_close(merged.embeddings, expected, atol=1e-5, rtol=1e-5)
    assert merged.diagnostics["spread_loss_before"] == pytest.approx((2 - sqrt(2)) ** 2, abs=1e-5)
    assert merged.diagnostics["spread_loss_after"] < merged.diagnostics["spread_loss_before"]  # type: ignore[operator]


def test_pairs_beyond_the_margin_are_left_where_they_are() -> None:
    rule, clients = FedAwS(margin=1.0), torch.tensor([[[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]])
    merged = rule.merge(clients[0], clients, torch.tensor([4]), rule.init(clients[0]), MOMENT)
    assert torch.equal(merged.embeddings, clients[0])


def test_adam_keeps_its_moments_and_is_pytorchs() -> None:
    rule, rng = FedAwS(), torch.Generator().manual_seed(0)
    state = rule.init(torch.zeros(5, 7))
    parameter = torch.nn.Parameter(torch.zeros(5, 7))
    optimiser = torch.optim.Adam([parameter], lr=0.01, eps=1e-5)
    samples = torch.tensor([1, 2, 5])
    for number in range(1, 4):
        clients = torch.randn(3, 5, 7, generator=rng)
        merged = rule.merge(torch.zeros(5, 7), clients, samples, state, Moment(number, 10, 0))
        state = merged.state
        with torch.no_grad():
            parameter.copy_(weighted_mean(clients, samples))
        unit = parameter / parameter.norm(dim=1, keepdim=True)
        loss = sum((2 - (unit[k] - unit[m]).norm()) ** 2 for k in range(5) for m in range(k + 1, 5))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        torch.testing.assert_close(merged.embeddings, parameter.detach(), atol=1e-5, rtol=1e-4)


def test_equal_and_zero_embeddings_give_finite_numbers() -> None:
    clients = torch.tensor([[[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]]])
    rule = FedAwS()
    merged = rule.merge(clients[0], clients, torch.tensor([1]), rule.init(clients[0]), MOMENT)
    assert merged.embeddings.isfinite().all()


def test_values_out_of_range_are_refused() -> None:
    for options in ({"margin": 0.0}, {"learning_rate": -1.0}, {"beta1": 1.0}):
        with pytest.raises(TurboSVMError, match="must be"):
            FedAwS(**options)  # type: ignore[arg-type]


def test_classes_that_are_nearly_the_same_are_pushed_apart() -> None:
    clients = torch.tensor([[[1.0, 0.0], [1.0, 1e-5]]])
    rule = FedAwS(optimiser="sgd", learning_rate=0.1)
    merged = rule.merge(clients[0], clients, torch.tensor([1]), rule.init(clients[0]), MOMENT)
    assert merged.embeddings[0, 1] < -0.01
    assert merged.embeddings[1, 1] > 0.01
    assert merged.embeddings.dtype == torch.float32
