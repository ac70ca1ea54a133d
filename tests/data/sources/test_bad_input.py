"""Each kind of bad input is named with its file, user and row; --skip-bad leaves it out and counts it."""

import io
import json
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.sources import makers
from turbosvm.data import store
from turbosvm.data.preparation.prepare import Rules, prepare
from turbosvm.data.sources.request import Request
from turbosvm.errors import TurboSVMError

WRITERS = makers.writers()
GOOD = makers.leaf_content({user: (makers.pixels(images), labels) for user, (images, labels) in WRITERS.items()})
Change = Callable[[dict[str, Any]], object]


def outcome(task: str, place: Path, out: Path, **options: Any) -> tuple[str, int, list[str], int]:
    """The sentence that stops a preparation; and with --skip-bad the count, the sentences, and the samples left."""
    request = Request(task, str(place), **options)
    with pytest.raises(TurboSVMError) as stopped:
        prepare(request, out)
    assert not out.exists()
    assert [path.name for path in out.parent.glob(".*")] == []
    done = prepare(request, out, Rules(skip_bad=True))
    told = store.read_manifest(out).about
    assert told["left_out"] == {"count": done.left_out.count, "first": done.left_out.first}
    return str(stopped.value), done.left_out.count, done.left_out.first, told["counts"]["samples"]


def changed(content: Any, *path: Any, to: Any) -> Any:
    for key in path[:-1]:
        content = content[key]
    content[path[-1]] = to
    return content


U2 = ("user_data", "f0002_00")

LEAF_MISTAKES: dict[str, tuple[Change, str, int]] = {
    "another count": (
        lambda leaf: changed(leaf, "num_samples", 2, to=7),
        "a.json: user 'f0002_00' has 4 samples, but 'num_samples' says 7.",
        10,
    ),
    "x longer than y": (
        lambda leaf: leaf["user_data"]["f0002_00"]["y"].pop(),
        "a.json: user 'f0002_00' has 4 entries in 'x' but 3 in 'y'.",
        10,
    ),
    "a short row": (
        lambda leaf: leaf["user_data"]["f0002_00"]["x"][1].pop(),
        "a.json: user 'f0002_00', row 2 must have 784 numbers from 0 to 1.",
        13,
    ),
    "a pixel of 255": (
        lambda leaf: changed(leaf, *U2, "x", 3, 5, to=255),
        "a.json: user 'f0002_00', row 4 must have 784 numbers from 0 to 1.",
        13,
    ),
    "a word for a pixel": (
        lambda leaf: changed(leaf, *U2, "x", 0, 0, to="white"),
        "a.json: user 'f0002_00', row 1 must have 784 numbers from 0 to 1.",
        13,
    ),
    "nothing for a pixel": (
        lambda leaf: changed(leaf, *U2, "x", 0, 0, to=None),
        "a.json: user 'f0002_00', row 1 must have 784 numbers from 0 to 1.",
        13,
    ),
    "a label of 62": (
        lambda leaf: changed(leaf, *U2, "y", 1, to=62),
        "a.json: user 'f0002_00', row 2 has the label 62; it must be from 0 to 61.",
        13,
    ),
    "a label of -1": (
        lambda leaf: changed(leaf, *U2, "y", 1, to=-1),
        "a.json: user 'f0002_00', row 2 has the label -1; it must be from 0 to 61.",
        13,
    ),
    "half a label": (
        lambda leaf: changed(leaf, *U2, "y", 1, to=0.5),
        "a.json: user 'f0002_00', row 2 has the label 0.5; it must be from 0 to 61.",
        13,
    ),
    "no y": (
        lambda leaf: leaf["user_data"]["f0002_00"].pop("y"),
        "a.json: user 'f0002_00' must have lists 'x' and 'y'.",
        10,
    ),
    "a list for a user": (
        lambda leaf: changed(leaf, *U2, to=[1, 2]),
        "a.json: user 'f0002_00' must have lists 'x' and 'y'.",
        10,
    ),
    "an empty user": (
        lambda leaf: (changed(leaf, *U2, to={"x": [], "y": []}), changed(leaf, "num_samples", 2, to=0)),
        "a.json: user 'f0002_00' has no samples.",
        10,
    ),
    "a user without data": (
        lambda leaf: leaf["user_data"].pop("f0002_00"),
        "a.json: user 'f0002_00' is in 'users' but not in 'user_data'.",
        10,
    ),
    "data without a user": (
        lambda leaf: changed(leaf, "users", 2, to="somebody"),
        "a.json: user 'f0002_00' is in 'user_data' but not in 'users'.",
        10,
    ),
    "a name that cannot be printed": (
        lambda leaf: (
            changed(leaf, "users", 2, to="a\nb"),
            changed(leaf, "user_data", "a\nb", to=leaf["user_data"].pop("f0002_00")),
        ),
        "a.json: a user has the name 'a\\nb', which is empty or cannot be printed.",
        10,
    ),
}


@pytest.mark.parametrize("mistake", LEAF_MISTAKES)
def test_mistakes_in_leafs_json(mistake: str, tmp_path: Path) -> None:
    change, sentence, left = LEAF_MISTAKES[mistake]
    content = json.loads(json.dumps(GOOD))
    change(content)
    stopped, count, sentences, samples = outcome(
        "femnist", makers.write_json(tmp_path / "a.json", content), tmp_path / "out"
    )
    assert stopped.startswith(sentence)
    assert "--skip-bad" in stopped
    assert sentence in sentences
    assert count == len(sentences) == (2 if mistake == "data without a user" else 1)
    assert samples == left


FILE_MISTAKES: dict[str, tuple[Callable[[str], str], str]] = {
    "no users": (lambda text: text.replace('"users"', '"people"'), "b.json: 'users' is missing, or not a list."),
    "no counts": (
        lambda text: text.replace('"num_samples"', '"n"'),
        "b.json: 'num_samples' is missing, or not a list.",
    ),
    "counts for fewer": (
        lambda text: text.replace('"num_samples": [2, ', '"num_samples": ['),
        "b.json: 'users' has 4 entries, but 'num_samples' 3.",
    ),
    "a user twice": (
        lambda text: text.replace('"users": ["f0000_00", "f0001_00"', '"users": ["f0000_00", "f0000_00"'),
        "b.json: user 'f0000_00' is in 'users' twice.",
    ),
    "a number for a user": (
        lambda text: text.replace('"users": ["f0000_00"', '"users": [7'),
        "b.json: 'users' holds something other than names.",
    ),
    "truncated": (lambda text: text[: len(text) * 2 // 3], "b.json ends too early after user 'f0002_00'"),
    "not JSON": (lambda text: "users: []", "b.json is not valid JSON"),
    "empty": (lambda text: "", "b.json ends too early."),
    "a very long number": (
        lambda text: text.replace('"num_samples": [2', '"num_samples": [' + "2" * 5000),
        "b.json: a number has more than 1000 digits.",
    ),
    "lists in lists": (
        lambda text: '{"users": ' + "[" * 100_000,
        "b.json: lists or objects are inside one another more than 32 deep.",
    ),
    "a list": (lambda text: "[]", "b.json: 'users' is missing, or not a list."),
}


@pytest.mark.parametrize("mistake", FILE_MISTAKES)
def test_mistakes_in_a_file_as_a_whole(mistake: str, tmp_path: Path) -> None:
    change, sentence = FILE_MISTAKES[mistake]
    makers.write_leaf(tmp_path / "leaf" / "a.json", makers.writers(1, seed=3) | {"other": WRITERS["f0003_00"]})
    (tmp_path / "leaf" / "b.json").write_text(change(json.dumps(GOOD)))
    (tmp_path / "leaf" / "a.json").write_text((tmp_path / "leaf" / "a.json").read_text().replace("f0000_00", "g0000"))
    stopped, count, sentences, samples = outcome("femnist", tmp_path / "leaf", tmp_path / "out")
    assert stopped.startswith(sentence)
    assert count == 1
    assert sentences[0].startswith(sentence)
    assert samples == (7 + 9 if mistake == "truncated" else 7)


def test_a_user_in_two_files_and_twice_in_one(tmp_path: Path) -> None:
    makers.write_leaf(tmp_path / "leaf" / "a.json", WRITERS)
    makers.write_leaf(tmp_path / "leaf" / "b.json", makers.writers(1, seed=3))
    stopped, count, _, samples = outcome("femnist", tmp_path / "leaf", tmp_path / "out")
    assert stopped.startswith("b.json: user 'f0000_00' was in a.json already.")
    assert (count, samples) == (1, 14)
    text = json.dumps(GOOD).replace('"f0001_00": {', '"f0000_00": {')
    (tmp_path / "twice.json").write_text(text)
    stopped, count, sentences, _ = outcome("femnist", tmp_path / "twice.json", tmp_path / "out2")
    assert stopped.startswith("twice.json: user 'f0000_00' is in 'user_data' twice.")
    assert sentences[1] == "twice.json: user 'f0001_00' is in 'users' but not in 'user_data'."


IMAGES: dict[str, tuple[bytes | None, str]] = {
    "not an image": (b"hello", "has an image that is not one of PNG, JPEG, BMP, WEBP"),
    "an image of 16 bits": (
        makers.encoded(np.zeros((28, 28), dtype=np.uint16)),
        "has an image of kind I;16; it must have 8 bits a channel",
    ),
    "half an image": (makers.encoded(WRITERS["f0003_00"][0][0])[:-200], "has an image that cannot be decoded"),
    "another size": (makers.encoded(np.zeros((27, 28), dtype=np.uint8)), "has an image of 28 x 27 pixels, not 28 x 28"),
    "no image": (None, "has no image"),
    "a bomb": (
        makers.encoded(WRITERS["f0003_00"][0][0]).replace(struct.pack(">II", 28, 28), struct.pack(">II", 60000, 60000)),
        "has an image",
    ),
}


@pytest.mark.parametrize("kind", IMAGES)
def test_images_that_are_not_what_they_should_be(kind: str, tmp_path: Path) -> None:
    content, what = IMAGES[kind]
    rows = makers.hub_rows(WRITERS)
    rows[6] = (rows[6][0], content, rows[6][2])
    stopped, count, _, samples = outcome(
        "femnist", makers.write_hub_femnist(tmp_path / "a.parquet", rows), tmp_path / "out"
    )
    assert stopped.startswith(f"a.parquet, row 7: user 'f0002_00' {what}")
    assert (count, samples) == (1, 13)


def test_bad_rows_of_the_hubs_tables(tmp_path: Path) -> None:
    rows = makers.hub_rows(WRITERS)
    rows[3] = (rows[3][0], rows[3][1], 62)
    rows[5] = ("", rows[5][1], 1)
    stopped, count, sentences, samples = outcome(
        "femnist", makers.write_hub_femnist(tmp_path / "a.parquet", rows), tmp_path / "out"
    )
    assert stopped.startswith("a.parquet, row 4: user 'f0001_00' has the label 62; it must be from 0 to 61.")
    assert "a.parquet, row 6: has no user." in sentences
    assert (count, samples) == (2, 12)


def test_bad_windows_of_text(tmp_path: Path) -> None:
    rows = [(user, *pair) for user, text in makers.SPEECHES.items() for pair in makers.windows_of(text)]
    rows[1] = (rows[1][0], rows[1][1][:-1], rows[1][2])
    rows[2] = (rows[2][0], rows[2][1][:-1] + "é", rows[2][2])
    rows[3] = (rows[3][0], rows[3][1], "ab")
    stopped, count, sentences, samples = outcome(
        "shakespeare", makers.write_hub_text(tmp_path / "a.csv", rows), tmp_path / "out"
    )
    assert stopped.startswith("a.csv, row 2: user 'KITCHEN_COOK' must have 80 characters in 'x' and one in 'y'.")
    assert "a.csv, row 3: user 'KITCHEN_COOK' has the character 'é', which is not one of LEAF's 80." in sentences
    assert (count, samples) == (3, len(rows) - 3)


def test_rows_of_a_csv_with_another_number_of_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user,label,a,b\nann,0,1,2\nann,1,1\nbob,1,3,4\nbob,0,x,4\n,0,1,1\n")
    stopped, count, sentences, samples = outcome("own", tmp_path / "a.csv", tmp_path / "out")
    assert stopped.startswith("a.csv, row 2: has 3 columns, not 4.")
    assert "a.csv, row 4: user 'bob' has no number in column 'a'." in sentences
    assert (count, samples) == (3, 2)


CELEBA_MISTAKES: dict[str, tuple[str, Callable[[str], str], str, int]] = {
    "no celebrity": (
        "identity_CelebA.txt",
        lambda text: text.replace("000007.png 101", "000007.png"),
        "identity_CelebA.txt, row 8: must be an image and a celebrity, not '000007.png'.",
        17,
    ),
    "an image twice": (
        "identity_CelebA.txt",
        lambda text: text.replace("000007.png 101", "000006.png 101"),
        "identity_CelebA.txt, row 8: user '101': 000006.png is listed a second time.",
        17,
    ),
    "no attributes": (
        "list_attr_celeba.txt",
        lambda text: text.replace("18\n", "17\n").replace("000007.png", "other.png").replace("17\n", "18\n", 1),
        "identity_CelebA.txt, row 8: user '101': 000007.png is not in list_attr_celeba.txt.",
        17,
    ),
    "another count": (
        "list_attr_celeba.txt",
        lambda text: text.replace("18\n", "19\n"),
        "list_attr_celeba.txt: its first line says '19' images, but there are 18.",
        18,
    ),
    "a strange attribute": (
        "list_attr_celeba.txt",
        lambda text: text.replace("000007.png  1 -1", "000007.png  1 0").replace("000007.png  -1 1", "000007.png  1 0"),
        "list_attr_celeba.txt, row 8: must be an image and 2 times -1 or 1, not '000007.png  1 0'.",
        17,
    ),
}


@pytest.mark.parametrize("mistake", CELEBA_MISTAKES)
def test_mistakes_in_celebas_lists(mistake: str, tmp_path: Path) -> None:
    name, change, sentence, left = CELEBA_MISTAKES[mistake]
    root = makers.write_celeba(tmp_path / "raw", makers.faces())
    (root / name).write_text(change((root / name).read_text()))
    stopped, _, sentences, samples = outcome("celeba", root, tmp_path / "out")
    assert stopped.startswith(sentence)
    assert sentence in sentences
    assert samples == left


def test_images_that_are_missing_or_elsewhere(tmp_path: Path) -> None:
    root = makers.write_celeba(tmp_path / "raw", makers.faces())
    (root / "img_align_celeba" / "000004.png").unlink()
    stopped, count, _, samples = outcome("celeba", root, tmp_path / "out")
    assert stopped.startswith("user '100', image 000004.png is not in the folder of images, or cannot be read.")
    assert (count, samples) == (1, 17)
    (tmp_path / "raw" / "secret.png").write_bytes(makers.encoded(np.zeros((84, 84, 3), dtype=np.uint8)))
    leaf = {"100": (["../secret.png", *(f"{place:06d}.png" for place in (0, 1, 2, 3, 5))], [0] * 6)}
    makers.write_json(root / "all_data" / "a.json", makers.leaf_content(leaf))
    stopped, count, _, samples = outcome("celeba", root / "all_data", tmp_path / "out2")
    assert stopped.startswith("a.json: user '100', row 1 is not in the folder of images, or cannot be read.")
    assert (count, samples) == (1, 5)


def test_nist_images_without_a_class(tmp_path: Path) -> None:
    root = makers.write_nist(tmp_path / "nist", WRITERS)
    (victim,) = (root / "by_class").glob("*/*/f0002_00_00001.png")
    victim.unlink()
    stopped, count, _, samples = outcome("femnist", root, tmp_path / "out")
    assert stopped.startswith("user 'f0002_00', f0002_00_00001.png is not in by_class, so that its class is not known.")
    assert (count, samples) == (1, 13)


@pytest.mark.parametrize(
    ("task", "place", "sentence"),
    [
        ("femnist", "nowhere", "'nowhere' is not there."),
        ("femnist", "x" * 5000, "cannot be read"),
        ("femnist", "a\0b", "is not there"),
        ("femnist", "~nobody-of-that-name/x", "cannot be read"),
        ("femnist", "empty", "'empty' does not hold femnist in any form that is known: LEAF's JSON files"),
        ("celeba", "empty", "'empty' does not hold celeba in any form that is known"),
        ("shakespeare", "empty", "'empty' does not hold shakespeare in any form that is known"),
        ("own", "empty", "'empty' does not hold own in any form that is known"),
        ("mnist", "empty", "Unknown task 'mnist'; allowed: celeba, femnist, own, shakespeare. Did you mean 'femnist'?"),
    ],
)
def test_places_that_hold_nothing(task: str, place: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(TurboSVMError) as stopped:
        prepare(Request(task, place), tmp_path / "out")
    assert sentence in str(stopped.value)
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


@pytest.mark.parametrize("name", ["a.parquet", "a.npz", "a.zip", "a.tar.gz"])
@pytest.mark.parametrize("content", [b"", b"nothing of the kind", b"PK\x03\x04", b"PAR1" + bytes(40) + b"PAR1"])
def test_files_that_are_not_what_their_names_say(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TurboSVMError, match=r"'.*' (cannot be read as|cannot be unpacked)"):
        prepare(Request("own", str(tmp_path / name)), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def write_zip(file: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file


def write_tar(file: Path, members: dict[str, bytes], link: str | None = None) -> Path:
    with tarfile.open(file, "w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        if link:
            member = tarfile.TarInfo("inside.json")
            member.type, member.linkname = tarfile.SYMTYPE, link
            archive.addfile(member)
    return file


@pytest.mark.parametrize("write", [write_zip, write_tar])
def test_archives_are_read_as_what_is_in_them(write: Callable[..., Path], tmp_path: Path) -> None:
    content = makers.write_leaf(tmp_path / "a.json", WRITERS).read_bytes()
    archive = write(tmp_path / ("leaf.zip" if write is write_zip else "leaf.tgz"), {"femnist/all_data/a.json": content})
    prepare(Request("femnist", str(archive)), tmp_path / "out")
    assert store.load(tmp_path / "out").counts.tolist() == [2, 3, 4, 5]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", archive.name, "out"]
    assert prepare(Request("femnist", str(archive)), tmp_path / "out").was_there


@pytest.mark.parametrize(
    "name", ["../escaped.json", "/tmp/escaped.json", "a/../../escaped.json", "..\\escaped.json", "C:escaped.json"]
)
@pytest.mark.parametrize("write", [write_zip, write_tar])
def test_archives_that_point_outside(write: Callable[..., Path], name: str, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "down"
    folder.mkdir(parents=True)
    archive = write(folder / ("a.zip" if write is write_zip else "a.tar.gz"), {"good.json": b"{}", name: b"{}"})
    with pytest.raises(TurboSVMError, match="has a member that points outside"):
        prepare(Request("femnist", str(archive)), folder / "out")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [archive.name]


def test_archives_with_links(tmp_path: Path) -> None:
    archive = write_tar(tmp_path / "a.tar.gz", {}, link="/etc/passwd")
    with pytest.raises(TurboSVMError, match=r"has a link, 'inside\.json'"):
        prepare(Request("femnist", str(archive)), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar.gz"]
