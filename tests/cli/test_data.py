"""What `turbosvm data` says of data sets."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import turbosvm
from turbosvm.data import store
from turbosvm.data.federated import FederatedData


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder without data."""
    monkeypatch.setenv("TURBOSVM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "cache"


def prepare(data: FederatedData, folder: Path, **about: Any) -> None:
    store.save(data, folder)
    store.write_manifest(folder, store.describe(data), about)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert turbosvm("data", *arguments) == 0
    return capsys.readouterr().out


def words(text: str, first: str) -> list[str]:
    """The words of the line that begins so, without those."""
    line = next(line for line in text.splitlines() if line.strip().startswith(first))
    return line.strip().removeprefix(first).split()


def test_an_empty_cache_says_how_to_fill_it(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "list")
    assert f"Nothing is prepared in '{cache}' yet" in text
    assert "turbosvm data make" in text


def test_the_list_has_a_row_for_everything(
    tiny_data: FederatedData, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(tiny_data, cache / "faces", task="celeba", source={"kind": "hub files", "path": "/some/[bold]/where"})
    prepare(tiny_data, cache / "plain")
    for broken in ("broken-a", "broken-b", "broken-c", "broken-d"):
        prepare(tiny_data, cache / broken)
    (cache / "broken-a" / "manifest.json").write_text("{")
    (cache / "broken-b" / "labels.npy").unlink()
    (cache / "broken-c" / "labels.npy").write_bytes(b"nothing")
    (cache / "broken-d" / "inputs.npy").unlink()
    (cache / ".later.part").mkdir()
    assert turbosvm("data", "make", "--users", "3", "--samples-per-user", "5") == 0
    text = shown(capsys, "list")
    samples = str(len(tiny_data.labels))
    assert words(text, "faces")[:5] == ["celeba", "20", samples, "6", "kB"]
    assert words(text, "faces")[-2:] == ["hub", "files"]
    assert words(text, "plain")[:3] == ["-", "20", samples]
    assert words(text, "glyphs-v")[1:3] == ["glyphs", "3"]
    assert " ".join(words(text, "broken-a")[-5:]) == "broken: manifest.json cannot be read"
    assert " ".join(words(text, "broken-b")[-4:]) == "broken: labels.npy is missing"
    assert " ".join(words(text, "broken-c")[-5:]) == "broken: labels.npy cannot be read"
    assert " ".join(words(text, "broken-d")[-4:]) == "broken: inputs.npy is missing"
    assert words(text, "later")[-1] == "unfinished"


def test_info_puts_figures_beside_the_published_ones(
    tiny_data: FederatedData, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = {"kind": "CelebA's own files", "path": "/some/where"}
    prepare(tiny_data, cache / "faces", task="celeba", source=source, left_out={"too small": 1200})
    text = shown(capsys, "info", "faces")
    counts = tiny_data.counts
    assert words(text, "folder") == [str(cache / "faces")]
    assert "made from  CelebA's own files, /some/where" in text
    assert "left out   too small: 1,200" in text
    assert words(text, "digest") == [store.read_manifest(cache / "faces").digest[:12]]
    assert "inputs     float32 of shape [4]" in text
    assert words(text, "users") == ["20", "9,343", "9,343"]
    assert words(text, "samples per user, mean") == [f"{counts.mean():.2f}", "21.4", "21.44"]
    assert words(text, "samples per user, most") == ["12", "-", "-"]


@pytest.mark.parametrize(
    ("about", "line"),
    [
        ({"left_out": {"count": 1200, "first": ["Row 3 is odd.", "Row 4 is."]}}, "1,200 bad, such as: Row 3 is odd."),
        (
            {"left_out": {"count": 1, "first": ["O."]}, "small_users": 7},
            "7 users with too few samples; 1 bad, such as: O.",
        ),
        ({"left_out": {"count": 0, "first": []}, "small_users": 0}, None),
    ],
)
def test_info_says_what_was_left_out(
    about: dict[str, Any], line: str | None, tiny_data: FederatedData, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(tiny_data, cache / "blobs", **about)
    text = shown(capsys, "info", "blobs")
    assert (f"left out   {line}\n" in text) if line else ("left out" not in text)


def test_info_shows_split_classes_and_a_histogram(
    tiny_data: FederatedData, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(tiny_data, cache / "blobs")
    text = shown(capsys, "info", "blobs")
    assert "paper" not in text
    assert "Split: by a hash of users' names, at the defaults (10% held out, seed 0): " in text
    share, _, count = words(text, "1  ")
    assert int(count) == (tiny_data.labels == 1).sum()
    assert share == f"{int(count) / len(tiny_data.labels):.1%}"
    bins = text.split("how many users have as many\n")[1].splitlines()
    assert [line.split()[0] for line in bins] == [str(count) for count in range(6, 13)]
    assert sum(int(line.split()[-1]) for line in bins) == 20
    assert max(map(len, bins)) == len("  12 ") + 40 + len(" 5")


def test_info_tells_of_the_datas_own_split(
    tiny_data: FederatedData, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(replace(tiny_data, held_out=(False,) * 17 + (True,) * 3), cache / "blobs")
    samples = tiny_data.counts[17:].sum()
    assert f"Split: its own: 17 users train ({len(tiny_data.labels) - samples} samples), 3 held out" in shown(
        capsys, "info", "blobs"
    )


def test_one_user_cannot_be_split_but_can_be_looked_at(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = FederatedData.from_users({"u": (np.zeros((2, 3)), [0, 1])}, 2, name="one")
    prepare(one, cache / "one")
    assert "Split: none. Data 'one' has 1 users with at least 1 samples" in shown(capsys, "info", "one")


def test_many_classes_are_shown_as_pillars(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    letters = "\nabcdefghijk"
    labels = np.array([*range(1, 11)] * 2 + [1] * 6)
    data = FederatedData.from_users({"u": (np.zeros((len(labels), 3)), labels)}, tuple(letters), name="letters")
    prepare(data, cache / "letters")
    text = shown(capsys, "info", "letters")
    assert r"Classes: most 'a' 30.77% (8), fewest '\n' 0.00% (0), 2 without samples" in text
    assert "   █▂▂▂▂▂▂▂▂▂ \n  ↵abcdefghijk\n" in text


def test_info_draws_a_picture(tiny_data: FederatedData, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepare(tiny_data, tmp_path / "blobs")
    assert "Picture: blobs.png" in shown(capsys, "info", "./blobs", "--picture", "blobs.png")
    assert (tmp_path / "blobs.png").read_bytes().startswith(b"\x89PNG")


def test_info_knows_the_built_in_data(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TURBOSVM_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    text = shown(capsys, "info", "glyphs")
    assert "inputs     uint8 of shape [1, 28, 28]" in text
    assert words(text, "classes") == ["62"]
    assert words(text, "users") == ["200"]
    assert "made from  glyphs: 3, users: 200, samples_per_user: 100.0, heterogeneity: 1.0, seed: 0" in text


def test_an_unknown_name_lists_those_that_exist(
    tiny_data: FederatedData, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(tiny_data, cache / "blobs")
    assert turbosvm("data", "info", "blops") == 2
    assert capsys.readouterr().err == (
        "Error: Unknown data set 'blops'; allowed: blobs, glyphs, the path of a data folder. Did you mean 'blobs'?\n"
    )
