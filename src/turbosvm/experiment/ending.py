"""How a run ended: a file that vouches for its records and its model, written when all else is in the folder."""

import os
import stat
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turbosvm.bounded import read_bounded
from turbosvm.errors import TurboSVMError
from turbosvm.files import sha256_of, write_atomically
from turbosvm.run_files import ENDED, MODEL, RECORDS
from turbosvm.seals import sealed, unsealed

MOST_BYTES = 2**20


class Ending(BaseModel):
    """After which round it ended, why if that was not its last, and the digests of what it left."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    round: int = Field(ge=0)
    stopped: str | None
    """Why it could not go on, in a sentence."""
    records: str
    model: str | None
    """None where it ended without a model that could be saved."""


class Found(NamedTuple):
    """How a run ended, if it did and all that it left is whole; or else what is damaged, in a sentence."""

    ending: Ending | None
    damage: str | None = None


def write_ending(path: Path, after_round: int, stopped: str | None) -> None:
    """Vouch for the records, and the model if there is one, that lie in a run's folder."""
    model = sha256_of(path / MODEL) if (path / MODEL).exists() else None
    ending = Ending(round=after_round, stopped=stopped, records=sha256_of(path / RECORDS), model=model)
    write_atomically(path / ENDED, sealed(ending.model_dump()))


def find_ending(path: Path) -> Found:
    """Find out how a run ended, and whether what it left is what was written."""
    if not os.path.lexists(path / ENDED):
        return Found(None)
    try:
        ending = Ending.model_validate(unsealed(read_bounded(path / ENDED, MOST_BYTES)))
        if ending.stopped is None and ending.model is None:
            raise ValueError("it names no model, which every run that was not stopped has")
        for name, digest in ((RECORDS, ending.records), (MODEL, ending.model)):
            if _digest(path / name) != digest:
                there = os.path.lexists(path / name)
                what = "damaged: it is not what was written" if there else "missing, though the run has ended"
                return Found(None, f"'{path / name}' is {what}.")
    except TurboSVMError as error:
        return Found(None, str(error))
    except (ValueError, ValidationError) as error:
        return Found(None, f"'{path / ENDED}' is damaged: {_first_line(error)}.")
    return Found(ending)


def is_finished(path: Path) -> bool:
    """Whether a run has done all of its rounds, and all that it left is whole; what failed or is broken is not."""
    ending = find_ending(path).ending
    return ending is not None and ending.stopped is None


def _digest(path: Path) -> str | None:
    """The digest of a file; None where there is none that could have one."""
    try:
        about = path.stat()
    except OSError:
        return None
    if not stat.S_ISREG(about.st_mode):
        return None
    return _remembered(path, about.st_size, about.st_mtime_ns, about.st_ino)


@lru_cache(maxsize=4096)
def _remembered(path: Path, *_: int) -> str:
    """The digest of a file of that size and time: a sweep asks for it several times."""
    return sha256_of(path)


def _first_line(error: ValueError) -> str:
    return str(error).splitlines()[0].rstrip(".")
