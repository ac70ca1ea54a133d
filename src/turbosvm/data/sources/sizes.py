"""How much may come out of a compressed file: what grows without measure was made to fill memory and disks.

Of real data, LEAF's JSON shrinks most: 23 times by zip and gzip, 47 times by bzip2.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from turbosvm.errors import TurboSVMError

RATIO = 200
SMALL = 2**26
"""Bytes that may come out of any file."""
SPARE = 2**28
"""Bytes that stay free on the disk."""


@dataclass(frozen=True)
class Limit:
    """What may come out of a file, in bytes.

    Args:
        file: the compressed one.
        most: by its own size; None if it may grow as it likes.
        free: by the room where it goes; None if it goes nowhere.
    """

    file: Path
    most: int | None
    free: int | None = None

    def check(self, size: int) -> None:
        """Refuse more than may come out."""
        if self.most is not None and size > self.most:
            raise TurboSVMError(
                f"'{self.file}' has {self.file.stat().st_size:,} bytes, and more than {self.most:,} come out of it; "
                "if that is as it should be, allow it (--allow-large; in Python, allow_large=True)."
            )
        if self.free is not None and size > self.free:
            raise TurboSVMError(
                f"More comes out of '{self.file}' than the disk has room for, which is {max(self.free, 0):,} bytes."
            )


def limit_of(file: Path, allow_large: bool, folder: Path | None = None) -> Limit:
    """Say how much may come out of a file, into a folder if it is to be unpacked there."""
    most = None if allow_large else max(SMALL, RATIO * file.stat().st_size)
    return Limit(file, most, None if folder is None else shutil.disk_usage(folder).free - SPARE)
