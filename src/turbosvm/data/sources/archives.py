"""Zip and tar files, unpacked with care: nothing is written outside the folder, and only plain files are."""

import bz2
import gzip
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from turbosvm.data.sources.sizes import Limit, limit_of
from turbosvm.errors import TurboSVMError, in_one_line
from turbosvm.files import make_folder_atomically

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
COMPRESSED: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
}
PIECE = 2**20
ENTRY = 4096
"""Bytes that a file takes on the disk beside its content."""

Member = tuple[str, IO[bytes]]


def is_archive(path: Path) -> bool:
    """Whether a file is one that can be unpacked, by its name."""
    return path.is_file() and path.name.lower().endswith(SUFFIXES)


def unpack(archive: Path, folder: Path, allow_large: bool = False) -> Path:
    """Unpack an archive into a new folder, or find it there, unpacked before; the folder is whole or absent.

    One that grows to more than is usual is refused, unless it is allowed to; one for which there is no room, always.
    """
    if not folder.is_dir():
        make_folder_atomically(folder, lambda target: _unpack(archive, target, limit_of(archive, allow_large, target)))
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 else folder


def _unpack(archive: Path, folder: Path, limit: Limit) -> None:
    unpacked = 0
    try:
        members = _zip_members if archive.name.lower().endswith(".zip") else _tar_members
        for name, content in members(archive, limit):
            target = folder / _inside(archive, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                unpacked += ENTRY
                while block := content.read(PIECE):
                    unpacked += len(block)
                    limit.check(unpacked)
                    file.write(block)
                limit.check(unpacked)
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


def _zip_members(archive: Path, limit: Limit) -> Iterator[Member]:
    with zipfile.ZipFile(archive) as file:
        members = [member for member in file.infolist() if not member.is_dir()]
        limit.check(sum(member.file_size + ENTRY for member in members))
        for member in members:
            with file.open(member) as content:
                yield member.filename, content


def _tar_members(archive: Path, limit: Limit) -> Iterator[Member]:
    with (
        archive.open("rb") as packed,
        _decompressed(packed) as stream,
        tarfile.open(fileobj=Metered(stream, limit), mode="r:") as file,  # type: ignore[call-overload]
    ):
        for member in file:
            if member.issym() or member.islnk() or member.issparse():
                kind = "sparse file" if member.issparse() else "link"
                raise TurboSVMError(f"'{archive}' has a {kind}, '{member.name}'; only plain files are unpacked.")
            content = file.extractfile(member) if member.isfile() else None
            if content:
                yield member.name, content


def _decompressed(packed: IO[bytes]) -> Any:
    """The file itself, or what it is compressed from, by how it begins."""
    start = packed.read(6)
    packed.seek(0)
    for magic, kind in COMPRESSED.items():
        if start.startswith(magic):
            return kind(packed)
    return packed


class Metered:
    """A stream, of which no more is read than may come out of a file, and no header larger than memory likes."""

    def __init__(self, stream: IO[bytes], limit: Limit) -> None:
        self._stream, self._limit = stream, limit

    def read(self, size: int) -> bytes:
        """Read on, as a file does."""
        if not 0 <= size <= PIECE:
            raise ValueError(f"a header of it has {size:,} bytes")
        block = self._stream.read(size)
        self._limit.check(self._stream.tell())
        return block

    def seek(self, place: int) -> int:
        """Go on to a place; what lies before it is decompressed, too."""
        self._limit.check(place)
        return self._stream.seek(place)

    def tell(self) -> int:
        """Where the stream is."""
        return self._stream.tell()
