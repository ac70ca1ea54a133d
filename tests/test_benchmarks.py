"""The benchmarks run, and what they print and write is whole. What they measure is nobody's claim here."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="benchmarks are not part of a source archive"),
]


def run(name: str, *arguments: str) -> str:
    """What a benchmark prints; at one thread, so that other tests beside it do not make it wait."""
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *arguments]
    done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def table_after(text: str, heading: str) -> list[list[str]]:
    """The cells of the table that comes after a line that begins so, without its header."""
    lines = text[text.index(heading) :].splitlines()[2:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows[2:]


def assert_positive(rows: list[dict[str, Any]], *names: str) -> None:
    for row in rows:
        for name in names:
            assert row[name] > 0, (name, row)


def test_scale_measures_every_point_of_every_axis_and_its_pictures_can_be_drawn(tmp_path: Path) -> None:
    file = tmp_path / "scale.json"
    text = run("scale", "--quick", "--out", str(file))
    measured = json.loads(file.read_text())
    assert [(row["clients"], row["algorithm"]) for row in measured["clients"]] == [
        (clients, algorithm) for clients in measured["axes"]["clients"] for algorithm in ("fedavg", "turbosvm")
    ]
    assert [row["users"] for row in measured["population"]] == measured["axes"]["users"]
    assert [row["classes"] for row in measured["classes"]] == measured["axes"]["classes"]
    assert [row["embedding"] for row in measured["embedding"]] == measured["axes"]["embedding"]
    assert_positive(measured["clients"], "seconds", "train", "merge", "first")
    assert_positive(measured["population"], "open", "split", "first", "cohort", "seconds", "train", "merge")
    assert_positive(measured["classes"] + measured["embedding"], "turbosvm", "mean")
    for row in measured["clients"]:
        assert row["train"] + row["merge"] <= row["seconds"]
    assert measured["hardware"]["kind"] == "cpu"
    assert measured["hardware"]["packages"]["torch"]
    for heading, axis in (
        ("Clients a round", "clients"),
        ("Population", "population"),
        ("Head step, d = 256", "classes"),
        ("Head step, K = 10", "embedding"),
    ):
        assert len(table_after(text, heading)) == len(measured[axis])
    for exponent in ("fedavg: a round grows as C^", "turbosvm: its merge grows as C^", "a round grows as N^"):
        assert exponent in text
    run("pictures", str(file), "--out", str(tmp_path))
    pictures = sorted(path.name for path in tmp_path.glob("*.svg"))
    assert pictures == ["scale-clients-cpu.svg", "scale-head-cpu.svg", "scale-population-cpu.svg"]
    assert all((tmp_path / name).stat().st_size < 100 * 1024 for name in pictures)


def test_the_papers_table_is_projected_for_each_algorithm_and_task(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    text = run("paper_table", "--quick", "--tasks", "celeba", "shakespeare", "--out", str(file))
    measured = json.loads(file.read_text())
    assert [task["task"] for task in measured["tasks"]] == ["celeba", "shakespeare"]
    total = 0.0
    for task in measured["tasks"]:
        assert [row["algorithm"] for row in task["rows"]] == [
            "fedavg",
            "fedadam",
            "fedams",
            "fedprox",
            "moon",
            "fedaws",
            "turbosvm",
        ]
        assert_positive(task["rows"], "seconds", "train", "merge", "evaluate", "samples", "hours")
        assert len({row["samples"] for row in task["rows"]}) == 1  # all have seen the same cohorts
        assert len(table_after(text, f"{task['task']} (")) == 7
        for row in task["rows"]:
            hours = 5 * (row["start"] + 200 * (row["seconds"] + row["evaluate"])) / 3600
            assert row["hours"] == pytest.approx(hours)
            total += hours
    assert f"All of it, 5 seeds: {total:.2f} hours" in text


def test_a_round_is_measured_for_all_that_are_installed_and_drawn_as_bars(tmp_path: Path) -> None:
    file = tmp_path / "round.json"
    arguments = ("--clients", "2", "--turns", "1", "--rounds", "1", "--out", str(file))
    text = run("round", "glyphs", *arguments)
    measured = json.loads(file.read_text())
    names = [one["name"] for one in measured["contestants"]]
    assert names[:4] == ["plain PyTorch loop", "turbosvm, FedAvg", "turbosvm, TurboSVM", "turbosvm, sequential"]
    assert_positive(measured["contestants"], "seconds", "peak_mib")
    assert all(name in text for name in names)
    run("pictures", str(file), "--out", str(tmp_path))
    assert b"turbosvm, sequential" in (tmp_path / "rounds-cpu.svg").read_bytes()


def test_the_work_of_a_step_and_of_a_round_is_measured_alone_and_beside_a_busy_core(tmp_path: Path) -> None:
    file, sources = tmp_path / "busy.json", BENCHMARKS.parent / "src"
    step = run("busy", "--only", "2, 8, 577", "--turns", "1", "--against", str(sources))
    (cells,) = table_after(step, "2 threads of")
    assert cells[0] == "head step, 2, 8, 577"
    assert len(cells) == 7
    assert cells[3].endswith("x")
    assert cells[6].endswith("x")
    run("busy", "--only", "glyphs: round, turbosvm", "--turns", "1", "--out", str(file))
    measured = json.loads(file.read_text())["work"]
    assert [(row["sources"], row["busy"]) for row in measured] == [("now", False), ("now", True)]
    assert all(len(row["laps"]) == 3 and min(row["laps"]) > 0 for row in measured)


def test_damages_are_counted_with_those_that_tests_try_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    damages = importlib.import_module("damages")
    tests = ("tests/experiment/test_fuzz_settings.py", "-k", "assignments or another_meaning")
    tried, wrong = damages.count(tests)
    assert tried > 3 + 10
    assert wrong == 0
    assert damages.counted(["told", "refused", "other records"]) == {"told": 1, "refused": 1, "silent": 1}
