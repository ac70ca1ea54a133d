"""What the tests of experiments share."""

from pathlib import Path

import pytest

from tests.experiment.sweeps import MODELS
from turbosvm.data import store
from turbosvm.data.federated import FederatedData


@pytest.fixture
def sweep_files(tiny_data: FederatedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder with the data and the models of small sweeps."""
    store.save(tiny_data, tmp_path / "blobs")
    (tmp_path / "sweep_models.py").write_text(MODELS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
