"""Are files what they were when they were written? Each is read once, and what was found is noted.

A note says which files, by size, times of change and inode, had which SHA-256. A file that the note knows is not read
again. So a change that leaves all of these alone (a disk that fails in silence) is noticed only when there is no note.
Notes are sealed: one that is damaged counts for nothing.
"""

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from time import time_ns
from typing import Any

from turbosvm.bounded import open_regular, read_bounded
from turbosvm.errors import TurboSVMError
from turbosvm.files import write_atomically
from turbosvm.seals import sealed, unsealed

SETTLED = 2 * 10**9
"""Nanoseconds since a file's last change until it is noted: within a tick of its clock, another would not show."""


def damaged_file(folder: Path, hashes: Mapping[str, str], notes: Path | None) -> str | None:
    """Return the name of the first file in a folder that does not have its SHA-256, or None.

    Args:
        folder: where the files are.
        hashes: the SHA-256 of each.
        notes: the folder of the notes; without one, or where it cannot be written, files are read each time.
    """
    note = notes and notes / f"{hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()}.json"
    known = _read(note) if note else {}
    found: dict[str, Any] = {}
    for name, expected in hashes.items():
        with open_regular(folder / name) as file:
            began, facts = time_ns(), _facts(file)
            if known.get(name) != [*facts, expected]:
                if hash_of(file) != expected:
                    return name
                if max(facts[1:3]) > began - SETTLED or _facts(file) != facts:
                    continue
            found[name] = [*facts, expected]
    if note and found != known:
        with suppress(TurboSVMError):
            write_atomically(note, sealed(found))
    return None


def hash_of(file: BufferedReader) -> str:
    """Return the SHA-256 of what is left to read of a file."""
    return hashlib.file_digest(file, "sha256").hexdigest()


def _facts(file: BufferedReader) -> list[int]:
    """What changes when a file does; the time of change of the inode cannot be set back as that of the content can."""
    facts = os.fstat(file.fileno())
    return [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino]


def _read(note: Path) -> dict[str, Any]:
    try:
        return unsealed(read_bounded(note))
    except (TurboSVMError, ValueError):
        return {}
