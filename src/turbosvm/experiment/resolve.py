"""From a preset, a YAML file and overrides to one checked config that leaves nothing open.

Unknown keys and values out of range are refused with a sentence that names the key.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from turbosvm.algorithms.catalogue import CATALOGUE
from turbosvm.data.store import find_folder
from turbosvm.errors import TurboSVMError, unknown
from turbosvm.experiment.algorithm import PARTS, all_options, build_algorithm
from turbosvm.experiment.config import AlgorithmConfig, Config, GlyphsConfig
from turbosvm.experiment.layers import merge_layers, read_yaml
from turbosvm.experiment.presets import PRESETS, TUNED


def resolve_config(
    preset: str = "glyphs",
    file: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Config:
    """Put a config together: defaults, then the preset, what is tuned for the data, the YAML file, the overrides.

    A key that is an algorithm's name (`fedavgm: {body: {momentum: 0.8}}`) counts where that algorithm runs, as if it
    stood under `algorithm` in its layer. Nothing is left open: the result spells out every hyperparameter, the number
    of threads and the place of a data folder.
    """
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    layers = [read_yaml(file) if file else {}, overrides or {}]
    for layer in layers:
        _check_named_options(layer)
    plain = [{key: value for key, value in layer.items() if key not in CATALOGUE} for layer in layers]
    config = _validate(merge_layers([PRESETS[preset], *plain]))
    name = config.algorithm.name
    options = [TUNED.get(config.data.name, {}).get(name, {})]
    for layer in layers:
        options += [layer.get("algorithm", {}), layer.get(name, {})]
    merged = _validate(merge_layers([{"algorithm": {"name": name}}, *({"algorithm": part} for part in options)]))
    algorithm = build_algorithm(name, merged.algorithm.model_dump())
    return config.model_copy(
        update={
            "algorithm": AlgorithmConfig(name=name, **all_options(algorithm)),
            "data": config.data.model_copy(update={"name": _absolute(config.data.name)}),
            "threads": config.threads or torch.get_num_threads(),
        }
    )


def _check_named_options(layer: Mapping[str, Any]) -> None:
    """Check what stands under an algorithm's name, whether it runs or not."""
    for name in CATALOGUE:
        if name in layer:
            parts = layer[name]
            if not isinstance(parts, Mapping) or not all(isinstance(part, Mapping) for part in parts.values()):
                raise TurboSVMError(
                    f"Config key '{name}' must hold options of its {' or '.join(PARTS)}, not {parts!r}."
                )
            for part in parts:
                if part not in PARTS:
                    raise unknown(f"config key in '{name}'", str(part), PARTS)
            build_algorithm(name, parts)


def _validate(values: Mapping[str, Any]) -> Config:
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise _explain(error) from error


def _absolute(name: str) -> str:
    """Spell out where a data folder is, so that a saved config means the same from anywhere."""
    folder = find_folder(name) if name != "glyphs" else None
    return str(folder.resolve()) if folder else name


def _explain(error: ValidationError) -> TurboSVMError:
    """Say the first of pydantic's complaints in one sentence."""
    first = error.errors()[0]
    place = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        inside = ".".join(place[:-1])
        return unknown(f"config key in '{inside}'" if inside else "config key", place[-1], _keys(place[:-1]))
    if first["type"] == "invalid_key":
        return TurboSVMError(f"Config key {first['input']!r} is not a name.")
    what = first["msg"].removeprefix("Input should be ")
    return TurboSVMError(f"Config key '{'.'.join(place)}' is {first['input']!r}; it must be {what}.")


def _keys(place: list[str]) -> Iterable[str]:
    """The keys that the config has at a place."""
    section: Any = Config
    for part in place:
        annotation = section.model_fields[part].annotation
        section = GlyphsConfig if part == "glyphs" else annotation
    return tuple(section.model_fields)
