"""A round costs what its cohort costs, however many users there are."""

import tracemalloc

import numpy as np
import pytest

from tests.conftest import tiny_net
from turbosvm.algorithms.catalogue import find_algorithm
from turbosvm.clients.training import LocalTraining
from turbosvm.data.federated import FederatedData
from turbosvm.data.split import split_users
from turbosvm.models.contract import find_head
from turbosvm.simulation import Federation, Plan, simulate

USERS = 200_000


@pytest.fixture(scope="module")
def crowd() -> FederatedData:
    """Two samples a user, all alike, so that they take no room."""
    inputs = np.broadcast_to(np.ones(4, np.float32), (2 * USERS, 4))
    labels = np.broadcast_to(np.zeros((), np.int64), (2 * USERS,))
    names = tuple(f"user-{number}" for number in range(USERS))
    return FederatedData("crowd", inputs, labels, 2 * np.arange(USERS + 1), names, ("a", "b", "c"))


@pytest.mark.parametrize("algorithm", ["fedavg", "moon", "scaffold", "turbosvm"])
def test_a_round_makes_nothing_that_is_as_long_as_the_population(crowd: FederatedData, algorithm: str) -> None:
    net = tiny_net()
    federation = Federation(crowd, split_users(crowd, held_out=0.1), net, find_head(net))
    plan = Plan(10**6, 8, LocalTraining(1, 2, 0.1), evaluate_every=10**6)
    rounds = simulate(federation, find_algorithm(algorithm), plan)
    next(rounds)  # gets everything ready
    tracemalloc.start()
    try:
        next(rounds)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < USERS  # bytes: less than one for each user
