"""Whatever is in a file, a reader gives good samples or one sentence, never an error of somebody else's."""

import csv
import io
import json
import os
import pickle
import shutil
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.conftest import Note
from tests.data.sources.mutations import Mutate, odd_column, of_bytes, of_json, of_text
from turbosvm.data import store
from turbosvm.data.federated import FederatedData
from turbosvm.data.preparation.prepare import Rules, prepare
from turbosvm.data.sources import archives, celeba, femnist, images
from turbosvm.data.sources.find import find_source
from turbosvm.data.sources.reading import Chunk, Form
from turbosvm.data.sources.request import Columns, Request
from turbosvm.data.windows import Tokens, Windows
from turbosvm.errors import TurboSVMError

SHARE = 500
"""Inputs that one test tries; the tests are shared among workers."""

Read = Callable[[bool], None]
"""Read what has been written; True goes on after bad things, as --skip-bad does."""

Trial = Callable[[Random], Read]
"""Write something wrong that is drawn from the generator."""

Write = Callable[[Random], None]
Lay = Callable[[Path], tuple[Request, Write]]
"""Write all that a source needs; returns how it is asked for, and what puts something wrong into it."""


@dataclass(frozen=True)
class Part:
    """A kind of input, and how many of it are tried."""

    name: str
    inputs: int
    lay: Callable[[Path], Trial]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is such a thing."""
    memory = "/dev/shm"
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as name:
        yield Path(name)


def read_source(request: Request, folder: Path) -> Read:
    """Read all chunks of all units, and hold each against the contract."""

    def read(go_on: bool) -> None:
        source = find_source(request, request.path(), folder / "unpacked")
        for unit in source.units:
            for chunk in unit.read(0):
                check(chunk, source.form)
                if chunk.bad and not go_on:
                    raise TurboSVMError(chunk.bad[0])

    return read


def check(chunk: Chunk, form: Form) -> None:
    """Hold a chunk against what reading.py promises."""
    count = len(chunk.labels)
    assert isinstance(chunk.user, str)
    assert chunk.labels.shape == (count,)
    assert chunk.inputs.dtype == form.dtype
    if form.classes is None:
        assert all(isinstance(label, str) and label.isprintable() and label for label in chunk.labels.tolist())
    elif count:
        assert chunk.labels.dtype.kind in "iu"
        assert 0 <= chunk.labels.min() <= chunk.labels.max() < len(form.classes)
    if form.window:
        assert chunk.segments is not None
        windows = Windows(chunk.inputs, np.cumsum([0, *chunk.segments.tolist()]), form.window)
        assert len(windows) == count
        assert not count or np.array_equal(guessed(windows), chunk.labels)
        assert not count or chunk.inputs.max() < len(form.classes or ())
    else:
        assert chunk.segments is None
        assert chunk.inputs.shape == (count, *form.shape)
        assert np.isfinite(chunk.inputs).all()
    assert 0 <= chunk.done <= 1
    assert all(is_a_sentence(each) for each in chunk.bad)


def guessed(windows: Windows) -> Tokens:
    """The token after each window."""
    ends = windows.segments[1:] + windows.length * np.arange(1, len(windows.segments))
    return np.concatenate([segment[windows.length :] for segment in np.split(windows.text, ends[:-1])])


def is_a_sentence(text: str) -> bool:
    """Whether this can be told to a person, wherever it is printed."""
    text.encode("utf-8")
    return bool(text.strip())


def whole(lay: Lay) -> Callable[[Path], Trial]:
    """Prepare a source from beginning to end: then there is a good data folder, or nothing at all."""

    def lay_all(folder: Path) -> Trial:
        (folder / "source").mkdir()
        request, write = lay(folder / "source")
        out = folder / "out"

        def read(go_on: bool) -> None:
            shutil.rmtree(out, ignore_errors=True)
            try:
                done = prepare(request, out, Rules(min_samples=1, skip_bad=go_on))
            except TurboSVMError:
                assert [each.name for each in folder.iterdir()] == ["source"]
                raise
            data = store.load(out)
            assert sum(len(data.user(user)[1]) for user in range(len(data.users))) == len(data.labels)
            assert go_on or not done.left_out.count

        def trial(rng: Random) -> Read:
            write(rng)
            return read

        return trial

    return lay_all


def of_source(lay: Lay) -> Callable[[Path], Trial]:
    """Read a source's chunks."""

    def lay_source(folder: Path) -> Trial:
        request, write = lay(folder)

        def trial(rng: Random) -> Read:
            write(rng)
            return read_source(request, folder)

        return trial

    return lay_source


def one_file(name: str, seeds: Callable[[], list[bytes]], mutate: Mutate, request: Callable[[str], Request]) -> Lay:
    """A source that is a single file."""

    def lay(folder: Path) -> tuple[Request, Write]:
        file = folder / name
        file.write_bytes(seeds()[0])
        return request(str(file)), lambda rng: _write(file, mutate(rng, seeds()))

    return lay


def _write(file: Path, content: bytes) -> None:
    file.write_bytes(content)


# --- What is right, to begin with


def encoded(size: tuple[int, int], mode: str, kind: str, seed: int = 0, **options: Any) -> bytes:
    """An image file of soft noise."""
    shape = (*size[::-1], *((3,) if mode == "RGB" else ()))
    pixels = np.random.default_rng(seed).integers(0, 40, size=shape, dtype=np.uint8) * 5
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, kind, **options)
    return file.getvalue()


@cache
def grey_images() -> list[bytes]:
    return [encoded((28, 28), "L", "PNG", seed) for seed in range(4)]


@cache
def faces() -> list[bytes]:
    return [encoded((84, 84), "RGB", "PNG"), encoded((84, 84), "RGB", "JPEG"), encoded((178, 218), "RGB", "JPEG")]


@cache
def all_images() -> list[bytes]:
    return [
        *(*grey_images()[:2], *faces(), encoded((28, 28), "1", "PNG"), encoded((28, 28), "RGB", "PNG")),
        *(encoded((28, 28), "P", "PNG"), encoded((28, 28), "LA", "PNG"), encoded((28, 28), "L", "JPEG")),
        *(encoded((28, 28), "RGB", "BMP"), encoded((28, 28), "RGB", "WEBP"), encoded((28, 28), "CMYK", "JPEG")),
        encoded((28, 28), "RGB", "JPEG", progressive=True),
    ]


def leaf_json(users: dict[str, tuple[list[Any], list[Any]]]) -> bytes:
    return json.dumps(
        {
            "users": list(users),
            "num_samples": [len(y) for _, y in users.values()],
            "user_data": {user: {"x": x, "y": y} for user, (x, y) in users.items()},
        }
    ).encode()


@cache
def leaf_femnist() -> list[bytes]:
    white, grey = [1.0] * 784, [0.25, 1] * 392
    return [
        leaf_json({"f0001_41": ([white, grey], [0, 61]), "f0002_00": ([grey], [7])}),
        leaf_json({"f0003_10": ([[0] * 784], [35]), "é": ([white], [1])}),
    ]


SPEECH = "Now is the winter of our discontent made glorious summer by this sun of York, and all the clouds that lour'd"


@cache
def leaf_shakespeare() -> list[bytes]:
    x, y = [SPEECH[at : at + 80] for at in range(5)], list(SPEECH[80:85])
    return [leaf_json({"RICHARD": (x, y), "HENRY": (x[:2], y[:2])}), leaf_json({"A": (x[::-1], y[::-1])})]


@cache
def leaf_celeba() -> list[bytes]:
    return [
        leaf_json({"12": (["000001.jpg", "000002.jpg"], [0, 1]), "7": (["000003.jpg"], [1])}),
        leaf_json({"3": (["000002.jpg"], [0])}),
    ]


def lay_faces(folder: Path) -> None:
    (folder / celeba.IMAGES).mkdir()
    for number, face in enumerate(faces(), start=1):
        (folder / celeba.IMAGES / f"{number:06d}.jpg").write_bytes(face)


def lay_leaf_celeba(folder: Path) -> tuple[Request, Write]:
    lay_faces(folder)
    return one_file("all.json", leaf_celeba, of_json, lambda path: Request("celeba", path))(folder)


def parquet(columns: dict[str, Any], **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, **options)
    return file.getvalue()


def image_column(contents: list[bytes]) -> pa.Array:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    return pa.array([{"bytes": each, "path": None} for each in contents], kind)


def right_columns(task: str) -> dict[str, Any]:
    if task == "femnist":
        return {"image": image_column(grey_images()), "writer_id": list("aabb"), "character": [0, 61, 5, 7]}
    if task == "celeba":
        return {"image": image_column(faces()), "celeb_id": [5, 5, 6], "Smiling": [True, False, True]}
    if task == "shakespeare":
        rows = range(5)
        return {"character_id": ["X"] * 5, "x": [SPEECH[at : at + 80] for at in rows], "y": list(SPEECH[80:85])}
    return {"a": [0.5, 1.0, 2.0], "b": [1, 2, 3], "label": ["cat", "dog", "cat"], "user": ["u", "v", "u"]}


@cache
def parquet_files(task: str) -> list[bytes]:
    columns = right_columns(task)
    return [parquet(columns), parquet(columns, compression="none", use_dictionary=False, data_page_version="2.0")]


@cache
def own_parquet_files() -> list[bytes]:
    lists = {"input": [[1.0, 2.0], [3.0, 4.0]], "label": [0, 1], "user": [1, 2]}
    pictures = {"input": grey_images()[:2], "label": [0, 1], "user": [1, 2]}
    return [*parquet_files("own"), parquet(lists), parquet(pictures)]


@cache
def csv_files(task: str) -> list[bytes]:
    file, text = io.BytesIO(), io.StringIO()
    columns = right_columns(task)
    pacsv.write_csv(pa.table(columns), file)
    writer = csv.writer(text)
    writer.writerows([list(columns), *zip(*columns.values(), strict=True)])
    return [file.getvalue(), text.getvalue().encode()]


@cache
def npz_files() -> list[bytes]:
    arrays: dict[str, Any] = {
        "input": np.zeros((3, 2, 2), np.uint8),
        "label": np.arange(3),
        "user": np.array(["u", "v", "u"]),
    }
    files = [io.BytesIO(), io.BytesIO()]
    np.savez(files[0], **arrays)
    np.savez_compressed(files[1], **arrays | {"input": np.ones((3, 4), np.float64)})
    return [file.getvalue() for file in files]


def odd_table(task: str) -> Lay:
    """A good Parquet file with a column of a kind that does not belong there, or without it."""

    def lay(folder: Path) -> tuple[Request, Write]:
        file = folder / "table.parquet"
        file.write_bytes(parquet_files(task)[0])

        def write(rng: Random) -> None:
            columns = right_columns(task)
            for name in rng.sample(list(columns), rng.choice((1, 1, 2))):
                columns[name] = odd_column(rng, len(columns[name]))
            if rng.random() < 0.1:
                columns.pop(rng.choice(list(columns)))
            file.write_bytes(parquet(columns))

        return Request(task, str(file)), write

    return lay


def npy_of_shape(shape: str) -> bytes:
    """The head of an array of NumPy's format, and nothing after it."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header


def odd_npz(folder: Path) -> tuple[Request, Write]:
    """A good npz file with an array of a kind that does not belong there, or with something that is no array."""
    file = folder / "table.npz"
    file.write_bytes(npz_files()[0])
    arrays: list[Any] = [
        *(np.zeros(()), np.zeros((0,)), np.zeros((3, 0)), np.zeros(3, bool), np.array([1, -1, 2**62]), np.zeros(4)),
        *(np.array([np.nan, np.inf, 1e300]), np.zeros(3, complex), np.array([b"a", b"b", b"c"]), np.array(list("abc"))),
        *(np.array(["", "\0", "\n"]), np.zeros(3, "M8[s]"), np.zeros(3, "m8"), np.zeros(3, [("a", "i4"), ("b", "f4")])),
        *(np.zeros(3, "f2"), np.zeros(3, ">f8"), np.zeros(3, "g"), np.zeros(3, "V7"), np.full((3, 2), 2**64 - 1, "u8")),
        *(
            np.array([1e300] * 3),
            np.zeros((3, 2, 2, 2)),
            np.array([0.5, 1.0, 1e20]),
            b"",
            b"words",
            b"\x93NUMPY",
            b"\x93NUMPY\1\0\2\0{}",
        ),
        b"\x93NUMPY\1\0\x0a\0" + b"(" * 10,
        b"\x93NUMPY\2\0\xff\xff\xff\xff",
        b"\x93NUMPY\1\0\4\0'''\n",
    ]

    def write(rng: Random) -> None:
        held: dict[str, Any] = {"input": np.zeros((3, 4)), "label": np.arange(3), "user": np.array(["u", "v", "u"])}
        for name in rng.sample(list(held), rng.choice((1, 1, 2))):
            held[name] = rng.choice(arrays)
        with zipfile.ZipFile(file, "w") as archive:
            for name, array in held.items():
                content = io.BytesIO()
                if isinstance(array, bytes):
                    content.write(of_bytes(rng, [array]) if rng.random() < 0.3 else array)
                else:
                    np.save(content, array, allow_pickle=False)
                archive.writestr(f"{name}.npy", content.getvalue())

    return Request("own", str(file)), write


ATTRIBUTE_LIST = b"3\nBald Smiling Young\n000001.jpg -1  1 -1\n000002.jpg  1 -1  1\n000003.jpg -1 -1  1\n"
IDENTITY_LIST = b"000001.jpg 7\n000002.jpg 7\n000003.jpg 12\n"


def lay_lists(folder: Path) -> tuple[Request, Write]:
    """CelebA's own files, with a mistake in one of the two lists."""
    lay_faces(folder)
    right = {celeba.ATTRIBUTES: ATTRIBUTE_LIST, celeba.IDENTITIES: IDENTITY_LIST}

    def write(rng: Random) -> None:
        for name, content in right.items():
            (folder / name).write_bytes(content)
        chosen = rng.choice(list(right))
        (folder / chosen).write_bytes(of_text(rng, [right[chosen], *right.values()]))

    for name, content in right.items():
        (folder / name).write_bytes(content)
    return Request("celeba", str(folder)), write


@cache
def plays() -> list[bytes]:
    lines = [
        "The Complete Works",
        "",
        "1609",
        "",
        "THE SONNETS",
        "",
        "by William Shakespeare",
        "",
        "  From fairest",
        "",
        "1601",
        "",
    ]
    for title, indent in (("HAMLET", "  "), ("THE COMEDY OF ERRORS", "")):
        lines += [title, "", "by William Shakespeare", "", "ACT I. Scene 1"]
        for speech in range(4):
            for name in ("Ham", "KING"):
                lines += [f"{indent}{name}. {SPEECH[speech:][:60]}", f"{indent * 2}and {SPEECH[:40]}", ""]
    return ["\n".join(lines).encode(), "\r\n".join(lines).encode()]


def lay_nist(folder: Path) -> tuple[Request, Write]:
    """NIST's folders; the wrong image lies in both, so that its class is known."""
    right = [encoded((128, 128), "L", "PNG", seed) for seed in range(2)] + [encoded((128, 128), "1", "PNG")]
    writer, drawn = folder / "by_write" / "hsf_0" / "f0000_14" / "c0000_14", folder / "by_class" / "4a" / "hsf_0"
    for place in (writer, drawn):
        place.mkdir(parents=True)
        for number, image in enumerate(right):
            (place / f"image_{number}.png").write_bytes(image)

    def write(rng: Random) -> None:
        wrong = of_bytes(rng, right)
        for place in (writer, drawn):
            (place / "image_0.png").write_bytes(wrong)

    return Request("femnist", str(folder)), write


# --- What is not a source


def lay_images(folder: Path) -> Trial:
    """Image files to the decoder of each rule."""
    rules = [femnist.HUB_IMAGE, femnist.NIST_IMAGE, celeba.IMAGE, images.ImageRule((), None, None)]

    def trial(rng: Random) -> Read:
        wrong, rule = [of_bytes(rng, all_images()), rng.choice(all_images())], rng.choice(rules)

        def read(go_on: bool) -> None:
            found = images.decode_all(wrong, rule) if go_on else [images.decode(each, rule) for each in wrong]
            for image in found:
                check_image(image, rule)

        return read

    return trial


def check_image(image: images.Images | str, rule: images.ImageRule) -> None:
    if isinstance(image, str):
        assert is_a_sentence(image)
        return
    channels, height, width = image.shape
    assert image.dtype == np.uint8
    assert channels == {True: 3, False: 1, None: channels}[rule.colour]
    assert (width, height) in ((rule.target,) if rule.target else rule.sizes or ((width, height),))


def png_chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int, height: int, packed: bytes, depth: int = 8, colour: int = 0, interlaced: int = 0) -> bytes:
    """A PNG file whose parts are in order, whatever they say."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", packed) + png_chunk(b"IEND", b"")


def lay_made_images(folder: Path) -> Trial:
    """PNG files that are sound on the outside: all checks of the chunks hold, but the content is not what they say."""

    def trial(rng: Random) -> Read:
        width, height = rng.choice(
            ((28, 28), (28, 28), (28, 27), (0, 0), (1, 1), (60_000, 60_000), (2**31 - 1, 1), (128, 128))
        )
        rows = b"".join(bytes([rng.choice((0, 1, 2, 3, 4, rng.randrange(256)))]) + rng.randbytes(28) for _ in range(28))
        rows = rng.choice((rows, rows, rows[:-1], rows + b"\0", rows * 100, b""))
        packed = rng.choice((zlib.compress(rows), zlib.compress(rows)[:-3], of_bytes(rng, [zlib.compress(rows)])))
        depth, colour = rng.choice(((8, 0), (8, 0), (8, 2), (16, 0), (1, 0), (8, 3), (8, 6), (7, 9)))
        wrong = png(width, height, packed, depth, colour, rng.choice((0, 0, 1, 7)))

        def read(go_on: bool) -> None:
            for rule in (femnist.HUB_IMAGE, images.ImageRule((), None, None)):
                for image in images.decode_all([wrong, None, b""], rule) if go_on else [images.decode(wrong, rule)]:
                    check_image(image, rule)

        return read

    return trial


@cache
def archive_files(kind: str) -> list[bytes]:
    """Archives of a few files in folders."""
    contents = {"all_data/all.json": leaf_shakespeare()[0], "README": b"words " * 100, "a/b/c.txt": b""}
    file = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, content in contents.items():
                packed.writestr(name, content)
        return [file.getvalue()]
    with tarfile.open(fileobj=file, mode=f"w:{kind}", format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size, member.pax_headers = len(content), {"comment": "é"}
            tar.addfile(member, io.BytesIO(content))
    return [file.getvalue()]


def lay_archive(kind: str) -> Callable[[Path], Trial]:
    suffix = {"zip": "zip", "": "tar"}.get(kind, f"tar.{kind}")

    def lay(folder: Path) -> Trial:
        archive, unpacked = folder / f"archive.{suffix}", folder / "inner" / "unpacked"

        def trial(rng: Random) -> Read:
            archive.write_bytes(of_bytes(rng, archive_files(kind)))
            return read

        def read(go_on: bool) -> None:
            try:
                assert archives.unpack(archive, unpacked).is_relative_to(unpacked)
                assert all(each.is_dir() or each.is_file() for each in unpacked.rglob("*"))
                assert not any(each.is_symlink() for each in unpacked.rglob("*"))
            finally:
                shutil.rmtree(unpacked, ignore_errors=True)
                assert sorted(each.name for each in folder.iterdir()) == [archive.name, "inner"]
                assert not list((folder / "inner").iterdir())

        return trial

    return lay


def data_folders(folder: Path) -> list[Path]:
    """A prepared set of numbers, and one of text."""
    numbers = FederatedData.from_users(
        {"a": (np.zeros((3, 2), np.float32), [0, 1, 1]), "b": (np.ones((1, 2), np.float32), [0])}, 2
    )
    text = np.arange(20, dtype=np.uint8)
    windows = Windows(text, np.array([0, 5, 10]), 5)
    letters = tuple(map(chr, range(97, 117)))
    spoken = FederatedData("spoken", windows, guessed(windows), np.array([0, 4, 10]), ("a", "b"), letters, tokens=True)
    for name, data in (("numbers", numbers), ("text", spoken)):
        store.save(data, folder / name)
    return [folder / "numbers", folder / "text"]


def lay_prepared(suffix: str, mutate: Mutate) -> Callable[[Path], Trial]:
    """Data folders of the project's own form, with a mistake in one file."""

    def lay(folder: Path) -> Trial:
        right = {
            each: {file: file.read_bytes() for file in sorted(each.glob(f"*.{suffix}"))}
            for each in data_folders(folder)
        }

        def trial(rng: Random) -> Read:
            chosen = rng.choice(list(right))
            for file, content in right[chosen].items():
                file.write_bytes(content)
            wrong = rng.choice(list(right[chosen]))
            wrong.write_bytes(mutate(rng, [right[chosen][wrong], right[chosen][wrong], *right[chosen].values()]))
            return lambda go_on: read(chosen)

        def read(chosen: Path) -> None:
            data = store.load(chosen)
            for user in range(len(data.users)):
                inputs, labels = data.user(user)
                assert len(inputs) == len(labels)

        return trial

    return lay


def for_task(task: str) -> Callable[[str], Request]:
    return lambda path: Request(task, path)


def own(path: str) -> Request:
    return Request("own", path)


LEAF_FEMNIST = one_file("all.json", leaf_femnist, of_json, for_task("femnist"))
LEAF_SHAKESPEARE = one_file("all.json", leaf_shakespeare, of_json, for_task("shakespeare"))
HUB_FEMNIST = one_file("a.parquet", lambda: parquet_files("femnist"), of_bytes, for_task("femnist"))
HUB_CELEBA = one_file("a.parquet", lambda: parquet_files("celeba"), of_bytes, for_task("celeba"))
HUB_SHAKESPEARE = one_file("a.csv", lambda: csv_files("shakespeare"), of_text, for_task("shakespeare"))
GUTENBERG = one_file("100.txt", plays, of_text, for_task("shakespeare"))
OWN_PARQUET = one_file("a.parquet", own_parquet_files, of_bytes, own)
OWN_CSV = one_file("a.csv", lambda: csv_files("own"), of_text, own)
OWN_CSV_CLASSES = one_file(
    "a.csv",
    lambda: csv_files("own"),
    of_text,
    lambda path: Request("own", path, columns=Columns(("a",), "b", None), classes=4),
)
OWN_NPZ = one_file("a.npz", npz_files, of_bytes, own)

SOURCES: dict[str, tuple[Lay, int]] = {
    "LEAF's FEMNIST": (LEAF_FEMNIST, 1500),
    "LEAF's Shakespeare": (LEAF_SHAKESPEARE, 2000),
    "LEAF's CelebA": (lay_leaf_celeba, 1000),
    "the hub's FEMNIST": (HUB_FEMNIST, 1500),
    "the hub's CelebA": (HUB_CELEBA, 500),
    "the hub's Shakespeare": (HUB_SHAKESPEARE, 1500),
    "odd tables for FEMNIST": (odd_table("femnist"), 500),
    "odd tables for CelebA": (odd_table("celeba"), 300),
    "odd tables for Shakespeare": (odd_table("shakespeare"), 500),
    "odd tables of one's own": (odd_table("own"), 1000),
    "CelebA's lists": (lay_lists, 1000),
    "Gutenberg's text": (GUTENBERG, 1500),
    "NIST's images": (lay_nist, 300),
    "own Parquet": (OWN_PARQUET, 1500),
    "own CSV": (OWN_CSV, 1500),
    "own CSV with classes": (OWN_CSV_CLASSES, 1000),
    "own npz": (OWN_NPZ, 1000),
    "odd npz": (odd_npz, 1000),
}
PARTS = [
    *(Part(name, inputs, of_source(lay)) for name, (lay, inputs) in SOURCES.items()),
    *(Part(f"{name}, from beginning to end", 50, whole(lay)) for name, (lay, _) in SOURCES.items()),
    Part("images", 1500, lay_images),
    Part("made images", 1000, lay_made_images),
    Part("zip", 500, lay_archive("zip")),
    Part("tar", 500, lay_archive("")),
    *(Part(f"tar.{kind}", 200, lay_archive(kind)) for kind in ("gz", "bz2", "xz")),
    Part("a prepared set's manifest", 1000, lay_prepared("json", of_json)),
    Part("a prepared set's arrays", 1000, lay_prepared("npy", of_bytes)),
]


def refusal(read: Read, go_on: bool) -> str | None:
    """Read; returns what our own error says, if there is one."""
    try:
        read(go_on)
    except TurboSVMError as error:
        return str(error)
    return None


def try_inputs(part: Part, folder: Path, numbers: range) -> int:
    """Read so many wrong inputs of a kind, in both ways; returns how many there were."""
    trial, tried = part.lay(folder), 0
    for number in numbers:
        read = trial(Random(f"{part.name} {number}"))
        for go_on in (False, True):
            try:
                sentence = refusal(read, go_on)
                assert sentence is None or is_a_sentence(sentence)
            except BaseException as error:
                error.add_note(f"input {number} of {part.name}, {'going on' if go_on else 'stopping'} at bad things")
                raise
        tried += 1
    return tried


SHARES = [
    (part, range(begin, min(begin + SHARE, part.inputs))) for part in PARTS for begin in range(0, part.inputs, SHARE)
]


@pytest.mark.parametrize(("part", "numbers"), SHARES, ids=[f"{part.name}, {numbers[0]}" for part, numbers in SHARES])
def test_only_our_own_errors_come_out(part: Part, numbers: range, folder: Path, record_property: Note) -> None:
    record_property("tried", len(numbers))
    assert try_inputs(part, folder, numbers) == len(numbers)


def test_twenty_thousand_wrong_inputs_are_tried() -> None:
    assert sum(len(numbers) for _, numbers in SHARES) >= 20_000


@pytest.mark.parametrize("name", SOURCES)
def test_a_reader_goes_on_after_any_number_of_chunks(name: str, folder: Path) -> None:
    request, write = SOURCES[name][0](folder)
    for number in range(50):
        rng = Random(f"going on with {name} {number}")
        write(rng)
        with suppress(TurboSVMError):
            for unit in find_source(request, request.path(), folder / "unpacked").units:
                chunks = [told(chunk) for chunk in unit.read(0)]
                skipped = rng.randint(0, len(chunks))
                assert [told(chunk) for chunk in unit.read(skipped)] == chunks[skipped:]


def told(chunk: Chunk) -> tuple[Any, ...]:
    """What is in a chunk, to compare."""
    return chunk.user, chunk.inputs.tobytes(), chunk.labels.tobytes(), chunk.bad, chunk.done, chunk.whole


@pytest.mark.parametrize("name", SOURCES)
def test_what_the_wrong_inputs_are_made_of_is_right(name: str, folder: Path) -> None:
    request, _ = SOURCES[name][0](folder)
    assert refusal(read_source(request, folder), go_on=False) is None


class Marker:
    """An object that makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_objects_that_act_when_they_are_read_are_never_read(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    pickle.loads(pickle.dumps(Marker(marker)))
    assert marker.exists()  # so that it would be seen
    marker.unlink()
    acting = np.array([Marker(marker)] * 3, dtype=object)
    for name in ("input", "label", "user"):
        arrays: dict[str, Any] = {"input": np.zeros((3, 2)), "label": np.arange(3), "user": np.arange(3)}
        np.savez(tmp_path / "table.npz", **arrays | {name: acting}, allow_pickle=True)
        with pytest.raises(TurboSVMError, match="cannot be read as npz"):
            prepare(Request("own", str(tmp_path / "table.npz")), tmp_path / "out")
    (tmp_path / "table.npz").write_bytes(pickle.dumps(Marker(marker)))
    with pytest.raises(TurboSVMError, match="cannot be read as npz"):
        prepare(Request("own", str(tmp_path / "table.npz")), tmp_path / "out")
    for data in data_folders(tmp_path):
        for file in data.glob("*.npy"):
            content = file.read_bytes()
            np.save(file, acting, allow_pickle=True)
            with pytest.raises(TurboSVMError, match="cannot be read"):
                store.load(data)
            file.write_bytes(pickle.dumps(Marker(marker)))
            with pytest.raises(TurboSVMError, match="cannot be read"):
                store.load(data)
            file.write_bytes(content)
    assert not marker.exists()
