"""Whatever is handed over in Python: it is refused with a sentence of ours, or it trains as it should."""

import itertools
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import TensorDataset

import turbosvm
from tests.conftest import tiny_net
from turbosvm.data.federated import FederatedData
from turbosvm.data.handed_over import MOST_CLASSES, check_user_names, first_bad_input
from turbosvm.data.partition import Partition
from turbosvm.data.split import split_users
from turbosvm.errors import TurboSVMError

USERS, EACH = 6, 4
X = np.random.default_rng(0).normal(size=(EACH, 4)).astype(np.float32)
Y = np.array([0, 1, 2, 0])


def poisoned(value: float) -> Any:
    x = X.copy()
    x[2, 1] = value
    return x


class Raises:
    """An object that will not be made an array."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no\nnever")

    def __str__(self) -> str:
        raise RuntimeError("not even that")


class Unlike:
    """An object that says it has a length, and has nothing."""

    def __len__(self) -> int:
        return EACH


def masked(mask: bool) -> Any:
    return np.ma.masked_array(X, mask=np.full(X.shape, mask))


def endless() -> Iterator[str]:
    return map(str, itertools.count())


INPUTS: dict[str, Any] = {
    "NaN": poisoned(np.nan),
    "infinity": poisoned(np.inf),
    "minus infinity": poisoned(-np.inf),
    "NaN in float64": poisoned(np.nan).astype(np.float64),
    "NaN in a tensor": torch.tensor(poisoned(np.nan)),
    "None": None,
    "a scalar": 3.5,
    "a NumPy scalar": np.float32(3.5),
    "a tensor without axes": torch.tensor(3.5),
    "a word": "abcd",
    "bytes": b"abcd",
    "words": ["a", "b", "c", "d"],
    "an object": object(),
    "objects": [object()] * EACH,
    "an object that raises": Raises(),
    "an object of a length": Unlike(),
    "a set": {1.0, 2.0, 3.0, 4.0},
    "a dictionary": {0: X[0]},
    "a generator": (row for row in X),
    "a ragged list": [[1.0], [1.0, 2.0], [1.0], [1.0]],
    "a list with None": [[1.0, 2.0, 3.0, None]] * EACH,
    "a list with words": [[1.0, 2.0, 3.0, "four"]] * EACH,
    "numbers too large": [[10**400] * 4] * EACH,
    "complex numbers": X.astype(np.complex64),
    "a complex tensor": torch.tensor(X, dtype=torch.complex64),
    "long doubles": X.astype(np.longdouble),
    "dates": np.zeros((EACH, 4), "M8[D]"),
    "records": np.zeros(EACH, [("a", "f4"), ("b", "f4")]),
    "truth values": X > 0,
    "half": X.astype(np.float16),
    "a tensor of halves": torch.tensor(X).half(),
    "float64": X.astype(np.float64),
    "unsigned numbers": np.abs(X).astype(np.uint16),
    "large unsigned numbers": np.full((EACH, 4), 2**64 - 1, np.uint64),
    "masked": masked(True),
    "a sparse tensor": torch.tensor(X).to_sparse(),
    "a tensor on no device": torch.empty((EACH, 4), device="meta"),
    "a frame with words": pd.DataFrame({"a": list("abcd"), "b": [1.0] * 4}),
    "a frame with gaps": pd.DataFrame({"a": [1.0, None, 2.0, 3.0]} | {name: [1.0] * 4 for name in "bcd"}),
    "too few": X[:3],
    "nothing": [],
    "five numbers each": np.zeros((EACH, 5), np.float32),
    "no numbers each": np.zeros((EACH, 0), np.float32),
    "many axes": np.zeros((EACH, 1, 1, 4), np.float32),
}
GOOD_INPUTS: dict[str, Any] = {
    "float32": X,
    "lists": X.tolist(),
    "tuples": tuple(map(tuple, X.tolist())),
    "rows": list(X),
    "a list of tensors": list(torch.tensor(X)),
    "a tensor that wants a gradient": torch.tensor(X, requires_grad=True),
    "a list of tensors that want gradients": list(torch.tensor(X, requires_grad=True)),
    "a tensor of bfloat16": torch.tensor(X).bfloat16(),
    "another order of bytes": X.astype(">f4"),
    "columns first": np.asfortranarray(X),
    "every other row": np.repeat(X, 2, axis=0)[::2],
    "backwards": X[::-1][::-1],
    "read only": np.frombuffer(X.tobytes(), np.float32).reshape(X.shape),
    "masked nowhere": masked(False),
    "a frame": pd.DataFrame(X),
}
LABELS: dict[str, Any] = {
    "halves": [0.5, 1.0, 2.0, 0.0],
    "whole floats": [0.0, 1.0, 2.0, 0.0],
    "NaN": [0, 1, 2, np.nan],
    "truth values": [True, False, True, False],
    "words": ["0", "1", "2", "0"],
    "None": None,
    "Nones": [None] * EACH,
    "a scalar": 0,
    "of two axes": Y[:, None],
    "ragged": [[0], [1, 2], [0], [0]],
    "negative": [0, 1, -1, 0],
    "too large": [0, 1, 3, 0],
    "far too large": [0, 1, 2**63, 0],
    "larger than any": [0, 1, 10**30, 0],
    "complex": [0j, 1j, 2j, 0j],
    "objects": [object()] * EACH,
    "dates": np.zeros(EACH, "M8[D]"),
    "masked": np.ma.masked_array(Y, mask=[False, False, True, False]),
    "one-hot": np.eye(3)[Y],
    "a generator": iter(Y),
    "too few": Y[:3],
}
GOOD_LABELS: dict[str, Any] = {
    "a list": Y.tolist(),
    "a tensor": torch.tensor(Y),
    "bytes": Y.astype(np.uint8),
    "large unsigned": Y.astype(np.uint64),
    "another order of bytes": Y.astype(">i8"),
    "a series": pd.Series(Y),
}
PAIRS: dict[str, Any] = {
    "None": None,
    "inputs alone": (X,),
    "three things": (X, Y, Y),
    "nothing": (),
    "an array": X,
    "a dictionary": {"x": X, "y": Y},
    "a word": "xy",
    "a generator": iter((X, Y)),
}
NAMES: dict[str, Any] = {
    "empty": "",
    "blank": "  ",
    "a line break": "a\nb",
    "an escape": "\x1b[31m",
    "NUL": "a\0",
    "half of a pair": "\ud800",
    "an object that raises": Raises(),
}
CLASSES: dict[str, Any] = {
    "none": 0,
    "negative": -1,
    "half": 2.5,
    "truth": True,
    "a word": "abc",
    "bytes": b"abc",
    "nothing": None,
    "an empty list": [],
    "alike": ["a", "b", "a"],
    "alike as text": [1, "1", 2],
    "a huge number": 10**18,
    "a larger one": 10**30,
    "endless": endless(),
    "too many": MOST_CLASSES + 1,
    "half of a pair": ["a", "b", "\ud800"],
    "objects that raise": [Raises()] * 3,
    "too few": 2,
    "an array without axes": np.array(3.5),
    "an object": object(),
}
WHOLE: dict[str, Any] = {
    "None": None,
    "a list": [(X, Y)],
    "a frame": pd.DataFrame(X),
    "an array": X,
    "a word": "data",
    "a generator": iter([(X, Y)]),
    "nothing": {},
    "nobody has any": {"a": (X[:0], Y[:0]), "b": ([], [])},
}


def of_users(**wrong: Any) -> FederatedData:
    """Six users, of whom the third has something wrong."""
    samples: dict[Any, Any] = {f"user-{user}": (X, Y) for user in range(USERS)}
    samples["user-2"] = wrong.get("pair", (wrong.get("inputs", X), wrong.get("labels", Y)))
    if "user" in wrong:
        samples[wrong["user"]] = (X, Y)
    return FederatedData.from_users(wrong.get("samples", samples), classes=wrong.get("classes", 3))


def as_a_whole(**wrong: Any) -> FederatedData:
    """One user whose samples are handed over as they are."""
    others = {key: wrong[key] for key in ("users", "held_out", "offsets", "name") if key in wrong}
    given: dict[str, Any] = {"name": "own", "offsets": np.array([0, 2, 4]), "users": ("a", "b")} | others
    inputs, labels = wrong.get("inputs", X), wrong.get("labels", Y)
    return FederatedData(inputs=inputs, labels=labels, classes=wrong.get("classes", ("0", "1", "2")), **given)


def of_a_data_set(**wrong: Any) -> FederatedData:
    """A data set of PyTorch, whose last sample has something wrong."""
    inputs, labels = wrong.get("inputs", X), wrong.get("labels", Y)
    samples = list(zip(itertools.chain(X, inputs), itertools.chain(Y.tolist(), labels), strict=False))
    return turbosvm.from_dataset(samples, Partition("iid", users=2), wrong.get("classes", 3))


def outcome(make: Callable[..., FederatedData], **wrong: Any) -> turbosvm.Result | str:
    """What comes of data: a round, or what is said against it."""
    try:
        data = make(**wrong)
        settings: dict[str, Any] = {"client": {"batch_size": 4}, "data.held_out": 0.4}
        return turbosvm.run("fedavg", data=data, model=tiny_net(), rounds=1, clients_per_round=1, **settings)
    except TurboSVMError as error:
        return str(error)


BECOME_FLOATS = ("truth values", "half", "a tensor of halves", "unsigned numbers", "large unsigned numbers")
"""Where other users have floats."""

CATALOGUE = [
    *(pytest.param({"inputs": given}, id=f"inputs: {name}") for name, given in INPUTS.items()),
    *(pytest.param({"labels": given}, id=f"labels: {name}") for name, given in LABELS.items()),
    *(pytest.param({"pair": given}, id=f"a user: {name}") for name, given in PAIRS.items()),
    *(pytest.param({"user": given}, id=f"a user's name: {name}") for name, given in NAMES.items()),
    *(pytest.param({"classes": given}, id=f"classes: {name}") for name, given in CLASSES.items()),
    *(pytest.param({"samples": given}, id=f"all: {name}") for name, given in WHOLE.items()),
]


def test_the_catalogue_is_long() -> None:
    assert len(CATALOGUE) >= 100


@pytest.mark.timeout(60)
@pytest.mark.parametrize("wrong", CATALOGUE)
def test_what_is_wrong_with_users_is_said_in_a_sentence(wrong: dict[str, Any]) -> None:
    found = outcome(of_users, **wrong)
    if isinstance(found, turbosvm.Result):
        assert any(wrong.get("inputs") is INPUTS[name] for name in BECOME_FLOATS)
        return
    assert found.endswith(".") or "cannot take inputs" in found
    assert "\n" not in found
    assert len(found) < 400
    found.encode()


AS_A_WHOLE = [
    *(pytest.param({"inputs": given}, id=f"inputs: {name}") for name, given in INPUTS.items()),
    *(pytest.param({"labels": given}, id=f"labels: {name}") for name, given in LABELS.items()),
    *(pytest.param({"classes": given}, id=f"classes: {name}") for name, given in CLASSES.items()),
    *(pytest.param({"users": ("a", given)}, id=f"a user's name: {name}") for name, given in NAMES.items()),
    *(pytest.param({"name": given}, id=f"its name: {name}") for name, given in NAMES.items()),
    pytest.param({"users": ("a", "a")}, id="users alike"),
    pytest.param({"users": "ab"}, id="a word for users"),
    pytest.param({"users": None}, id="None for users"),
    pytest.param({"users": (1, 2)}, id="numbers for users"),
    pytest.param({"held_out": (True,)}, id="too few held out"),
    pytest.param({"held_out": ("no", "yes")}, id="words for held out"),
    pytest.param({"held_out": 5}, id="a number for held out"),
    pytest.param({"offsets": None}, id="no offsets"),
    pytest.param({"offsets": [0.0, 2.0, 4.0]}, id="offsets of floats"),
    pytest.param({"offsets": "024"}, id="offsets of words"),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("wrong", AS_A_WHOLE)
def test_what_is_wrong_with_the_whole_is_said_in_a_sentence(wrong: dict[str, Any]) -> None:
    found = outcome(as_a_whole, **wrong)
    assert isinstance(found, str), wrong
    assert found.endswith(".") or "cannot take inputs" in found
    found.encode()


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "wrong",
    [
        *(pytest.param({"inputs": INPUTS[name]}, id=name) for name in INPUTS if hasattr(INPUTS[name], "__iter__")),
        *(pytest.param({"labels": LABELS[name]}, id=name) for name in LABELS if hasattr(LABELS[name], "__iter__")),
        *(pytest.param({"classes": given}, id=f"classes: {name}") for name, given in CLASSES.items()),
    ],
)
def test_data_sets_of_pytorch_are_refused_or_train(wrong: dict[str, Any]) -> None:
    try:
        found = outcome(of_a_data_set, **wrong)
    except (TypeError, NotImplementedError):  # it cannot be gone through, which is the test's own doing
        return
    if not isinstance(found, str):
        assert np.isfinite(found.final["loss"])


@pytest.mark.parametrize(
    "wrong",
    [
        *(pytest.param({"inputs": given}, id=f"inputs: {name}") for name, given in GOOD_INPUTS.items()),
        *(pytest.param({"labels": given}, id=f"labels: {name}") for name, given in GOOD_LABELS.items()),
        pytest.param({"user": 5}, id="a number for a user"),
        pytest.param({"user": "Zoë 李"}, id="a name of any letters"),
        pytest.param({"classes": np.int64(3)}, id="a number of NumPy's"),
        pytest.param({"classes": ["\n", "é", ""]}, id="classes of any text"),
        pytest.param({"classes": (name for name in "abc")}, id="a generator of classes"),
    ],
)
def test_what_is_right_trains_as_floats_and_whole_numbers_do(wrong: dict[str, Any]) -> None:
    data, expected = of_users(**wrong), of_users(user=wrong.get("user", "user-0"))
    for user in range(len(data.users)):
        (inputs, labels), (right, own) = (each.user_tensors(user, torch.device("cpu")) for each in (data, expected))
        assert torch.allclose(inputs.float(), right, atol=0.02)
        assert torch.equal(labels, own)
    if data.inputs.dtype == np.float32:
        assert isinstance(outcome(lambda: data), turbosvm.Result)


# What is said


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_the_sample_that_is_not_finite_is_named(value: float) -> None:
    with pytest.raises(TurboSVMError, match="user 'user-2', sample 2 has a number that is not finite"):
        of_users(inputs=poisoned(value))


def test_blocks_are_looked_through_to_the_last() -> None:
    x = np.zeros((300_000, 5), np.float32)
    assert first_bad_input(x, tokens=False) is None
    for place in (0, 209_715, 209_716, 299_999):
        x[place, 4] = np.nan
        assert first_bad_input(x, tokens=False) == place
        x[place, 4] = 0


def test_whole_numbers_are_not_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "isfinite", None)  # would fail
    for kind in (np.uint8, np.int64, np.bool_):
        assert first_bad_input(np.zeros((3, 2), kind), tokens=False) is None


def test_tokens_are_whole_numbers_from_0_on() -> None:
    with pytest.raises(TurboSVMError, match="tokens must be whole numbers, not float32"):
        FederatedData.from_users({"a": (X, Y)}, 3, tokens=True)
    with pytest.raises(TurboSVMError, match="user 'a', sample 1 has a token that is less than 0"):
        FederatedData.from_users({"a": ([[1], [-1]], [0, 1])}, 3, tokens=True)


def test_images_and_numbers_are_not_mixed() -> None:
    with pytest.raises(TurboSVMError, match="inputs of user 'b' are uint8, those of the first user float32; uint8 is"):
        FederatedData.from_users({"a": (X, Y), "b": (X.astype(np.uint8), Y)}, 3)


def test_users_without_samples_are_told_of_and_are_on_neither_side() -> None:
    samples: dict[str, Any] = {"nobody": ([], []), **{f"user-{user}": (X, Y) for user in range(USERS)}}
    samples["also nobody"] = (X[:0], Y[:0])
    with pytest.warns(UserWarning, match="2 of 8 users have no samples, such as 'nobody'; they neither train nor"):
        data = FederatedData.from_users(samples, 3)
    assert data.counts.tolist() == [0, *[EACH] * USERS, 0]
    split = split_users(data, held_out=0.5)
    assert sorted(split.train + split.held_out) == list(range(1, USERS + 1))
    settings: dict[str, Any] = {"rounds": 3, "clients_per_round": len(split.train), "data.held_out": 0.5}
    result = turbosvm.run("fedavg", data=data, model=tiny_net(), **settings)  # a client that failed would be a warning
    assert len(result.records) == 3


def test_names_of_a_million_users_are_looked_at_in_a_moment() -> None:
    names = tuple(f"user-{number}" for number in range(1_000_000))
    began = perf_counter()
    check_user_names("Data", names)
    assert perf_counter() - began < 5


def test_classes_of_a_data_set_that_are_alike_are_numbered() -> None:
    dataset = TensorDataset(torch.zeros(4, 2), torch.arange(4) % 2)
    dataset.classes = ["crane", "crane"]  # type: ignore[attr-defined]
    assert turbosvm.from_dataset(dataset, Partition("iid", 2)).classes == ("0", "1")


def test_a_partition_is_one_of_ours() -> None:
    with pytest.raises(TurboSVMError, match="the partition is a str; it must be "):
        turbosvm.from_dataset(TensorDataset(torch.zeros(4, 2), torch.arange(4)), "iid")  # type: ignore[arg-type]
