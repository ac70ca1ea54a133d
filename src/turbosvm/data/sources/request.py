"""What a person asks to be prepared, and what tells one such request from another."""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from turbosvm.data.sources import hub
from turbosvm.errors import TurboSVMError, unknown

TASKS = ("femnist", "celeba", "shakespeare", "own")
DEPTH = 3
LISTED = (".json", ".parquet", ".csv", ".npz", ".txt")


@dataclass(frozen=True)
class Columns:
    """Which columns of a table of one's own mean what.

    Args:
        inputs: one column, or several that each hold a number; empty for all that are left.
        label: what to guess.
        user: whose a row is; None where rows are nobody's.
    """

    inputs: tuple[str, ...] = ()
    label: str = "label"
    user: str | None = "user"

    def among(self, names: list[str]) -> "Columns":
        """Spell out which columns are the inputs, given all names."""
        left = tuple(name for name in names if name not in (self.label, self.user))
        return Columns(self.inputs or left, self.label, self.user)


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
        offline: fetch nothing.
    """

    task: str
    place: str
    own_split: bool = False
    images: str | None = None
    attribute: str = "Smiling"
    columns: Columns = Columns()
    classes: int | None = None
    offline: bool = False

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise unknown("task", self.task, TASKS)
        if self.classes is not None and self.classes < 1:
            raise TurboSVMError(f"There are {self.classes} classes; at least 1 is needed.")

    @property
    def hub_place(self) -> hub.HubPlace | None:
        """The data set of the hub that is meant, if one is."""
        return hub.parse(self.place, self.task) if self.place.startswith(hub.PREFIX) else None

    def path(self) -> Path:
        """The path that is meant; one that is not there is refused."""
        return existing(self.place)

    def fingerprint(self) -> str:
        """Equal for the same files read in the same way; files count by name, size and time of change."""
        options = {key: value for key, value in asdict(self).items() if key not in ("place", "images", "offline")}
        files = str(self.hub_place) if self.hub_place else list(_stamps(self.path(), DEPTH))
        images = list(_stamps(existing(self.images), 0)) if self.images else None
        return hashlib.sha256(json.dumps([options, files, images], sort_keys=True).encode()).hexdigest()


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


def _stamps(path: Path, depth: int) -> Iterator[list[Any]]:
    """Name, size and time of change of a file, or of what is in a folder; images count by their folders alone."""
    facts = path.stat()
    if not path.is_dir():
        yield [path.name, facts.st_size, facts.st_mtime_ns]
        return
    yield [path.name, facts.st_mtime_ns]
    if depth:
        with os.scandir(path) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_dir() or entry.name.lower().endswith(LISTED):
                    yield from _stamps(Path(entry.path), depth - 1)
