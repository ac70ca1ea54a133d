"""The project's own form of a data set on disk: a folder of files that anything can read, opened as memory maps.

inputs.npy, labels.npy, offsets.npy and manifest.json (users, classes, hashes, and how the set was made). Where inputs
are windows over text, inputs.npy holds the text and segments.npy where its segments begin.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from turbosvm.bounded import open_regular
from turbosvm.data import manifest as manifests
from turbosvm.data.federated import Array, FederatedData
from turbosvm.data.manifest import ARRAYS, MANIFEST, TEXT_ARRAYS, Described, Manifest, files_of, manifest_text
from turbosvm.data.verified import damaged_file, hash_of
from turbosvm.data.windows import Windows
from turbosvm.errors import TurboSVMError, in_one_line, unknown
from turbosvm.files import cannot_read, make_folder_atomically

NOTES = ".verified"
"""The folder, in the cache folder, that says which files have been found undamaged."""


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


def describe(data: FederatedData) -> Described:
    """What the manifest says of the data itself."""
    return {
        "name": data.name,
        "users": data.users,
        "classes": data.classes,
        "tokens": data.tokens,
        "window": data.inputs.length if isinstance(data.inputs, Windows) else None,
        "held_out": data.held_out,
    }


def write_manifest(folder: Path, described: Described, about: Mapping[str, Any]) -> None:
    """Finish a folder whose arrays are there: hash them, and write the manifest."""
    hashes = {}
    for name in files_of(described["window"]):
        with open_regular(folder / name) as file:
            hashes[name] = hash_of(file)
    (folder / MANIFEST).write_text(manifest_text(described, hashes, about), encoding="utf-8")


def read_manifest(folder: Path) -> Manifest:
    """Return what a data folder says of itself; damage is refused."""
    with cannot_read(folder):
        if not (folder / MANIFEST).exists():
            raise _not_a_data_folder(folder, MANIFEST)
    return manifests.read_manifest(folder)


def load(folder: Path) -> FederatedData:
    """Open a data set's folder, if it is as it was written; arrays stay on disk until they are read.

    The first time, all of it is read to see whether it is damaged; later only what has changed since.
    """
    manifest = read_manifest(folder)
    for name in manifest.hashes:
        if not (folder / name).exists():
            raise _not_a_data_folder(folder, name)
    if damaged := damaged_file(folder, manifest.hashes, _notes()):
        raise _cannot_be_read(
            folder,
            f"{damaged} is damaged: its SHA-256 is not the one in {MANIFEST}; prepare the set again, with --replace",
        )
    try:
        arrays: dict[str, Array] = {
            Path(name).stem: np.lib.format.open_memmap(folder / name, mode="r") for name in manifest.hashes
        }
        window = manifest.window
        return FederatedData(
            name=manifest.name,
            inputs=arrays["inputs"] if window is None else Windows(arrays["inputs"], arrays["segments"], window),
            labels=arrays["labels"],
            offsets=np.asarray(arrays["offsets"]),
            users=manifest.users,
            classes=manifest.classes,
            tokens=manifest.tokens,
            held_out=manifest.held_out,
            digest=manifest.digest,
            task=manifest.task,
        )
    except TurboSVMError as error:
        raise _cannot_be_read(folder, str(error).rstrip(".")) from error
    except Exception as error:  # NumPy meets broken headers with errors of many kinds
        raise _cannot_be_read(folder, in_one_line(error)) from error


def _notes() -> Path | None:
    """The folder of notes, if there is a cache folder."""
    try:
        return cache_folder() / NOTES
    except RuntimeError:  # nobody's home
        return None


def _not_a_data_folder(folder: Path, missing: str) -> TurboSVMError:
    return TurboSVMError(
        f"'{folder}' is not a data folder: {missing} is missing (it must hold {MANIFEST}, "
        f"{', '.join(f'{name}.npy' for name in ARRAYS)}). Files as they come are made into one by "
        f"'turbosvm data prepare'."
    )


def _cannot_be_read(folder: Path, why: object) -> TurboSVMError:
    return TurboSVMError(f"Data folder '{folder}' cannot be read: {why}.")
