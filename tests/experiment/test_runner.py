import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import yaml
from safetensors.torch import load_file

from tests.conftest import tiny_net
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.config import Config
from turbosvm.experiment.folder import RunFolder
from turbosvm.experiment.resolve import resolve_config
from turbosvm.experiment.runner import Outcome, run_experiment


def config(**overrides: Any) -> Config:
    short = {"rounds": 6, "clients_per_round": 3, "evaluate_every": 1, "client": {"batch_size": 4}}
    return resolve_config(overrides={**short, **overrides})


def run(data: FederatedData, root: Path | None = None, **overrides: Any) -> Outcome:
    return run_experiment(config(**overrides), data, tiny_net(), root)


def test_a_run_folder_holds_all_that_is_needed_to_trust_it(tiny_data: FederatedData, tmp_path: Path) -> None:
    outcome = run(tiny_data, tmp_path)
    assert outcome.folder == tmp_path / "fedavg-seed0"
    assert {path.name for path in outcome.folder.iterdir()} == {
        ".lock",
        "checkpoints",
        "config.yaml",
        "ended.json",
        "environment.json",
        "model.safetensors",
        "records.jsonl",
    }
    assert Config.model_validate(yaml.safe_load((outcome.folder / "config.yaml").read_text())) == config()
    environment = json.loads((outcome.folder / "environment.json").read_text())
    assert environment["packages"]["torch"] == torch.__version__
    assert environment["data"]["users_train"] + environment["data"]["users_held_out"] == 20
    assert {"commit", "device", "cores", "turbosvm", "python", "command"} <= set(environment)


def test_records_are_read_by_pandas_in_one_line(tiny_data: FederatedData, tmp_path: Path) -> None:
    run(tiny_data, tmp_path)
    frame = pd.read_json(tmp_path / "fedavg-seed0" / "records.jsonl", lines=True)
    assert frame["round"].tolist() == [1, 2, 3, 4, 5, 6]
    assert frame["cohort"].map(len).tolist() == [3] * 6
    wanted = ["accuracy", "macro_f1", "mcc", "loss", "auc", "train_loss", "bytes_down", "bytes_up"]
    assert frame[[*wanted, "seconds_train", "seconds_merge", "seconds_evaluate"]].notna().all().all()


def test_the_same_seed_twice_gives_identical_records(tiny_data: FederatedData, tmp_path: Path) -> None:
    run(tiny_data, tmp_path)
    run(tiny_data, tmp_path)
    one, two = (
        pd.read_json(tmp_path / name / "records.jsonl", lines=True).filter(regex="^(?!seconds_|crc32)")
        for name in ("fedavg-seed0", "fedavg-seed0-2")
    )
    pd.testing.assert_frame_equal(one, two, check_exact=True)


def test_the_saved_model_is_the_trained_one_and_ones_own_is_left_alone(
    tiny_data: FederatedData, tmp_path: Path
) -> None:
    own = tiny_net()
    outcome = run_experiment(config(), tiny_data, own, tmp_path)
    saved = load_file(tmp_path / "fedavg-seed0" / "model.safetensors")
    assert set(saved) == set(own.state_dict())
    assert all(torch.equal(saved[name], value) for name, value in outcome.module.state_dict().items())
    assert torch.equal(own.head.weight, tiny_net().head.weight)
    assert not torch.equal(own.head.weight, saved["head.weight"])


def test_an_interrupted_run_keeps_its_records_and_the_last_whole_model(
    tiny_data: FederatedData, tmp_path: Path
) -> None:
    def interrupt(record: dict[str, Any]) -> None:
        if record["round"] == 4:
            raise KeyboardInterrupt

    outcome = run_experiment(config(), tiny_data, tiny_net(), tmp_path, on_record=interrupt)
    assert outcome.interrupted
    assert len((tmp_path / "fedavg-seed0" / "records.jsonl").read_text().splitlines()) == 4
    short = run(tiny_data, rounds=4)
    for name, value in load_file(tmp_path / "fedavg-seed0" / "model.safetensors").items():
        assert torch.equal(value, short.module.state_dict()[name])
        assert torch.equal(value, outcome.module.state_dict()[name])


def test_the_number_of_threads_is_the_configs_and_is_given_back(tiny_data: FederatedData) -> None:
    before = torch.get_num_threads()
    seen: list[int] = []
    run_experiment(
        config(threads=before + 1), tiny_data, tiny_net(), on_record=lambda _: seen.append(torch.get_num_threads())
    )
    assert set(seen) == {before + 1}
    assert torch.get_num_threads() == before


class FullDisk:
    """A file that takes nothing, not even when it is closed."""

    def write(self, _: str = "") -> None:
        raise OSError(28, "No space left on device")

    close = flush = write


def test_a_full_disk_is_told_in_one_sentence(tmp_path: Path) -> None:
    folder = RunFolder.new(tmp_path, "run")
    folder.begin()
    assert folder._records is not None
    folder._records.close()
    folder._records = FullDisk()  # type: ignore[assignment]
    with pytest.raises(TurboSVMError, match=r"Cannot write records in '.*run': No space left on device"):
        folder.append({"round": 1})
    folder.release()


class Shared(torch.nn.Module):
    """One parameter with two names, and a buffer that is not saved."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.again, self.head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 3)
        self.again.weight = self.body.weight
        self.register_buffer("scratch", torch.zeros(2), persistent=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.head(self.again(self.body(inputs)))  # type: ignore[no-any-return]


def test_the_saved_model_loads_back_whatever_its_parameters_share(tiny_data: FederatedData, tmp_path: Path) -> None:
    outcome = run_experiment(config(model={"head": "head"}), tiny_data, Shared(), tmp_path)
    back = Shared()
    back.load_state_dict(load_file(tmp_path / "fedavg-seed0" / "model.safetensors"))
    assert torch.equal(back.head.weight, outcome.module.get_parameter("head.weight"))


def test_numbers_that_are_not_finite_are_null(tiny_data: FederatedData, tmp_path: Path) -> None:
    run(tiny_data, tmp_path, client={"learning_rate": 1e30})
    last = (tmp_path / "fedavg-seed0" / "records.jsonl").read_text().splitlines()[-1]
    assert json.loads(last, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))["loss"] is None


def test_a_mistake_leaves_no_folder_behind(tiny_data: FederatedData, tmp_path: Path) -> None:
    with pytest.raises(TurboSVMError, match="Unknown algorithm"):
        run(tiny_data, tmp_path, algorithm="nothing")
    with pytest.raises(TurboSVMError, match="clients_per_round"):
        run(tiny_data, tmp_path, clients_per_round=100)
    assert list(tmp_path.iterdir()) == []
