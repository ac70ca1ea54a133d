"""Files that grow without measure are refused before they fill memory or the disk; real data grows as it likes."""

import io
import shutil
import struct
import tarfile
import tracemalloc
import zipfile
import zlib
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import turbosvm as command
from tests.data.sources import makers
from turbosvm.data import store
from turbosvm.data.preparation.prepare import prepare
from turbosvm.data.sources import sizes
from turbosvm.data.sources.images import ImageRule, decode
from turbosvm.data.sources.request import Columns, Request
from turbosvm.errors import TurboSVMError

ZEROS = bytes(2**20)
WRITERS = makers.writers()
TAR_KINDS = ("gz", "bz2", "xz")


class Zeros(io.RawIOBase):
    """A file of so many zeros."""

    def __init__(self, size: int) -> None:
        self.left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self.left)
        buffer[:count] = bytes(count)
        self.left -= count
        return count


def zip_of_zeros(file: Path, size: int) -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.json", "w") as member:
        for _ in range(size // len(ZEROS)):
            member.write(ZEROS)
    return file


def tar_of_zeros(file: Path, size: int, kind: str = "gz", member_type: bytes = tarfile.REGTYPE) -> Path:
    with tarfile.open(file, f"w:{kind}") as archive:  # type: ignore[call-overload]
        member = tarfile.TarInfo("a.json")
        member.size, member.type = size, member_type
        archive.addfile(member, io.BufferedReader(Zeros(size)))
    return file


def refusal(file: Path, **options: Any) -> str:
    """What is said against a file; nothing of it stays, and it needs little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(TurboSVMError) as refused:
            prepare(Request(options.pop("task", "femnist"), str(file), **options), file.parent / "out")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40e6
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    return str(refused.value)


@pytest.mark.parametrize("suffix", ["zip", "tar.gz", "tar.bz2", "tar.xz"])
def test_an_archive_that_grows_without_measure_is_refused(suffix: str, tmp_path: Path) -> None:
    file, size = tmp_path / f"a.{suffix}", 2**27
    if suffix == "zip":
        zip_of_zeros(file, size)
    else:
        tar_of_zeros(file, size, suffix.removeprefix("tar."))
    assert file.stat().st_size < size / 500
    sentence = refusal(file)
    assert f"'{file}' has {file.stat().st_size:,} bytes, and more than 67,108,864 come out of it" in sentence
    assert "--allow-large" in sentence


@pytest.mark.parametrize("kind", ["zip", *TAR_KINDS])
def test_it_is_unpacked_if_that_is_allowed(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "SMALL", 2**16)
    content = makers.write_leaf(tmp_path / "b.json", WRITERS).read_bytes().rstrip() + b" " * 2**23
    (tmp_path / "b.json").unlink()
    file = tmp_path / ("a.zip" if kind == "zip" else f"a.tar.{kind}")
    if kind == "zip":
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.json", content)
    else:
        with tarfile.open(file, f"w:{kind}") as tar:  # type: ignore[call-overload]
            member = tarfile.TarInfo("a.json")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    assert "--allow-large" in refusal(file)
    assert command("data", "prepare", "femnist", "--from", str(file), "--out", "./out", "--allow-large") == 0
    assert len(store.load(tmp_path / "out").users) == len(WRITERS)


@pytest.mark.parametrize("suffix", ["zip", "tar.gz", "tar"])
@pytest.mark.parametrize("allow_large", [False, True])
def test_what_the_disk_has_no_room_for_is_never_unpacked(
    suffix: str, allow_large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", ["total", "used", "free"])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(2**40, 2**40, sizes.SPARE + 2**20))
    file = tmp_path / f"a.{suffix}"
    (zip_of_zeros if suffix == "zip" else tar_of_zeros)(file, 2**21)
    sentence = refusal(file, allow_large=allow_large)
    assert f"More comes out of '{file}' than the disk has room for, which is 1,048,576 bytes." == sentence


def test_headers_are_not_read_into_memory(tmp_path: Path) -> None:
    file = tar_of_zeros(tmp_path / "a.tar.gz", 2**26, member_type=tarfile.XHDTYPE)
    assert "a header of it has 67,108,864 bytes" in refusal(file, allow_large=True)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (b"Z", "--allow-large"),
        # Folders and devices have no content: what stands in its place is taken for the archive's end, and not read.
        (tarfile.DIRTYPE, "does not hold femnist"),
        (tarfile.CHRTYPE, "does not hold femnist"),
    ],
)
def test_what_is_passed_over_counts_too(kind: bytes, why: str, tmp_path: Path) -> None:
    file = tmp_path / "a.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        for number in range(2):
            member = tarfile.TarInfo(f"{number}")
            member.size, member.type = 2**26 + 1, kind
            archive.addfile(member, io.BufferedReader(Zeros(member.size)))
    assert why in refusal(file)


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_great_many_empty_files_count(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "SMALL", 2**16)
    monkeypatch.setattr(sizes, "RATIO", 20)
    file = tmp_path / ("a.zip" if kind == "zip" else "a.tar.gz")
    if kind == "zip":
        with zipfile.ZipFile(file, "w") as archive:
            for number in range(2000):
                archive.writestr(f"{number}", b"")
    else:
        with tarfile.open(file, "w:gz") as tar:
            for number in range(2000):
                tar.addfile(tarfile.TarInfo(f"{number}"))
    assert "--allow-large" in refusal(file)


def test_a_member_that_says_it_is_small_brings_nothing_more(tmp_path: Path) -> None:
    file = zip_of_zeros(tmp_path / "a.zip", 2**27)
    content = bytearray(file.read_bytes())
    place = content.rindex(b"PK\x01\x02")
    content[place + 24 : place + 28] = struct.pack("<I", 100)
    file.write_bytes(content)
    assert "Bad CRC-32" in refusal(file)  # after the bytes that it says it has


def test_arrays_that_grow_without_measure_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    np.savez_compressed(file, input=np.zeros((2**25, 1), np.float32), label=np.zeros(2**25, np.uint8))
    assert "--allow-large" in refusal(file, task="own", columns=Columns(user=None))


def test_tables_that_grow_without_measure_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    rows = pa.table({"input": [bytes(2**25)] * 3, "label": [0] * 3, "user": ["a", "b", "c"]})
    pq.write_table(rows, file, compression="zstd", use_dictionary=False)
    del rows
    assert "--allow-large" in refusal(file, task="own")


def test_tables_in_an_archive_are_looked_at_too(tmp_path: Path) -> None:
    inside = tmp_path / "a.npz"
    np.savez_compressed(inside, input=np.zeros((2**25, 1), np.float32), label=np.zeros(2**25, np.uint8))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(inside, "a.npz")
    inside.unlink()
    assert "a.npz' has" in refusal(tmp_path / "a.zip", task="own", columns=Columns(user=None))


def png(width: int, height: int) -> bytes:
    """A grey image of zeros, written without the memory that it takes."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    packer, packed = zlib.compressobj(9), b""
    for _ in range(height):
        packed += packer.compress(bytes(1 + width))
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", packed + packer.flush()) + chunk(b"IEND", b"")


@pytest.mark.parametrize("rule", [ImageRule((), None, None), ImageRule(((28, 28),), None, False)])
@pytest.mark.parametrize("side", [5000, 20_000])
def test_images_that_grow_without_measure_are_not_decoded(rule: ImageRule, side: int) -> None:
    file = png(side, side)
    tracemalloc.start()
    found = decode(file, rule)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(found, str)
    assert peak < 5e6


@pytest.mark.parametrize("suffix", ["zip", *(f"tar.{kind}" for kind in TAR_KINDS)])
def test_leafs_json_is_let_through(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "SMALL", 0)
    rng = np.random.default_rng(0)
    writers = {}
    for user in range(20):  # white paper with some ink, as LEAF has it
        images = np.full((30, 28, 28), 255, np.uint8)
        images[:, 8:20, 8:20] = rng.integers(0, 256, (30, 12, 12))
        writers[f"u{user}"] = (images, rng.integers(0, 62, 30).tolist())
    file = makers.write_leaf(tmp_path / "a" / "a.json", writers)
    kind = {"zip": "zip", "tar.gz": "gztar", "tar.bz2": "bztar", "tar.xz": "xztar"}[suffix]
    archive = shutil.make_archive(str(tmp_path / "packed"), kind, file.parent)
    assert file.stat().st_size > 5 * Path(archive).stat().st_size
    prepare(Request("femnist", archive), tmp_path / "out")
    assert len(store.load(tmp_path / "out").users) == 20
