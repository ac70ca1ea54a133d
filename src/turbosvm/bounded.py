"""Files that anyone may have written, read without harm: regular files only, and of a limited size."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from turbosvm.errors import TurboSVMError
from turbosvm.files import cannot_read

MOST_BYTES = 2**28
"""Of a file that is read whole, unless its reader says otherwise."""


@contextmanager
def open_regular(path: Path) -> Iterator[BufferedReader]:
    """Open a file to read it; what may never end (a pipe, a device), or has no bytes (a folder), is refused."""
    with cannot_read(path):
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise TurboSVMError(f"Cannot read '{path}': it is not a regular file.")
        with os.fdopen(handle, "rb") as file:
            yield file


def read_bounded(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return what is in a file; one that may never end, or is too large, is refused."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise TurboSVMError(f"Cannot read '{path}': it has {size:,} bytes; at most {most:,} are read.")
        return file.read(size)


def parse_json(content: bytes) -> Any:
    """Read JSON; NaN and infinities, and nesting without end, are refused with a ValueError."""
    return from_json(content, allow_inf_nan=False, cache_strings="keys")  # to look values up takes as long as parsing
