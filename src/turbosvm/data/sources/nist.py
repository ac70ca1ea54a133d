"""NIST's Special Database 19 as it is published: the folders by_write and by_class, side by side.

by_write/PART/WRITER/FORM/*.png tells whose an image is, by_class/CLASS/... what it shows; a class is a folder named by
the character's code in hexadecimal. The same image lies in both, so the class is found by the image's content, as
LEAF does it.
"""

import hashlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from turbosvm.bounded import read_bounded
from turbosvm.data.sources.femnist import CLASSES, FORM, NIST_IMAGE
from turbosvm.data.sources.images import MOST_IN_A_FILE, decode_each
from turbosvm.data.sources.reading import Chunk, Unit, gather, nothing
from turbosvm.errors import TurboSVMError

STEP = 1000
UNKNOWN = "is not in by_class, so that its class is not known"


class ClassIndex:
    """The class of every image under by_class, by a hash of its bytes; made when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._class_of: dict[bytes, int] | None = None

    def build(self) -> Iterator[float]:
        """Read all images of by_class; gives the share that is done, now and then."""
        files = [
            (file, number)
            for number, character in enumerate(CLASSES)
            for file in sorted(self._folder.glob(f"{ord(character):x}/hsf_*/*.png"))
            if "mit" not in file.parent.name
        ]
        if not files:
            raise TurboSVMError(f"'{self._folder}' has no images; they must be in folders such as 4a/hsf_0.")
        class_of: dict[bytes, int] = {}
        for place, (file, number) in enumerate(files):
            class_of.setdefault(_hash(read_bounded(file, MOST_IN_A_FILE)), number)
            if place % STEP == 0:
                yield place / len(files)
        self._class_of = class_of

    def find(self, content: bytes) -> int | None:
        """Return the class of an image, if it is known."""
        if self._class_of is None:
            for _ in self.build():
                pass
        return (self._class_of or {}).get(_hash(content))


def is_nist(path: Path) -> bool:
    """Whether this is NIST's folder by_write, or has it inside."""
    return path.is_dir() and (path.name == "by_write" or (path / "by_write").is_dir())


def nist_units(path: Path) -> list[Unit]:
    """Make a unit of by_class, and one of each writer's folder."""
    root = path.parent if path.name == "by_write" else path
    if not (root / "by_class").is_dir():
        raise TurboSVMError(
            f"'{root}' has no folder by_class beside by_write; only that tells what an image shows "
            "(NIST's by_class.zip and by_write.zip are both needed, unpacked)."
        )
    writers = writer_folders(path)
    if not writers:
        raise TurboSVMError(f"'{root / 'by_write'}' has no writers; they must be folders such as hsf_0/f0000_14.")
    index = ClassIndex(root / "by_class")
    first = Unit("by_class", len(writers), partial(_read_index, index))
    return [first, *(Unit(folder.name, 1, partial(read_writer, folder, index)) for folder in writers)]


def writer_folders(path: Path) -> list[Path]:
    """The folders of the writers, by name."""
    root = path if path.name == "by_write" else path / "by_write"
    return sorted(folder for folder in root.glob("*/*") if folder.is_dir())


def image_folders(path: Path) -> list[Path]:
    """All folders that hold images, of writers and of classes."""
    root = path.parent if path.name == "by_write" else path
    return sorted(folder for folder in [*root.glob("by_write/*/*/*"), *root.glob("by_class/*/*")] if folder.is_dir())


def read_writer(folder: Path, index: ClassIndex, skip: int = 0) -> Iterator[Chunk]:
    """Give a writer's images as one chunk."""
    if skip:
        return
    files = sorted(folder.glob("*/*.png"))
    if not files:
        yield nothing(FORM, folder.name, [f"{folder.name}: the writer has no images."], 1.0)
        return
    contents = [read_bounded(file, MOST_IN_A_FILE) for file in files]
    images = decode_each(contents, NIST_IMAGE)
    classes = [index.find(content) for content in contents]
    known = [image if number is not None else UNKNOWN for image, number in zip(images, classes, strict=True)]
    rows = gather(
        FORM,
        range(len(files)),
        known.__getitem__,
        classes.__getitem__,
        lambda place: f"user '{folder.name}', {files[place].name}",
    )
    yield Chunk(folder.name, rows.inputs, rows.labels, bad=rows.bad, whole=True)


def _read_index(index: ClassIndex, skip: int = 0) -> Iterator[Chunk]:
    if not skip:
        for done in index.build():
            yield nothing(FORM, "", (), done)


def _hash(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()
