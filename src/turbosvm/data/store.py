"""The project's own form of a data set on disk: four files that anything can read, opened as memory maps.

inputs.npy, labels.npy, offsets.npy and manifest.json (users, classes, and how the set was made).
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from turbosvm.data.federated import Array, FederatedData
from turbosvm.errors import TurboSVMError
from turbosvm.files import make_folder_atomically

ARRAYS = ("inputs", "labels", "offsets")


def cache_folder() -> Path:
    """Where data sets made on this machine are kept: TURBOSVM_CACHE, else the XDG cache folder."""
    if own := os.environ.get("TURBOSVM_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "turbosvm"


def find_folder(name: str) -> Path | None:
    """Return the folder of that name, if there is one."""
    try:
        folder = Path(name).expanduser()
        return folder if name and folder.is_dir() else None
    except (OSError, RuntimeError, ValueError):  # too long, a home of nobody, a NUL byte
        return None


def save(
    data: FederatedData, folder: Path, made_by: Mapping[str, Any] | None = None, keep_existing: bool = False
) -> None:
    """Write a data set as a new folder, whole or not at all; one that is there is refused, or kept if so asked."""

    def fill(target: Path) -> None:
        for name in ARRAYS:
            np.save(target / f"{name}.npy", getattr(data, name), allow_pickle=False)
        manifest = {
            "name": data.name,
            "users": data.users,
            "classes": data.classes,
            "tokens": data.tokens,
            "made_by": dict(made_by or {}),
        }
        (target / "manifest.json").write_text(json.dumps(manifest))

    make_folder_atomically(folder, fill, keep_existing)


def load(folder: Path) -> FederatedData:
    """Open a data set's folder; arrays stay on disk until they are read."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
        arrays: dict[str, Array] = {
            name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in ARRAYS
        }
        return FederatedData(
            name=manifest["name"],
            inputs=arrays["inputs"],
            labels=arrays["labels"],
            offsets=np.asarray(arrays["offsets"]),
            users=tuple(manifest["users"]),
            classes=tuple(manifest["classes"]),
            tokens=bool(manifest.get("tokens", False)),
        )
    except FileNotFoundError as error:
        missing = Path(error.filename or folder)
        raise TurboSVMError(
            f"'{folder}' is not a data folder: {missing.name} is missing (it must hold manifest.json, "
            f"{', '.join(f'{name}.npy' for name in ARRAYS)})."
        ) from error
    except (KeyError, TypeError, ValueError, OSError, EOFError, BadZipFile) as error:
        raise TurboSVMError(f"Data folder '{folder}' cannot be read: {error}.") from error
