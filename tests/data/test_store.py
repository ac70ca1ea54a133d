import json
import os
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from io import BufferedReader
from pathlib import Path
from random import Random
from time import sleep
from typing import Any

import numpy as np
import pytest
import torch

import turbosvm
from tests.conftest import Note, tiny_net
from tests.conftest import turbosvm as command
from turbosvm.data import store, verified
from turbosvm.data.federated import FederatedData
from turbosvm.data.windows import Windows
from turbosvm.errors import TurboSVMError
from turbosvm.seals import SEAL


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of each test's own."""
    monkeypatch.setenv("TURBOSVM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_what_is_saved_is_what_is_loaded(tiny_data: FederatedData, tmp_path: Path) -> None:
    store.save(tiny_data, tmp_path / "set", made_by={"test": 1})
    loaded = store.load(tmp_path / "set")
    assert isinstance(loaded.inputs, np.memmap)
    assert np.array_equal(loaded.inputs, tiny_data.inputs)
    assert np.array_equal(loaded.labels, tiny_data.labels)
    assert np.array_equal(loaded.offsets, tiny_data.offsets)
    assert (loaded.name, loaded.users, loaded.classes) == (tiny_data.name, tiny_data.users, tiny_data.classes)
    assert not loaded.tokens
    assert json.loads((tmp_path / "set" / "manifest.json").read_text())["made_by"] == {"test": 1}


def test_a_missing_file_is_named(tiny_data: FederatedData, tmp_path: Path) -> None:
    store.save(tiny_data, tmp_path / "set")
    (tmp_path / "set" / "labels.npy").unlink()
    with pytest.raises(TurboSVMError, match=r"is not a data folder: labels\.npy is missing"):
        store.load(tmp_path / "set")


@pytest.mark.parametrize("content", ["", "{", "[]", "[" * 100_000, '{"name": "x"}', "\ud83d", '{"users": NaN}'])
def test_a_broken_manifest_is_an_error_of_ours(content: str, tiny_data: FederatedData, tmp_path: Path) -> None:
    store.save(tiny_data, tmp_path / "set")
    (tmp_path / "set" / "manifest.json").write_bytes(content.encode(errors="surrogatepass"))
    with pytest.raises(TurboSVMError, match=r"cannot be read: manifest\.json: "):
        store.load(tmp_path / "set")


# What is written is vouched for


def flip(file: Path, place: int = -1) -> None:
    """Change a byte."""
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


def vouch(folder: Path, data: FederatedData, **described: Any) -> None:
    """Write a manifest anew, with the right hashes, whatever the files hold."""
    store.write_manifest(folder, {**store.describe(data), **described}, {})


def texts() -> FederatedData:
    windows = Windows(np.arange(50, dtype=np.uint8), np.array([0, 20, 40]), 5)
    return FederatedData("text", windows, np.zeros(40, np.uint8), np.array([0, 20, 40]), ("a", "b"), ("x",))


@pytest.mark.parametrize("name", ["inputs", "labels", "offsets", "segments"])
@pytest.mark.parametrize("opened_before", [False, True])
def test_a_changed_byte_is_noticed_and_its_file_named(
    name: str, opened_before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verified, "SETTLED", 0)
    store.save(texts(), tmp_path / "set")
    if opened_before:
        store.load(tmp_path / "set")
        sleep(0.05)  # a tick of the clock that files are dated by
    flip(tmp_path / "set" / f"{name}.npy")
    with pytest.raises(TurboSVMError, match=rf"cannot be read: {name}\.npy is damaged: .*; prepare the set again"):
        store.load(tmp_path / "set")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"user-7"', '"user-77"'),
        ('"classes": ["0"', '"classes": ["O"'),
        ('"name": "blobs"', '"name": "globs"'),
        ('"held_out": null', '"held_out": false'),
        ('"tokens": false', '"tokens": true'),
        ('"made_by": {}', '"made_by": {"x": 1}'),
        ('"digest": "', '"digest": "0'),
        ('"digest"', '"tigest"'),
        ('"labels.npy": "', '"labels.npy": "0'),
    ],
)
def test_an_edited_manifest_is_noticed(before: str, after: str, tiny_data: FederatedData, tmp_path: Path) -> None:
    store.save(tiny_data, tmp_path / "set")
    file = tmp_path / "set" / "manifest.json"
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after))
    with pytest.raises(TurboSVMError, match=r"cannot be read: manifest\.json: .*; prepare the set again"):
        store.load(tmp_path / "set")


def test_a_set_of_the_first_versions_has_a_digest_and_no_seal(tiny_data: FederatedData, tmp_path: Path) -> None:
    store.save(tiny_data, tmp_path / "set")
    file = tmp_path / "set" / "manifest.json"
    before = json.loads(file.read_text())
    del before[SEAL]
    file.write_text(json.dumps(before))
    assert store.load(tmp_path / "set").digest == before["digest"]
    flip(tmp_path / "set" / "inputs.npy")
    with pytest.raises(TurboSVMError, match=r"inputs\.npy is damaged"):
        store.load(tmp_path / "set")


def test_what_was_found_whole_is_not_read_again(
    tiny_data: FederatedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verified, "SETTLED", 0)
    store.save(tiny_data, tmp_path / "set")
    sleep(0.05)
    read: list[int] = []
    hash_of = verified.hash_of

    def counted(file: BufferedReader) -> str:
        read.append(1)
        return hash_of(file)

    monkeypatch.setattr(verified, "hash_of", counted)
    store.load(tmp_path / "set")
    assert len(read) == 3
    store.load(tmp_path / "set")
    assert len(read) == 3
    (note,) = (store.cache_folder() / ".verified").glob("*.json")
    flip(note, 40)  # a damaged note counts for nothing
    store.load(tmp_path / "set")
    assert len(read) == 6
    os.utime(tmp_path / "set" / "inputs.npy")
    store.load(tmp_path / "set")
    assert len(read) == 7


def test_a_time_of_change_that_is_set_back_hides_nothing(
    tiny_data: FederatedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verified, "SETTLED", 0)
    store.save(tiny_data, tmp_path / "set")
    file = tmp_path / "set" / "inputs.npy"
    sleep(0.05)
    store.load(tmp_path / "set")
    before = file.stat()
    flip(file)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(TurboSVMError, match=r"inputs\.npy is damaged"):
        store.load(tmp_path / "set")


def test_what_has_just_been_written_is_read_again(tiny_data: FederatedData, tmp_path: Path) -> None:
    store.save(tiny_data, tmp_path / "set")
    store.load(tmp_path / "set")
    assert not list((store.cache_folder() / ".verified").glob("*.json"))


def test_folders_that_cannot_be_written_do(
    tiny_data: FederatedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verified, "SETTLED", 0)
    store.save(tiny_data, tmp_path / "set")
    (tmp_path / "in the way").touch()
    monkeypatch.setenv("TURBOSVM_CACHE", str(tmp_path / "in the way"))
    before = {file: file.read_bytes() for file in (tmp_path / "set").iterdir()}
    for file in before:
        file.chmod(0o444)
    (tmp_path / "set").chmod(0o555)
    assert store.load(tmp_path / "set").users == tiny_data.users
    assert {file: file.read_bytes() for file in (tmp_path / "set").iterdir()} == before


def test_whoever_has_no_home_can_open_data(
    tiny_data: FederatedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save(tiny_data, tmp_path / "set")
    for name in ("TURBOSVM_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "expanduser", _homeless)
    assert store.load(tmp_path / "set").users == tiny_data.users


def _homeless(path: Path) -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_many_at_once_do_not_disturb_each_other(
    tiny_data: FederatedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verified, "SETTLED", 0)
    store.save(tiny_data, tmp_path / "set")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: store.load(tmp_path / "set").digest, range(100)))
    assert set(found) == {store.load(tmp_path / "set").digest}
    assert len(list((store.cache_folder() / ".verified").iterdir())) == 1


def test_a_run_and_its_resume_refuse_damaged_data(tiny_data: FederatedData, tmp_path: Path) -> None:
    store.save(tiny_data, tmp_path / "set")

    def stop(record: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    settings: dict[str, Any] = {"rounds": 3, "clients_per_round": 2, "client": {"batch_size": 4}}
    folder = tmp_path / "runs" / "fedavg-seed0"
    with pytest.raises(KeyboardInterrupt):
        turbosvm.run("fedavg", data="./set", model=tiny_net(), out=tmp_path / "runs", on_record=stop, **settings)
    flip(tmp_path / "set" / "inputs.npy")
    with pytest.raises(TurboSVMError, match=r"inputs\.npy is damaged"):
        turbosvm.run("fedavg", data="./set", model=tiny_net(), **settings)
    with pytest.raises(TurboSVMError, match=r"inputs\.npy is damaged"):
        turbosvm.resume(folder, model=tiny_net())
    flip(tmp_path / "set" / "inputs.npy")
    assert len(turbosvm.resume(folder, model=tiny_net()).records) == 3


# What is vouched for, but is no data


@pytest.mark.parametrize(
    "described",
    [
        {"users": "abc"},
        {"users": [1, 2]},
        {"users": {"a": 1}},
        {"users": None},
        {"users": ["a"]},
        {"users": ["u"] * 20},
        {"users": ["a\nb"] + [f"user-{user}" for user in range(19)]},
        {"classes": []},
        {"classes": 3},
        {"classes": ["a", "b", None]},
        {"classes": ["a", "a", "b"]},
        {"classes": [str(name) for name in range(1_000_000)]},
        {"tokens": 1},
        {"tokens": True},
        {"window": -1},
        {"window": 0},
        {"window": 4},
        {"window": "4"},
        {"window": 2**40},
        {"held_out": ["no"] * 20},
        {"held_out": [False]},
        {"held_out": 0},
        {"name": 5},
        {"name": ""},
    ],
    ids=lambda described: str(described)[:40],
)
def test_a_manifest_of_wrong_values_is_refused(
    described: dict[str, Any], tiny_data: FederatedData, tmp_path: Path
) -> None:
    store.save(tiny_data, tmp_path / "set")
    try:
        vouch(tmp_path / "set", tiny_data, **described)
    except TurboSVMError:  # there is no such file to hash
        np.save(tmp_path / "set" / "segments.npy", np.array([0, 1]))
        vouch(tmp_path / "set", tiny_data, **described)
    with pytest.raises(TurboSVMError, match="cannot be read: ") as refused:
        store.load(tmp_path / "set")
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("key", ["digest", "hashes", "users", "classes", "window", "name"])
@pytest.mark.parametrize("value", [None, {}, [], 0, -1, "", "x", [None], {"x": 1}, 1e300])
def test_a_key_of_another_kind_is_refused(key: str, value: Any, tiny_data: FederatedData, tmp_path: Path) -> None:
    store.save(tiny_data, tmp_path / "set")
    file = tmp_path / "set" / "manifest.json"
    about = json.loads(file.read_text())
    if about[key] == value:
        return
    file.write_text(json.dumps({**about, key: value}))
    with pytest.raises(TurboSVMError, match=r"manifest\.json"):
        store.load(tmp_path / "set")


ACTING = np.array([{"a": 1}], dtype=object)
HEADER = "{'descr': '|u1', 'fortran_order': False, 'shape': (%s), }\n"


def npy(header: str, content: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    length = len(header).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + length + header.encode("latin1") + content


WRONG_ARRAYS: dict[str, Any] = {
    "floats for labels": ("labels", np.zeros(178)),
    "truth values for labels": ("labels", np.zeros(178, bool)),
    "labels of two axes": ("labels", np.zeros((178, 1), np.int64)),
    "labels of no class": ("labels", np.full(178, 3)),
    "a single label": ("labels", np.int64(3)),
    "floats for offsets": ("offsets", np.linspace(0, 178, 21)),
    "offsets of two axes": ("offsets", np.zeros((21, 1), np.int64)),
    "falling offsets": ("offsets", np.array([0, 100, 50, *[178] * 18])),
    "complex inputs": ("inputs", np.zeros((178, 4), complex)),
    "words": ("inputs", np.full((178, 4), "cat")),
    "dates": ("inputs", np.zeros((178, 4), "M8[s]")),
    "records": ("inputs", np.zeros(178, [("a", "f4")])),
    "objects": ("inputs", ACTING),
    "too few": ("inputs", np.zeros((177, 4), np.float32)),
    "an archive": ("inputs", b"PK\x03\x04" + bytes(100)),
    "a pickle": ("inputs", pickle.dumps([1, 2])),
    "nothing": ("inputs", b""),
    "a header alone": ("inputs", npy(HEADER % "178, 4")),
    "more than there is": ("inputs", npy(HEADER % "10**15, 4")),
    "too many to count": ("inputs", npy(HEADER % f"{10**25}, {10**25}")),
    "a negative length": ("inputs", npy(HEADER % "-178, 4", bytes(712))),
    "a deep header": ("inputs", npy("(" * 5000 + ")" * 5000)),
    "a long header": ("inputs", npy("{" + " " * 10**6 + "}", version=b"\x02\x00")),
    "a header that is code": ("inputs", npy("__import__('os').abort()")),
}


@pytest.mark.parametrize("wrong", WRONG_ARRAYS)
def test_arrays_that_are_vouched_for_but_wrong_are_refused(
    wrong: str, tiny_data: FederatedData, tmp_path: Path
) -> None:
    name, content = WRONG_ARRAYS[wrong]
    store.save(tiny_data, tmp_path / "set")
    file = tmp_path / "set" / f"{name}.npy"
    assert len(tiny_data.labels) == 178
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        np.save(file, content, allow_pickle=True)
    vouch(tmp_path / "set", tiny_data)
    with pytest.raises(TurboSVMError, match="cannot be read: "):
        store.load(tmp_path / "set")


def test_arrays_in_another_order_are_the_same_data(tiny_data: FederatedData, tmp_path: Path) -> None:
    store.save(tiny_data, tmp_path / "set")
    np.save(tmp_path / "set" / "inputs.npy", np.asfortranarray(np.asarray(tiny_data.inputs).astype(">f4")))
    vouch(tmp_path / "set", tiny_data)
    loaded = store.load(tmp_path / "set")
    assert loaded.inputs.dtype.isnative
    for user in range(20):
        assert torch.equal(*(each.user_tensors(user, torch.device("cpu"))[0] for each in (loaded, tiny_data)))


@pytest.mark.parametrize("name", ["inputs.npy", "labels.npy", "offsets.npy", "manifest.json"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "link to a device", "link in a circle", "link to a folder"])
def test_what_is_no_file_is_refused_and_waits_for_nothing(
    kind: str, name: str, tiny_data: FederatedData, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = store.cache_folder() / "odd"
    shutil.rmtree(folder, ignore_errors=True)
    store.save(tiny_data, folder)
    file = folder / name
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        aims = {"link to a device": "/dev/zero", "link in a circle": name, "link to a folder": str(tmp_path)}
        file.symlink_to(aims[kind])
    with pytest.raises(TurboSVMError, match=name):
        store.load(folder)
    assert command("data", "list") == 0
    shutil.rmtree(folder)


def test_files_may_be_links_to_files(tiny_data: FederatedData, tmp_path: Path) -> None:
    store.save(tiny_data, tmp_path / "set")
    (tmp_path / "links").mkdir()
    for file in (tmp_path / "set").iterdir():
        (tmp_path / "links" / file.name).symlink_to(file)
    assert store.load(tmp_path / "links").digest == store.load(tmp_path / "set").digest


def test_a_manifest_without_end_is_refused(
    tiny_data: FederatedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save(tiny_data, tmp_path / "set")
    with (tmp_path / "set" / "manifest.json").open("r+b") as file:
        file.truncate(2**40)  # sparse
    with pytest.raises(TurboSVMError, match=r"manifest\.json': it has 1,099,511,627,776 bytes"):
        store.load(tmp_path / "set")


# Whatever happens to a file


def damaged(content: bytes, rng: Random) -> bytes:
    """Do one of six things to the content of a file."""
    a, b = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    flipped = bytearray(content)
    flipped[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return rng.choice(
        [
            bytes(flipped),
            content[:a],
            content[:a] + rng.randbytes(rng.randint(1, 9)) + content[a:],
            content[:a] + content[b:],
            content[:a] + bytes(b - a) + content[b:],
            b"",
        ]
    )


def everything(data: FederatedData) -> tuple[Any, ...]:
    inputs = data.inputs.text if isinstance(data.inputs, Windows) else data.inputs
    about = (data.name, data.users, data.classes, data.tokens, data.held_out, data.digest, data.task)
    return *about, str(inputs.dtype), *(array.tobytes() for array in (inputs, data.labels, data.offsets))


def opening(folder: Path) -> tuple[FederatedData | None, str]:
    """The data, or what is said against it."""
    try:
        return store.load(folder), ""
    except TurboSVMError as error:
        return None, str(error)


@pytest.mark.parametrize("kind", ["numbers", "text"])
def test_a_damaged_set_is_refused_or_the_same(
    kind: str, tiny_data: FederatedData, tmp_path: Path, record_property: Note
) -> None:
    record_property("tried", 400)
    data = tiny_data if kind == "numbers" else texts()
    store.save(data, tmp_path / "set", {"source": "a test"})
    right = {file: file.read_bytes() for file in sorted((tmp_path / "set").iterdir())}
    expected, rng, same = everything(store.load(tmp_path / "set")), Random(kind), 0
    for number in range(400):
        file = rng.choice(list(right))
        swap = number % 20 == 0
        if swap:
            file.unlink()
            file.mkdir()
        else:
            file.write_bytes(damaged(right[file], rng))
        opened, sentence = opening(tmp_path / "set")
        assert file.name in sentence if opened is None else everything(opened) == expected, (number, file, sentence)
        same += opened is not None
        if swap:
            file.rmdir()
        file.write_bytes(right[file])
    assert same < 100  # those where nothing was cut, or spaces were put into the manifest


def test_the_cache_folder_is_ours_then_xdg_then_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TURBOSVM_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert store.cache_folder() == tmp_path / "own"
    monkeypatch.delenv("TURBOSVM_CACHE")
    assert store.cache_folder() == tmp_path / "xdg" / "turbosvm"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert store.cache_folder() == tmp_path / "home" / ".cache" / "turbosvm"
