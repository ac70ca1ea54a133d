"""The runs of a sweep: from a file of settings and lists of settings to resolved configs.

    name: kernels
    preset: celeba
    set: {rounds: 200}
    grid:
      algorithm: [fedavg, turbosvm]
      turbosvm.head.kernel: [linear, rbf]
      seed: [0, 1, 2]

Every combination of the grid is a run; combinations that mean the same (a kernel changes nothing of FedAvg) are one.
Under `runs`, a list of such blocks makes a sweep of several grids; what stands beside it holds for all of them.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError, unknown
from turbosvm.experiment.config import Config
from turbosvm.experiment.layers import Layer, merge_layers, nest, read_yaml
from turbosvm.experiment.resolve import resolve_config
from turbosvm.names import HOW
from turbosvm.values import shown

KEYS = ("name", "preset", "as_published", "set", "grid", "runs")
MOST_RUNS = 100_000


@dataclass(frozen=True)
class Sweep:
    """A name, and the configs of the runs, each once."""

    name: str
    configs: tuple[Config, ...]
    combinations: int
    """How many the grid has; some may mean the same."""


@dataclass(frozen=True)
class Changes:
    """What is asked for beside a sweep's own words."""

    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Settings that win over all others."""
    grid: Mapping[str, list[Any]] = field(default_factory=dict)
    """Lists in the place of those that the sweep has under the same keys."""
    seeds: list[int] | None = None
    """Of every run, whether or not the sweep has some."""
    data: Mapping[str, str] = field(default_factory=dict)
    """The data of a preset, in the place of the one it names."""
    threads: int | None = None
    """Where the sweep does not say."""


def read_sweep(file: Path, changes: Changes | None = None) -> Sweep:
    """Read a sweep's file."""
    return make_sweep(read_yaml(file, "Sweep file"), changes, str(file), file.stem)


def make_sweep(
    content: Mapping[str, Any], changes: Changes | None = None, where: str = "the sweep", name: str = "sweep"
) -> Sweep:
    """Resolve every run of a sweep."""
    changes = changes or Changes()
    if not content:
        raise TurboSVMError(f"In {where}: there is nothing; a sweep has 'set', 'grid' or 'runs'.")
    blocks = _blocks(content, where)
    _check_lists(changes, blocks, where)
    blocks = [_changed(block, changes) for block in blocks]
    count = sum(prod(len(values) for values in block["grid"].values()) for block in blocks)
    if count > MOST_RUNS:
        raise TurboSVMError(f"In {where}: {count:,} runs; at most {MOST_RUNS:,} are allowed.")
    configs: dict[str, Config] = {}
    for block in blocks:
        for point in _points(block["grid"]):
            config = _resolve(block, point, where, changes)
            configs.setdefault(json.dumps(config.model_dump(), sort_keys=True, default=str), config)
    return Sweep(_name(content, where) if "name" in content else name, tuple(configs.values()), count)


def key_of(config: Config, data: FederatedData) -> str:
    """A short hash of what a run computes; data without a digest is what lies at its place."""
    return sha256(f"{config.digest}/{data.digest or config.data.name}".encode()).hexdigest()[:10]


def _blocks(content: Mapping[str, Any], where: str) -> list[Layer]:
    """The blocks of a sweep with what holds for all of them, each checked."""
    common = _checked(content, KEYS, where)
    given = content.get("runs", [{}])
    if not isinstance(given, list) or not given:
        raise TurboSVMError(f"In {where}: 'runs' must be a list of blocks with 'set' or 'grid'.")
    blocks = []
    for place, block in enumerate(given, start=1):
        own = _checked(block, KEYS[1:-1], f"{where}, block {place}")
        plain = {key: own.get(key, common.get(key)) for key in ("preset", "as_published")}
        said, settings = _nested(own), merge_layers([_nested(common), _nested(own)])
        grid = {
            key: values for key, values in common.get("grid", {}).items() if key not in own and not _is_set(key, said)
        }
        blocks.append({**plain, "set": settings, "grid": {**grid, **own.get("grid", {})}})
    return blocks


def _nested(block: Mapping[str, Any]) -> Layer:
    """The settings of a block."""
    return merge_layers(nest(str(key), value) for key, value in block.get("set", {}).items())


def _is_set(key: str, settings: Layer) -> bool:
    """Whether settings have a value for a dotted key, which then stands in the place of a list for all blocks.

    `data: x` and `data.name: x` are the same, and say nothing of `data.held_out`.
    """
    place: Any = settings
    for part in [*str(key).split("."), "name"]:
        if not isinstance(place, Mapping):
            return part == "name"
        if part not in place:
            return False
        place = place[part]
    return True


def _name(content: Mapping[str, Any], where: str) -> str:
    """The sweep's name, which its folder has, too."""
    name = content["name"]
    if not isinstance(name, str) or not re.fullmatch(r"[\w.+ -]{1,100}", name) or not name.strip(". "):
        raise TurboSVMError(
            f"In {where}: the name is {shown(name)}; it must be letters, digits, spaces, and any of . + - _"
        )
    return name


def _check_lists(changes: Changes, blocks: list[Layer], where: str) -> None:
    """Refuse a list in the place of none, and one without values."""
    keys = {str(key) for block in blocks for key in block["grid"]}
    if changes.seeds is not None and "seed" in changes.grid:
        raise TurboSVMError("There are seeds, and a list of 'seed' for the grid; give one of them.")
    for key, values in {**changes.grid, **({} if changes.seeds is None else {"seed": changes.seeds})}.items():
        if key in changes.grid and key not in keys:
            raise unknown("list", key, keys, where=f"in the grid of {where}")
        if not values:
            raise TurboSVMError(f"The list of '{key}' in the grid of {where} is to have no values; give one or more.")


def _changed(block: Layer, changes: Changes) -> Layer:
    seeds = {} if changes.seeds is None else {"seed": changes.seeds}
    return {**block, "grid": {key: changes.grid.get(key, values) for key, values in block["grid"].items()} | seeds}


def _checked(block: Any, allowed: tuple[str, ...], where: str) -> Mapping[str, Any]:
    if not isinstance(block, Mapping):
        raise TurboSVMError(f"In {where}: keys and values are expected, not {shown(block)}.")
    for key in block:
        if key not in allowed:
            raise unknown("key", str(key), allowed, where=f"in {where}")
    for key in ("set", "grid"):
        if not isinstance(block.get(key, {}), Mapping):
            raise TurboSVMError(f"In {where}: '{key}' must hold keys and values, not {shown(block[key])}.")
    for key, values in block.get("grid", {}).items():
        if not isinstance(values, list) or not values:
            raise TurboSVMError(f"In {where}: the grid's '{key}' must be a list of values, not {shown(values)}.")
        if str(key).split(".")[0] in HOW:
            raise TurboSVMError(f"In {where}: '{key}' says how a run is computed, not what; it can stand in 'set'.")
    return block


def _points(grid: Mapping[str, list[Any]]) -> Iterator[Layer]:
    for values in product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _resolve(block: Layer, point: Layer, where: str, changes: Changes) -> Config:
    plain = {**{key: block[key] for key in ("preset", "as_published") if block[key] is not None}, **point}
    preset, as_published = plain.pop("preset", "glyphs"), plain.pop("as_published", False)
    if not isinstance(preset, str):
        raise TurboSVMError(f"In {where}: the preset is {shown(preset)}; it must be a name.")
    if not isinstance(as_published, bool):
        raise TurboSVMError(f"In {where}: as_published is {shown(as_published)}; it must be true or false.")
    own = nest("data.name", changes.data[preset]) if preset in changes.data else {}
    points = (nest(str(key), value) for key, value in plain.items())
    layers = [{"threads": changes.threads}, block["set"], *points, own, changes.overrides]
    try:
        return resolve_config(preset, overrides=merge_layers(layers), as_published=as_published)
    except TurboSVMError as error:
        told = ", ".join(f"{key}={value}" for key, value in point.items())
        raise TurboSVMError(f"In {where}{f' ({told})' if told else ''}: {error}") from error
