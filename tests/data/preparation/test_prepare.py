"""Whatever form the files have, the same data comes out; and whatever happens on the way, nothing half-made stays."""

import os
import random
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.sources import makers
from turbosvm.data import store, verified
from turbosvm.data.federated import FederatedData
from turbosvm.data.partition import Partition
from turbosvm.data.preparation import prepare as preparation
from turbosvm.data.preparation import workshop
from turbosvm.data.preparation.prepare import Prepared, Rules, prepare
from turbosvm.data.sources.femnist import CLASSES
from turbosvm.data.sources.request import Columns, Request
from turbosvm.data.split import Split, split_users
from turbosvm.errors import TurboSVMError

WRITERS = makers.writers()


def prepared(task: str, place: Path, folder: Path, rules: Rules = Rules(), **options: Any) -> FederatedData:  # noqa: B008
    prepare(Request(task, str(place), **options), folder, rules)
    return store.load(folder)


def same_writers(data: FederatedData, expected: makers.Samples = WRITERS) -> bool:
    """Whether the data holds these writers, in order of their names."""
    return data.users == tuple(sorted(expected)) and all(
        np.array_equal(np.asarray(data.user(place)[0])[:, 0], expected[user][0])
        and data.user(place)[1].tolist() == expected[user][1]
        for place, user in enumerate(data.users)
    )


def femnist_in_every_form(folder: Path) -> Iterator[tuple[str, Path]]:
    """LEAF's folders in some of their ways, and the hub's tables, in order, out of order and in several files."""
    yield "one file", makers.write_leaf(folder / "one.json", WRITERS)
    backwards = dict(reversed(WRITERS.items()))
    yield "backwards", makers.write_leaf(folder / "backwards.json", backwards)
    for place, (user, samples) in enumerate(WRITERS.items()):
        makers.write_leaf(folder / "all" / "data" / "all_data" / f"all_data_{9 - place}.json", {user: samples})
    yield "all_data", folder / "all"
    for user, (images, labels) in WRITERS.items():
        makers.write_leaf(folder / "split" / "train" / f"{user}.json", {user: (images[:1], labels[:1])})
        makers.write_leaf(folder / "split" / "test" / f"{user}.json", {user: (images[1:], labels[1:])})
    yield "train and test", folder / "split"
    rows = makers.hub_rows(WRITERS)
    yield "hub", makers.write_hub_femnist(folder / "hub.parquet", rows)
    mixed = sorted(rows, key=lambda row: row[1] is not None and rows.index(row) % 3)
    makers.write_hub_femnist(folder / "mixed" / "data" / "train-0.parquet", mixed[:4])
    makers.write_hub_femnist(folder / "mixed" / "data" / "train-1.parquet", mixed[4:])
    yield "mixed hub", folder / "mixed"


def test_femnist_is_the_same_from_every_form(tmp_path: Path) -> None:
    digests = {}
    for name, place in femnist_in_every_form(tmp_path / "files"):
        data = prepared("femnist", place, tmp_path / name)
        assert data.classes == CLASSES
        assert isinstance(data.inputs, np.memmap)
        assert name == "mixed hub" or same_writers(data), name
        digests[name] = data.digest
    assert len({digest for name, digest in digests.items() if name != "mixed hub"}) == 1


def test_shakespeare_is_the_same_from_every_form(tmp_path: Path) -> None:
    windows = {user: makers.windows_of(text) for user, text in makers.SPEECHES.items()}
    content = makers.leaf_content({user: tuple(zip(*pairs, strict=True)) for user, pairs in windows.items()})  # type: ignore[misc]
    from_json = prepared("shakespeare", makers.write_json(tmp_path / "a.json", content), tmp_path / "a")
    rows = [(user, before, after) for user, pairs in windows.items() for before, after in pairs]
    from_csv = prepared("shakespeare", makers.write_hub_text(tmp_path / "b.csv", rows), tmp_path / "b")
    assert from_json.digest == from_csv.digest
    shuffled = random.Random(0).sample(rows, len(rows))
    mixed = prepared("shakespeare", makers.write_hub_text(tmp_path / "c.csv", shuffled), tmp_path / "c")
    for data in (from_json, mixed):
        letters = np.array(data.classes)
        for place, user in enumerate(data.users):
            inputs, labels = data.user(place)
            pairs = {("".join(letters[x]), str(letters[y])) for x, y in zip(inputs, labels, strict=True)}
            assert pairs == set(windows[user])
    assert from_json.tokens
    assert from_json.inputs.dtype == np.uint8
    assert len(from_json.classes) == 80
    assert (tmp_path / "a" / "inputs.npy").stat().st_size < 2 * sum(map(len, makers.SPEECHES.values()))


def test_celeba_is_the_same_from_every_form(tmp_path: Path) -> None:
    album = makers.faces()
    lists = makers.write_celeba(tmp_path / "celeba" / "raw", album)
    own = prepared("celeba", lists, tmp_path / "own")
    leaf = {
        user: ([name for name, _, _ in faces], [float(smile) for _, _, smile in faces]) for user, faces in album.items()
    }
    makers.write_json(tmp_path / "celeba" / "all_data" / "all_data.json", makers.leaf_content(leaf))
    assert prepared("celeba", tmp_path / "celeba", tmp_path / "leaf").digest == own.digest
    assert own.classes == ("not smiling", "smiling")
    assert np.array_equal(own.user(1)[0][2], album["101"][2][1].transpose(2, 0, 1))
    assert own.user(2)[1].tolist() == [int(smile) for _, _, smile in album["102"]]


def test_another_attribute_can_be_guessed(tmp_path: Path) -> None:
    makers.write_celeba(tmp_path / "raw", makers.faces())
    smiling = prepared("celeba", tmp_path / "raw", tmp_path / "a")
    serious = prepared("celeba", tmp_path / "raw", tmp_path / "b", attribute="Serious")
    assert serious.classes == ("not serious", "serious")
    assert np.array_equal(serious.labels, 1 - smiling.labels)
    with pytest.raises(TurboSVMError, match=r"Unknown attribute 'Smilling' in list_attr_celeba\.txt; .*'Smiling'"):
        prepared("celeba", tmp_path / "raw", tmp_path / "c", attribute="Smilling")


def test_celebrities_with_fewer_than_five_images_are_left_out_as_in_leaf(tmp_path: Path) -> None:
    album = makers.faces(3, 5)
    makers.write_celeba(tmp_path / "raw", {**album, "102": album["102"][:4]})
    request = Request("celeba", str(tmp_path / "raw"))
    assert prepare(request, tmp_path / "a").small_users == 1
    assert store.load(tmp_path / "a").users == ("100", "101")
    prepare(request, tmp_path / "b", Rules(min_samples=0))
    assert store.load(tmp_path / "b").users == ("100", "101", "102")


def test_leafs_own_split_is_kept_when_asked_for(tmp_path: Path) -> None:
    images, labels = WRITERS["f0003_00"]
    makers.write_leaf(tmp_path / "leaf" / "train" / "a.json", {"both": (images[:3], labels[:3]), "a": (images, labels)})
    makers.write_leaf(tmp_path / "leaf" / "test" / "b.json", {"both": (images[3:], labels[3:]), "c": (images, labels)})
    data = prepared("femnist", tmp_path / "leaf", tmp_path / "out", own_split=True)
    assert data.users == ("a", "both", "both (test)", "c")
    assert data.held_out == (False, False, True, True)
    assert data.counts.tolist() == [5, 3, 2, 5]
    split = split_users(data, held_out=0.9)
    assert (split.train, split.held_out) == ((0, 1), (2, 3))
    assert split_users(data, 0.9, min_samples=4) == Split(train=(0,), held_out=(2, 3))  # of those who train only
    with pytest.raises(TurboSVMError, match="leaves 4 users to train and 0 held out"):
        split_users(replace(data, held_out=(False,) * 4), 0.1)


def test_leafs_own_split_needs_leafs_folders(tmp_path: Path) -> None:
    makers.write_leaf(tmp_path / "leaf" / "train" / "a.json", WRITERS)
    with pytest.raises(TurboSVMError, match="has no folders train and test"):
        prepared("femnist", tmp_path / "leaf", tmp_path / "out", own_split=True)


def test_users_with_too_few_samples_are_left_out_and_counted(tmp_path: Path) -> None:
    file = makers.write_leaf(tmp_path / "a.json", WRITERS)
    done = prepare(Request("femnist", str(file)), tmp_path / "out", Rules(min_samples=4))
    assert store.load(done.folder).counts.tolist() == [4, 5]
    assert done.small_users == 2
    with pytest.raises(TurboSVMError, match="has no users with at least 99 samples"):
        prepare(Request("femnist", str(file)), tmp_path / "none", Rules(min_samples=99))


def test_the_manifest_tells_source_counts_hashes_and_split(tmp_path: Path) -> None:
    file = makers.write_leaf(tmp_path / "a.json", WRITERS)
    prepare(Request("femnist", str(file)), tmp_path / "out")
    manifest = store.read_manifest(tmp_path / "out")
    told = manifest.about
    assert told["source"] == {"kind": "LEAF's JSON", "path": str(file)}
    assert told["counts"] == {"users": 4, "samples": 14}
    assert told["split"] == {"by": "a hash of (seed, user)"}
    hashes = {name: sha256((tmp_path / "out" / name).read_bytes()).hexdigest() for name in manifest.hashes}
    assert manifest.hashes == hashes
    assert sorted(hashes) == ["inputs.npy", "labels.npy", "offsets.npy"]
    assert told["left_out"] == {"count": 0, "first": []}


def test_what_is_prepared_is_not_prepared_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = makers.write_leaf(tmp_path / "a.json", WRITERS)
    request = Request("femnist", str(file))
    first = prepare(request, tmp_path / "out")
    monkeypatch.setattr(preparation, "read_all", None)  # would fail
    assert prepare(request, tmp_path / "out") == Prepared(tmp_path / "out", True, first.left_out, 0)


@pytest.mark.parametrize("change", ["file", "rules", "options"])
def test_another_source_does_not_overwrite_unless_asked(change: str, tmp_path: Path) -> None:
    file = makers.write_leaf(tmp_path / "a" / "train" / "a.json", WRITERS)
    makers.write_leaf(tmp_path / "a" / "test" / "b.json", makers.writers(1, seed=1))
    request, rules = Request("femnist", str(tmp_path / "a")), Rules()
    prepare(request, tmp_path / "out", Rules())
    if change == "file":
        makers.write_leaf(file, makers.writers(3, seed=9))
    elif change == "rules":
        rules = Rules(min_samples=3)
    else:
        request = Request("femnist", str(tmp_path / "a"), own_split=True)
    before = store.read_manifest(tmp_path / "out")
    with pytest.raises(TurboSVMError, match=r"is there already.*--replace"):
        prepare(request, tmp_path / "out", rules)
    assert store.read_manifest(tmp_path / "out") == before
    assert not prepare(request, tmp_path / "out", rules, replace=True).was_there
    assert store.read_manifest(tmp_path / "out") != before
    assert {path.name for path in tmp_path.iterdir()} == {"a", "out"}


class Stop(KeyboardInterrupt):
    pass


@pytest.mark.parametrize("form", ["one file", "all_data", "train and test", "hub", "mixed hub"])
def test_a_stopped_preparation_goes_on_where_it_was(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workshop, "ENOUGH_BYTES", 0)  # a line in the journal for each chunk
    place = dict(femnist_in_every_form(tmp_path / "files"))[form]
    request, whole = Request("femnist", str(place)), prepared("femnist", place, tmp_path / "whole")
    kept = list[Any]()
    keep = workshop.Workshop.keep

    def keep_and_note(self: workshop.Workshop, *arguments: Any) -> None:
        keep(self, *arguments)
        kept.append(arguments)

    monkeypatch.setattr(workshop.Workshop, "keep", keep_and_note)
    prepare(request, tmp_path / "counted")
    chunks = len(kept)
    assert chunks >= 4
    for stop_after in range(1, chunks + 1):
        kept.clear()

        def stop(_: float, stop_after: int = stop_after) -> None:
            if len(kept) == stop_after:
                raise Stop

        folder = tmp_path / f"out-{stop_after}"
        with pytest.raises(Stop):
            prepare(request, folder, on_progress=stop)
        assert not folder.exists()
        kept.clear()
        prepare(request, folder)
        assert len(kept) == chunks - stop_after
        assert store.load(folder).digest == whole.digest
        assert not workshop.hidden_folder(folder).exists()


@pytest.mark.parametrize("moment", range(1, 13))
def test_an_interrupt_at_any_moment_of_writing_does_no_harm(
    moment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workshop, "ENOUGH_BYTES", 0)
    file = makers.write_leaf(tmp_path / "a.json", WRITERS)
    whole = prepared("femnist", file, tmp_path / "whole")
    synced, really = 0, os.fsync

    def fsync(handle: int) -> None:
        nonlocal synced
        synced += 1
        if synced == moment:
            raise Stop
        really(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(Stop):
            prepare(Request("femnist", str(file)), tmp_path / "out")
    assert prepared("femnist", file, tmp_path / "out").digest == whole.digest


def test_a_stream_that_was_cut_off_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workshop, "ENOUGH_BYTES", 0)
    file = makers.write_leaf(tmp_path / "a.json", WRITERS)
    shares = list[float]()

    def stop(share: float) -> None:
        shares.append(share)
        if len(shares) == 3:
            raise Stop

    with pytest.raises(Stop):
        prepare(Request("femnist", str(file)), tmp_path / "out", on_progress=stop)
    os.truncate(workshop.hidden_folder(tmp_path / "out") / "inputs.bin", 100)
    assert same_writers(prepared("femnist", file, tmp_path / "out"))


def test_replacing_touches_data_sets_only(tmp_path: Path) -> None:
    file = makers.write_leaf(tmp_path / "source" / "a.json", WRITERS)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    request = Request("femnist", str(file.parent))
    with pytest.raises(TurboSVMError, match="is there already, and is not a data set"):
        prepare(request, tmp_path / "thesis", replace=True)
    for place in (tmp_path / "source", tmp_path / "source" / "out", tmp_path):
        with pytest.raises(TurboSVMError, match="lies inside what it is made from, or around it"):
            prepare(request, place, replace=True)
    assert (tmp_path / "thesis" / "chapter.txt").exists()
    assert file.exists()


def test_what_appears_in_the_place_meanwhile_stays(tmp_path: Path) -> None:
    file = makers.write_leaf(tmp_path / "a.json", WRITERS)

    def meanwhile(_: float) -> None:
        (tmp_path / "out").mkdir(exist_ok=True)
        (tmp_path / "out" / "precious.txt").touch()

    with pytest.raises(TurboSVMError, match="is there already"):
        prepare(Request("femnist", str(file)), tmp_path / "out", on_progress=meanwhile)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.json", "out", "precious.txt"]


def test_a_set_from_the_hub_is_of_one_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workshop, "ENOUGH_BYTES", 0)
    new = makers.writers(4, seed=9)
    makers.write_hub_femnist(tmp_path / "commit-1" / "a.parquet", makers.hub_rows(WRITERS))
    makers.write_hub_femnist(tmp_path / "commit-2" / "a.parquet", makers.hub_rows(new))

    def stop(_: float) -> None:
        raise Stop

    monkeypatch.setattr("turbosvm.data.sources.hub.fetch", lambda place, offline: tmp_path / "commit-1")
    with pytest.raises(Stop):
        prepare(Request("femnist", "hub:"), tmp_path / "out", on_progress=stop)
    monkeypatch.setattr("turbosvm.data.sources.hub.fetch", lambda place, offline: tmp_path / "commit-2")
    prepare(Request("femnist", "hub:"), tmp_path / "out")
    assert same_writers(store.load(tmp_path / "out"), new)


def test_only_files_that_are_read_count(tmp_path: Path) -> None:
    file = makers.write_hub_femnist(tmp_path / "a" / "very" / "deep" / "down" / "a.parquet", makers.hub_rows(WRITERS))
    request = Request("femnist", str(tmp_path / "a"))
    prepare(request, tmp_path / "out")
    (tmp_path / "a" / ".DS_Store").touch()
    (tmp_path / "a" / "broken.parquet").symlink_to("nowhere")
    assert prepare(
        Request("femnist", str(tmp_path / "a"), attribute="Hat"), tmp_path / "out", Rules(min_samples=1)
    ).was_there
    makers.write_hub_femnist(file, makers.hub_rows(makers.writers(2, seed=1)))
    with pytest.raises(TurboSVMError, match="made from something else"):
        prepare(request, tmp_path / "out")


def test_everybodys_halves_stay_apart(tmp_path: Path) -> None:
    both = {"A": WRITERS["f0000_00"], "A (test)": WRITERS["f0001_00"]}
    makers.write_leaf(tmp_path / "leaf" / "train" / "a.json", both)
    makers.write_leaf(tmp_path / "leaf" / "test" / "a.json", both)
    data = prepared("femnist", tmp_path / "leaf", tmp_path / "out", own_split=True)
    assert len(data.users) == 4
    assert len(data.labels) == 10
    assert sorted(data.held_out or ()) == [False, False, True, True]


def test_a_folder_with_a_manifest_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    file = makers.write_leaf(tmp_path / "a.json", WRITERS)
    (tmp_path / "extension").mkdir()
    (tmp_path / "extension" / "manifest.json").write_text('{"manifest_version": 3}')
    (tmp_path / "extension" / "code.js").touch()
    with pytest.raises(TurboSVMError, match="is not a data set"):
        prepare(Request("femnist", str(file)), tmp_path / "extension", replace=True)
    assert (tmp_path / "extension" / "code.js").exists()


def test_the_old_set_comes_back_if_it_cannot_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = makers.write_leaf(tmp_path / "a.json", WRITERS)
    old = prepared("femnist", file, tmp_path / "out").digest
    rename = Path.rename

    def fails(self: Path, target: Path) -> Path:
        if self.name == "finished":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fails)
        with pytest.raises(TurboSVMError, match="No space left"):
            prepare(Request("femnist", str(file)), tmp_path / "out", Rules(min_samples=3), replace=True)
    assert store.load(tmp_path / "out").digest == old

    def killed(self: Path, target: Path) -> Path:
        if self.name == "finished":
            raise Stop
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", killed)
        with pytest.raises(Stop):
            prepare(Request("femnist", str(file)), tmp_path / "out", Rules(min_samples=3), replace=True)
    assert not (tmp_path / "out").exists()
    with pytest.raises(TurboSVMError, match="at least 99 samples"):
        prepare(Request("femnist", str(file)), tmp_path / "out", Rules(min_samples=99), replace=True)
    assert store.load(tmp_path / "out").digest == old


def test_the_place_may_be_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = makers.write_leaf(tmp_path / "a.json", WRITERS)
    prepare(Request("femnist", str(file)), tmp_path / "out")
    monkeypatch.chdir(tmp_path / "out")
    prepare(Request("femnist", str(file)), Path("../out"), Rules(min_samples=3), replace=True)
    assert len(store.load(tmp_path / "out").users) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "out"]


def test_asking_for_a_set_does_not_disturb_who_replaces_it(tmp_path: Path) -> None:
    file = makers.write_leaf(tmp_path / "a.json", WRITERS)
    request = Request("femnist", str(file))
    prepare(request, tmp_path / "out")

    def meanwhile(_: float) -> None:
        assert prepare(request, tmp_path / "out").was_there

    prepare(request, tmp_path / "out", Rules(min_samples=3), replace=True, on_progress=meanwhile)
    assert len(store.load(tmp_path / "out").users) == 3


def test_a_half_removed_workshop_is_nobodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = makers.write_leaf(tmp_path / "a.json", WRITERS)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(file, "x/a.json")
        archive.write(makers.write_leaf(tmp_path / "b.json", {"other": WRITERS["f0001_00"]}), "x/b.json")

    def stop(_: float) -> None:
        raise Stop

    request = Request("femnist", str(tmp_path / "a.zip"))
    with pytest.raises(Stop):
        prepare(request, tmp_path / "out", on_progress=stop)
    hidden = workshop.hidden_folder(tmp_path / "out")

    def dies(path: Path, **_: Any) -> None:
        (hidden / "unpacked" / "x" / "b.json").unlink()
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(workshop.shutil, "rmtree", dies)  # type: ignore[attr-defined]
        with pytest.raises(Stop):
            prepare(request, tmp_path / "out", Rules(min_samples=3))
    prepare(request, tmp_path / "out")
    assert len(store.load(tmp_path / "out").users) == 5


@pytest.mark.parametrize("linked", [True, False])
def test_changes_behind_links_are_noticed(linked: bool, tmp_path: Path) -> None:
    makers.write_leaf(tmp_path / "elsewhere" / "a.json", WRITERS)
    (tmp_path / "leaf").mkdir()
    (tmp_path / "leaf" / "train").symlink_to(tmp_path / "elsewhere")
    if linked:
        (tmp_path / "elsewhere" / "loop").symlink_to(tmp_path / "leaf")
    request = Request("femnist", str(tmp_path / "leaf"))
    prepare(request, tmp_path / "out")
    assert prepare(request, tmp_path / "out").was_there
    makers.write_leaf(tmp_path / "elsewhere" / "a.json", makers.writers(2, seed=4))
    with pytest.raises(TurboSVMError, match="made from something else"):
        prepare(request, tmp_path / "out")


def test_names_that_look_like_test_halves_stay_apart(tmp_path: Path) -> None:
    one = {"u": WRITERS["f0000_00"]}
    makers.write_leaf(tmp_path / "leaf" / "train" / "a.json", {**one, "u (test)": WRITERS["f0001_00"]})
    makers.write_leaf(tmp_path / "leaf" / "test" / "a.json", one)
    data = prepared("femnist", tmp_path / "leaf", tmp_path / "out", own_split=True)
    assert data.users == ("u", "u (test)", "u (test) (test)")
    assert data.held_out == (False, False, True)


def test_what_was_kept_of_another_source_is_not_used(tmp_path: Path) -> None:
    file = makers.write_leaf(tmp_path / "a.json", WRITERS)

    def stop(_: float) -> None:
        raise Stop

    with pytest.raises(Stop):
        prepare(Request("femnist", str(file)), tmp_path / "out", on_progress=stop)
    other = makers.writers(2, seed=5)
    makers.write_leaf(file, other)
    assert same_writers(prepared("femnist", file, tmp_path / "out"), other)


def test_a_journal_that_was_cut_off_is_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that loses power may leave half a line, and data that no line tells of."""
    monkeypatch.setattr(workshop, "ENOUGH_BYTES", 0)  # a line for each chunk
    file = makers.write_leaf(tmp_path / "a.json", WRITERS)
    count = 0

    def stop(_: float) -> None:
        nonlocal count
        count += 1
        if count == 3:
            raise Stop

    with pytest.raises(Stop):
        prepare(Request("femnist", str(file)), tmp_path / "out", on_progress=stop)
    hidden = workshop.hidden_folder(tmp_path / "out")
    journal = (hidden / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (hidden / "journal.jsonl").write_bytes(b"".join(journal[:2]) + journal[2][:10])
    with (hidden / "inputs.bin").open("ab") as stream:
        stream.write(b"half an image")
    assert same_writers(prepared("femnist", file, tmp_path / "out"))


@pytest.mark.parametrize("nonsense", ["garbage\n", "[]\n", "{}\n", '{"unit": 0, "runs": 3}\n'])
def test_a_journal_of_nonsense_is_begun_anew(nonsense: str, tmp_path: Path) -> None:
    file = makers.write_leaf(tmp_path / "a.json", WRITERS)

    def stop(_: float) -> None:
        raise Stop

    with pytest.raises(Stop):
        prepare(Request("femnist", str(file)), tmp_path / "out", on_progress=stop)
    (workshop.hidden_folder(tmp_path / "out") / "journal.jsonl").write_text(nonsense)
    assert same_writers(prepared("femnist", file, tmp_path / "out"))


@pytest.mark.parametrize("spoil", ["inputs.npy", "left_out", "small_users"])
def test_a_spoilt_set_is_not_taken_for_a_prepared_one(spoil: str, tmp_path: Path) -> None:
    file = makers.write_leaf(tmp_path / "a.json", WRITERS)
    request = Request("femnist", str(file))
    prepare(request, tmp_path / "out")
    if spoil == "inputs.npy":
        (tmp_path / "out" / spoil).unlink()
    else:
        about = {**store.read_manifest(tmp_path / "out").about, spoil: {"x": 1}}
        store.write_manifest(tmp_path / "out", store.describe(store.load(tmp_path / "out")), about)
    with pytest.raises(TurboSVMError, match="is there already"):
        prepare(request, tmp_path / "out")
    prepare(request, tmp_path / "out", replace=True)
    assert same_writers(store.load(tmp_path / "out"))


@pytest.mark.slow
def test_a_killed_preparation_leaves_nothing_in_the_place_and_goes_on(tmp_path: Path) -> None:
    writers = {f"w{place:03d}": WRITERS["f0003_00"] for place in range(400)}
    file = makers.write_leaf(tmp_path / "a.json", writers)
    code = (
        "import sys, time; from pathlib import Path\n"
        "from turbosvm.data.preparation import workshop\n"
        "from turbosvm.data.preparation.prepare import prepare\n"
        "from turbosvm.data.sources.request import Request\n"
        "workshop.ENOUGH_BYTES = 0\n"
        f"request, out = Request('femnist', {str(file)!r}), Path({str(tmp_path / 'out')!r})\n"
        "prepare(request, out, on_progress=lambda _: time.sleep(0.01))"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    journal = workshop.hidden_folder(tmp_path / "out") / "journal.jsonl"
    while not journal.exists() or len(journal.read_bytes().splitlines()) < 20:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "out").exists()
    kept = len(journal.read_bytes().splitlines())
    assert 20 <= kept < 400
    assert same_writers(prepared("femnist", file, tmp_path / "out"), writers)


def test_one_preparation_at_a_time(tmp_path: Path) -> None:
    file = makers.write_leaf(tmp_path / "a.json", WRITERS)

    def meanwhile(_: float) -> None:
        with pytest.raises(TurboSVMError, match="Another preparation is at work"):
            prepare(Request("femnist", str(file)), tmp_path / "out")

    prepare(Request("femnist", str(file)), tmp_path / "out", on_progress=meanwhile)


def test_progress_rises_from_nothing_to_all(tmp_path: Path) -> None:
    shares = list[float]()
    for name, place in femnist_in_every_form(tmp_path / "files"):
        shares.clear()
        prepare(Request("femnist", str(place)), tmp_path / name, on_progress=shares.append)
        assert shares == sorted(shares)
        assert shares[-1] == 1.0
        assert shares[0] < 1.0 or name == "hub"  # which is read in one batch


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    file = makers.write_leaf(tmp_path / "a.json", WRITERS)
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(TurboSVMError, match="Cannot write folder"):
        prepare(Request("femnist", str(file)), tmp_path / "closed" / "out")


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = makers.write_leaf(tmp_path / "a.json", WRITERS)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(preparation, "write_arrays", full)
    with pytest.raises(TurboSVMError, match=r"Cannot write folder .* No space left on device"):
        prepare(Request("femnist", str(file)), tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"a.json"}


def test_a_file_that_vanishes_is_named(tmp_path: Path) -> None:
    for name, user in (("a.json", "ann"), ("b.json", "bob")):
        makers.write_leaf(tmp_path / "leaf" / name, {user: WRITERS["f0000_00"]})
    with pytest.raises(TurboSVMError, match=r"b\.json' cannot be read: No such file or directory"):
        prepare(
            Request("femnist", str(tmp_path / "leaf")),
            tmp_path / "out",
            on_progress=lambda _: (tmp_path / "leaf" / "b.json").unlink(missing_ok=True),
        )
    assert [path.name for path in tmp_path.iterdir()] == ["leaf"]


def test_samples_of_nobody_are_given_to_made_up_users(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 2, 3)).astype(np.float32), rng.integers(0, 4, 60)
    np.savez(tmp_path / "a.npz", pixels=x, label=y)
    partition = Partition("shards", users=5, shards_per_user=2)
    columns = Columns(("pixels",), "label", None)
    data = prepared("own", tmp_path / "a.npz", tmp_path / "out", Rules(partition=partition), columns=columns)
    assert data.users == tuple(f"user-{user:04d}" for user in range(5))
    given = partition.assign(y)
    for user in range(5):
        inputs, labels = data.user(user)
        assert np.array_equal(inputs, x[given == user])
        assert np.array_equal(labels, y[given == user])


def test_a_large_set_is_opened_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred thousand users, and a million samples that are nowhere but in a sparse file."""
    monkeypatch.setattr(verified, "SETTLED", 0)
    users, each = 100_000, 10
    folder = tmp_path / "large"
    folder.mkdir()
    for name, shape in (("inputs", (users * each, 1, 28, 28)), ("labels", (users * each,))):
        np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=np.uint8, shape=shape)
    np.save(folder / "offsets.npy", np.arange(users + 1, dtype=np.int64) * each)
    described = {
        "name": "large",
        "users": [f"user-{user}" for user in range(users)],
        "classes": ["a"],
        "tokens": False,
        "window": None,
        "held_out": None,
    }
    store.write_manifest(folder, described, {})
    store.load(folder)  # reads all of it, once
    began = time.perf_counter()
    data = store.load(folder)
    inputs, _ = data.user(users - 1)
    assert time.perf_counter() - began < 0.3
    assert inputs.shape == (each, 1, 28, 28)
