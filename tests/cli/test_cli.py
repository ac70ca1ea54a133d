"""The command line, as a person sees it: what it prints, what it leaves, how it ends."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.conftest import turbosvm
from turbosvm.data import store
from turbosvm.data.federated import FederatedData
from turbosvm.experiment import runner
from turbosvm.experiment.ending import is_finished
from turbosvm.experiment.recorded import record_of
from turbosvm.seals import sealed

OWN_MODELS = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))

    def forward(self, inputs):
        return self.layers(inputs)
"""


@pytest.fixture(autouse=True)
def own_files(tiny_data: FederatedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data folder and a model of one's own, in the working folder."""
    store.save(tiny_data, tmp_path / "blobs")
    (tmp_path / "own_cli_models.py").write_text(OWN_MODELS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


TRUST = ("--trust-code", "own_cli_models")
OWN = ("--data", "blobs", "--model", "own_cli_models:Net", "--head", "layers.2", "--rounds", "4")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert turbosvm("--version") == 0
    assert capsys.readouterr().out == "turbosvm 0.1.0\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--help",), ["run", "compare", "data", "--version"]),
        (("run", "--help"), ["--preset", "--set", "--config", "--out", "algorithm"]),
        (("compare", "--help"), ["--seeds", "same cohorts"]),
        (("data", "--help"), ["make", "sheet"]),
    ],
)
def test_help(arguments: tuple[str, ...], words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert turbosvm(*arguments) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in words)


def test_run_ends_with_a_table_and_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert turbosvm("run", "fedavg", *OWN, "--set", "client.batch_size=4", "--seed", "3") == 0
    shown = capsys.readouterr().out
    (root,) = (tmp_path / "runs").iterdir()
    assert f"Table, curves and records: runs/{root.name}" in shown
    assert re.search(r"blobs: \d+ users train \(\d+ samples\), \d+ held out", shown)
    assert all(word in shown for word in ("rounds to 60%", "accuracy", "macro F1", "MCC", "round 4/4", "rounds/s"))
    assert (root / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert pd.read_csv(root / "table.csv")["algorithm"].tolist() == ["fedavg"]
    assert pd.read_json(root / "fedavg-seed3" / "records.jsonl", lines=True)["round"].tolist() == [1, 2, 3, 4]
    assert "batch_size: 4" in (root / "fedavg-seed3" / "config.yaml").read_text()


def test_compare_pairs_cohorts_over_algorithms_and_seeds(tmp_path: Path) -> None:
    assert turbosvm("compare", "fedavg", "fedavgm", *OWN, "--seeds", "0,1", "--out", "here") == 0
    (root,) = (tmp_path / "here").iterdir()
    cohorts = {
        name: pd.read_json(root / name / "records.jsonl", lines=True)["cohort"].tolist()
        for name in ("fedavg-seed0", "fedavg-seed1", "fedavgm-seed0", "fedavgm-seed1")
    }
    assert cohorts["fedavg-seed0"] == cohorts["fedavgm-seed0"] != cohorts["fedavg-seed1"]
    assert (root / "table.md").read_text().count("\n") == 4
    assert "<h1>Report of 4 runs</h1>" in (root / "index.html").read_text()


def test_compare_takes_the_configs_seed_and_one_algorithms_options(tmp_path: Path) -> None:
    assert turbosvm("compare", "fedavg", "fedavgm", *OWN, "--set", "seed=5", "--set", "fedavgm.body.momentum=0.5") == 0
    (saved,) = (tmp_path / "runs").glob("*/fedavgm-seed5/config.yaml")
    assert "momentum: 0.5" in saved.read_text()


def test_a_diverged_run_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert turbosvm("run", "fedavg", *OWN, "--set", "client.learning_rate=1e30", "--out", "a [b] c") == 0
    shown = capsys.readouterr().out
    assert "fedavg seed 0 diverged" in shown
    assert "records: a [b] c/" in shown


def test_settings_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("rounds: 2\nevaluate_every: 2\nclients_per_round: 5\n")
    assert turbosvm("run", "fedavg", *OWN[:-2], "--config", "own.yaml") == 0
    (records,) = (tmp_path / "runs").glob("*/fedavg-seed0/records.jsonl")
    frame = pd.read_json(records, lines=True)
    assert frame["cohort"].map(len).tolist() == [5, 5]
    assert frame["accuracy"].notna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "fedagv"), "Unknown algorithm 'fedagv'; allowed: centralised, fafed, fedadagrad, "),
        (("compare", "fedavg", "fedprix"), "Unknown algorithm 'fedprix'; allowed:"),
        (("run", "fedavg", "--data", "glyps"), "Unknown data set 'glyps'; allowed: glyphs,"),
        (("run", "fedavg", "--data", "~nobody/x"), "There is no data folder '~nobody/x'."),
        (("run", "fedavg", "--data", "x" * 300), "Unknown data set 'xxx"),
        (("run", "fedavg", "--preset", "femnst"), "Unknown preset 'femnst'; allowed: celeba, femnist,"),
        (("run", "fedavg", "--preset", "femnist"), "The task 'femnist' needs its data"),
        (("run", "fedavg", "--model", "smal"), "Unknown model 'smal'; allowed:"),
        (("run", "fedavg", "--set", "client.lr=3"), "Unknown config key 'client.lr'; allowed in 'client': batch_size,"),
        (("run", "fedavg", "--set", "rounds"), "'rounds' is not an assignment"),
        (("run", "fedavg", "--rounds", "-1"), "Config key 'rounds' is -1; it must be greater than or equal to 1."),
        (("run", "fedavg", *OWN, "--set", "clients_per_round=99"), "Config key 'clients_per_round' is 99; it must be"),
        (
            ("run", "fedavg", *OWN, "--head", "layers.1"),
            "The head 'layers.1' of model Net is a ReLU, not a linear layer",
        ),
        (
            ("run", "fedavg", *OWN, "--head", "layer.2"),
            "Unknown head layer 'layer.2' of model Net; allowed: layers.0, layers.2",
        ),
        (("run", "fedavg", "--data", "blobs", "--rounds", "1"), "Model SmallCNN cannot take inputs of shape [2, 4]"),
        (("run", "fedavg", "--set", "model=5"), "Config key 'model' is 5; it must be"),
        (
            ("run", "fedavg", "--preset", "celeba", "--data", "glyphs"),
            "Model CelebaCNN cannot take inputs of shape [2, 1, 28",
        ),
        (("run", "fedavg", *OWN, "--out", "blobs/labels.npy"), "Cannot write folder 'blobs/labels.npy'"),
        (("compare", "fedavg", "--seeds", "one"), "Seeds 'one' are not whole numbers"),
        (("data", "make", "--users", "0"), "Glyphs need users of at least 1, not 0."),
    ],
)
def test_a_mistake_ends_with_status_2_and_one_sentence(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert turbosvm(*arguments) == 2
    assert not Path("runs").exists()
    shown = capsys.readouterr()
    assert shown.err.startswith(f"Error: {sentence}")
    assert shown.err.count("\n") == 1
    assert "Traceback" not in shown.err + shown.out


def test_a_cache_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TURBOSVM_CACHE", str(tmp_path / "blobs" / "labels.npy"))
    assert turbosvm("data", "make", "--users", "2", "--samples-per-user", "1") == 2
    assert re.match(f"Error: Cannot write (file|folder) '{tmp_path}/blobs/labels.npy", capsys.readouterr().err)


def test_data_make_and_sheet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert turbosvm("data", "make", "--users", "4", "--samples-per-user", "5") == 0
    shown = capsys.readouterr().out
    assert "4 writers" in shown
    folder = shown.rsplit(": ", 1)[1].strip()
    assert turbosvm("data", "sheet", "sheet.png", "--data", folder) == 0
    assert (tmp_path / "sheet.png").read_bytes().startswith(b"\x89PNG")


def test_ctrl_c_keeps_the_records_so_far(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "turbosvm", "run", "fedavg", *OWN[:-1], "100000", "--set", "evaluate_every=50"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and running.poll() is None:
        found = list((tmp_path / "runs").glob("*/fedavg-seed0/records.jsonl"))
        if found and found[0].read_text().count("\n") > 100:
            break
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "Traceback" not in err
    assert "Stopped; go on with: turbosvm resume runs/" in out
    frame = pd.read_json(found[0], lines=True)
    assert frame["round"].tolist() == list(range(1, len(frame) + 1))
    assert len(frame) > 100
    assert (found[0].parent / "model.safetensors").is_file()


def test_sigterm_keeps_a_checkpoint(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "turbosvm", "run", "fedavg", *OWN[:-1], "100000", "--set", "evaluate_every=50"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and running.poll() is None:
        if any(file.stat().st_size > 20_000 for file in (tmp_path / "runs").glob("*/fedavg-seed0/records.jsonl")):
            break
        time.sleep(0.1)
    running.terminate()
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "Stopped; go on with: turbosvm resume runs/" in out
    (run,) = (tmp_path / "runs").glob("*/fedavg-seed0")
    rounds = len((run / "records.jsonl").read_text().splitlines())
    newest = max(int(file.stem.removeprefix("round-")) for file in (run / "checkpoints").glob("round-*.json"))
    assert newest in (rounds, rounds - 1)  # it may come just after a record


def test_resume_finishes_what_was_stopped_and_what_had_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopping(finished: Any, users: Any) -> Any:
        if finished.number == 4:
            raise KeyboardInterrupt
        return record_of(finished, users)

    with monkeypatch.context() as patch:
        patch.setattr(runner, "record_of", stopping)
        assert turbosvm("compare", "fedavg", "fedavgm", *OWN[:-1], "6") == 130
    (root,) = (tmp_path / "runs").iterdir()
    assert not (root / "fedavgm-seed0" / "records.jsonl").exists()
    shown = capsys.readouterr().out
    assert shown.index("Stopped; what there is so far:") < shown.index("algorithm")
    assert turbosvm("resume", str(root), *TRUST) == 0
    shown = capsys.readouterr().out
    assert shown.count("users train") == 1
    assert "fedavg seed 0 goes on after round 3 of 6\n" in shown
    assert "fedavgm seed 0 goes on" not in shown
    assert "fedavg seed 0  round 4/6" in shown  # not 1 to 3 again
    assert "fedavg seed 0  round 3/6" not in shown
    assert "fedavgm seed 0  round 1/6" in shown
    assert (root / "table.md").is_file()
    for name in ("fedavg-seed0", "fedavgm-seed0"):
        assert len((root / name / "records.jsonl").read_text().splitlines()) == 6
    assert turbosvm("resume", str(root / "fedavg-seed0"), *TRUST) == 0
    before, table = capsys.readouterr().out.split("algorithm")
    assert "fedavg seed 0: finished before" in before
    assert "fedavgm" in table  # the comparison's, of all its runs
    assert not (root / "fedavg-seed0" / "table.md").exists()


def test_resume_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert turbosvm("resume", str(tmp_path / "nothing")) == 2
    assert f"There is no folder '{tmp_path}/nothing'" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert turbosvm("resume", str(tmp_path / "empty")) == 2
    assert f"There are no runs in '{tmp_path}/empty'" in capsys.readouterr().err


def test_resume_looks_deep_and_takes_several_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two", "three"):
        assert turbosvm("run", "fedavg", *OWN[:-1], "2", "--out", f"all/{name}") == 0
    runs = {path.parts[-4]: path.parent for path in Path("all").glob("*/*/fedavg-seed0/config.yaml")}
    for run in runs.values():  # as if it had been killed before its first checkpoint
        (run / "model.safetensors").unlink()
        shutil.rmtree(run / "checkpoints")
    capsys.readouterr()
    assert turbosvm("resume", str(runs["one"]), str(runs["two"].parent), *TRUST) == 0
    shown = capsys.readouterr().out
    assert shown.count("No checkpoint is left to go on from; it began again with its first round.") == 2
    assert shown.index("No checkpoint is left to go on from") < shown.index("round 1/2")
    assert [is_finished(runs[name]) for name in ("one", "two", "three")] == [True, True, False]
    assert turbosvm("resume", "all", *TRUST) == 1  # nobody has named what is only found somewhere below
    assert "has the model 'own_cli_models:Net', whose code would be run" in capsys.readouterr().out
    assert turbosvm("resume", str(runs["three"]), *TRUST) == 0
    assert is_finished(runs["three"])


def test_resume_goes_on_past_what_is_broken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert turbosvm("compare", "fedavg", "fedavgm", "fedadam", *OWN[:-1], "2", "--out", "all") == 0
    (root,) = Path("all").iterdir()
    for run in root.glob("*-seed0"):
        (run / "model.safetensors").unlink()
    (root / "fedavg-seed0" / "config.yaml").write_text("rounds: [\n")
    (root / "fedavgm-seed0" / "environment.json").write_text("{")
    capsys.readouterr()
    assert turbosvm("resume", str(root), *TRUST) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "fedavg-seed0/config.yaml" in shown
    assert "fedavgm-seed0/environment.json" in shown
    assert is_finished(root / "fedadam-seed0")
    assert turbosvm("resume", str(root / "fedavgm-seed0")) == 2


def plan_as_one(root: Path) -> None:
    """As if the runs in a folder had been planned together: whoever names the folder then names them."""
    runs = {path.name: (path / "config.yaml").read_text() for path in root.iterdir()}
    (root / "plan.json").write_text(sealed({"format": "turbosvm plan 1", "complete": True, "runs": runs}))


def test_resume_does_not_average_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed, rate in (("0", "0.1"), ("1", "0.5")):
        more = ("--set", f"seed={seed}", "--set", f"client.learning_rate={rate}")
        assert turbosvm("run", "fedavg", *OWN[:-1], "2", *more, "--out", f"all/{seed}") == 0
    Path("both").mkdir()
    for path in Path("all").glob("*/*/fedavg-seed*"):
        path.rename(Path("both") / path.name)
    plan_as_one(Path("both"))
    capsys.readouterr()
    assert turbosvm("resume", "both", *TRUST) == 0
    shown = capsys.readouterr().out
    assert "fedavg learning_rate=0.1" in shown
    assert "fedavg learning_rate=0.5" in shown


def test_resume_counts_a_seed_once_and_keeps_data_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = (*OWN[:-1], "2", "--set", "clients_per_round=3")
    for place, cap in (("0", "6"), ("1", "6"), ("2", "5")):
        assert turbosvm("run", "fedavg", *more, "--set", f"data.max_samples={cap}", "--out", f"all/{place}") == 0
    Path("both").mkdir()
    for path in sorted(Path("all").glob("*/*/fedavg-seed0")):
        path.rename(Path("both") / path.parts[1])
    for path in Path("both").iterdir():
        (path / "model.safetensors").unlink()
    plan_as_one(Path("both"))
    (tmp_path / "blobs").rename(tmp_path / "moved")
    capsys.readouterr()
    assert turbosvm("resume", "both", "--data", str(tmp_path / "moved"), *TRUST) == 0
    shown = capsys.readouterr().out
    assert "blobs max_samples=6: rounds to target" in shown
    assert "blobs max_samples=5: rounds to target" in shown
    assert "fedavg seed 0 was run 2 times with one config" in shown
