from typing import Any

import numpy as np
import pytest
import torch

from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError
from turbosvm.inputs import as_model_input


def test_a_user_is_a_slice(tiny_data: FederatedData) -> None:
    inputs, labels = tiny_data.user(3)
    assert inputs.base is tiny_data.inputs
    assert len(inputs) == len(labels) == tiny_data.counts[3]
    assert tiny_data.counts.sum() == len(tiny_data.labels)


def test_from_users_takes_tensors_and_lists() -> None:
    data = FederatedData.from_users({"a": (torch.ones(2, 3), [0, 1]), "b": (np.zeros((1, 3)), [1])}, classes=["x", "y"])
    assert data.users == ("a", "b")
    assert data.classes == ("x", "y")
    assert data.offsets.tolist() == [0, 2, 3]


@pytest.mark.parametrize(
    ("samples", "sentence"),
    [
        ({}, "has no users"),
        ({"ann": (np.zeros((2, 1)), [0])}, "user 'ann' has 2 inputs but 1 labels"),
        ({1: (np.zeros((1, 1)), [0]), "1": (np.zeros((1, 1)), [0])}, "has two users of the same name"),
        ({"ann": (np.zeros((1, 1)), [5])}, "user 'ann' has labels from 5 to 5; they must be 0 to 1"),
        ({"ann": (np.zeros((1, 1)), [-1])}, "user 'ann' has labels from -1 to -1; they must be 0 to 1"),
        ({"ann": (np.zeros((1, 1)), [0.5])}, "labels must be one whole number a sample, not float64"),
        ({"a": (np.zeros((1, 3)), [0]), "b": (np.zeros((1, 4)), [0])}, "inputs of user 'b' have shape .4. each"),
    ],
)
def test_wrong_samples_are_refused(samples: dict[Any, tuple[object, object]], sentence: str) -> None:
    with pytest.raises(TurboSVMError, match=sentence):
        FederatedData.from_users(samples, classes=2)


def test_wrong_offsets_are_refused() -> None:
    inputs, labels = np.zeros((4, 1)), np.zeros(4, np.int64)
    with pytest.raises(TurboSVMError, match="offsets must go from 0 to 4, the number of samples"):
        FederatedData("d", inputs, labels, np.array([0, 2, 3]), ("a", "b"), ("x",))
    with pytest.raises(TurboSVMError, match="offsets fall at user 'b'"):
        FederatedData("d", inputs, labels, np.array([0, 3, 2, 4]), ("a", "b", "c"), ("x",))
    with pytest.raises(TurboSVMError, match="offsets fall at user 'b'"):
        FederatedData("d", inputs, labels, np.array([0, 3, 2, 4], np.uint64), ("a", "b", "c"), ("x",))
    with pytest.raises(TurboSVMError, match="offsets must be 2 whole numbers, for 1 users"):
        FederatedData("d", inputs, labels, np.array([0, 2, 4]), ("a",), ("x",))
    with pytest.raises(TurboSVMError, match="3 inputs but 4 labels"):
        FederatedData("d", inputs[:3], labels, np.array([0, 4]), ("a",), ("x",))


def test_tokens_are_indices_whatever_they_are_stored_in() -> None:
    text = np.array([[7, 79]], np.uint8)
    stored_as_bytes = FederatedData.from_users({"a": (text, [1])}, classes=80, tokens=True)
    inputs, _ = stored_as_bytes.user_tensors(0, torch.device("cpu"))
    assert as_model_input(inputs).tolist() == [[7, 79]]
    assert inputs.dtype == torch.int64


def test_a_wrong_label_is_named_with_its_user() -> None:
    with pytest.raises(TurboSVMError, match="user 'bob' has labels from 1 to 2; they must be 0 to 1"):
        FederatedData("d", np.zeros((3, 1)), np.array([0, 1, 2]), np.array([0, 1, 3]), ("ann", "bob"), ("x", "y"))


def test_images_are_scaled_and_tokens_are_not() -> None:
    assert as_model_input(torch.tensor([0, 51, 255], dtype=torch.uint8)).tolist() == pytest.approx([0.0, 0.2, 1.0])
    assert as_model_input(torch.tensor([0, 79])).tolist() == [0, 79]
