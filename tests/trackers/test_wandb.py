import json
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from tests.trackers.runs import follow, record
from turbosvm.errors import TurboSVMError
from turbosvm.trackers.wandb import WandB

pytest.importorskip("wandb", reason="the tracker 'wandb' needs turbosvm[wandb]")


@pytest.fixture(autouse=True)
def _no_settings_of_the_persons(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("WANDB_MODE", "WANDB_DIR", "WANDB_PROJECT", "WANDB_RUN_GROUP"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "config"))


def read(folder: Path) -> list[Any]:
    """The records of a run that has ended; W&B's service writes the last of them after `finish` has returned."""
    deadline = monotonic() + 20
    while "exit" not in [r.WhichOneof("record_type") for r in parse(folder)]:
        assert monotonic() < deadline, f"the run's end is not in {folder}"
        sleep(0.05)
    return parse(folder)


def parse(folder: Path) -> list[Any]:
    """The records of W&B's file: LevelDB's log, blocks of 32 KiB with pieces of records in them."""
    from wandb.proto.wandb_internal_pb2 import Record

    (file,) = folder.glob("*.wandb")
    content, place, whole, records = file.read_bytes(), 7, b"", []
    while place + 7 <= len(content):
        if (left := 32768 - place % 32768) < 7:
            place += left
            continue
        length, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        whole += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):
            records.append(Record.FromString(whole))
            whole = b""
    return records


def points(records: list[Any], name: str) -> list[tuple[int, float]]:
    rows = [(r.history.step.num, {i.key or i.nested_key[0]: i.value_json for i in r.history.item}) for r in records]
    return [(step, json.loads(row[name])) for step, row in rows if name in row]


def test_a_run_is_written_offline_with_its_config_metrics_and_files(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    follow(WandB(tmp_path), folder, [record(1), record(2), record(4)])
    (place,) = (folder / "wandb").glob("offline-run-*")
    records = read(place)
    assert points(records, "held_out/accuracy") == [(1, 0.1), (2, 0.2), (4, 0.4)]
    (begun,) = (r.run for r in records if r.WhichOneof("record_type") == "run")
    assert (begun.project, begun.run_group, begun.display_name) == ("turbosvm", "blobs", "fedavg-seed0")
    config = {item.key: item.value_json for item in begun.config.update}
    assert (config["client.learning_rate"], config["algorithm.name"]) == ("0.1", '"fedavg"')
    assert [r.exit.exit_code for r in records if r.WhichOneof("record_type") == "exit"] == [0]
    assert (place / "files" / "turbosvm" / "model.safetensors").read_bytes() == b"weights"
    assert (folder / "config.yaml").read_text() == (place / "files" / "turbosvm" / "config.yaml").read_text()
    assert json.loads((folder / "wandb.json").read_text())["run_id"] == begun.run_id


def test_a_resumed_run_has_the_same_id(tmp_path: Path) -> None:
    follow(WandB(tmp_path), tmp_path / "run", [record(1), record(2)], status="interrupted")
    first = (tmp_path / "run" / "wandb.json").read_text()
    follow(WandB(tmp_path), tmp_path / "run", [record(3), record(4)], resumed_from=2)
    assert (tmp_path / "run" / "wandb.json").read_text() == first
    follow(WandB(tmp_path), tmp_path / "run", [record(1)])
    assert (tmp_path / "run" / "wandb.json").read_text() != first


def test_its_own_variables_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("WANDB_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    follow(WandB(None), None, [record(1)])
    (place,) = (tmp_path / "elsewhere" / "wandb").glob("offline-run-*")
    assert [r.run.project for r in read(place) if r.WhichOneof("record_type") == "run"] == ["mine"]


def test_a_run_of_the_persons_own_is_left_alone(tmp_path: Path) -> None:
    import wandb

    own: Any = wandb.init(mode="offline", dir=tmp_path, settings=wandb.Settings(silent=True, console="off"))
    follow(WandB(tmp_path), tmp_path / "run", [record(1)])
    assert wandb.run is own
    own.finish()


def test_without_a_place_it_is_refused() -> None:
    with pytest.raises(TurboSVMError, match=r"say where the run goes \(out=...\), or set WANDB_DIR"):
        WandB(None)
