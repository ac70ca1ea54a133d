from pathlib import Path
from typing import Any

import pytest

from tests.trackers.runs import follow, record
from turbosvm.errors import TurboSVMError
from turbosvm.trackers.tensorboard import TensorBoard

pytest.importorskip("tensorboard", reason="the tracker 'tensorboard' needs turbosvm[tensorboard]")


def read(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(folder)).Reload()


def points(events: Any, name: str) -> list[tuple[int, float]]:
    return [(event.step, round(event.value, 6)) for event in events.Scalars(name)]


def test_each_number_is_a_curve_over_rounds(tmp_path: Path) -> None:
    follow(TensorBoard(tmp_path), tmp_path / "run", [record(1), record(2), record(4)])
    events = read(tmp_path / "run")
    assert points(events, "held_out/accuracy") == [(1, 0.1), (2, 0.2), (4, 0.4)]
    assert points(events, "seconds/train") == [(1, 0.5), (2, 0.5), (4, 0.5)]
    curves = {"held_out/accuracy", "seconds/train", "training/clients", "training/failures", "training/failed"}
    assert set(events.Tags()["scalars"]) == curves


def test_the_config_becomes_hyperparameters(tmp_path: Path) -> None:
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    follow(TensorBoard(tmp_path), tmp_path / "run", [record(1)])
    kept = read(tmp_path / "run").summary_metadata
    start = HParamsPluginData.FromString(kept["_hparams_/session_start_info"].plugin_data.content).session_start_info
    assert start.hparams["client.learning_rate"].number_value == 0.1
    assert start.hparams["algorithm.name"].string_value == "fedavg"
    assert "_hparams_/session_end_info" in kept


def test_a_resumed_run_goes_on_in_the_same_curves(tmp_path: Path) -> None:
    follow(TensorBoard(tmp_path), tmp_path / "run", [record(1), record(2), record(3, 0.9)], status="interrupted")
    follow(TensorBoard(tmp_path), tmp_path / "run", [record(3), record(4)], resumed_from=2)
    assert points(read(tmp_path / "run"), "held_out/accuracy") == [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4)]


def test_a_run_that_begins_again_takes_back_all_that_was_said(tmp_path: Path) -> None:
    follow(TensorBoard(tmp_path), tmp_path / "run", [record(1, 0.9), record(2, 0.9)], status="stopped")
    follow(TensorBoard(tmp_path), tmp_path / "run", [record(1), record(2), record(3)])
    assert points(read(tmp_path / "run"), "held_out/accuracy") == [(1, 0.1), (2, 0.2), (3, 0.3)]


def test_why_a_run_stopped_can_be_read(tmp_path: Path) -> None:
    follow(TensorBoard(tmp_path), tmp_path / "run", [record(1)], status="stopped")
    (event,) = read(tmp_path / "run").Tensors("stopped/text_summary")
    assert (event.step, event.tensor_proto.string_val[0]) == (1, b"too few clients")


def test_without_a_folder_it_is_refused() -> None:
    with pytest.raises(TurboSVMError, match=r"'tensorboard' writes into the run's folder; say where that goes"):
        TensorBoard(None)
