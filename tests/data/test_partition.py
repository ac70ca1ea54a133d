import re
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from turbosvm.data import partition
from turbosvm.data.federated import FederatedData
from turbosvm.data.partition import Partition, dirichlet, from_dataset, iid, parse, shards
from turbosvm.data.split import split_users
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


class Slow(Dataset[Any]):
    """A data set that is read sample by sample."""

    def __init__(self, *samples: Any) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        sample = self.samples[index]
        if isinstance(sample, Exception):
            raise sample
        return sample


def one_user(*samples: Any) -> FederatedData:
    return from_dataset(Slow(*samples), Partition("iid", users=1, min_samples=0))


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


# From a PyTorch data set


def test_users_hold_their_samples_in_the_order_of_the_data_set() -> None:
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 0])
    data = from_dataset(TensorDataset(torch.arange(7.0), labels), IID_AMONG_3, name="seven")
    assignment = IID_AMONG_3.assign(labels)
    assert data.name == "seven"
    assert data.users == ("user-0000", "user-0001", "user-0002")
    assert data.classes == ("0", "1", "2")
    assert data.counts.tolist() == [3, 2, 2]
    for user in range(3):
        inputs, own = data.user(user)
        expected = np.flatnonzero(assignment == user)
        assert inputs.tolist() == expected.tolist()
        assert own.tolist() == (expected % 3).tolist()


@pytest.mark.parametrize("kind", [torch.uint8, torch.int64, torch.float64, torch.bfloat16, torch.bool])
@pytest.mark.parametrize("rule", ["iid", "dirichlet:0.5", "shards:2"])
def test_tensors_as_a_whole_and_one_by_one_are_the_same_data(
    rule: str, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "BLOCK", 100)  # several pieces
    whole = TensorDataset((torch.arange(50 * 6).reshape(50, 2, 3) % 251).to(kind), torch.arange(50) % 4)
    fast, slow = (from_dataset(dataset, parse(rule, 5)) for dataset in (whole, Slow(*zip(*whole.tensors, strict=True))))
    assert isinstance(fast.inputs, np.ndarray)
    assert isinstance(slow.inputs, np.ndarray)
    assert fast.inputs.dtype == slow.inputs.dtype
    assert np.array_equal(fast.inputs, slow.inputs)
    assert np.array_equal(fast.labels, slow.labels)
    assert np.array_equal(fast.offsets, slow.offsets)
    assert (fast.users, fast.classes) == (slow.users, slow.classes)


def test_tensors_are_not_read_one_by_one() -> None:
    told = []
    n = 100_000
    data = from_dataset(
        TensorDataset(torch.zeros(n, 2), torch.arange(n) % 10),
        parse("iid", 10),
        on_progress=lambda *at: told.append(at),
    )
    assert told == [(n, n)]
    assert data.counts.tolist() == [n // 10] * 10


def test_a_tensor_data_set_that_changes_its_samples_is_asked_for_them() -> None:
    class Doubled(TensorDataset):
        def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
            inputs, labels = self.tensors
            return 2 * inputs[index], labels[index]

    data = from_dataset(Doubled(torch.tensor([1.0, 2.0]), torch.tensor([0, 1])), parse("iid", 1))
    assert np.asarray(data.inputs).tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    ("given", "kind", "shape"),
    [
        (torch.zeros(3, 4, dtype=torch.uint8), np.uint8, (3, 4)),
        (torch.zeros(3, requires_grad=True), np.float32, (3,)),
        (torch.zeros(3, dtype=torch.float16), np.float32, (3,)),
        (torch.zeros(3, dtype=torch.int32), np.int32, (3,)),
        (torch.zeros(3, dtype=torch.bool), np.float32, (3,)),
        (np.zeros((2, 2)), np.float32, (2, 2)),
        (np.zeros(2, ">i2"), np.int16, (2,)),
        (np.zeros(2, np.uint8), np.uint8, (2,)),
        (np.float64(1), np.float32, ()),
        (1.5, np.float32, ()),
        (7, np.int64, ()),
        (Image.new("L", (4, 3)), np.uint8, (1, 3, 4)),
        (Image.new("1", (4, 3)), np.uint8, (1, 3, 4)),
        (Image.new("LA", (4, 3)), np.uint8, (2, 3, 4)),
        (Image.new("RGB", (4, 3)), np.uint8, (3, 3, 4)),
        (Image.new("P", (4, 3)), np.uint8, (3, 3, 4)),
        (Image.new("PA", (4, 3)), np.uint8, (4, 3, 4)),
        (Image.new("RGBA", (4, 3)), np.uint8, (4, 3, 4)),
    ],
)
def test_inputs_are_kept_in_these_kinds_and_shapes(given: Any, kind: type, shape: tuple[int, ...]) -> None:
    data = one_user((given, 0), [given, torch.tensor(1)])
    assert data.inputs.dtype == kind
    assert data.inputs.dtype.isnative
    assert data.inputs.shape == (2, *shape)
    assert data.labels.tolist() == [0, 1]
    assert data.labels.dtype == np.int64
    data.user_tensors(0, torch.device("cpu"))


def test_pixels_stay_where_they_are() -> None:
    image = Image.new("RGB", (4, 3))
    image.putpixel((2, 1), (10, 20, 30))
    inputs, _ = one_user((image, 0)).user(0)
    assert inputs[0, :, 1, 2].tolist() == [10, 20, 30]
    assert inputs.sum() == 60


def test_colours_of_a_palette_are_looked_up_and_white_is_255() -> None:
    image = Image.new("P", (1, 1), 1)
    image.putpalette([0, 0, 0, 10, 20, 30])
    image.info["transparency"] = bytes(256)
    assert np.ravel(one_user((image, 0)).inputs).tolist() == [10, 20, 30]
    assert np.ravel(one_user((Image.new("1", (1, 1), 1), 0)).inputs).tolist() == [255]


def test_tokens_may_be_bytes() -> None:
    dataset = TensorDataset(torch.tensor([[7, 79]], dtype=torch.uint8), torch.tensor([1]))
    data = from_dataset(dataset, parse("iid", 1), classes=80, tokens=True)
    assert data.user_tensors(0, torch.device("cpu"))[0].dtype == torch.int64


@pytest.mark.parametrize(
    ("samples", "sentence"),
    [
        ([], "Data 'own data' has no samples."),
        (
            [(torch.zeros(2), 0), (torch.zeros(2), 0), (torch.zeros(3), 0)],
            "Data 'own data': the input of sample 2 is float32 of shape [3], that of sample 0 is float32 of shape [2]; "
            "all must be alike.",
        ),
        (
            [(torch.zeros(2), 0), (torch.zeros(2, dtype=torch.uint8), 0)],
            "the input of sample 1 is uint8 of shape [2], that of sample 0 is float32 of shape [2]; all must be alike.",
        ),
        (
            [(Image.new("L", (2, 2)), 0), (Image.new("RGB", (2, 2)), 0)],
            "the input of sample 1 is uint8 of shape [3, 2, 2], that of sample 0 is uint8 of shape [1, 2, 2]",
        ),
        (
            [(Image.new("I;16", (2, 2)), 0)],
            "the input of sample 0 is an image of mode 'I;16', which has no bytes for pixels; turn it into a tensor in "
            "the data set.",
        ),
        ([("cat", 0)], "the input of sample 0 is a str; it must be a tensor, array, number or PIL image."),
        ([(np.array(["cat"]), 0)], "the input of sample 0 holds <U3; it must hold real numbers."),
        ([(2**70, 0)], "the input of sample 0 holds object; it must hold real numbers."),
        ([(torch.zeros(2, dtype=torch.complex64), 0)], "the input of sample 0 holds complex64; it must hold real"),
        ([(torch.zeros(2).to_sparse(), 0)], "the input of sample 0 cannot be made an array: TypeError: "),
        ([(0.5, 0), (0.5, -1)], "the label of sample 1 is -1; it must be a whole number from 0 on."),
        ([(0.5, 0), (0.5, 1.0)], "the label of sample 1 is 1.0; it must be a whole number from 0 on."),
        ([(0.5, torch.tensor(0.5))], "the label of sample 0 is 0.5; it must be a whole number from 0 on."),
        ([(0.5, torch.tensor([1]))], "the label of sample 0 is [1]; it must be a whole number from 0 on."),
        ([(0.5, "cat")], "the label of sample 0 is 'cat'; it must be a whole number from 0 on."),
        (
            [(0.5, 0), (0.5, 10**9)],
            "the label of sample 1 is 1000000000; if there are that many classes, say how many.",
        ),
        ([0.5], "sample 0 is not a pair of an input and a label."),
        ([(0.5, 0), (0.5, 0, 0)], "sample 1 is not a pair of an input and a label."),
        ([{"image": 0.5, "label": 0}], "sample 0 is not a pair of an input and a label."),
        (
            [(0.5, 0), ValueError("the file is torn\nat byte 7")],
            "Data 'own data': sample 1 cannot be read: ValueError: the file is torn.",
        ),
    ],
)
def test_wrong_samples_are_named(samples: list[Any], sentence: str) -> None:
    with pytest.raises(TurboSVMError, match=re.escape(sentence)):
        one_user(*samples)


@pytest.mark.parametrize(
    ("tensors", "sentence"),
    [
        ([torch.zeros(2)], "Data 'own data' has 1 tensors; it must have 2, inputs and labels."),
        ([torch.zeros(0), torch.zeros(0)], "Data 'own data' has no samples."),
        ([torch.zeros(2), torch.tensor([0, -3])], "Data 'own data': the label of sample 1 is -3; it must be a whole"),
        ([torch.zeros(2), torch.tensor([0.0, 1.0])], "the label of sample 0 is 0.0; it must be a whole number"),
        ([torch.zeros(2), torch.tensor([[4], [5]])], "the label of sample 0 is [4]; it must be a whole number"),
        ([torch.zeros(2, dtype=torch.complex64), torch.tensor([0, 1])], "the input of sample 0 holds complex64"),
    ],
)
def test_wrong_tensors_are_named(tensors: list[torch.Tensor], sentence: str) -> None:
    with pytest.raises(TurboSVMError, match=re.escape(sentence)):
        from_dataset(TensorDataset(*tensors), parse("iid", 1))


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter([(0.5, 0)])

    def __len__(self) -> int:
        return 1


class Endless(Dataset[Any]):
    def __getitem__(self, index: int) -> Any:
        return 0.5, 0


@pytest.mark.parametrize("dataset", [Stream(), Endless(), DataLoader(Slow((0.5, 0))), 5, iter([(0.5, 0)])])
def test_what_has_no_length_or_no_places_is_refused(dataset: Any) -> None:
    sentence = (
        f"Data 'own data' is a {type(dataset).__name__}, which cannot be asked for its length and for any one sample; "
        "hand over a data set with __len__ and __getitem__."
    )
    with pytest.raises(TurboSVMError, match=re.escape(sentence)):
        from_dataset(dataset, IID_AMONG_3)


def test_a_length_that_fails_is_told() -> None:
    with pytest.raises(TurboSVMError, match="does not tell its length: IndexError: tuple index out of range"):
        from_dataset(TensorDataset(), IID_AMONG_3)


class Named(Slow):
    classes: Any = ("cat", "dog", "fox")


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        (None, ("cat", "dog", "fox")),
        (4, ("0", "1", "2", "3")),
        (["a", "b"], ("a", "b")),
        ((name for name in "ab"), ("a", "b")),
    ],
)
def test_classes_are_those_given_else_those_of_the_data_set(classes: Any, expected: tuple[str, ...]) -> None:
    assert from_dataset(Named((0.5, 0), (0.5, 1)), parse("iid", 2), classes).classes == expected


@pytest.mark.parametrize("own", [("cat",), "many", 7, None])
def test_classes_of_the_data_set_that_do_not_fit_are_passed_over(own: Any) -> None:
    dataset = Named((0.5, 0), (0.5, 2))
    dataset.classes = own
    assert from_dataset(dataset, parse("iid", 2)).classes == ("0", "1", "2")


@pytest.mark.parametrize(
    ("classes", "sentence"),
    [
        (2, "Data 'own data': the label of sample 1 is 2; it must be 0 to 1, one for each class."),
        (["cat"], "Data 'own data': the label of sample 1 is 2; it must be 0 to 0, one for each class."),
        ("cat", "Data 'own data': classes is 'cat'; it must be a list of names, or their number."),
        (0, "classes is 0; it must be a whole number from 1 on."),
        (2.5, "classes is 2.5; it must be a whole number from 1 on."),
    ],
)
def test_classes_that_do_not_fit_the_labels_are_refused(classes: Any, sentence: str) -> None:
    with pytest.raises(TurboSVMError, match=re.escape(sentence)):
        from_dataset(Slow((0.5, 0), (0.5, 2), (0.5, 1)), parse("iid", 2), classes)


def test_nobody_is_empty_unless_that_is_asked_for() -> None:
    dataset = TensorDataset(torch.zeros(2), torch.tensor([0, 1]))
    with pytest.raises(TurboSVMError, match="2 samples are not enough for 5 users with at least 1 each"):
        from_dataset(dataset, parse("iid", 5))
    data = from_dataset(dataset, parse("iid", 5, min_samples=0))
    assert data.counts.tolist() == [1, 1, 0, 0, 0]
    split = split_users(data, held_out=0.5)
    assert sorted(split.train + split.held_out) == [0, 1]  # whoever is empty neither trains nor is held out


def test_names_of_many_users_sort_as_their_numbers_do() -> None:
    data = from_dataset(
        TensorDataset(torch.zeros(10_001), torch.zeros(10_001, dtype=torch.int64)), parse("iid", 10_001)
    )
    assert data.users[0] == "user-00000"
    assert list(data.users) == sorted(data.users)


def test_progress_is_told_about_a_hundred_times() -> None:
    told: list[tuple[int, int]] = []
    from_dataset(Slow(*[(0.5, 0)] * 1055), parse("iid", 1), on_progress=lambda *at: told.append(at))
    assert len(told) == 106
    assert told[0] == (10, 1055)
    assert told[-1] == (1055, 1055)


def test_random_transforms_follow_the_seed_and_leave_the_global_generator_alone() -> None:
    class Noisy(Slow):
        def __getitem__(self, index: int) -> Any:
            return torch.rand(2), 0

    def read(seed: int) -> list[float]:
        return list(np.ravel(from_dataset(Noisy(1, 2, 3), parse("iid", 1, seed=seed)).inputs))

    before = torch.get_rng_state()
    first = read(0)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(5)
    assert read(0) == first
    assert read(1) != first


class Blank(Dataset[Any]):
    def __len__(self) -> int:
        return 2000

    def __getitem__(self, index: int) -> Any:
        return np.zeros((100, 100), np.uint8), index % 10


def test_no_more_than_twice_the_data_is_in_memory() -> None:
    whole = TensorDataset(torch.zeros(2000, 100, 100, dtype=torch.float64), torch.arange(2000) % 10)
    # 20 MB of bytes; the tensor's own 160 MB are PyTorch's, so that only the 80 MB of its floats are counted.
    for dataset, most in ((Blank(), 2 * 20e6), (whole, 80e6)):
        tracemalloc.start()
        from_dataset(dataset, parse("dirichlet:0.5", 20))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < most + 2 * partition.BLOCK + 2e6
