"""What a person asks to be prepared, and what tells one such request from another."""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from turbosvm.data.sources import hub
from turbosvm.data.sources.celeba import find_images
from turbosvm.data.sources.nist import image_folders, is_nist
from turbosvm.errors import TurboSVMError, unknown
from turbosvm.values import as_whole

# What is read of a folder, by the endings of files' names.
SUFFIXES = {
    "femnist": (".json", ".parquet"),
    "celeba": (".txt", ".json", ".parquet", ".jpg", ".png"),
    "shakespeare": (".txt", ".json", ".csv", ".parquet"),
    "own": (".parquet", ".csv", ".npz"),
}
TASKS = tuple(SUFFIXES)
OPTIONS = {"celeba": ("attribute",), "own": ("columns", "classes", "tokens")}
MIN_SAMPLES = {"celeba": 5}


@dataclass(frozen=True)
class Columns:
    """Which columns of a table of one's own mean what.

    Args:
        inputs: one column, or several that each hold a number; empty for all that are left.
        label: what to guess.
        user: whose a row is; None where rows are nobody's.
        ignored: what is no input, though it is left.
    """

    inputs: tuple[str, ...] = ()
    label: str = "label"
    user: str | None = "user"
    ignored: tuple[str, ...] = ()

    def without_user(self) -> "Columns":
        """The same where users are made up."""
        return Columns(self.inputs, self.label, None, (*self.ignored, *([self.user] if self.user else [])))

    def among(self, names: list[str]) -> "Columns":
        """Spell out which columns are the inputs, given all names."""
        left = tuple(name for name in names if name not in (self.label, self.user, *self.ignored))
        return Columns(tuple(self.inputs) or left, self.label, self.user)


@dataclass(frozen=True)
class Request:
    """A task, and where its files are.

    Args:
        task: one of TASKS.
        place: a path, or 'hub:', 'hub:OWNER/NAME', 'hub:OWNER/NAME@REVISION'.
        own_split: LEAF's folders train and test say who is held out.
        images: where CelebA's images are, if not beside its lists.
        attribute: which of CelebA's attributes is to be guessed.
        columns: of a table of one's own.
        classes: number of classes of a table of one's own; None to take the labels that turn up.
        tokens: inputs of a table of one's own are indices (of words, say), not quantities.
        offline: fetch nothing.
        allow_large: let compressed files grow as they like when they are read.
    """

    task: str
    place: str
    own_split: bool = False
    images: str | None = None
    attribute: str = "Smiling"
    columns: Columns = Columns()
    classes: int | None = None
    tokens: bool = False
    offline: bool = False
    allow_large: bool = False

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise unknown("task", self.task, TASKS)
        if self.classes is not None:
            as_whole("The number of classes", self.classes, least=1)
        if not isinstance(self.columns, Columns):
            raise TurboSVMError(f"The columns are {self.columns!r}; they must be turbosvm.Columns(...).")

    @property
    def hub_place(self) -> hub.HubPlace | None:
        """The data set of the hub that is meant, if one is."""
        return hub.parse(self.place, self.task) if self.place.startswith(hub.PREFIX) else None

    @property
    def min_samples(self) -> int:
        """What LEAF asks of a user of this task."""
        return MIN_SAMPLES.get(self.task, 1)

    def path(self) -> Path:
        """The path that is meant; one that is not there is refused."""
        return existing(self.place)

    def fingerprint(self) -> str:
        """Equal for the same files read in the same way.

        Files count by name, size and time of change; NIST's many images by the times of their folders; what is on the
        hub by its name.
        """
        every = asdict(self)
        options = {key: every[key] for key in ("task", "own_split", *OPTIONS.get(self.task, ()))}
        files = str(self.hub_place) if self.hub_place else self._stamps(self.path())
        images = [self._stamps(folder) for folder in self._image_folders()]
        return hashlib.sha256(json.dumps([options, files, images], sort_keys=True).encode()).hexdigest()

    def _image_folders(self) -> list[Path]:
        """Where CelebA's images are, if they are not below its files."""
        if self.images:
            return [existing(self.images)]
        if self.task != "celeba" or self.hub_place:
            return []
        path = self.path()
        folder = find_images(path)
        return [folder] if folder and not folder.is_relative_to(path) else []

    def _stamps(self, path: Path) -> list[list[Any]]:
        """Name, size and time of change of a file, or of the files in a folder that are read."""
        try:
            if path.is_file():
                return [_stamp(path, path.parent)]
            if self.task == "femnist" and is_nist(path):  # too many images to look at each
                return [_stamp(folder, folder.parents[1]) for folder in image_folders(path)]
            return [_stamp(file, path) for file in self._files(path)]
        except OSError as error:
            raise TurboSVMError(f"'{path}' cannot be read: {error.strerror or error}.") from error

    def _files(self, folder: Path) -> Iterator[Path]:
        seen = set[str]()
        for inside, folders, names in os.walk(folder, followlinks=True):
            if (real := os.path.realpath(inside)) in seen:  # links in a circle
                folders.clear()
                continue
            seen.add(real)
            folders.sort()
            for name in sorted(names):
                file = Path(inside, name)
                if file.suffix in SUFFIXES[self.task] and file.is_file():
                    yield file


def existing(place: str) -> Path:
    """A path with the home folder spelt out; refused if it is not there."""
    try:
        path = Path(place).expanduser()
        there = path.exists()
    except (OSError, RuntimeError, ValueError) as error:
        raise TurboSVMError(f"'{place}' cannot be read: {error}.") from error
    if not there:
        raise TurboSVMError(f"'{place}' is not there.")
    return path


def _stamp(path: Path, root: Path) -> list[Any]:
    facts = path.stat()
    return [str(path.relative_to(root)), facts.st_size, facts.st_mtime_ns]
