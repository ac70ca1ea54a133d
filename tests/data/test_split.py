import numpy as np
import pytest

from turbosvm.data.federated import FederatedData
from turbosvm.data.split import split_users
from turbosvm.errors import TurboSVMError


def population(names: list[str], samples: int = 1) -> FederatedData:
    return FederatedData.from_users({name: (np.zeros((samples, 1)), [0] * samples) for name in names}, classes=1)


def test_nobody_is_on_both_sides_and_nobody_is_lost() -> None:
    split = split_users(population([f"u{i}" for i in range(500)]), held_out=0.2)
    assert set(split.train).isdisjoint(split.held_out)
    assert sorted(split.train + split.held_out) == list(range(500))
    assert 70 < len(split.held_out) < 130


def test_the_side_depends_on_the_name_not_on_the_order_or_on_others() -> None:
    names = [f"u{i}" for i in range(100)]
    data, turned, fewer = population(names), population(names[::-1]), population(names[::2])

    def held(data: FederatedData) -> set[str]:
        return {data.users[user] for user in split_users(data, held_out=0.3).held_out}

    assert held(data) == held(turned)
    assert held(fewer) == held(data) & set(fewer.users)


def test_another_seed_gives_another_split() -> None:
    data = population([f"u{i}" for i in range(100)])
    assert split_users(data, 0.3, seed=0) != split_users(data, 0.3, seed=1)


def test_either_side_has_at_least_one_user() -> None:
    data = population(["a", "b", "c"])
    assert len(split_users(data, held_out=1e-9).held_out) == 1
    assert len(split_users(data, held_out=1 - 1e-9).train) == 1


@pytest.mark.filterwarnings("ignore:.* have no samples")
def test_users_with_too_few_samples_are_left_out() -> None:
    data = FederatedData.from_users({str(n): (np.zeros((n, 1)), [0] * n) for n in range(10)}, classes=1)
    split = split_users(data, 0.3, min_samples=4)
    assert sorted(split.train + split.held_out) == [4, 5, 6, 7, 8, 9]
    with pytest.raises(TurboSVMError, match="has 0 users with at least 99 samples"):
        split_users(data, 0.3, min_samples=99)
