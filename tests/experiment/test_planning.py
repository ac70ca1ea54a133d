"""What is planned is not forgotten, what is in vain is not begun, and nothing is left behind."""

import importlib
import shutil
from pathlib import Path
from typing import Any

import pytest

import turbosvm as package
from tests.conftest import tiny_net, turbosvm
from tests.experiment.sweeps import TRUSTED, do, planned, sweep
from turbosvm.data import store
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError
from turbosvm.experiment import planning
from turbosvm.experiment.ending import is_finished
from turbosvm.experiment.folder import RunFolder
from turbosvm.experiment.planning import read_plan
from turbosvm.experiment.recorded import recorded
from turbosvm.seals import sealed, unsealed

GLYPHS = ("--set", "data.glyphs.users=20", "--set", "data.glyphs.samples_per_user=10", "--rounds", "2")


class Killed(BaseException):
    """The process is gone."""


def kill_at(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Die when a run's folder is made, after so many of them."""
    importlib.import_module("turbosvm.cli.session")  # which would keep the deadly one, if it came later
    ordinary, left = planning.make_folder, times

    def deadly(*arguments: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        ordinary(*arguments)

    monkeypatch.setattr(planning, "make_folder", deadly)


@pytest.mark.parametrize("times", [0, 1, 2])
def test_a_comparison_that_was_killed_while_it_was_planned_is_whole_after_a_resume(
    times: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        kill_at(times, patch)
        with pytest.raises(Killed):
            turbosvm("compare", "fedavg", "fedavgm", "turbosvm", *GLYPHS)
    (root,) = Path("runs").iterdir()
    assert len(list(root.glob("*-seed0/environment.json"))) == times
    assert turbosvm("resume", str(root)) == 0
    shown = capsys.readouterr().out
    runs = "1 run" if times == 2 else f"{3 - times} runs"
    assert f"{runs} had been planned when it was stopped, and had no folder yet" in shown
    assert all(is_finished(root / f"{name}-seed0") for name in ("fedavg", "fedavgm", "turbosvm"))
    shutil.rmtree(root / "fedavgm-seed0")  # by the person, who wants it no more
    assert turbosvm("resume", str(root)) == 0
    assert not (root / "fedavgm-seed0").exists()


def test_from_python_all_runs_are_planned_before_the_first(tiny_data: FederatedData, tmp_path: Path) -> None:
    def stop(record: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    short: dict[str, Any] = {"rounds": 2, "clients_per_round": 3, "out": tmp_path / "out"}
    with pytest.raises(KeyboardInterrupt):
        package.compare(["fedavg", "turbosvm"], data=tiny_data, model=tiny_net(), on_record=stop, **short)
    plan = read_plan(tmp_path / "out")
    assert plan
    assert (list(plan.runs), plan.complete) == (["fedavg-seed0", "turbosvm-seed0"], True)
    result = package.resume(tmp_path / "out" / "turbosvm-seed0", data=tiny_data, model=tiny_net())
    assert len(result.records) == 2
    package.compare("turbosvm", data=tiny_data, model=tiny_net(), **short)  # beside what is there
    assert is_finished(tmp_path / "out" / "turbosvm-seed0-2")


@pytest.mark.usefixtures("sweep_files")
def test_a_sweep_is_planned_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        kill_at(1, patch)
        with pytest.raises(Killed):
            planned(sweep(), tmp_path / "out")
    assert turbosvm("resume", str(tmp_path / "out"), "--trust-code", *TRUSTED) == 0
    runs = planned(sweep(), tmp_path / "out")
    assert [run.done for run in runs] == [True] * 4


def test_a_plan_that_cannot_be_read_or_names_others_folders_is_told_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert turbosvm("run", "fedavg", *GLYPHS) == 0
    (root,) = Path("runs").iterdir()
    plan = unsealed((root / "plan.json").read_bytes())
    for name in ("../outside", "/outside", "..", ".hidden", "a/b", "a\\b", ""):
        spoilt = {**plan, "complete": False, "runs": {name: plan["runs"]["fedavg-seed0"]}}
        (root / "plan.json").write_text(sealed(spoilt))
        assert turbosvm("resume", str(root)) == 1
        assert "plan.json': it is damaged" in capsys.readouterr().out
    assert not (root.parent / "outside").exists()
    (root / "plan.json").write_text("{}")
    assert turbosvm("resume", str(root)) == 1


def test_what_is_planned_is_not_written_through_a_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert turbosvm("run", "fedavg", *GLYPHS) == 0
    (root,) = Path("runs").iterdir()
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "config.yaml").write_text("of something else")
    (root / "linked").symlink_to(theirs)
    plan = unsealed((root / "plan.json").read_bytes())
    text = plan["runs"]["fedavg-seed0"]
    (root / "plan.json").write_text(sealed({**plan, "complete": False, "runs": {"linked": text}}))
    assert turbosvm("resume", str(root)) == 1
    assert "linked' is a link to what is no run's folder" in " ".join(capsys.readouterr().out.split())
    assert [path.name for path in theirs.iterdir()] == ["config.yaml"]
    assert (theirs / "config.yaml").read_text() == "of something else"


@pytest.mark.parametrize(
    ("name", "config", "sentence"),
    [
        ("odd", "rounds: [", "The config of 'odd' in"),
        ("odd", "round: 1", "Unknown config key"),
        ("a" * 300, "", "long"),
    ],
)
def test_what_cannot_be_planned_leaves_nothing_behind(
    name: str, config: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert turbosvm("run", "fedavg", *GLYPHS) == 0
    (root,) = Path("runs").iterdir()
    plan = unsealed((root / "plan.json").read_bytes())
    (root / "plan.json").write_text(sealed({**plan, "complete": False, "runs": {name: config}}))
    before = sorted(root.iterdir())
    assert turbosvm("resume", str(root)) == 1
    assert sentence in " ".join(capsys.readouterr().out.split())
    assert sorted(root.iterdir()) == before


@pytest.mark.usefixtures("sweep_files")
def test_another_sweep_does_not_forget_what_is_still_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        kill_at(1, patch)
        with pytest.raises(Killed):
            planned(sweep(), tmp_path / "out")
    whole = read_plan(tmp_path / "out")
    assert whole
    (first, *_) = whole.runs
    planning.make_folders(tmp_path / "out", {})
    after = read_plan(tmp_path / "out")
    assert after
    assert (list(after.runs), after.complete) == (list(whole.runs), False)
    assert (tmp_path / "out" / first).exists()


def test_a_folder_that_cannot_be_filled_is_not_left_behind(
    tiny_data: FederatedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordinary = RunFolder.write

    def on_a_full_disk(self: RunFolder, name: str, content: str) -> None:
        if name == "environment.json":
            raise TurboSVMError(f"Cannot write file '{name}': No space left on device.")
        ordinary(self, name, content)

    monkeypatch.setattr(RunFolder, "write", on_a_full_disk)
    settings: dict[str, Any] = {"data": tiny_data, "model": tiny_net(), "rounds": 2, "clients_per_round": 3}
    for call in (package.run, package.compare):
        with pytest.raises(TurboSVMError, match="No space left"):
            call("fedavg", out=tmp_path / "out", **settings)
        assert not list((tmp_path / "out").glob("fedavg*"))


@pytest.mark.parametrize(
    "command",
    [
        ("run", "fedavg"),
        ("compare", "fedavg", "turbosvm"),
        ("tune", "--rates", "0.1"),
        ("sweep", "sweep.yaml"),
        ("reproduce", "rounds", "--data", "femnist=blobs"),
    ],
)
def test_a_place_that_cannot_be_written_is_found_before_data_is_made(
    command: tuple[str, ...],
    tmp_path: Path,
    tiny_data: FederatedData,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store.save(tiny_data, tmp_path / "blobs")
    (tmp_path / "sweep.yaml").write_text("grid: {seed: [0, 1]}\n")
    (tmp_path / "file").touch()
    monkeypatch.setattr("turbosvm.data.glyphs.load", lambda *_: pytest.fail("data was made"))
    monkeypatch.setattr("turbosvm.data.store.load", lambda *_: pytest.fail("data was opened"))
    assert turbosvm(*command, "--out", "file/below") == 2
    assert "Cannot write folder 'file/below" in capsys.readouterr().err


def test_remarks_are_told_where_tables_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any) -> None:
        raise TurboSVMError("Cannot write file 'table.md': No space left on device.")

    monkeypatch.setattr("turbosvm.cli.session.save_report", full)
    monkeypatch.setattr(RunFolder, "save_model", full)
    assert turbosvm("run", "fedavg", *GLYPHS) == 1
    shown = capsys.readouterr().out
    assert "fedavg seed 0: The model is not saved: Cannot write file 'table.md'" in shown
    assert shown.index("The model is not saved") < shown.rindex("Cannot write file 'table.md'")
    assert "rounds to 60%" in shown  # the table itself


def test_a_finished_run_that_is_only_to_be_read_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def read_only(*_: Any) -> None:
        raise TurboSVMError("Cannot write file 'table.md': Read-only file system.")

    assert turbosvm("run", "fedavg", *GLYPHS, "--set", "client.learning_rate=1e30") == 0
    capsys.readouterr()
    monkeypatch.setattr("turbosvm.cli.session.save_report", read_only)
    assert turbosvm("resume", "runs") == 1
    shown = capsys.readouterr().out
    assert "rounds to 60%" in shown
    assert "fedavg seed 0 diverged" in shown
    assert "Read-only file system" in shown


def test_an_unsaved_model_is_no_success(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(*_: Any) -> None:
        raise TurboSVMError("Cannot write file 'model.safetensors': No space left on device.")

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save_model", full)
        assert turbosvm("run", "fedavg", *GLYPHS) == 1
    assert "The model is not saved" in capsys.readouterr().out
    (root,) = Path("runs").iterdir()
    assert turbosvm("resume", str(root)) == 0
    assert is_finished(root / "fedavg-seed0")


def test_what_killed_processes_left_is_removed(tiny_data: FederatedData, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"data": tiny_data, "model": tiny_net(), "rounds": 2, "clients_per_round": 3}
    run = package.run("fedavg", out=tmp_path, **settings).folder
    assert run
    left = [
        run / f".{name}.abcd_123" for name in ("records.jsonl", "environment.json", "model.safetensors", "ended.json")
    ]
    left += [run / "checkpoints" / ".round-000000001.json.a1b2c3d4"]
    theirs = [run / ".notes.txt.abcd1234", run / "checkpoints" / ".swp.abcd1234"]
    for path in (*left, *theirs):
        path.write_text("half")
    (run / "model.safetensors").unlink()
    with pytest.warns(UserWarning, match="is missing, though the run has ended"):
        package.resume(run, data=tiny_data, model=tiny_net())
    assert not [path for path in left[:-1] if path.exists()]
    assert all(path.exists() for path in theirs)


@pytest.mark.usefixtures("sweep_files")
def test_checkpoints_of_a_run_that_was_killed_at_its_very_end_go_with_the_next_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, *_) = planned(sweep(), tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr("turbosvm.experiment.sweep._clear", lambda _: None)
        assert do(first).failed is None
    assert (first.path / "checkpoints").exists()
    (again, *_) = planned(sweep(), tmp_path / "out")
    assert again.done
    assert not (first.path / "checkpoints").exists()
    assert len(recorded(first.path)) == 3
