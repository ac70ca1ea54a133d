"""From a preset, a YAML file and overrides to one checked config that leaves nothing open.

Unknown keys and values out of range are refused with a sentence that names the key.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from turbosvm.algorithms.catalogue import CATALOGUE, find_algorithm, rows_of
from turbosvm.algorithms.rules import PARTS
from turbosvm.cores import usable_cores
from turbosvm.data.store import find_folder
from turbosvm.errors import TurboSVMError, unknown
from turbosvm.experiment.algorithm import all_options, build_algorithm, choose_rules
from turbosvm.experiment.config import AlgorithmConfig, Config, GlyphsConfig, Section
from turbosvm.experiment.layers import Layer, merge_layers, named, parse_settings, read_yaml
from turbosvm.experiment.presets import AS_PUBLISHED, PRESETS, PUBLISHED_ROUNDS, TUNED
from turbosvm.trackers.catalogue import check_names
from turbosvm.values import shown


def resolve_config(
    preset: str = "glyphs",
    file: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    as_published: bool = False,
) -> Config:
    """Put a config together: defaults, the preset, what is tuned for the data, the YAML file, the overrides.

    A key that is an algorithm's name (`fedavgm: {body: {momentum: 0.8}}`) counts where that algorithm runs, also in a
    combination, as if it stood under `algorithm` in its layer. `as_published` brings the switches that make algorithms
    behave like the paper's published code, under the file and the overrides. Nothing is left open: the result spells
    out every hyperparameter, the number of threads and the place of a data folder.
    """
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    layers = [read_yaml(file) if file else {}, overrides or {}]
    for layer in layers:
        _check_named_options(layer)
    plain = [{key: value for key, value in layer.items() if not _is_algorithm(key)} for layer in layers]
    config = _validate(merge_layers([PRESETS[preset], _published(preset) if as_published else {}, *plain]))
    name = find_algorithm(config.algorithm.name).name
    refuse_another(layers[0], name, "The config file")
    chosen = choose_rules(name, _algorithm(_options(layers, name))).name
    given = _options(layers, f"{name}+{chosen}")
    tuned = TUNED.get(config.data.name) or (TUNED[preset] if preset != "glyphs" else {})
    options: list[Mapping[str, Any]] = [tuned.get(row.name, {}) for row in rows_of(chosen)]
    if as_published:
        options += [row.as_published for row in rows_of(chosen)]
    algorithm = build_algorithm(name, _algorithm([*options, *given]))
    if as_published and "moon" in chosen.split("+") and config.client.epochs > 1:
        raise TurboSVMError(
            "MOON as published is known at one epoch a round only, where it is FedAvg; "
            "set client.epochs=1, or leave as-published out."
        )
    return config.model_copy(
        update={
            "algorithm": AlgorithmConfig(name=algorithm.name, **all_options(algorithm)),
            "data": config.data.model_copy(update={"name": _absolute(config.data.name)}),
            "threads": config.threads or min(torch.get_num_threads(), usable_cores()),
        }
    )


def read_config(file: Path) -> Config:
    """Read the config that a run was saved with, which leaves nothing open."""
    return _validate(read_yaml(file))


def parse_config(text: str, what: str) -> Config:
    """Read the text of such a config; errors call it so."""
    return _validate(parse_settings(text, what))


def _published(preset: str) -> Layer:
    """The switches that do not depend on the algorithm."""
    return AS_PUBLISHED if preset == "glyphs" else {**AS_PUBLISHED, "rounds": PUBLISHED_ROUNDS}


def _algorithm(options: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge what layers say of the algorithm, and check it."""
    merged = merge_layers([{"algorithm": {}}, *({"algorithm": part} for part in options)])
    return _validate(merged).algorithm.model_dump()


def _is_algorithm(key: Any) -> bool:
    return isinstance(key, str) and all(name in CATALOGUE for name in key.split("+"))


def _options(layers: Iterable[Mapping[str, Any]], name: str) -> list[Layer]:
    """What the layers say of the algorithm of that name, under `algorithm` and under its own name, in order."""
    given: list[Layer] = []
    for layer in layers:
        given += [named(layer.get("algorithm") or {}), *_named_options(layer, name)]
    return given


def refuse_another(layer: Mapping[str, Any], name: str, what: str) -> None:
    """Refuse settings that were made for another algorithm than the one asked for."""
    section = named(layer.get("algorithm") or {})
    asked = section.get("name") if isinstance(section, Mapping) else None
    if isinstance(asked, str) and find_algorithm(asked).name != find_algorithm(name).name:
        raise TurboSVMError(f"{what} is for {asked}, not for {name}; take 'algorithm' out of it, or ask for {asked}.")


def _named_options(layer: Mapping[str, Any], name: str) -> list[Layer]:
    """What a layer says of the algorithms that `name` is made of, those of larger combinations last."""
    running = set(name.split("+"))
    keys = [key for key in layer if _is_algorithm(key) and set(key.split("+")) <= running]
    return [layer[key] for key in sorted(keys, key=lambda key: key.count("+"))]


def _check_named_options(layer: Mapping[str, Any]) -> None:
    """Check what stands under an algorithm's name, whether it runs or not."""
    allowed = [key for key in AlgorithmConfig.model_fields if key != "name"]
    for name in filter(_is_algorithm, layer):
        parts = layer[name]
        if not isinstance(parts, Mapping) or not all(isinstance(parts.get(part, {}), Mapping) for part in PARTS):
            raise TurboSVMError(
                f"Config key '{name}' must hold options of its {' or '.join(allowed)}, not {shown(parts)}."
            )
        for part in parts:
            if part not in allowed:
                raise _misplaced(name, part) or unknown("config key", str(part), allowed, inside=name)
        build_algorithm(name, _algorithm([parts]))


def _misplaced(name: str, option: str) -> TurboSVMError | None:
    """The error for an option that stands one level too high: `turbosvm.cost` for `turbosvm.head.cost`."""
    known = all_options(find_algorithm(name))
    for part in PARTS:
        if option in known[part]:
            return TurboSVMError(f"Config key '{name}.{option}' is not there; did you mean '{name}.{part}.{option}'?")
    return None


def _validate(values: Mapping[str, Any]) -> Config:
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        raise _explain(error) from error
    check_names(config.trackers)
    if config.min_clients > config.clients_per_round:
        raise TurboSVMError(
            f"Config key 'min_clients' is {config.min_clients}; it must be at most {config.clients_per_round}, "
            "the clients_per_round."
        )
    least, most = config.data.min_samples, config.data.max_samples
    if most is not None and most < least:
        raise TurboSVMError(f"Config key data.max_samples is {most}, less than data.min_samples, which is {least}.")
    return config


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
        if inside:
            return unknown("config key", place[-1], _keys(place[:-1]), inside=inside)
        if meant := _elsewhere(place[0]):
            return TurboSVMError(f"Config key '{place[0]}' is not there; did you mean {' or '.join(meant)}?")
        return unknown("config key", place[0], _keys([]), guesses=CATALOGUE)
    if first["type"] == "invalid_key":
        return TurboSVMError(f"Config key {shown(first['input'])} is not a name.")
    what = first["msg"].removeprefix("Input should be ")
    if first["type"] in ("model_type", "dict_type"):
        what = "a name, or keys and values" if place in _named_sections() else "keys and values"
    given = "empty" if first["input"] is None else shown(first["input"])
    return TurboSVMError(f"Config key '{'.'.join(place)}' is {given}; it must be {what}.")


def _elsewhere(key: str) -> list[str]:
    """The keys of that name which the config has further down, in quotes."""
    return [f"'{'.'.join([*place, key])}'" for place in _sections() if key in _keys(place)]


def _named_sections() -> list[list[str]]:
    """The sections that a name alone can stand for."""
    return [place for place in _sections() if "name" in _keys(place)]


def _sections() -> list[list[str]]:
    """The places of the config that hold keys of their own."""
    kinds = {name: field.annotation for name, field in Config.model_fields.items()}
    own = [[name] for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, Section)]
    return [*own, ["data", "glyphs"]]


def _keys(place: list[str]) -> Iterable[str]:
    """The keys that the config has at a place."""
    section: Any = Config
    for part in place:
        annotation = section.model_fields[part].annotation
        section = GlyphsConfig if part == "glyphs" else annotation
    return tuple(section.model_fields)
