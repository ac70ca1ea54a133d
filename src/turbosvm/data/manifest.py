"""What a data folder says of itself: `manifest.json`, read once into typed values.

All of it is vouched for. `digest` is that of what the data is (users, classes, kinds, and the SHA-256 of each array);
the seal, which comes last, is that of all else (the name, how the set was made).
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, ValidationError, model_validator

from turbosvm.bounded import parse_json, read_bounded
from turbosvm.errors import TurboSVMError, in_one_line
from turbosvm.seals import SEAL, seal_of

MANIFEST = "manifest.json"
MOST_BYTES = 2**30
"""Of a manifest: that of a million users has 16 MB."""

ARRAYS = ("inputs", "labels", "offsets")
TEXT_ARRAYS = (*ARRAYS, "segments")

DESCRIBED = ("users", "classes", "tokens", "window", "held_out")
"""The keys that the digest is of, beside the hashes."""

Described = Mapping[str, Any]
Digest = Annotated[str, Field(strict=True, pattern=r"^[0-9a-f]{64}$")]


class Manifest(BaseModel):
    """A manifest that is in order; what else it holds (source, counts, what was left out) is in `about`."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: StrictStr
    users: tuple[StrictStr, ...]
    classes: tuple[StrictStr, ...]
    tokens: StrictBool
    window: Annotated[StrictInt, Field(ge=1, lt=2**31)] | None
    held_out: tuple[StrictBool, ...] | None
    digest: Digest
    hashes: dict[str, Digest]
    task: StrictStr | None = None

    @model_validator(mode="after")
    def _hashes_are_of_the_arrays(self) -> "Manifest":
        if sorted(self.hashes) != sorted(files_of(self.window)):
            raise ValueError(f"hashes are of {', '.join(self.hashes)}, not of {', '.join(files_of(self.window))}")
        return self

    @property
    def about(self) -> Mapping[str, Any]:
        """What it says beside what the data is; of any kind, but as it was written."""
        return self.model_extra or {}


def files_of(window: int | None) -> tuple[str, ...]:
    """The arrays of a set, as files."""
    return tuple(f"{name}.npy" for name in (ARRAYS if window is None else TEXT_ARRAYS))


def manifest_text(described: Described, hashes: Mapping[str, str], about: Mapping[str, Any]) -> str:
    """Write what a set is, and how it came about."""
    rest = {"name": described["name"], "digest": _digest(described, hashes), "hashes": dict(hashes), **about}
    return json.dumps({**{key: described[key] for key in DESCRIBED}, **rest, SEAL: seal_of(rest)})


def read_manifest(folder: Path) -> Manifest:
    """Return what a data folder says of itself; damage is refused."""
    content = read_bounded(folder / MANIFEST, MOST_BYTES)
    try:
        return _checked(parse_json(content))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise _unreadable(folder, f"{where}: {first['msg']}" if where else first["msg"]) from error
    except (ValueError, TypeError) as error:
        raise _unreadable(folder, in_one_line(error).partition(": ")[2]) from error


def _checked(about: Any) -> Manifest:
    if not isinstance(about, dict):
        raise ValueError("it is not an object")  # noqa: TRY004 (the text is wrong, not the call)
    seal = about.pop(SEAL, None)  # sets of the first versions have none
    manifest = Manifest.model_validate(about)
    if manifest.digest != _digest(about, manifest.hashes):
        raise ValueError("it is not what was written: its digest is not that of what it says")
    if seal is not None and seal != seal_of({key: about[key] for key in about if key not in DESCRIBED}):
        raise ValueError(f"it is not what was written: its {SEAL} differs")
    return manifest


def _digest(described: Described, hashes: Mapping[str, str]) -> str:
    content = {key: described[key] for key in DESCRIBED}
    return sha256(json.dumps([content, hashes], sort_keys=True).encode()).hexdigest()


def _unreadable(folder: Path, why: str) -> TurboSVMError:
    return TurboSVMError(
        f"Data folder '{folder}' cannot be read: {MANIFEST}: {why.rstrip('.')}; prepare the set again, with --replace."
    )
