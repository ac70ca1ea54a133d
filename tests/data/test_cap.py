"""At most so many samples a user."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import turbosvm
from tests.conftest import TinyNet
from tests.conftest import turbosvm as command
from turbosvm.data import store
from turbosvm.data.cap import cap_samples
from turbosvm.data.federated import FederatedData
from turbosvm.data.windows import Windows
from turbosvm.errors import TurboSVMError

pytestmark = pytest.mark.filterwarnings("ignore:.* have no samples")

CAP: dict[str, Any] = {"data.max_samples": 7}
SIZES = {"a": 3, "b": 50, "c": 0, "d": 10, "e": 400}


def data(names: list[str] | None = None) -> FederatedData:
    """Samples that say whose they are, and which: 1000 * the user's letter + the place."""
    samples = {}
    for name in names or list(SIZES):
        own = 1000 * ord(name) + np.arange(SIZES[name])
        samples[name] = own[:, None].astype(np.int64), own % 2
    return FederatedData.from_users(samples, classes=2, name="letters")


def test_large_users_keep_some_of_their_own_in_order_and_small_ones_all() -> None:
    capped = cap_samples(data(), 10)
    assert capped.counts.tolist() == [3, 10, 0, 10, 10]
    for user, name in enumerate(capped.users):
        inputs, labels = capped.user(user)
        numbers = inputs[:, 0] - 1000 * ord(name)
        assert (np.diff(numbers) > 0).all()
        assert len(numbers) == 0 or 0 <= numbers.min() <= numbers.max() < SIZES[name]
        assert (labels == inputs[:, 0] % 2).all()
    assert capped.user(4)[0].max() - 1000 * ord("e") > 100  # not the first ten
    assert capped.users == data().users


def test_what_is_kept_depends_on_the_name_and_the_seed_alone() -> None:
    one, alone, other = cap_samples(data(), 10), cap_samples(data(["e"]), 10), cap_samples(data(), 10, seed=1)
    assert (one.user(4)[0] == alone.user(0)[0]).all()
    assert (one.user(4)[0] != other.user(4)[0]).any()


def test_nothing_to_cap_is_nothing_done() -> None:
    whole = data()
    assert cap_samples(whole, None) is whole
    assert cap_samples(whole, 400) is whole
    capped = cap_samples(whole, 5)
    assert cap_samples(capped, 5) is capped


def test_windows_are_cut_out_as_they_are() -> None:
    text = np.arange(100, dtype=np.uint8)
    windows = Windows(text, np.array([0, 60, 84]), length=8)
    labels = np.concatenate([text[8:68], text[76:100]])
    made = FederatedData("text", windows, labels, np.array([0, 60, 84]), ("a", "b"), tuple(map(str, text)), tokens=True)
    inputs, own = cap_samples(made, 5).user(0)
    assert inputs.shape == (5, 8)
    assert (inputs[:, -1] + 1 == own).all()


def test_a_run_takes_it_and_its_digest_is_another(tmp_path: Path, tiny_data: FederatedData) -> None:
    store.save(tiny_data, tmp_path / "blobs")
    whole = turbosvm.open_data(tmp_path / "blobs")
    capped = cap_samples(whole, 7)
    assert capped.digest
    assert capped.digest not in (whole.digest, cap_samples(whole, 8).digest)
    settings: dict[str, Any] = {"clients_per_round": 3, "rounds": 2, "model": TinyNet()}
    named = turbosvm.run("fedavg", data=str(tmp_path / "blobs"), **settings, **CAP)
    handed = turbosvm.run("fedavg", data=tiny_data, **settings, **CAP)
    before = turbosvm.run("fedavg", data=tiny_data, **settings)
    assert named.records["samples"].tolist() == handed.records["samples"].tolist()
    assert (named.records["samples"] < before.records["samples"]).all()


def test_a_cap_below_the_minimum_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TurboSVMError, match=r"data.max_samples is 7, less than data.min_samples, which is 8"):
        turbosvm.run("fedavg", **{**CAP, "data.min_samples": 8})
    assert command("run", "fedavg", "--set", "data.max_samples=0") == 2
    assert "max_samples" in capsys.readouterr().err
