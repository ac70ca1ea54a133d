"""What a run ran on: versions, device, commit. Saved with its records, so that figures can be traced."""

import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from turbosvm.cores import usable_cores
from turbosvm.version import __version__
from turbosvm.visible import visible

PACKAGES = ("torch", "numpy", "pandas", "matplotlib", "pydantic")


def describe_environment(device: torch.device) -> dict[str, Any]:
    """Gather what a reader needs to trust or repeat a run."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).name.replace("__main__.py", "turbosvm"), *map(visible, sys.argv[1:])],
        "turbosvm": __version__,
        "commit": commit(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else f"cpu ({platform.machine()})",
        "cores": usable_cores(),
    }


def commit() -> str | None:
    """The commit of this package's checkout, '+changes' if it was edited since; None for an installed package."""
    here = Path(__file__).parent
    if _git(here, "ls-files", "--error-unmatch", Path(__file__).name) is None:
        return None
    head = _git(here, "rev-parse", "HEAD")
    return f"{head}+changes" if head and _git(here, "status", "--porcelain", "--untracked-files=no") else head


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10)  # noqa: S603, S607
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
