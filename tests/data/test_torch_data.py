import re
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from turbosvm.data import torch_data
from turbosvm.data.federated import FederatedData
from turbosvm.data.partition import Partition, parse
from turbosvm.data.split import split_users
from turbosvm.data.torch_data import from_dataset
from turbosvm.errors import TurboSVMError

IID_AMONG_3 = Partition("iid", users=3)


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
    monkeypatch.setattr(torch_data, "BLOCK", 100)  # several pieces
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
            "the label of sample 1 is 1000000000; it must be below 65,536.",
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
        assert peak < most + 2 * torch_data.BLOCK + 2e6
