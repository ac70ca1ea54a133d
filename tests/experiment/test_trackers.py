import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import turbosvm
from tests.conftest import tiny_net
from tests.conftest import turbosvm as command
from turbosvm.data.federated import FederatedData
from turbosvm.data.store import save
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.config import Config
from turbosvm.experiment.resolve import resolve_config
from turbosvm.experiment.runner import Outcome, run_experiment
from turbosvm.trackers import catalogue
from turbosvm.trackers.background import Background
from turbosvm.trackers.tracker import Status, TrackedRun

SHORT: dict[str, Any] = {"rounds": 4, "clients_per_round": 3, "evaluate_every": 2, "client": {"batch_size": 4}}


class Notebook:
    """Writes down what it is told, and raises an error when it is told of `fails`."""

    def __init__(self, fails: object = None, error: BaseException | None = None) -> None:
        self.run: TrackedRun | None = None
        self.heard: list[Any] = []
        self.summary: dict[str, Any] = {}
        self.files: set[str] = set()
        self._fails, self._error = fails, error or RuntimeError("no ink")

    def begin(self, run: TrackedRun) -> None:
        self.run = run
        self._hear("begin")

    def record(self, record: dict[str, Any]) -> None:
        record["cohort"].clear()
        self._hear(record["round"])

    def end(self, status: Status, summary: dict[str, Any]) -> None:
        self.summary = summary
        folder = self.run.folder if self.run else None
        self.files = {path.name for path in folder.iterdir()} if folder else set()
        self._hear(status)

    def _hear(self, what: object) -> None:
        self.heard.append(what)
        if what == self._fails:
            raise self._error


def follow(data: FederatedData, *trackers: Notebook, root: Path | None = None, **overrides: Any) -> Outcome:
    config = resolve_config(overrides={**SHORT, **overrides})
    return run_experiment(config, data, tiny_net(), root, trackers=trackers)


def plain(outcome: Outcome) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in record.items() if not key.startswith("seconds")} for record in outcome.records
    ]


def test_a_tracker_hears_of_the_beginning_of_every_round_and_of_the_end(
    tiny_data: FederatedData, tmp_path: Path
) -> None:
    notebook = Notebook()
    outcome = follow(tiny_data, notebook, root=tmp_path)
    assert notebook.heard == ["begin", 1, 2, 3, 4, "finished"]
    assert notebook.run == TrackedRun(
        "fedavg-seed0", "blobs", outcome.config.model_dump(), tmp_path / "fedavg-seed0", resumed_from=0
    )
    assert notebook.summary["rounds"] == 4
    assert notebook.summary["accuracy"] == outcome.records[-1]["accuracy"]
    assert {"config.yaml", "model.safetensors", "records.jsonl"} <= notebook.files
    assert outcome.notes == []


def test_a_run_is_the_same_whoever_follows_it(tiny_data: FederatedData) -> None:
    alone, followed = follow(tiny_data), follow(tiny_data, Notebook(), Notebook(fails=2))
    assert plain(alone) == plain(followed)
    for name, value in alone.module.state_dict().items():
        assert torch.equal(value, followed.module.state_dict()[name])


@pytest.mark.parametrize(
    ("fails", "heard"), [("begin", ["begin"]), (2, ["begin", 1, 2]), ("finished", ["begin", 1, 2, 3, 4, "finished"])]
)
def test_a_tracker_that_fails_is_told_of_once_and_not_called_again(
    fails: object, heard: list[Any], tiny_data: FederatedData
) -> None:
    broken, sound = Notebook(fails), Notebook()
    outcome = follow(tiny_data, broken, sound)
    assert broken.heard == heard
    assert sound.heard == ["begin", 1, 2, 3, 4, "finished"]
    assert outcome.told == [
        "fedavg seed 0: the tracker Notebook failed, and was not called again: RuntimeError: no ink."
    ]
    assert len(outcome.records) == 4


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    ("error", "background", "told"),
    [
        (SystemExit("bye"), True, "RuntimeError: SystemExit: bye"),
        (SpeechlessError(), True, "SpeechlessError"),
        (SpeechlessError(), False, "SpeechlessError"),
    ],
)
def test_no_tracker_ends_a_run_whatever_it_raises(
    error: BaseException, background: bool, told: str, tiny_data: FederatedData
) -> None:
    broken = Notebook(2, error)
    follower: Any = Background(broken) if background else broken
    outcome = follow(tiny_data, follower)
    assert len(outcome.records) == 4
    assert [note.rpartition("again: ")[2] for note in outcome.notes] == [f"{told}."]


@pytest.mark.parametrize(
    ("fails", "ends", "rounds"), [("begin", "interrupted", 0), (2, "interrupted", 2), ("finished", "finished", 4)]
)
def test_an_interrupt_in_a_tracker_is_the_persons(
    fails: object, ends: str, rounds: int, tiny_data: FederatedData
) -> None:
    interrupted, other = Notebook(fails, KeyboardInterrupt()), Notebook()
    outcome = follow(tiny_data, interrupted, other)
    assert outcome.interrupted
    assert (len(outcome.records), other.heard[-1], outcome.notes) == (rounds, ends, [])


def test_a_run_that_stops_says_why(tiny_data: FederatedData) -> None:
    notebook = Notebook()
    outcome = follow(tiny_data, notebook, client={"learning_rate": 1e30}, on_bad_client="abort")
    assert notebook.heard[-1] == "stopped"
    assert notebook.summary["stopped"] == outcome.stopped


def test_an_error_ends_the_tracking_too(tiny_data: FederatedData) -> None:
    def fail(record: dict[str, Any]) -> None:
        raise ZeroDivisionError

    notebook = Notebook()
    with pytest.raises(ZeroDivisionError):
        run_experiment(resolve_config(overrides=SHORT), tiny_data, tiny_net(), on_record=fail, trackers=[notebook])
    assert notebook.heard == ["begin", 1, "failed"]


def test_names_are_checked_with_the_config() -> None:
    assert resolve_config(overrides={"trackers": "mlflow"}).trackers == ["mlflow"]
    assert resolve_config().trackers == []
    with pytest.raises(
        TurboSVMError, match=r"Unknown tracker 'tensorbord'; allowed: mlflow, tensorboard, wandb. Did you mean 'tensorb"
    ):
        resolve_config(overrides={"trackers": ["mlflow", "tensorbord"]})
    with pytest.raises(TurboSVMError, match="Config key 'trackers' is 3; it must be a valid list"):
        resolve_config(overrides={"trackers": 3})


@pytest.mark.parametrize("name", ["mlflow", "tensorboard", "wandb"])
def test_a_missing_package_is_told_before_anything_is_made(
    name: str, tiny_data: FederatedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [module for module in sys.modules if module.split(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)
    for module in [module for module in sys.modules if module.startswith("torch.utils.tensorboard")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(TurboSVMError) as caught:
        follow(tiny_data, root=tmp_path / "runs", trackers=[name])
    assert f"The tracker '{name}' needs the package {name}, which is not installed" in str(caught.value)
    assert f'pip install "turbosvm[{name}]"' in str(caught.value)
    assert not (tmp_path / "runs").exists()


def test_all_missing_packages_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: Path | None) -> Any:
        raise ModuleNotFoundError(name="somewhere")

    monkeypatch.setattr(catalogue, "TRACKERS", {"one": missing, "other": missing})
    with pytest.raises(TurboSVMError) as caught:
        catalogue.build_trackers(["one", "other"], None)
    assert str(caught.value) == (
        "The tracker 'one' needs the package somewhere, which is not installed; the tracker 'other' needs the package "
        'somewhere, which is not installed: pip install "turbosvm[one,other]".'
    )


def test_ones_own_tracker_is_handed_over_in_python(tiny_data: FederatedData, tmp_path: Path) -> None:
    notebook = Notebook()
    result = turbosvm.run(data=tiny_data, model=tiny_net(), out=tmp_path, trackers=notebook, **SHORT)
    assert notebook.heard == ["begin", 1, 2, 3, 4, "finished"]
    assert result.config.trackers == []
    with pytest.warns(UserWarning, match="the tracker Notebook failed, and was not called again"):
        turbosvm.run(data=tiny_data, model=tiny_net(), trackers=[Notebook(fails=1)], **SHORT)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([Notebook], r"The tracker is the class Notebook; hand over an object, Notebook\(\)"),
        (3, "The tracker is a int; hand over a name .* or an object with begin, record and end"),
        (["nothing"], "Unknown tracker 'nothing'"),
        ("tensorboard", "writes into the run's folder"),
    ],
)
def test_what_is_no_tracker_is_refused(given: Any, sentence: str, tiny_data: FederatedData) -> None:
    if given == "tensorboard":
        pytest.importorskip("tensorboard")
    with pytest.raises(TurboSVMError, match=sentence):
        turbosvm.run(data=tiny_data, model=tiny_net(), trackers=given, **SHORT)


def test_one_tracker_follows_the_runs_of_a_comparison_in_turn(tiny_data: FederatedData) -> None:
    notebook = Notebook()
    turbosvm.compare(["fedavg", "fedavgm"], data=tiny_data, model=tiny_net(), trackers=[notebook], **SHORT)
    assert notebook.heard == ["begin", 1, 2, 3, 4, "finished"] * 2


def test_the_command_line_names_trackers(tiny_data: FederatedData, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Config] = []
    monkeypatch.setattr("turbosvm.cli.session.carry_out", lambda configs, *_: seen.extend(configs))
    assert command("run", "fedavg", "--track", "mlflow", "-t", "tensorboard") == 0
    assert command("compare", "fedavg", "fedavgm", "--set", "trackers=[wandb]") == 0
    assert command("run", "fedavg") == 0
    assert [config.trackers for config in seen] == [["mlflow", "tensorboard"], ["wandb"], ["wandb"], []]


def test_the_command_line_refuses_unknown_trackers(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("run", "fedavg", "--track", "excel") == 2
    assert "Unknown tracker 'excel'; allowed: mlflow, tensorboard, wandb." in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_all_trackers_follow_the_command_at_once(
    tiny_data: FederatedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("tensorboard", "mlflow", "alembic", "wandb"):
        pytest.importorskip(package, reason="needs turbosvm[trackers]")
    for variable in ("MLFLOW_TRACKING_URI", "WANDB_MODE", "WANDB_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setitem(sys.modules, "tracked_model", sys.modules[tiny_net.__module__])
    save(tiny_data, tmp_path / "blobs")
    tracked = [part for name in ("tensorboard", "mlflow", "wandb") for part in ("--track", name)]
    short = ["--rounds", "2", "--set", "clients_per_round=3", "--model", "tracked_model:TinyNet", "--out", "out"]
    assert command("run", "fedavg", "--data", str(tmp_path / "blobs"), *short, *tracked) == 0
    assert "failed" not in capsys.readouterr().out
    (folder,) = (tmp_path / "out").glob("*/fedavg-seed0")
    assert len(list(folder.glob("events.out.tfevents.*"))) == 1
    assert len(list(folder.glob("wandb/offline-run-*/*.wandb"))) == 1
    assert (tmp_path / "out" / "mlflow.db").is_file()
    assert len(list((tmp_path / "out" / "mlartifacts").rglob("model.safetensors"))) == 1
