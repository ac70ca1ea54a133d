"""Folders of others: nothing in them runs code, is believed of another run, or reaches files beside them."""

import os
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
import yaml
from safetensors.torch import save

import turbosvm as package
from tests.conftest import tiny_net, turbosvm
from tests.experiment.damages import make_runs, timeless
from turbosvm.data import store
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.ending import find_ending, is_finished
from turbosvm.experiment.prepared import reopen_run
from turbosvm.experiment.recorded import recorded
from turbosvm.experiment.runner import run_on
from turbosvm.identity import identity_of
from turbosvm.record_lines import line_of
from turbosvm.seals import sealed, unsealed
from turbosvm.yaml_text import parse_yaml

MODELS = """
from pathlib import Path

from torch import nn

Path("imported").touch()


class Net(nn.Module):
    head_name = "head"

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, inputs):
        return self.head(self.body(inputs).relu())
"""


@pytest.fixture
def runs(tiny_data: FederatedData, tmp_path: Path) -> dict[str, Path]:
    return make_runs(tiny_data, tmp_path / "runs", "scaffold")


def reopened(folder: Path, data: FederatedData) -> Any:
    return run_on(reopen_run(folder, data, tiny_net()))


def set_in(folder: Path, key: str, value: Any, agreed: bool = False) -> None:
    """Edit a run's config; with the seal of its environment, too, if that is to agree."""
    config = parse_yaml((folder / "config.yaml").read_text())
    place = config
    for part in key.split(".")[:-1]:
        place = place[part]
    place[key.split(".")[-1]] = value
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    if agreed:
        change_about(folder, lambda about: about.update(settings=identity_of(config)))


def change_about(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    about = unsealed((folder / "environment.json").read_bytes())
    change(about)
    (folder / "environment.json").write_text(sealed(about))


# Which run it is


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("threads", 2, "threads is 2, it was 1"),
        ("engine", "sequential", 'engine is "sequential", it was "auto"'),
        ("device", "cpu", 'device is "cpu", it was "auto"'),
        ("precision", "float32", 'precision is "float32", it was "auto"'),
        ("seed", 3, "seed is 3, it was 0"),
        ("client.epochs", 2, "client.epochs is 2, it was 1"),
        ("algorithm.buffers", "frozen", 'algorithm.buffers is "frozen", it was "mean"'),
    ],
)
def test_an_edited_setting_is_refused_by_its_name(
    key: str, value: Any, sentence: str, runs: dict[str, Path], tiny_data: FederatedData
) -> None:
    set_in(runs["stopped"], key, value)
    with pytest.raises(TurboSVMError, match=f"has been changed since the run was planned: {sentence}"):
        reopened(runs["stopped"], tiny_data)


def test_what_changes_no_bit_may_be_edited(runs: dict[str, Path], tiny_data: FederatedData) -> None:
    for key, value in {"client_memory_mb": 7, "checkpoint_every": 2, "trackers": []}.items():
        set_in(runs["stopped"], key, value)
    assert reopened(runs["stopped"], tiny_data).notes == []
    assert timeless(recorded(runs["stopped"])) == timeless(recorded(runs["finished"]))


@pytest.mark.parametrize("agreed", [False, True])
def test_checkpoints_of_another_run_are_refused(agreed: bool, runs: dict[str, Path], tiny_data: FederatedData) -> None:
    """Also where the settings were edited so that they agree with themselves."""
    if agreed:
        set_in(runs["stopped"], "threads", 2, agreed=True)
        what = "threads is 2, it was 1"
    else:
        (runs["stopped"] / "checkpoints").rename(runs["stopped"] / "own")
        (runs["another"] / "checkpoints").rename(runs["stopped"] / "checkpoints")
        what = "seed is 0, it was 1"
    with pytest.raises(TurboSVMError, match=rf"round-00000000\d.json' belongs to another run: {what}"):
        reopened(runs["stopped"], tiny_data)


def test_a_checkpoint_vouches_for_the_records_before_it(runs: dict[str, Path], tiny_data: FederatedData) -> None:
    """A record that was made whole again after it was changed is noticed all the same."""
    path = runs["stopped"] / "records.jsonl"
    first, *others = recorded(runs["stopped"])
    path.write_text("".join(map(line_of, [{**first, "accuracy": 1.0}, *others])))
    outcome = reopened(runs["stopped"], tiny_data)
    assert sum("records up to its round are not those" in note for note in outcome.notes) == 2
    assert "it began again with its first round" in outcome.notes[-1]
    assert timeless(recorded(runs["stopped"])) == timeless(recorded(runs["finished"]))


def test_a_line_that_was_changed_after_the_checkpoint_is_done_again(
    runs: dict[str, Path], tiny_data: FederatedData
) -> None:
    path = runs["stopped"] / "records.jsonl"
    for newest in (runs["stopped"] / "checkpoints").glob("round-000000003*"):
        newest.unlink()
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:2], lines[2].replace('"round": 3, "accuracy": 0.', '"round": 3, "accuracy": 1.')]))
    assert len(reopen_run(runs["stopped"], tiny_data, tiny_net()).records) == 2


# What a finished run left


def spoil_model(kind: str, path: Path) -> None:
    content = path.read_bytes()
    path.unlink()
    match kind:
        case "empty":
            path.write_bytes(b"")
        case "zeroed":
            path.write_bytes(bytes(len(content)))
        case "a bit":
            path.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
        case "a folder":
            path.mkdir()
        case "a pipe":
            os.mkfifo(path)
        case "missing":
            pass


@pytest.mark.parametrize("kind", ["empty", "zeroed", "a bit", "a folder", "a pipe", "missing"])
def test_a_damaged_model_is_not_a_finished_runs(kind: str, runs: dict[str, Path], tiny_data: FederatedData) -> None:
    run = runs["finished"]
    whole = (run / "model.safetensors").read_bytes()
    assert is_finished(run)
    spoil_model(kind, run / "model.safetensors")
    assert not is_finished(run)
    what = "missing, though the run has ended" if kind == "missing" else "damaged: it is not what was written"
    assert f"model.safetensors' is {what}" in str(find_ending(run).damage)
    if kind == "a folder":
        with pytest.raises(TurboSVMError, match="is a folder, where the run has a file"):
            package.resume(run, data=tiny_data, model=tiny_net())
        return
    with pytest.warns(UserWarning, match=f"model.safetensors' is {what}"):
        package.resume(run, data=tiny_data, model=tiny_net())
    assert (run / "model.safetensors").read_bytes() == whole
    assert is_finished(run)


# Code


@pytest.fixture
def own_code(tmp_path: Path, tiny_data: FederatedData, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with a model from a module in the working folder, stopped before its first round by its planning alone."""
    store.save(tiny_data, tmp_path / "blobs")
    (tmp_path / "strange_models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    settings = ("--data", "blobs", "--model", "strange_models:Net", "--rounds", "2", "--set", "clients_per_round=3")
    assert turbosvm("run", "fedavg", *settings, "--out", "all") == 0
    (run,) = Path("all").glob("*/fedavg-seed0")
    (run / "model.safetensors").unlink()
    (tmp_path / "imported").unlink(missing_ok=True)
    monkeypatch.delitem(__import__("sys").modules, "strange_models")
    return run


def test_no_module_is_imported_that_nobody_named(own_code: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert turbosvm("resume", str(own_code)) == 2
    shown = capsys.readouterr().err
    assert "has the model 'strange_models:Net', whose code would be run" in shown
    assert "--trust-code strange_models" in shown
    assert turbosvm("resume", str(own_code), "--trust-code", "something_else") == 2
    assert turbosvm("resume", "all", "--trust-code", "strange_models") == 2  # it was found below, not named
    with pytest.raises(TurboSVMError, match="whose code would be run"):
        package.resume(own_code)
    assert not Path("imported").exists()
    assert turbosvm("resume", str(own_code.parent), "--trust-code", "strange_models") == 0  # planned there
    assert Path("imported").exists()
    assert is_finished(own_code)


def test_from_python_a_module_is_trusted_by_its_name(own_code: Path) -> None:
    with pytest.warns(UserWarning, match="is missing, though the run has ended"):
        package.resume(own_code, trust_code="strange_models")
    assert Path("imported").exists()


def test_at_a_terminal_the_person_is_asked(
    own_code: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def answer(reply: bool | None) -> Callable[[str], bool]:
        def confirm(question: str) -> bool:
            asked.append(question)
            if reply is None:
                raise typer.Abort
            return reply

        return confirm

    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", answer(False))
    monkeypatch.setattr("sys.path", [place for place in sys.path if place not in ("", str(Path.cwd()))])
    before = list(sys.path)
    assert turbosvm("resume", str(own_code)) == 2
    assert not Path("imported").exists()
    assert sys.path == before  # or whatever is imported later would be looked for beside the stranger's module
    assert len(asked) == 1
    assert "strange_models" in asked[0]
    assert "strange_models.py" in asked[0]
    assert turbosvm("resume", "all") == 2
    assert len(asked) == 1  # not for what is found below
    monkeypatch.setattr("typer.confirm", answer(None))
    assert turbosvm("resume", str(own_code)) == 130  # Ctrl-C
    monkeypatch.setattr("typer.confirm", answer(True))
    assert turbosvm("resume", str(own_code)) == 0
    assert is_finished(own_code)


def test_the_person_is_told_what_would_be_called_and_with_what(
    own_code: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A module that everybody knows may have a function that runs whatever it is given."""
    set_in(own_code, "model", {"name": "yaml:unsafe_load", "head": None, "options": {"stream": "!!x"}})
    set_in(own_code, "seed", 0, agreed=True)
    assert turbosvm("resume", str(own_code)) == 2
    called = "the model 'yaml:unsafe_load' with {'stream': '!!x'}, whose code would be run"
    assert called in capsys.readouterr().err
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda _: False)
    monkeypatch.setenv("COLUMNS", "500")
    assert turbosvm("resume", str(own_code)) == 2
    assert called in capsys.readouterr().out


def test_a_no_is_not_shown_as_done(
    own_code: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ("--data", "blobs", "--model", "strange_models:Net", "--rounds", "2", "--set", "clients_per_round=3")
    assert turbosvm("compare", "fedavg", "fedavgm", *settings, "--out", "two") == 0
    for model in Path("two").rglob("model.safetensors"):
        model.unlink()
    (root,) = Path("two").iterdir()
    capsys.readouterr()
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda _: False)
    assert turbosvm("resume", str(root)) == 1
    shown = capsys.readouterr().out
    assert "is not gone on with" in shown
    assert "done before" not in shown


def test_a_name_cannot_steer_the_terminal_in_the_question(own_code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_in(own_code, "model.name", "strange\u202emodels:Net", agreed=True)
    Path("strange\u202emodels.py").touch()
    asked: list[str] = []
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", asked.append)
    assert turbosvm("resume", str(own_code)) == 2
    assert "'strange\\u202emodels'" in asked[0]


@pytest.mark.parametrize(
    "name", ["os:system", "subprocess:run", "builtins:exec", "strange_models:Path", "shutil:rmtree"]
)
def test_what_is_no_model_is_never_called(name: str, own_code: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not even if its module is trusted, and the folder agrees with itself."""
    set_in(own_code, "model.name", name, agreed=True)
    set_in(own_code, "model.options", {"command": "touch called", "args": "touch called", "path": "blobs"}, agreed=True)
    module = name.partition(":")[0]
    assert turbosvm("resume", str(own_code)) == 2
    assert turbosvm("resume", str(own_code), "--trust-code", module) == 2
    shown = capsys.readouterr().err
    assert "has no models" in shown or "no nn.Module class" in shown
    assert not Path("called").exists()
    assert Path("blobs").exists()


# Files beside it


def test_a_linked_folder_is_not_emptied(runs: dict[str, Path], tiny_data: FederatedData, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for name in ("thesis.tex", "round-000000001.json"):
        (theirs / name).write_text("years of work")
    for old in (runs["stopped"] / "checkpoints").iterdir():
        old.unlink()
    (runs["stopped"] / "checkpoints").rmdir()
    (runs["stopped"] / "checkpoints").symlink_to(theirs)
    with pytest.raises(TurboSVMError, match="checkpoints' is a link or a file; it must be a folder of the run's own"):
        reopened(runs["stopped"], tiny_data)
    assert {path.name for path in theirs.iterdir()} == {"thesis.tex", "round-000000001.json"}


def test_files_of_other_names_stay(runs: dict[str, Path], tiny_data: FederatedData) -> None:
    kept = ["notes.txt", "round-1.json.bak", ".hidden", "client-x-000000001.safetensors"]
    for name in kept:
        (runs["stopped"] / "checkpoints" / name).write_text("mine")
        (runs["stopped"] / name).write_text("mine")
    reopened(runs["stopped"], tiny_data)
    for name in kept:
        assert (runs["stopped"] / "checkpoints" / name).read_text() == "mine"
        assert (runs["stopped"] / name).read_text() == "mine"


def test_linked_files_are_not_written_through(runs: dict[str, Path], tiny_data: FederatedData, tmp_path: Path) -> None:
    theirs = tmp_path / "diary.txt"
    for name in ("records.jsonl", "model.safetensors", "ended.json", "error.txt"):
        theirs.write_text("dear diary\n")
        (runs["stopped"] / name).unlink(missing_ok=True)
        (runs["stopped"] / name).symlink_to(theirs)
        reopened(runs["stopped"], tiny_data)
        assert theirs.read_text() == "dear diary\n"
    assert is_finished(runs["stopped"])


def test_a_linked_lock_is_not_opened(runs: dict[str, Path], tiny_data: FederatedData, tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("dear diary")
    (runs["stopped"] / ".lock").unlink()
    (runs["stopped"] / ".lock").symlink_to(tmp_path / "diary.txt")
    with pytest.raises(TurboSVMError, match=r"\.lock' is a link; it must be a file of the run's own"):
        reopened(runs["stopped"], tiny_data)
    assert (tmp_path / "diary.txt").read_text() == "dear diary"


def test_a_folder_that_is_called_like_something_half_written_stays(
    runs: dict[str, Path], tiny_data: FederatedData
) -> None:
    (runs["stopped"] / ".model.safetensors.abcd_123").mkdir()
    assert reopened(runs["stopped"], tiny_data).notes == []
    assert (runs["stopped"] / ".model.safetensors.abcd_123").is_dir()


@pytest.mark.parametrize("link", ["report", "report/pictures"])
def test_a_report_is_not_written_through_a_link(
    link: str, own_code: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ("--data", "blobs", "--model", "strange_models:Net", "--rounds", "2", "--set", "clients_per_round=3")
    assert turbosvm("run", "fedavg", *settings, "--set", "client.epochs=2", "--out", "more") == 0
    (more,) = Path("more").glob("*/fedavg-seed0")
    more.rename(own_code.parent / "more")  # settings that differ make a report, not a table
    (tmp_path / "theirs").mkdir()
    (own_code.parent / link).parent.mkdir(exist_ok=True)
    (own_code.parent / link).symlink_to(tmp_path / "theirs")
    assert turbosvm("resume", str(own_code.parent), "--trust-code", "strange_models") == 1
    assert f"{link}' is a link; the report on the runs in" in " ".join(capsys.readouterr().out.split())
    assert not list((tmp_path / "theirs").iterdir())
    assert is_finished(own_code)


def test_trackers_keep_to_folders_around_the_run(
    runs: dict[str, Path], tiny_data: FederatedData, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    change_about(runs["stopped"], lambda about: about.update(tracked_in=str(tmp_path / "elsewhere")))
    assert reopen_run(runs["stopped"], tiny_data, tiny_net()).store == runs["stopped"].parent.resolve()
    change_about(runs["stopped"], lambda about: about.update(tracked_in=str(tmp_path / "runs")))
    assert reopen_run(runs["stopped"], tiny_data, tiny_net()).store == (tmp_path / "runs").resolve()
    change_about(runs["stopped"], lambda about: about.update(tracked_in="/"))
    assert reopen_run(runs["stopped"], tiny_data, tiny_net()).store == runs["stopped"].parent.resolve()


# What others write is read as what it must be


@pytest.mark.parametrize(
    "change",
    [
        {"data": None},
        {"data": []},
        {"tracked_in": 5},
        {"resumed": None},
        {"resumed": [1]},
        {"settings": {"seed": 0}},
        {"settings": None},
    ],
)
def test_wrong_kinds_are_told_of(change: dict[str, Any], runs: dict[str, Path], tiny_data: FederatedData) -> None:
    change_about(runs["stopped"], lambda about: about.update(change))
    with pytest.raises(TurboSVMError, match=r"environment.json': '.*' in it is not what runs write"):
        reopened(runs["stopped"], tiny_data)


@pytest.mark.parametrize(
    "change",
    [{"failures": None}, {"failures": [{"who": 1}]}, {"failed": 5}, {"round": "1"}, {"round": 2}, {"faled": 1}],
)
def test_records_of_wrong_kinds_are_done_again(
    change: dict[str, Any], runs: dict[str, Path], tiny_data: FederatedData
) -> None:
    path = runs["stopped"] / "records.jsonl"
    first, *others = recorded(runs["stopped"])
    spoilt = {**first, **change}
    if "faled" in change:
        del spoilt["failed"]
    path.write_text("".join(map(line_of, [spoilt, *others])))
    reopened(runs["stopped"], tiny_data)
    assert timeless(recorded(runs["stopped"])) == timeless(recorded(runs["finished"]))


@pytest.mark.parametrize("content", [b"", save({"body.weight": torch.zeros(2)})], ids=["empty", "another"])
def test_a_model_that_is_not_the_runs_is_told_of(
    content: bytes, runs: dict[str, Path], tiny_data: FederatedData
) -> None:
    run = runs["finished"]
    (run / "model.safetensors").write_bytes(content)
    ending = unsealed((run / "ended.json").read_bytes())
    (run / "ended.json").write_text(sealed({**ending, "model": sha256(content).hexdigest()}))
    with pytest.raises(TurboSVMError, match=r"model\.safetensors' does not fit the model TinyNet"):
        package.resume(run, data=tiny_data, model=tiny_net())


def test_a_finished_run_without_a_model_is_not_finished(runs: dict[str, Path], tiny_data: FederatedData) -> None:
    run = runs["finished"]
    whole = (run / "model.safetensors").read_bytes()
    (run / "model.safetensors").unlink()
    ending = unsealed((run / "ended.json").read_bytes())
    (run / "ended.json").write_text(sealed({**ending, "model": None}))
    with pytest.warns(UserWarning, match=r"ended.json' is damaged: it names no model"):
        package.resume(run, data=tiny_data, model=tiny_net())
    assert (run / "model.safetensors").read_bytes() == whole


# Code of one's own that has changed


def test_other_code_is_told_of_and_checkpoints_that_do_not_fit_it_are_kept(
    own_code: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = __import__("sys").modules
    resume = ("resume", str(own_code), "--trust-code", "strange_models:Net")  # as models are named
    code = Path("strange_models.py").read_text()
    Path("strange_models.py").write_text(code.replace(".relu()", ".tanh()"))
    assert turbosvm(*resume) == 0
    assert "The code of module 'strange_models' has changed since the run began" in capsys.readouterr().out
    (own_code / "model.safetensors").unlink()
    before = {path: path.read_bytes() for path in own_code.rglob("*") if path.is_file()}
    Path("strange_models.py").write_text(code.replace("5", "6"))
    monkeypatch.delitem(modules, "strange_models")
    assert turbosvm(*resume) == 2
    shown = capsys.readouterr().err
    assert "is of another model or algorithm than is there now: of parameters, 'body.weight' is [6, 4]" in shown
    assert "it was [5, 4]" in shown
    assert {path: path.read_bytes() for path in own_code.rglob("*") if path.is_file()} == before


def test_trust_in_vain_is_explained(own_code: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert turbosvm("resume", "all", "--trust-code", "strange_models") == 2
    assert "--trust-code counts for folders that you name: name 'all/" in capsys.readouterr().out


def test_a_finished_run_that_says_something_else_than_before_is_not_passed_over(
    runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    set_in(runs["finished"], "client.epochs", 3)
    assert turbosvm("resume", str(runs["finished"])) == 2
    assert "client.epochs is 3, it was 1" in capsys.readouterr().err
    (runs["another"] / "environment.json").unlink()
    assert turbosvm("resume", str(runs["another"])) == 2
    assert "there is no environment.json in it" in capsys.readouterr().err
