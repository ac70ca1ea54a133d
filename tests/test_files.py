from pathlib import Path

import pytest

from turbosvm.errors import TurboSVMError
from turbosvm.files import make_folder_atomically, new_folder, write_atomically


def test_a_file_appears_whole_and_replaces_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "file.txt"
    write_atomically(target, "old")
    write_atomically(target, "new")
    assert target.read_text() == "new"
    assert list(target.parent.iterdir()) == [target]


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "file.txt"
    write_atomically(target, "old")

    def full_disk(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(TurboSVMError, match=r"file\.txt': No space left on device"):
        write_atomically(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_failed_folder_leaves_nothing(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise RuntimeError("crash")

    with pytest.raises(RuntimeError, match="crash"):
        make_folder_atomically(tmp_path / "set", fill)
    assert list(tmp_path.iterdir()) == []


def test_where_two_make_the_same_folder_the_first_stays(tmp_path: Path) -> None:
    def fast(folder: Path) -> None:
        (folder / "who").write_text("fast")

    def slow(folder: Path) -> None:
        make_folder_atomically(tmp_path / "set", fast, keep_existing=True)
        (folder / "who").write_text("slow")

    make_folder_atomically(tmp_path / "set", slow, keep_existing=True)
    assert (tmp_path / "set" / "who").read_text() == "fast"
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_a_folder_that_is_there_is_not_overwritten_in_silence(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    with pytest.raises(TurboSVMError, match="set' is there already; remove it, or choose another name"):
        make_folder_atomically(tmp_path / "set", lambda folder: None)


def test_new_folders_never_share_a_name(tmp_path: Path) -> None:
    assert [new_folder(tmp_path, "run").name for _ in range(3)] == ["run", "run-2", "run-3"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TurboSVMError, match=r"Cannot write folder '.*file/run': (Not a directory|File exists)"):
        new_folder(tmp_path / "file", "run")
