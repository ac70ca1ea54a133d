"""The whole of a run in one value: what `config.yaml` in a run folder holds, and all that is needed to repeat it.

A config is put together from four layers, later ones winning: the defaults below, a preset, a YAML file, overrides.
Unknown keys and values out of range are refused with a sentence that names the key.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from turbosvm.algorithms.catalogue import CATALOGUE
from turbosvm.data.glyphs import GlyphOptions
from turbosvm.errors import TurboSVMError, unknown
from turbosvm.experiment.algorithm import all_options, build_algorithm
from turbosvm.experiment.presets import PRESETS, TUNED

DEMO = GlyphOptions()


class Section(BaseModel):
    """A part of a config: unknown keys are refused, values do not change after checking."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, coerce_numbers_to_str=True)


def _from_name(value: Any) -> Any:
    """Let `data: glyphs` stand for `data: {name: glyphs}`."""
    return {"name": value} if isinstance(value, str) else value


class AlgorithmConfig(Section):
    """Which algorithm, and hyperparameters of its three parts that differ from the catalogue's."""

    name: str = "fedavg"
    objective: dict[str, Any] = {}
    body: dict[str, Any] = {}
    head: dict[str, Any] = {}


class GlyphsConfig(Section):
    """The built-in data: how many writers, how much each writes, how different they are, and which of them."""

    users: int = Field(DEMO.users, ge=2)
    samples_per_user: float = Field(DEMO.samples_per_user, ge=1)
    heterogeneity: float = Field(DEMO.heterogeneity, ge=0, le=1)
    seed: int = Field(DEMO.seed, ge=0)


class DataConfig(Section):
    """Which data, and how its users are split; `name` is 'glyphs' or the path of a data folder."""

    name: str = "glyphs"
    glyphs: GlyphsConfig | None = None
    held_out: float = Field(0.1, gt=0, lt=1)
    min_samples: int = Field(1, ge=1)
    split_seed: int = Field(0, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _glyphs_only_for_glyphs(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if value.get("name", "glyphs") == "glyphs":
            return {**value, "glyphs": value.get("glyphs") or {}}
        return {key: part for key, part in value.items() if key != "glyphs"}


class ModelConfig(Section):
    """Which model ('small', 'femnist', 'celeba', 'shakespeare' or 'module:Class'), its head and its arguments."""

    name: str = "small"
    head: str | None = None
    options: dict[str, Any] = {}


class ClientConfig(Section):
    """What a client does in a round: E epochs of SGD."""

    epochs: int = Field(1, ge=1)
    batch_size: int = Field(16, ge=1)
    learning_rate: float = Field(0.1, gt=0)


class Config(Section):
    """One run: one algorithm, one data set, one seed."""

    algorithm: Annotated[AlgorithmConfig, BeforeValidator(_from_name)] = AlgorithmConfig()
    data: Annotated[DataConfig, BeforeValidator(_from_name)] = DataConfig()
    model: Annotated[ModelConfig, BeforeValidator(_from_name)] = ModelConfig()
    client: ClientConfig = ClientConfig()
    rounds: int = Field(100, ge=1)
    clients_per_round: int = Field(8, ge=1)
    seed: int = Field(0, ge=0)
    target: float = Field(0.7, gt=0, le=1)
    evaluate_every: int = Field(1, ge=1)
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int | None = Field(None, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _fill_data(cls, value: Any) -> Any:
        """Run the data's own checks on the default too, so that its glyphs section is always spelt out."""
        return {"data": {}, **value} if isinstance(value, dict) else value

    def to_yaml(self) -> str:
        """Return the config as it is saved with a run."""
        return yaml.safe_dump(self.model_dump(), sort_keys=False)


def resolve_config(
    preset: str = "glyphs",
    file: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Config:
    """Put a config together: defaults, then the preset, then the YAML file, then the overrides.

    A key that is an algorithm's name (`fedavgm: {body: {momentum: 0.8}}`) counts where that algorithm runs. Nothing is
    left open: the result spells out every hyperparameter, the number of threads and the place of a data folder.
    """
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    given = merge_layers([read_yaml(file) if file else {}, overrides or {}])
    by_algorithm = {name: given.pop(name) for name in CATALOGUE if name in given}
    config = _validate(merge_layers([PRESETS[preset], given]))
    name = config.algorithm.name
    tuned = TUNED.get(config.data.name, {}).get(name, {})
    layers = [tuned, given.get("algorithm", {}), by_algorithm.get(name, {})]
    options = _validate(merge_layers([{"algorithm": {"name": name}}, *({"algorithm": layer} for layer in layers)]))
    algorithm = build_algorithm(name, options.algorithm.model_dump())
    return config.model_copy(
        update={
            "algorithm": AlgorithmConfig(name=name, **all_options(algorithm)),
            "data": config.data.model_copy(update={"name": _absolute(config.data.name)}),
            "threads": config.threads or torch.get_num_threads(),
        }
    )


def _validate(values: Mapping[str, Any]) -> Config:
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise explain(error) from error


def _absolute(name: str) -> str:
    """Spell out where a data folder is, so that a saved config means the same from anywhere."""
    folder = Path(name).expanduser()
    return str(folder.resolve()) if name and folder.is_dir() and name != "glyphs" else name


def read_yaml(file: Path) -> dict[str, Any]:
    """Read a YAML file that holds keys and values."""
    try:
        content = yaml.safe_load(file.read_text())
    except OSError as error:
        raise TurboSVMError(f"Config file '{file}' cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        what = " ".join(str(error).split())
        raise TurboSVMError(f"Config file '{file}' is not YAML: {what}.") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise TurboSVMError(f"Config file '{file}' must hold keys and values, not a {type(content).__name__}.")
    return content


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Turn `["client.epochs=2", ...]` into nested keys; values are read as YAML."""
    layers = []
    for assignment in assignments:
        key, sign, text = assignment.partition("=")
        if not sign or not key:
            raise TurboSVMError(f"'{assignment}' is not an assignment; write key=value, for instance client.epochs=2.")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise TurboSVMError(f"The value in '{assignment}' is not YAML.") from error
        layers.append(nest(key, value))
    return merge_layers(layers)


def nest(key: str, value: Any) -> dict[str, Any]:
    """Turn `("client.epochs", 2)` into `{"client": {"epochs": 2}}`."""
    for part in reversed(key.split(".")):
        value = {part: value}
    nested: dict[str, Any] = value
    return nested


def merge_layers(layers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge nested mappings, later ones winning; a plain name ('glyphs') keeps company with keys beside it."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            old = merged.get(key)
            if isinstance(value, Mapping) and not isinstance(old, str | dict | None):
                raise TurboSVMError(f"Config key '{key}' is {old!r}; it must be a name, or keys and values.")
            if isinstance(old, dict) and isinstance(value, str):
                merged[key] = {**old, "name": value}
            elif isinstance(value, Mapping):
                merged[key] = merge_layers([_from_name(old) if isinstance(old, str | dict) else {}, value])
            else:
                merged[key] = value
    return merged


def explain(error: ValidationError) -> TurboSVMError:
    """Say the first of pydantic's complaints in one sentence."""
    first = error.errors()[0]
    place = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        inside = ".".join(place[:-1])
        return unknown(f"config key in '{inside}'" if inside else "config key", place[-1], _keys(place[:-1]))
    what = first["msg"].removeprefix("Input should be ")
    return TurboSVMError(f"Config key '{'.'.join(place)}' is {first['input']!r}; it must be {what}.")


def _keys(place: list[str]) -> Iterable[str]:
    """The keys that the config has at a place."""
    section: Any = Config
    for part in place:
        annotation = section.model_fields[part].annotation
        section = GlyphsConfig if part == "glyphs" else annotation
    return tuple(section.model_fields)
