from collections import Counter

import pytest

from turbosvm.clients.sampling import sample_cohort
from turbosvm.errors import TurboSVMError


def test_a_cohort_is_fixed_by_seed_and_round_for_ever() -> None:
    assert sample_cohort(0, 1, range(1000), 4) == (197, 959, 504, 425)
    assert sample_cohort(0, 1, range(1000), 4) != sample_cohort(0, 2, range(1000), 4)
    assert sample_cohort(0, 1, range(1000), 4) != sample_cohort(1, 1, range(1000), 4)


def test_nobody_comes_twice_and_only_users_come() -> None:
    users = [3, 14, 15, 92, 65]
    for number in range(50):
        ids = sample_cohort(0, number, users, 4)
        assert len(set(ids)) == 4
        assert set(ids) <= set(users)


def test_everybody_comes_equally_often() -> None:
    rounds, users, size = 4000, 10, 3
    counts = Counter(user for number in range(rounds) for user in sample_cohort(5, number, range(users), size))
    expected = rounds * size / users
    assert all(abs(counts[user] - expected) < 5 * expected**0.5 for user in range(users))


def test_the_whole_population_may_come() -> None:
    assert sorted(sample_cohort(0, 1, range(5), 5)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("size", [0, 6])
def test_more_clients_than_users_is_refused(size: int) -> None:
    with pytest.raises(TurboSVMError, match=f"clients_per_round is {size}; it must be from 1 to 5"):
        sample_cohort(0, 1, range(5), size)
