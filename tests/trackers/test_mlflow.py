import os
import subprocess
import sys
from pathlib import Path
from shutil import copy
from typing import Any

import pytest

from tests.trackers.runs import follow, record
from turbosvm.errors import TurboSVMError
from turbosvm.seals import sealed
from turbosvm.trackers.mlflow import MLflow
from turbosvm.trackers.tracker import TrackedRun

for package in ("mlflow", "sqlalchemy", "alembic"):
    pytest.importorskip(package, reason="the tracker 'mlflow' needs turbosvm[mlflow]")


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with its tables, which take MLflow some seconds to make."""
    from mlflow import MlflowClient

    file = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(f"sqlite:///{file}").search_experiments()
    return file


@pytest.fixture
def store(tmp_path: Path, empty_store: Path) -> Path:
    """A folder with an empty store of its own in it."""
    copy(empty_store, tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def _no_server_of_the_persons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def runs_in(store: Path) -> tuple[Any, list[Any]]:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{store}/mlflow.db")
    experiment = client.get_experiment_by_name("blobs")
    assert experiment is not None
    return client, list(client.search_runs([experiment.experiment_id], order_by=["attributes.start_time ASC"]))


def points(client: Any, run: Any, name: str) -> list[tuple[int, float]]:
    return [(metric.step, metric.value) for metric in client.get_metric_history(run.info.run_id, name)]


def test_a_run_is_kept_with_its_parameters_metrics_and_files(store: Path) -> None:
    follow(MLflow(store), store / "run", [record(1), record(2), record(4)])
    client, (run,) = runs_in(store)
    assert (run.info.run_name, run.info.status) == ("fedavg-seed0", "FINISHED")
    assert run.data.params == {"algorithm.name": "fedavg", "rounds": "4", "client.learning_rate": "0.1"}
    assert points(client, run, "held_out/accuracy") == [(1, 0.1), (2, 0.2), (4, 0.4)]
    assert run.data.metrics["training/clients"] == 2
    assert run.data.tags["folder"] == str(store / "run")
    files = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert files == {"config.yaml", "model.safetensors"}
    assert (store / "mlartifacts" / run.info.run_id / "artifacts" / "model.safetensors").read_bytes() == b"weights"


def test_a_resumed_run_goes_on_in_the_same_one_and_no_round_comes_twice(store: Path) -> None:
    follow(MLflow(store), store / "run", [record(1), record(2), record(3)], status="interrupted")
    assert runs_in(store)[1][0].info.status == "KILLED"
    follow(MLflow(store), store / "run", [record(3), record(4)], resumed_from=2)
    client, (run,) = runs_in(store)
    assert run.info.status == "FINISHED"
    assert points(client, run, "held_out/accuracy") == [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4)]


def test_a_run_that_begins_again_is_another_one(store: Path) -> None:
    first = MLflow(store)
    (store / "run").mkdir()
    first.begin(TrackedRun("fedavg-seed0", "blobs", {}, store / "run"))
    first.record(record(1, 0.9))  # and was killed
    follow(MLflow(store), store / "run", [record(1), record(2)])
    client, runs = runs_in(store)
    assert sorted(run.info.status for run in runs) == ["FINISHED", "KILLED"]
    (whole,) = (run for run in runs if run.info.status == "FINISHED")
    assert points(client, whole, "held_out/accuracy") == [(1, 0.1), (2, 0.2)]


def test_a_failed_attempt_stays_failed_and_one_that_is_gone_is_no_matter(store: Path) -> None:
    follow(MLflow(store), store / "run", [record(1)], status="stopped")
    follow(MLflow(store), store / "run", [record(1)])
    assert sorted(run.info.status for run in runs_in(store)[1]) == ["FAILED", "FINISHED"]
    (store / "run" / "mlflow.json").write_text(sealed({"run_id": "0123456789abcdef0123456789abcdef"}))
    follow(MLflow(store), store / "run", [record(1)])
    assert sorted(run.info.status for run in runs_in(store)[1]) == ["FAILED", "FINISHED", "FINISHED"]


def test_a_run_that_goes_on_after_all_is_not_called_stopped(store: Path) -> None:
    follow(MLflow(store), store / "run", [record(1)], status="stopped")
    assert runs_in(store)[1][0].data.tags["stopped"] == "too few clients"
    follow(MLflow(store), store / "run", [record(2)], resumed_from=1)
    (run,) = runs_in(store)[1]
    assert (run.info.status, "stopped" in run.data.tags) == ("FINISHED", False)


def test_rounds_are_logged_while_the_run_goes_on_and_in_any_number(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turbosvm.trackers.mlflow.SECONDS_BETWEEN", -1.0)
    tracker = MLflow(store)
    tracker.begin(TrackedRun("fedavg-seed0", "blobs", {}, None))
    tracker.record(record(1))
    client, (run,) = runs_in(store)
    assert (run.info.status, points(client, run, "held_out/accuracy")) == ("RUNNING", [(1, 0.1)])
    monkeypatch.setattr("turbosvm.trackers.mlflow.SECONDS_BETWEEN", 1000.0)
    for number in range(2, 401):
        tracker.record(record(number))
    tracker.end("finished", {"rounds": 400})
    assert len(points(client, run, "held_out/accuracy")) == 400


def test_runs_of_the_same_data_share_an_experiment(store: Path) -> None:
    for name in ("one", "two"):
        follow(MLflow(store), store / name, [record(1)])
    _, runs = runs_in(store)
    assert [Path(run.data.tags["folder"]).name for run in runs] == ["one", "two"]


def test_why_a_run_stopped_can_be_read(store: Path) -> None:
    follow(MLflow(store), store / "run", [record(1)], status="stopped")
    _, (run,) = runs_in(store)
    assert (run.info.status, run.data.tags["stopped"]) == ("FAILED", "too few clients")


def test_the_persons_own_store_is_used_also_without_a_folder(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{store}/mlflow.db")
    follow(MLflow(None), None, [record(1)])
    _, (run,) = runs_in(store)
    assert run.data.metrics["held_out/accuracy"] == 0.1


def test_without_a_place_it_is_refused() -> None:
    with pytest.raises(TurboSVMError, match=r"say where the run goes \(out=...\), or set MLFLOW_TRACKING_URI"):
        MLflow(None)


IN_PEACE = """
import socket, sys
from pathlib import Path
def refuse(*address, **_):
    print("asked for", address[0], flush=True)
    raise OSError
socket.getaddrinfo = refuse
from tests.trackers.runs import follow, record
from turbosvm.trackers.mlflow import MLflow
follow(MLflow(Path(sys.argv[1])), Path(sys.argv[1]) / "run", [record(1)])
"""


@pytest.mark.slow
def test_no_host_is_asked_for_and_nothing_is_printed(tmp_path: Path) -> None:
    quiet = ("PYTEST", "CI", "GITHUB", "MLFLOW", "DO_NOT_TRACK")  # MLflow reports nothing from tests and CI in any case
    environment = {key: value for key, value in os.environ.items() if not key.startswith(quiet)}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", IN_PEACE, tmp_path], env=environment, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
