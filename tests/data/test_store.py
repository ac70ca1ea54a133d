import json
from pathlib import Path

import numpy as np
import pytest

from turbosvm.data import store
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError


def test_what_is_saved_is_what_is_loaded(tiny_data: FederatedData, tmp_path: Path) -> None:
    store.save(tiny_data, tmp_path / "set", made_by={"test": 1})
    loaded = store.load(tmp_path / "set")
    assert isinstance(loaded.inputs, np.memmap)
    assert np.array_equal(loaded.inputs, tiny_data.inputs)
    assert np.array_equal(loaded.labels, tiny_data.labels)
    assert np.array_equal(loaded.offsets, tiny_data.offsets)
    assert (loaded.name, loaded.users, loaded.classes) == (tiny_data.name, tiny_data.users, tiny_data.classes)
    assert not loaded.tokens
    assert json.loads((tmp_path / "set" / "manifest.json").read_text())["made_by"] == {"test": 1}


def test_a_missing_file_is_named(tiny_data: FederatedData, tmp_path: Path) -> None:
    store.save(tiny_data, tmp_path / "set")
    (tmp_path / "set" / "labels.npy").unlink()
    with pytest.raises(TurboSVMError, match=r"is not a data folder: labels\.npy is missing"):
        store.load(tmp_path / "set")


@pytest.mark.parametrize("content", ["{", "[]", '{"name": "x"}'])
def test_a_broken_manifest_is_an_error_of_ours(content: str, tiny_data: FederatedData, tmp_path: Path) -> None:
    store.save(tiny_data, tmp_path / "set")
    (tmp_path / "set" / "manifest.json").write_text(content)
    with pytest.raises(TurboSVMError, match="cannot be read"):
        store.load(tmp_path / "set")


def test_pickled_arrays_are_never_loaded(tiny_data: FederatedData, tmp_path: Path) -> None:
    store.save(tiny_data, tmp_path / "set")
    np.save(tmp_path / "set" / "labels.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(TurboSVMError, match="cannot be read"):
        store.load(tmp_path / "set")


def test_the_cache_folder_is_ours_then_xdg_then_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TURBOSVM_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert store.cache_folder() == tmp_path / "own"
    monkeypatch.delenv("TURBOSVM_CACHE")
    assert store.cache_folder() == tmp_path / "xdg" / "turbosvm"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert store.cache_folder() == tmp_path / "home" / ".cache" / "turbosvm"
