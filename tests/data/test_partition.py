import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turbosvm.data import partition
from turbosvm.data.partition import Partition, dirichlet, iid, parse, shards
from turbosvm.errors import TurboSVMError
from turbosvm.randomness import numpy_generator

Counts = npt.NDArray[np.int64]

IID_AMONG_3 = Partition("iid", users=3)
TEN_CLASSES = np.repeat(np.arange(10), 600)


def rng(seed: int = 0) -> np.random.Generator:
    return numpy_generator(seed, "partition")


def sizes(assignment: Counts, users: int) -> list[int]:
    counts: list[int] = np.bincount(assignment, minlength=users).tolist()
    return counts


def table(labels: npt.ArrayLike, assignment: Counts, users: int) -> Counts:
    """Samples by user and class."""
    labels = np.asarray(labels)
    counts = np.zeros((users, labels.max() + 1), np.int64)
    np.add.at(counts, (assignment, labels), 1)
    return counts


# The rules


def test_a_division_is_fixed_by_its_seed_for_ever() -> None:
    # Written down once: if these change, so does every data set that people have divided.
    labels = np.repeat(np.arange(3), [4, 5, 3])
    assert parse("iid", users=4).assign(labels).tolist() == [0, 1, 1, 2, 0, 0, 3, 1, 2, 2, 3, 3]
    assert parse("dirichlet:0.5", users=4).assign(labels).tolist() == [3, 1, 1, 3, 0, 0, 2, 2, 0, 0, 2, 2]
    assert parse("shards:2", users=4).assign(labels).tolist() == [3, 0, 3, 3, 2, 2, 2, 1, 2, 1, 0, 0]


def test_iid_sizes_differ_by_at_most_one() -> None:
    assert sizes(iid([0] * 11, 4, rng()), 4) == [3, 3, 3, 2]
    assert sizes(iid([0] * 2, 4, rng()), 4) == [1, 1, 0, 0]


def test_iid_users_look_like_the_population() -> None:
    counts = table(TEN_CLASSES, iid(TEN_CLASSES, 6, rng()), 6)
    assert counts.sum(axis=1).tolist() == [1000] * 6
    assert np.abs(counts - 100).max() < 40  # four standard deviations: each is hypergeometric, of mean 100 and 8.7


class Fixed:
    """Stands in for a generator: shares and the place of the comb are given."""

    def __init__(self, comb: float) -> None:
        self.comb = comb

    def random(self) -> float:
        return self.comb


@pytest.mark.parametrize(
    ("comb", "expected"),
    [
        (0.0, [2, 0, 0, 3]),  # ends at 2.0, 2.5, 2.75, 5
        (0.3, [2, 0, 1, 2]),  # ends at 2.3, 2.8, 3.05, 5
        (0.6, [2, 1, 0, 2]),  # ends at 2.6, 3.1, 3.35, 5
    ],
)
def test_shares_become_whole_samples_by_a_comb(comb: float, expected: list[int]) -> None:
    shares = np.array([0.4, 0.1, 0.05, 0.45])
    assert partition._divide(5, shares, Fixed(comb)).tolist() == expected  # type: ignore[arg-type]


def test_rounding_favours_nobody() -> None:
    shares, generator = np.array([0.4, 0.1, 0.05, 0.45]), rng()
    mean = np.mean([partition._divide(5, shares, generator) for _ in range(20_000)], axis=0)
    assert mean == pytest.approx(5 * shares, abs=0.015)  # four standard errors of a coin, 0.5 / sqrt(20,000)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.integers(1, 50), st.floats(0, 1, exclude_max=True))
def test_rounded_shares_add_up_and_are_less_than_one_away(weights: list[float], count: int, comb: float) -> None:
    shares = np.array(weights) / sum(weights) if sum(weights) > 1e-9 else np.eye(len(weights))[0]
    divided = partition._divide(count, shares, Fixed(comb))  # type: ignore[arg-type]
    assert divided.sum() == count
    assert divided.min() >= 0
    assert np.all(np.abs(divided - count * shares) < 1 + 1e-9)


@pytest.mark.parametrize("alpha", [1e9, 1e300])
def test_a_large_alpha_gives_everybody_the_shares_of_the_population(alpha: float) -> None:
    labels = np.repeat(np.arange(3), [100, 200, 700])
    counts = table(labels, dirichlet(labels, 10, alpha, rng()), 10)
    assert np.abs(counts - [10, 20, 70]).max() <= 1


@pytest.mark.parametrize("alpha", [1e-300, 1e-6])
def test_a_tiny_alpha_gives_a_class_to_one_user(alpha: float) -> None:
    counts = table(TEN_CLASSES, dirichlet(TEN_CLASSES, 4, alpha, rng(), min_samples=0), 4)
    assert sorted(counts.ravel().tolist()) == [0] * 30 + [600] * 10


def test_a_users_share_of_a_class_has_the_spread_of_the_dirichlet_distribution() -> None:
    alpha, users = 0.5, 5
    labels = np.repeat(np.arange(2000), 100)
    shares = table(labels, dirichlet(labels, users, alpha, rng()), users) / 100
    assert shares.mean(axis=1) == pytest.approx(np.full(users, 1 / users), abs=0.03)
    # Of a share of Dir(alpha, ..., alpha): (1 / users) (1 - 1 / users) / (users alpha + 1) = 0.16 / 3.5
    assert shares.var() == pytest.approx(0.16 / 3.5, rel=0.05)


def test_skew_falls_as_alpha_rises() -> None:
    def largest_class(alpha: float) -> float:
        counts = table(TEN_CLASSES, dirichlet(TEN_CLASSES, 20, alpha, rng()), 20)
        return float((counts.max(axis=1) / counts.sum(axis=1)).mean())

    skews = [largest_class(alpha) for alpha in (0.1, 0.5, 5.0, 500.0)]
    assert skews == sorted(skews, reverse=True)
    assert skews[0] > 0.5
    assert skews[-1] < 0.13


def test_shares_are_drawn_again_until_everybody_has_enough() -> None:
    once = dirichlet(TEN_CLASSES, 20, 0.1, rng(), min_samples=0)
    assert min(sizes(once, 20)) < 40
    again = dirichlet(TEN_CLASSES, 20, 0.1, rng(), min_samples=40)
    assert min(sizes(again, 20)) >= 40


def test_shards_are_sorted_cut_and_dealt_out() -> None:
    labels = np.tile([0, 1, 2], 4)  # by label: four shards of three, 000 | 011 | 112 | 222
    assignment = shards(labels, 4, 1, rng())
    counts = table(labels, assignment, 4)
    assert sorted(map(tuple, counts.tolist())) == [(0, 0, 3), (0, 2, 1), (1, 2, 0), (3, 0, 0)]


def test_a_user_has_no_more_classes_than_shards_where_shards_end_with_classes() -> None:
    # As McMahan et al. do it: 200 shards for 100 users, here of 30 samples.
    counts = table(TEN_CLASSES, shards(TEN_CLASSES, 100, 2, rng()), 100)
    assert counts.sum(axis=1).tolist() == [60] * 100
    assert (counts > 0).sum(axis=1).max() == 2


@given(st.integers(1, 9), st.integers(1, 5), st.integers(0, 99))
def test_shards_bound_the_classes_of_a_user(users: int, shards_per_user: int, seed: int) -> None:
    class_sizes = rng(seed).integers(10, 20, size=6)
    labels = np.repeat(np.arange(6), class_sizes)
    counts = table(labels, shards(labels, users, shards_per_user, rng(seed)), users)
    shard = -(-len(labels) // (users * shards_per_user))
    spanned = 1 + -(-(shard - 1) // int(class_sizes.min()))  # 2 where no class is smaller than a shard
    assert (counts > 0).sum(axis=1).max() <= spanned * shards_per_user
    assert np.ptp(counts.sum(axis=1)) <= shards_per_user


RULES = st.sampled_from(["iid", "dirichlet:0.3", "dirichlet:5", "shards:1", "shards:3"])


@given(st.lists(st.integers(0, 4), min_size=30, max_size=80), st.integers(1, 10), RULES, st.integers(0, 2**32))
def test_every_sample_has_one_user_and_the_seed_decides_which(
    labels: list[int], users: int, rule: str, seed: int
) -> None:
    chosen = parse(rule, users, min_samples=0, seed=seed)
    assignment = chosen.assign(labels)
    assert assignment.dtype == np.int64
    assert assignment.shape == (len(labels),)
    assert 0 <= assignment.min() <= assignment.max() < users
    assert np.array_equal(chosen.assign(np.array(labels, np.uint8)), assignment)
    assert np.array_equal(chosen.assign(torch.tensor(labels)), assignment)


@pytest.mark.parametrize("rule", ["iid", "dirichlet:0.5", "shards:2"])
def test_another_seed_gives_another_division(rule: str) -> None:
    first, second = (parse(rule, 10, seed=seed).assign(TEN_CLASSES) for seed in (0, 1))
    assert (first != second).mean() > 0.5


def test_a_division_leaves_the_global_generators_alone() -> None:
    before = torch.get_rng_state()
    np.random.seed(3)  # noqa: NPY002
    expected = np.random.random()  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    for rule in ("iid", "dirichlet:0.5", "shards:2"):
        parse(rule, 10).assign(TEN_CLASSES)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.random.random() == expected  # noqa: NPY002


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ([], "There are no samples to give to users."),
        (5, "There are no samples to give to users."),
        ([0, 2, -1], "The label of sample 2 is -1; it must be a whole number from 0 on."),
        ([0.0, 1.5], "The label of sample 0 is 0.0; it must be a whole number from 0 on."),
        ([True, False], "The label of sample 0 is True; it must be a whole number from 0 on."),
        ([[3], [4]], "The label of sample 0 is [3]; it must be a whole number from 0 on."),
        (np.array([1, 2**63], np.uint64), f"The label of sample 1 is {2**63}; it must be a whole number from 0 on."),
        (np.array([1, "cat"], object), "The label of sample 1 is 'cat'; it must be a whole number from 0 on."),
    ],
)
def test_wrong_labels_are_refused(labels: npt.ArrayLike, sentence: str) -> None:
    with pytest.raises(TurboSVMError, match=re.escape(sentence)):
        Partition("iid", users=1).assign(labels)


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        (
            Partition("iid", users=3, min_samples=4),
            "10 samples are not enough for 3 users with at least 4 each; take fewer users or a smaller min_samples.",
        ),
        (
            Partition("dirichlet", users=11, alpha=1.0),
            "10 samples are not enough for 11 users with at least 1 each; take fewer users or a smaller min_samples.",
        ),
        (
            Partition("dirichlet", users=4, alpha=1e-9),
            "Dirichlet shares with alpha 1e-09 left one of the 4 users with fewer than 1 samples in each of 1000 draws "
            "(0 at best); take a larger alpha, fewer users or a smaller min_samples.",
        ),
        (
            Partition("shards", users=4, shards_per_user=3, min_samples=0),
            "10 samples cannot be cut into 12 shards, 3 for each of 4 users; take fewer users or a smaller "
            "shards_per_user.",
        ),
        (
            Partition("shards", users=3, shards_per_user=1, min_samples=4),
            "10 samples are not enough for 3 users with at least 4 each; take fewer users or a smaller min_samples.",
        ),
    ],
)
def test_what_cannot_be_done_is_said_with_what_to_change(chosen: Partition, sentence: str) -> None:
    with pytest.raises(TurboSVMError, match=re.escape(sentence)):
        chosen.assign(np.arange(10) // 5)


def test_shards_that_fall_short_of_min_samples_are_refused() -> None:
    def chosen(seed: int, min_samples: int) -> Partition:
        return Partition("shards", users=2, shards_per_user=2, min_samples=min_samples, seed=seed)

    labels = [0] * 6  # shards of 1, 2, 1 and 2, so that users have 2 and 4, or 3 and 3
    least = {seed: min(sizes(chosen(seed, 0).assign(labels), 2)) for seed in range(20)}
    assert set(least.values()) == {2, 3}
    for seed, samples in least.items():
        assert min(sizes(chosen(seed, samples).assign(labels), 2)) == samples
    sentence = "Shards leave a user with 2 of the 3 samples that everybody must have; take fewer users or a smaller min"
    with pytest.raises(TurboSVMError, match=sentence):
        chosen(min(least, key=lambda seed: least[seed]), 3).assign(labels)


# The choice, in Python and as people write it


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("iid", Partition("iid", users=7)),
        ("dirichlet:0.5", Partition("dirichlet", users=7, alpha=0.5)),
        (" dirichlet : 1e-3 ", Partition("dirichlet", users=7, alpha=0.001)),
        ("shards:2", Partition("shards", users=7, shards_per_user=2)),
    ],
)
def test_rules_are_read_as_people_write_them(text: str, expected: Partition) -> None:
    assert parse(text, users=7) == expected
    assert parse(str(expected), users=7) == expected


@given(st.floats(1e-300, 1e300))
def test_what_is_written_is_read_back(alpha: float) -> None:
    chosen = Partition("dirichlet", users=3, alpha=alpha)
    assert parse(str(chosen), users=3) == chosen


def test_numbers_of_numpy_become_plain() -> None:
    chosen = Partition("shards", users=np.int64(3), shards_per_user=np.int32(2))  # type: ignore[arg-type]
    assert str(chosen) == "shards:2"
    assert str(Partition("dirichlet", users=3, alpha=np.float64(0.5))) == "dirichlet:0.5"
    assert repr(chosen.users) == "3"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("dirichlet", "Partition 'dirichlet' needs a number after a colon, such as 'dirichlet:0.5'."),
        ("dirichlet:half", "Partition 'dirichlet:half' needs a number after a colon, such as 'dirichlet:0.5'."),
        ("dirichlet:-1", "The partition's alpha is -1.0; it must be greater than 0."),
        ("dirichlet:nan", "The partition's alpha is nan; it must be a finite number."),
        ("shards", "Partition 'shards' needs a number after a colon, such as 'shards:2'."),
        ("shards:2.5", "Partition 'shards:2.5' needs a number after a colon, such as 'shards:2'."),
        ("shards:0", "The partition's shards_per_user is 0; it must be a whole number from 1 on."),
        ("iid:3", "Partition 'iid:3' has a number too many; write 'iid'."),
        (
            "dirchlet:1",
            "Unknown partition 'dirchlet'; allowed: dirichlet, iid, shards. Did you mean 'dirichlet'?",
        ),
        ("", "Unknown partition ''; allowed: dirichlet, iid, shards."),
    ],
)
def test_rules_written_wrongly_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(TurboSVMError, match=re.escape(sentence)):
        parse(text, users=7)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"rule": "idd"}, "Unknown partition 'idd'; allowed: dirichlet, iid, shards. Did you mean 'iid'?"),
        ({"users": 0}, "The partition's users is 0; it must be a whole number from 1 on."),
        ({"users": 2.5}, "The partition's users is 2.5; it must be a whole number from 1 on."),
        ({"min_samples": -1}, "The partition's min_samples is -1; it must be a whole number from 0 on."),
        ({"seed": -1}, "The partition's seed is -1; it must be a whole number from 0 on."),
        ({"alpha": 0.5}, "Partition 'iid' has no alpha; that is for 'dirichlet'."),
        ({"rule": "dirichlet"}, "Partition 'dirichlet' needs alpha."),
        ({"rule": "dirichlet", "alpha": 0}, "The partition's alpha is 0; it must be greater than 0."),
        (
            {"rule": "dirichlet", "alpha": 1, "shards_per_user": 2},
            "Partition 'dirichlet' has no shards_per_user; that is for 'shards'.",
        ),
        ({"rule": "shards"}, "Partition 'shards' needs shards_per_user."),
    ],
)
def test_choices_out_of_range_are_refused(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TurboSVMError, match=re.escape(sentence)):
        Partition(**{"rule": "iid", "users": 5, **arguments})
