"""`turbosvm data prepare` as a person sees it: what it says, what it leaves, how it ends."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import turbosvm
from tests.data.sources import makers
from turbosvm.data import store

WRITERS = makers.writers(12)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TURBOSVM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "cache"


def test_help_names_the_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert turbosvm("data", "prepare", "--help") == 0
    shown = capsys.readouterr().out
    assert all(
        word in shown for word in ("femnist", "hub:", "--skip-bad", "--split", "--offline", "--input", "--partition")
    )


def test_a_set_is_prepared_once_listed_described_and_run(
    tmp_path: Path, own_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    makers.write_leaf(tmp_path / "leaf" / "all_data" / "a.json", WRITERS)
    assert turbosvm("data", "prepare", "femnist", "--from", "leaf") == 0
    shown = capsys.readouterr().out
    assert "reading femnist: " in shown
    assert re.search(rf"femnist: 12 users, 90 samples, prepared in [\d.]+ s: {own_cache / 'femnist'}", shown)
    assert turbosvm("data", "prepare", "femnist", "--from", "leaf") == 0
    assert "femnist: 12 users, 90 samples, was prepared before:" in capsys.readouterr().out
    assert turbosvm("data", "list") == 0
    assert "femnist" in capsys.readouterr().out
    assert turbosvm("data", "info", "femnist") == 0
    assert "226.83" in capsys.readouterr().out
    settings = ("--model", "small", "--rounds", "1", "--set", "data.min_samples=1", "--set", "clients_per_round=2")
    assert turbosvm("run", "turbosvm", "--preset", "femnist", *settings) == 0
    (environment,) = (tmp_path / "runs").glob("*/*/environment.json")
    assert store.read_manifest(own_cache / "femnist").digest in environment.read_text()


def test_a_path_for_a_name(tmp_path: Path) -> None:
    makers.write_leaf(tmp_path / "a.json", WRITERS)
    assert turbosvm("data", "prepare", "femnist", "--from", "a.json", "--out", "here/it") == 0
    assert store.load(tmp_path / "here" / "it").name == "it"


def test_bad_input_is_one_sentence_or_counted(
    tmp_path: Path, own_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = makers.hub_rows(WRITERS)
    rows[4] = (rows[4][0], b"broken", 1)
    makers.write_hub_femnist(tmp_path / "a.parquet", rows)
    assert turbosvm("data", "prepare", "femnist", "--from", "a.parquet") == 2
    told = capsys.readouterr().err
    assert told.startswith(
        "Error: a.parquet, row 5: user 'f0001_00' has an image that is not one of PNG, JPEG, BMP, WEBP."
    )
    assert told.count("\n") == 1
    assert list(own_cache.glob("*")) == list(own_cache.glob(".*")) == []
    assert turbosvm("data", "prepare", "femnist", "--from", "a.parquet", "--skip-bad") == 0
    shown = capsys.readouterr().out
    assert "12 users, 89 samples" in shown
    assert "1 bad thing was left out:" in shown
    assert "row 5: user 'f0001_00' has an image" in shown


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("femnst", "--from", "."), "Unknown task 'femnst'; allowed: celeba, femnist, own, shakespeare. Did you mean"),
        (("femnist", "--from", "nowhere"), "'nowhere' is not there."),
        (("femnist", "--from", "hub:flwrlabs"), "'hub:flwrlabs' names no data set of the hub; write hub:OWNER/NAME"),
        (("own", "--from", "hub:"), "'hub:' names no data set of the hub"),
        (("femnist", "--from", ".", "--out", "glyphs"), "A data set cannot be called 'glyphs'."),
        (("femnist", "--from", ".", "--out", ".hidden"), "A data set cannot be called '.hidden'."),
        (("femnist", "--from", "a.csv"), "'a.csv' does not hold femnist in any form that is known"),
        (("own", "--from", "a.csv", "--partition", "diriclet:1"), "Unknown"),
        (("own", "--from", "a.csv", "--partition", "dirichlet"), "needs a number after a colon"),
        (("own", "--from", "a.csv", "--user", "who"), "Unknown column 'who' of a.csv; allowed: label, user, x."),
        (("own", "--from", "a.csv", "--split", "leaf"), "only LEAF's JSON folders have a split of their own"),
    ],
)
def test_mistakes_are_sentences(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("user,label,x\nann,0,1\n")
    assert turbosvm("data", "prepare", *arguments) == 2
    told = capsys.readouterr().err
    assert told.startswith("Error: ")
    assert sentence in told
    assert told.count("\n") == 1


def test_a_table_with_made_up_users(tmp_path: Path, own_cache: Path) -> None:
    lines = [f"{place % 3},{place},{place / 7}" for place in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["label,a,b", *lines]))
    command = (
        "data",
        "prepare",
        "own",
        "--from",
        "a.csv",
        "--out",
        "mine",
        "--partition",
        "dirichlet:0.5",
        "--users",
        "4",
    )
    assert turbosvm(*command) == 0
    data = store.load(own_cache / "mine")
    assert (len(data.users), len(data.labels), data.inputs.shape) == (4, 60, (60, 2))
    assert turbosvm(*command, "--seed", "1") == 2
    assert turbosvm(*command, "--seed", "1", "--replace") == 0


@pytest.mark.slow
def test_an_interrupted_preparation_says_how_to_go_on(tmp_path: Path, own_cache: Path) -> None:
    writers = {f"w{place:04d}": WRITERS["f0011_00"] for place in range(1500)}
    makers.write_leaf(tmp_path / "a.json", writers)
    command = [sys.executable, "-m", "turbosvm", "data", "prepare", "femnist", "--from", "a.json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert process.stdout is not None
    for line in process.stdout:
        if "reading femnist" in line:
            break
    process.send_signal(signal.SIGINT)
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Stopped; the same command goes on from here." in shown
    assert [path.name for path in own_cache.iterdir()] == [".femnist.part"]
    assert turbosvm("data", "prepare", "femnist", "--from", "a.json") == 0
    assert [path.name for path in own_cache.iterdir()] == ["femnist"]
