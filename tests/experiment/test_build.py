from pathlib import Path

import pytest

from turbosvm.data import store
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.build import build_data, build_device, build_federation, build_module
from turbosvm.experiment.config import DataConfig
from turbosvm.experiment.resolve import resolve_config


def test_data_is_built_in_or_a_folder(tiny_data: FederatedData, tmp_path: Path) -> None:
    store.save(tiny_data, tmp_path / "own")
    assert build_data(DataConfig(name=str(tmp_path / "own"))).users == tiny_data.users
    with pytest.raises(TurboSVMError, match=r"Unknown data set 'glyph'; allowed: glyphs, .*Did you mean 'glyphs'\?"):
        build_data(DataConfig(name="glyph"))
    with pytest.raises(TurboSVMError, match="The task 'femnist' needs its data: prepare it"):
        build_data(DataConfig(name="femnist"))


def test_a_model_is_told_the_number_of_classes() -> None:
    config = resolve_config(overrides={"model": {"options": {"embedding": 9}}})
    assert build_module(config, classes=5).get_submodule("head").weight.shape == (5, 9)


def test_more_clients_than_training_users_is_refused(tiny_data: FederatedData) -> None:
    config = resolve_config(overrides={"clients_per_round": 21})
    with pytest.raises(
        TurboSVMError, match=r"'clients_per_round' is 21; it must be from 1 to 1[0-9], the number of training"
    ):
        build_federation(config, tiny_data, build_module(config, 3))


def test_cuda_is_refused_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert build_device("auto").type == "cpu"
    with pytest.raises(TurboSVMError, match="Device 'cuda' is not available"):
        build_device("cuda")
