"""Centralised training: the same budget of samples, from one pool."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.test_simulation import federation, rounds_of
from turbosvm.algorithms.catalogue import find_algorithm
from turbosvm.clients.pooled import draw, places_of
from turbosvm.clients.sampling import sample_cohort
from turbosvm.clients.training import LocalTraining
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError
from turbosvm.simulation import Plan, simulate


def test_each_pass_sees_every_sample_once_in_an_order_of_its_own() -> None:
    whole = np.concatenate([draw(10, first, 3, seed=1) for first in range(0, 30, 3)])
    for number in range(3):
        assert sorted(whole[10 * number : 10 * number + 10]) == list(range(10))
    assert whole[:10].tolist() != whole[10:20].tolist()
    assert draw(10, 0, 30, seed=1).tolist() == whole.tolist()
    assert draw(10, 0, 30, seed=2).tolist() != whole.tolist()


def test_samples_are_counted_in_the_order_of_the_users_and_those_without_any_own_none() -> None:
    data = FederatedData("d", np.zeros((9, 1)), np.zeros(9, int), np.array([0, 2, 2, 5, 9]), tuple("abcd"), ("k",))
    assert places_of(data, np.array([2, 1, 0]), np.array([0, 2, 3, 4])).tolist() == [2, 4, 0, 1]
    assert places_of(data, np.array([3, 0]), np.array([5, 0, 3, 4])).tolist() == [1, 5, 8, 0]


def test_a_round_has_the_budget_of_its_cohort_and_sends_nothing(tiny_data: FederatedData) -> None:
    setup = federation(tiny_data)
    plan = Plan(3, 4, LocalTraining(2, 4, 0.2))
    for finished in simulate(setup, find_algorithm("centralised"), plan):
        cohort = sample_cohort(0, finished.number, setup.split.train, 4)
        assert finished.samples == 2 * tiny_data.counts[list(cohort)].sum()
        assert (finished.bytes_up, finished.bytes_down, finished.cohort) == (0, 0, ())


def test_one_round_is_plain_sgd_over_the_pool(tiny_data: FederatedData) -> None:
    setup = federation(tiny_data)
    net = federation(tiny_data).module
    (finished,) = simulate(setup, find_algorithm("centralised"), Plan(1, 4, LocalTraining(1, 8, 0.3)))
    places = np.concatenate(
        [np.arange(tiny_data.offsets[user], tiny_data.offsets[user + 1]) for user in setup.split.train]
    )[draw(int(tiny_data.counts[list(setup.split.train)].sum()), 0, finished.samples, seed=0)]
    optimiser = torch.optim.SGD(net.parameters(), lr=0.3)
    for batch in torch.from_numpy(places).split(8):
        loss = torch.nn.functional.cross_entropy(
            net(torch.tensor(tiny_data.inputs[batch])), torch.tensor(tiny_data.labels[batch])
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    for name, value in net.named_parameters():
        torch.testing.assert_close(finished.model.parameters[name], value.detach(), atol=1e-6, rtol=1e-5)


def test_it_is_a_ceiling_for_the_federated(tiny_data: FederatedData) -> None:
    pooled, federated = (rounds_of(tiny_data, name, rounds=6)[-1].metrics for name in ("centralised", "fedavg"))
    assert pooled is not None
    assert federated is not None
    assert pooled.loss < federated.loss


def test_an_error_names_the_pool(tiny_data: FederatedData) -> None:
    inputs = np.array(tiny_data.inputs)
    spoilt = replace(tiny_data, inputs=inputs)
    inputs[:] = np.nan  # after it was checked
    with pytest.raises(TurboSVMError, match=r"Round 1: the pool: '.*' is not finite \(on_bad_client: abort\)"):
        list(
            simulate(
                federation(spoilt),
                find_algorithm("centralised"),
                Plan(1, 4, LocalTraining(1, 4, 0.1), on_bad_client="abort"),
            )
        )
