"""The sweeps that come with the package: one for each table of the paper."""

from pathlib import Path

from turbosvm.errors import unknown
from turbosvm.experiment.layers import read_yaml

_PACKAGE = Path(__file__).parents[1]
_PLACES = (_PACKAGE / "experiments" / "paper", _PACKAGE.parents[1] / "experiments" / "paper")
"""Where an installed package has them, and where a checkout does."""


def ready_sweeps() -> dict[str, Path]:
    """Their files, by name."""
    folder = next(place for place in _PLACES if place.is_dir())
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find_ready(name: str) -> Path:
    """The file of one of them."""
    sweeps = ready_sweeps()
    if name not in sweeps:
        raise unknown("table", name, sweeps)
    return sweeps[name]


def tasks_of(file: Path) -> list[str]:
    """The tasks that it is about."""
    content = read_yaml(file, "Sweep file")
    tasks: list[str] = [content["preset"]] if "preset" in content else content["grid"]["preset"]
    return tasks


def about(file: Path) -> str:
    """What a sweep's file says of itself: the comment that it begins with."""
    lines = []
    for line in file.read_text().splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return " ".join(lines)
