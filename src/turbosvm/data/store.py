"""The project's own form of a data set on disk: a folder of files that anything can read, opened as memory maps.

inputs.npy, labels.npy, offsets.npy and manifest.json (users, classes, hashes, and how the set was made). Where inputs
are windows over text, inputs.npy holds the text and segments.npy where its segments begin.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from turbosvm.data.federated import Array, FederatedData
from turbosvm.data.windows import Windows
from turbosvm.errors import TurboSVMError, unknown
from turbosvm.files import make_folder_atomically

ARRAYS = ("inputs", "labels", "offsets")
TEXT_ARRAYS = (*ARRAYS, "segments")
MANIFEST = "manifest.json"

Manifest = dict[str, Any]


def cache_folder() -> Path:
    """Where data sets made on this machine are kept: TURBOSVM_CACHE, else the XDG cache folder."""
    if own := os.environ.get("TURBOSVM_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "turbosvm"


def find_folder(name: str) -> Path | None:
    """Return the data folder that is meant: a path, or the name of a set in the cache folder.

    A folder of the same name that holds something else does not hide a prepared set.
    """
    try:
        there = [folder for folder in (Path(name).expanduser(), cache_folder() / name) if name and folder.is_dir()]
    except (OSError, RuntimeError, ValueError):  # too long, a home of nobody, a NUL byte
        return None
    return next((folder for folder in there if (folder / MANIFEST).exists()), there[0] if there else None)


def is_data_set(folder: Path) -> bool:
    """Whether a folder holds a data set, whole or broken, and nothing else."""
    ours = {MANIFEST, *(f"{name}.npy" for name in TEXT_ARRAYS)}
    return folder.is_dir() and MANIFEST in (names := {path.name for path in folder.iterdir()}) and names <= ours


def place_for(name: str) -> Path:
    """Where a data set of that name goes: a plain name into the cache folder, anything else is a path."""
    plain = Path(name).name == name
    if not name.strip() or not name.isprintable():
        raise TurboSVMError(f"A data set cannot be called {name!r}.")
    try:
        place = Path(os.path.normpath(cache_folder() / name if plain else Path(name).expanduser()))
        place.exists()
    except (OSError, RuntimeError, ValueError) as error:
        raise TurboSVMError(f"A data set cannot be called '{name[:60]}': {error}.") from error
    if name == "glyphs" or place.name in ("", "..") or (plain and name[0] in ".~"):
        raise TurboSVMError(f"A data set cannot be called '{name}'.")
    return place


def no_such_set(name: str) -> TurboSVMError:
    """Build the error for a name under which there is no data, with the names that there are."""
    if "/" in name and not Path(name).exists():
        return TurboSVMError(f"There is no data folder '{name}'.")
    names = [folder.name for folder in prepared() if not folder.name.startswith("glyphs-")]
    return unknown("data set", name, ["glyphs", *names, "the path of a data folder"])


def prepared() -> list[Path]:
    """The data folders in the cache folder, by name."""
    root = cache_folder()
    if not root.is_dir():
        return []
    visible = (folder for folder in root.iterdir() if not folder.name.startswith("."))
    return sorted(folder for folder in visible if (folder / MANIFEST).exists())


def save(
    data: FederatedData, folder: Path, made_by: Mapping[str, Any] | None = None, keep_existing: bool = False
) -> None:
    """Write a data set as a new folder, whole or not at all; one that is there is refused, or kept if so asked."""

    def fill(target: Path) -> None:
        arrays: dict[str, Array] = {"labels": data.labels, "offsets": data.offsets}
        if isinstance(data.inputs, Windows):
            arrays |= {"inputs": data.inputs.text, "segments": data.inputs.segments}
        else:
            arrays["inputs"] = data.inputs
        for name, array in arrays.items():
            np.save(target / f"{name}.npy", array, allow_pickle=False)
        write_manifest(target, describe(data), {"made_by": dict(made_by or {})})

    make_folder_atomically(folder, fill, keep_existing)


def describe(data: FederatedData) -> Manifest:
    """What the manifest says of the data itself."""
    return {
        "name": data.name,
        "users": data.users,
        "classes": data.classes,
        "tokens": data.tokens,
        "window": data.inputs.length if isinstance(data.inputs, Windows) else None,
        "held_out": data.held_out,
    }


def write_manifest(folder: Path, described: Manifest, about: Manifest) -> None:
    """Finish a folder whose arrays are there: hash them, and write the manifest."""
    names = ARRAYS if described["window"] is None else TEXT_ARRAYS
    hashes = {f"{name}.npy": hash_of(folder / f"{name}.npy") for name in names}
    content = {key: value for key, value in described.items() if key != "name"}
    digest = hashlib.sha256(json.dumps([content, hashes], sort_keys=True).encode()).hexdigest()
    manifest = {**described, "digest": digest, "hashes": hashes, **about}
    (folder / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")


def hash_of(path: Path) -> str:
    """Return a file's SHA-256."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(folder: Path) -> Manifest:
    """Return what a data folder says of itself."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise _not_a_data_folder(folder, MANIFEST) from error
    except (ValueError, OSError, RecursionError) as error:
        raise _cannot_be_read(folder, error) from error
    if not isinstance(manifest, dict):
        raise _cannot_be_read(folder, f"{MANIFEST} is not an object")
    return manifest


def load(folder: Path) -> FederatedData:
    """Open a data set's folder; arrays stay on disk until they are read."""
    manifest = read_manifest(folder)
    try:
        window = manifest.get("window")
        names = ARRAYS if window is None else TEXT_ARRAYS
        arrays: dict[str, Array] = {
            name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in names
        }
        inputs = arrays["inputs"] if window is None else Windows(arrays["inputs"], arrays["segments"], int(window))
        held_out = manifest.get("held_out")
        return FederatedData(
            name=manifest["name"],
            inputs=inputs,
            labels=arrays["labels"],
            offsets=np.asarray(arrays["offsets"]),
            users=tuple(manifest["users"]),
            classes=tuple(manifest["classes"]),
            tokens=bool(manifest.get("tokens", False)),
            held_out=None if held_out is None else tuple(map(bool, held_out)),
            digest=manifest.get("digest"),
            task=manifest.get("task"),
        )
    except FileNotFoundError as error:
        raise _not_a_data_folder(folder, Path(error.filename or folder).name) from error
    except Exception as error:  # NumPy meets broken headers with errors of many kinds
        raise _cannot_be_read(folder, error) from error


def _not_a_data_folder(folder: Path, missing: str) -> TurboSVMError:
    return TurboSVMError(
        f"'{folder}' is not a data folder: {missing} is missing (it must hold {MANIFEST}, "
        f"{', '.join(f'{name}.npy' for name in ARRAYS)}). Files as they come are made into one by "
        f"'turbosvm data prepare'."
    )


def _cannot_be_read(folder: Path, why: object) -> TurboSVMError:
    return TurboSVMError(f"Data folder '{folder}' cannot be read: {why}.")
