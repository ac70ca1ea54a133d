"""Files that are whole or absent: everything is written beside its place first and moved there in one step."""

import hashlib
import itertools
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from turbosvm.errors import TurboSVMError


@contextmanager
def cannot_write(what: str, path: Path) -> Iterator[None]:
    """Turn the operating system's refusal into a sentence that names the path."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise TurboSVMError(f"Cannot write {what} '{path}': {reason}.") from error


@contextmanager
def cannot_read(path: Path) -> Iterator[None]:
    """Turn the operating system's refusal into a sentence that names the path."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise TurboSVMError(f"Cannot read '{path}': {reason}.") from error


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a small file so that a reader, or a crash, never sees half of it."""
    data = content.encode() if isinstance(content, str) else content
    with cannot_write("file", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of what is in a file."""
    with cannot_read(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def temporary_files(folder: Path, name: re.Pattern[str]) -> list[Path]:
    """What `write_atomically` left of files of such names when it was killed."""
    with cannot_read(folder):
        found = [(path, _TEMPORARY.fullmatch(path.name)) for path in folder.iterdir()]
        return [path for path, match in found if match and name.fullmatch(match[1]) and not path.is_dir()]


_TEMPORARY = re.compile(r"\.(.+)\.[a-z0-9_]{8}")


def refuse_unwritable(folder: Path) -> None:
    """Refuse a folder in which nothing can be made, before any work is done for it; nothing is written."""
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(place))
    with cannot_write("folder", folder):
        if not there.is_dir():
            raise NotADirectoryError(20, f"'{there}' is not a folder")
        if not os.access(there, os.W_OK | os.X_OK):
            raise PermissionError(13, f"nothing can be written in '{there}'")


def sync_folder(folder: Path) -> None:
    """See a folder's files to the disk, so that they survive the machine when the folder is moved to its place."""
    for path in [*folder.iterdir(), folder]:
        sync_to_disk(path)


def sync_to_disk(path: Path) -> None:
    """See a file, or the names of a folder's files, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with all that is in it, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def new_folder(root: Path, name: str) -> Path:
    """Make a folder that was not there: `root/name`, or the first free of `root/name-2`, `root/name-3`, ..."""
    with cannot_write("folder", root / name):
        root.mkdir(parents=True, exist_ok=True)
        for count in itertools.count(1):
            path = root / (name if count == 1 else f"{name}-{count}")
            with suppress(FileExistsError):
                path.mkdir()
                break
    return path


def make_folder_atomically(folder: Path, fill: Callable[[Path], None], keep_existing: bool = False) -> None:
    """Let `fill` write into a temporary folder beside `folder`, then move it there.

    A folder that is there already is an error, unless whoever was faster has made the same thing (`keep_existing`).
    """
    if folder.exists() and not keep_existing:
        raise TurboSVMError(f"'{folder}' is there already; remove it, or choose another name.")
    with cannot_write("folder", folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        temporary.chmod(0o755)
    try:
        with cannot_write("folder", folder):
            fill(temporary)
            try:
                temporary.rename(folder)
            except OSError:
                if not (keep_existing and folder.is_dir()):
                    raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
