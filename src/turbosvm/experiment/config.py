"""The whole of a run in one value: what `config.yaml` in a run folder holds, and all that is needed to repeat it.

Keys, types, ranges and defaults stand here; `resolve.py` puts a config together.
"""

import json
from hashlib import sha256
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from turbosvm.data.glyphs import GlyphOptions
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.layers import listed, named
from turbosvm.identity import Identity, difference, identity_of
from turbosvm.names import HOW
from turbosvm.yaml_text import dump_yaml, parse_yaml

DEMO = GlyphOptions()


class Section(BaseModel):
    """A part of a config: unknown keys are refused, values do not change after checking."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _as_it_reads(cls, value: Any, info: ValidationInfo) -> Any:
        """Keep flags and text from becoming numbers, and let a whole number be a name, as of a layer."""
        kind = cls.model_fields[str(info.field_name)].annotation
        kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
        if (int in kinds or float in kinds) and isinstance(value, bool | str):
            raise PydanticCustomError("no_number", "a valid number" if float in kinds else "a valid integer")
        if str in kinds and isinstance(value, bool | float):
            raise PydanticCustomError("no_text", "a valid text, which stands in quotes if it looks like something else")
        return str(value) if str in kinds and type(value) is int else value


class AlgorithmConfig(Section):
    """Which algorithm, and what of its four parts differs from the catalogue's.

    Under a part stand hyperparameters, and `rule`, another algorithm's name whose rule for this part is taken.
    """

    name: str = "fedavg"
    objective: dict[str, Any] = {}
    local: dict[str, Any] = {}
    body: dict[str, Any] = {}
    head: dict[str, Any] = {}
    buffers: Literal["mean", "frozen"] = "mean"


class GlyphsConfig(Section):
    """The built-in data: how many writers, how much each writes, how different they are, and which of them."""

    users: int = Field(DEMO.users, ge=2, le=10_000_000)
    samples_per_user: float = Field(DEMO.samples_per_user, ge=1)
    heterogeneity: float = Field(DEMO.heterogeneity, ge=0, le=1)
    seed: int = Field(DEMO.seed, ge=0)


class DataConfig(Section):
    """Which data, and how its users are split; `name` is 'glyphs' or the path of a data folder."""

    name: str = "glyphs"
    glyphs: GlyphsConfig | None = None
    held_out: float = Field(0.1, gt=0, lt=1)
    min_samples: int = Field(1, ge=1)
    max_samples: int | None = Field(None, ge=1)
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
    batch_size: int = Field(16, ge=1, le=1_000_000_000)
    learning_rate: float = Field(0.1, gt=0)
    dropout: float = Field(0.0, ge=0, lt=1)
    last_batch: Literal["merge", "drop", "keep"] | None = None


class Config(Section):
    """One run: one algorithm, one data set, one seed."""

    algorithm: Annotated[AlgorithmConfig, BeforeValidator(named)] = AlgorithmConfig()
    data: Annotated[DataConfig, BeforeValidator(named)] = DataConfig()
    model: Annotated[ModelConfig, BeforeValidator(named)] = ModelConfig()
    client: ClientConfig = ClientConfig()
    rounds: int = Field(100, ge=1)
    clients_per_round: int = Field(8, ge=1)
    cohorts: Literal["paired", "own"] = "paired"
    on_bad_client: Literal["skip", "abort", "replace"] = "skip"
    min_clients: int = Field(1, ge=1)
    max_failed_rounds: int = Field(10, ge=0)
    client_memory_mb: int = Field(1024, ge=0)
    seed: int = Field(0, ge=0)
    target: float = Field(0.7, gt=0, le=1)
    evaluate_every: int = Field(1, ge=1)
    checkpoint_every: int | None = Field(None, ge=0)
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int | None = Field(None, ge=1, le=1024)
    engine: Literal["auto", "sequential", "threads", "graphs"] = "auto"
    precision: Literal["auto", "float32", "tf32", "bfloat16"] = "auto"
    trackers: Annotated[list[str], BeforeValidator(listed)] = []

    @model_validator(mode="before")
    @classmethod
    def _fill_data(cls, value: Any) -> Any:
        """Run the data's own checks on the default too, so that its glyphs section is always spelt out."""
        return {"data": {}, **value} if isinstance(value, dict) else value

    @property
    def identity(self) -> dict[str, str]:
        """The settings that decide a run's numbers, to the last bit."""
        return identity_of(self.model_dump())

    def difference(self, before: Identity) -> str | None:
        """Say in which settings a run that had these was another; one that is new since counts if it is set."""
        given = identity_of(self.model_dump(exclude_defaults=True))
        return difference(before, {key: word for key, word in self.identity.items() if key in before or key in given})

    @property
    def digest(self) -> str:
        """A hash of what a run computes, wherever its data lies and whatever it is computed with.

        Defaults do not count, so that a setting which is new some day changes nothing of older runs.
        """
        content = self.model_dump(exclude={**dict.fromkeys(HOW, True), "data": {"name"}}, exclude_defaults=True)
        return sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()

    def to_yaml(self) -> str:
        """Return the config as it is saved with a run, if it can be read again."""
        try:
            text = dump_yaml(self.model_dump())
            parse_yaml(text)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise TurboSVMError(f"This config cannot be saved as YAML: {' '.join(str(error).split())}.") from error
        return text
