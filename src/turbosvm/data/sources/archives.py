"""Zip and tar files, unpacked with care: nothing is written outside the folder, and only plain files are."""

import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from turbosvm.errors import TurboSVMError, in_one_line
from turbosvm.files import make_folder_atomically

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


def is_archive(path: Path) -> bool:
    """Whether a file is one that can be unpacked, by its name."""
    return path.is_file() and path.name.lower().endswith(SUFFIXES)


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack an archive into a new folder, or find it there, unpacked before; the folder is whole or absent."""
    if not folder.is_dir():
        make_folder_atomically(folder, lambda target: _unpack(archive, target))
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 else folder


def _unpack(archive: Path, folder: Path) -> None:
    try:
        members = _zip_members(archive) if archive.name.lower().endswith(".zip") else _tar_members(archive)
        for name, content in members:
            target = folder / _inside(archive, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                shutil.copyfileobj(content, file)
    except TurboSVMError:
        raise
    except Exception as error:  # broken archives are met with errors of many kinds
        raise TurboSVMError(f"'{archive}' cannot be unpacked: {in_one_line(error)}") from error


def _inside(archive: Path, name: str) -> Path:
    """Where a member goes, relative to the folder; refused if that is outside of it."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in name or not path.parts:
        raise TurboSVMError(f"'{archive}' has a member that points outside: '{name}'. Nothing was unpacked.")
    return Path(*path.parts)


def _zip_members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(archive) as file:
        for member in file.infolist():
            if not member.is_dir():
                with file.open(member) as content:
                    yield member.filename, content


def _tar_members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(archive) as file:
        for member in file:
            if member.issym() or member.islnk() or member.issparse():
                kind = "sparse file" if member.issparse() else "link"
                raise TurboSVMError(f"'{archive}' has a {kind}, '{member.name}'; only plain files are unpacked.")
            content = file.extractfile(member) if member.isfile() else None
            if content:
                yield member.name, content
