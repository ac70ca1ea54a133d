"""`turbosvm report`, as a person sees it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import turbosvm
from tests.report.makers import SPEED, config_of, rising, write_run, write_runs


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


def test_everything_is_written_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_runs(tmp_path / "runs" / "glyphs", rounds=40)
    write_runs(tmp_path / "runs" / "femnist", data="/data/femnist", rounds=110, model__name="femnist")
    assert turbosvm("report", "runs", "--out", "made") == 0
    shown = capsys.readouterr().out
    for words in (
        "glyphs: rounds to target, and metrics on held-out users at round 40",
        "femnist: beside the paper's figures",
        "femnist: difference from fedavg at the same seeds",
        "rounds to 70%",
        "144.4 ± 4.6",
        "Page, tables and pictures: made/index.html",
    ):
        assert words in shown
    made = {str(path.relative_to("made")) for path in Path("made").rglob("*") if path.is_file()}
    kinds = ("accuracy", "loss", "macro-f1", "accuracy-by-bytes", "accuracy-by-seconds", "support-vectors")
    pictures = {
        f"pictures/{data}-{kind}.{end}" for data in ("femnist", "glyphs") for kind in kinds for end in ("png", "svg")
    }
    assert made == {"index.html", "tables.md", "tables.tex", "tables.csv", "runs.csv", *pictures}
    assert Path("made/pictures/glyphs-loss.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in Path("made/pictures/glyphs-loss.svg").read_text()
    assert pd.read_csv("made/tables.csv")["data"].unique().tolist() == ["femnist", "glyphs"]
    assert Path("made/tables.tex").read_text().count(r"\toprule") == 5
    assert Path("made/tables.md").read_text().count("| --- |") == 5


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert turbosvm("report", "--help") == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("--out", "--at", "--baseline", "beside the paper"))


def test_the_same_runs_make_the_same_files(tmp_path: Path) -> None:
    write_runs(tmp_path / "runs", seeds=2, rounds=5)
    assert turbosvm("report", "runs", "--out", "one") == turbosvm("report", "runs", "--out", "two") == 0
    for path in filter(Path.is_file, Path("one").rglob("*")):
        assert path.read_bytes() == (Path("two") / path.relative_to("one")).read_bytes(), path


def test_long_tables_are_shown_in_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place in range(53):
        write_run(tmp_path / "runs" / str(place), config_of(client__batch_size=1 + place), [0.5])
    assert turbosvm("report", "runs") == 0
    shown = capsys.readouterr().out
    assert len(re.findall(r"^ fedavg batch_size=", shown, flags=re.MULTILINE)) == 50
    assert "3 more rows are in report/tables.md." in shown
    assert Path("report/tables.md").read_text().count("fedavg batch_size=") == 53


def test_a_round_and_a_baseline_can_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_runs(tmp_path / "runs", rounds=30)
    assert turbosvm("report", "runs", "--at", "20", "--baseline", "turbosvm") == 0
    shown = capsys.readouterr().out
    assert "on held-out users at round 20" in shown
    assert "difference from turbosvm" in shown
    assert Path("report/index.html").is_file()


def test_names_of_data_cannot_leave_the_folder(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", config_of(data="(own) ../../[b] <c>"), [0.1])
    write_run(tmp_path / "runs" / "b", config_of(data="(own) ..?"), [0.1])
    assert turbosvm("report", "runs", "--out", "made") == 0
    assert sorted(path.name for path in Path("made/pictures").glob("*-loss.png")) == ["b-c-loss.png", "data-loss.png"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nowhere",), "There is no folder 'nowhere'."),
        (("empty",), "There are no runs in 'empty'; a run's folder has a config.yaml and a records.jsonl in it."),
        (("runs", "--at", "6"), "There is no round 6 to make tables at; the longest run has 5 rounds."),
        (("runs", "--baseline", "fedavgx"), "Unknown baseline 'fedavgx'; allowed: fedadam, fedavg, fedavgm, turbosvm."),
        (("begun",), "None of the 1 runs in 'begun' came as far as an evaluation."),
        (
            ("broken",),
            "'broken' cannot be reported on: line 1 of records.jsonl is not what was written",
        ),
        (("runs", "--out", "runs/fedavg-seed0/config.yaml"), "Cannot write file 'runs/fedavg-seed0/config.yaml/"),
    ],
)
def test_a_mistake_ends_with_status_2_and_one_sentence(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_runs(tmp_path / "runs", seeds=1, rounds=5)
    (tmp_path / "empty").mkdir()
    write_run(tmp_path / "begun", config_of(), [None])
    (write_run(tmp_path / "broken", config_of(), [0.1]) / "records.jsonl").write_text("?\n")
    assert turbosvm("report", *arguments) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith(f"Error: {sentence}")
    assert shown.err.count("\n") == 1
    assert not Path("report").exists()


def test_what_was_noted_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_runs(tmp_path / "runs", seeds=2, rounds=5)
    cut = tmp_path / "runs" / "fedavg-seed1" / "records.jsonl"
    cut.write_text(cut.read_text()[:-50])
    (tmp_path / "runs" / "turbosvm-seed1" / "records.jsonl").write_text("?\n")
    assert turbosvm("report", "runs") == 0
    shown = capsys.readouterr().out
    assert (
        "Left out: 'runs/turbosvm-seed1' cannot be reported on: line 1 of records.jsonl is not what was written"
        in shown
    )
    assert "fedavg seed 1: the last line of its records was cut off and is left out." in shown
    assert "turbosvm has no seed 1, which others have." in shown
    assert "Metrics are at round 4, the last at which all runs were evaluated" in shown


PAGE = Path(__file__).parents[2] / "docs" / "reports.md"


@pytest.mark.parametrize("command", re.findall(r"^turbosvm (report .*)$", PAGE.read_text(), flags=re.MULTILINE))
def test_the_documents_commands_work(command: str, tmp_path: Path) -> None:
    write_runs(tmp_path / "runs", seeds=1, rounds=100)
    assert turbosvm(*command.split()) == 0


def write_many(root: Path, runs: int, rounds: int) -> None:
    """So many runs of four algorithms at five seeds and several learning rates."""
    for place in range(runs):
        algorithm, seed, rate = list(SPEED)[place % 4], place // 4 % 5, place // 20
        config = config_of(algorithm, seed=seed, rounds=rounds, client__learning_rate=0.01 * (1 + rate))
        write_run(root / f"{algorithm}-{rate}-seed{seed}", config, rising(algorithm, seed, rounds))


REPORT = "import sys; from turbosvm.cli.main import main; sys.argv[0] = 'turbosvm'; code = 0\n"
REPORT += "try: main()\nexcept SystemExit as end: code = end.code\n"
REPORT += "sys.exit(code or ('torch' in sys.modules and 'torch was imported'))"


def seconds_for(root: Path) -> float:
    """The seconds on a core that a report takes, with the start of Python; it uses one core, and waits for nothing."""
    before = os.times()
    command = [sys.executable, "-c", REPORT, "report", str(root), "--out", "made"]
    assert subprocess.run(command, capture_output=True).returncode == 0
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def test_reports_start_without_torch_and_are_quick(tmp_path: Path) -> None:
    write_many(tmp_path / "runs", 40, rounds=100)
    assert seconds_for(tmp_path / "runs") < 10
    assert Path("made/index.html").stat().st_size < 500_000


@pytest.mark.slow
def test_a_thousand_runs_take_seconds(tmp_path: Path) -> None:
    write_many(tmp_path / "runs", 1000, rounds=200)
    assert seconds_for(tmp_path / "runs") < 15  # the aim is 10 on an idle machine; other tests run beside this one
    assert Path("made/index.html").stat().st_size < 3_000_000
