"""What a run's folder says of the run beside its settings: `environment.json`, which also says which run it is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from turbosvm.bounded import read_bounded
from turbosvm.clients.engine import choose_engine
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.config import Config
from turbosvm.experiment.environment import describe_environment
from turbosvm.models.registry import code_digest
from turbosvm.precision import choose_precision
from turbosvm.run_files import ENVIRONMENT
from turbosvm.seals import sealed, unsealed
from turbosvm.simulation import Federation


class About(BaseModel):
    """What others rely on; the rest (versions, device, commit, ...) is for people to read."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    settings: dict[str, str]
    """The run's identity."""
    data: dict[str, Any]
    """As `describe_data` says it."""
    tracked_in: str | None = None
    """Where trackers keep what several runs share."""
    code: str | None = None
    """The digest of the module that a model of one's own came from when the run began."""
    resumed: list[dict[str, Any]] = []
    """When it went on, and on what."""

    def to_text(self) -> str:
        """Return what the file holds."""
        return sealed(self.model_dump(exclude_defaults=True))


def about_of(config: Config, federation: Federation, tracked_in: Path | None) -> About:
    """Say all there is to say of a run that has not begun."""
    content = {
        **surroundings(config, federation),
        "data": describe_data(federation),
        "settings": config.identity,
        "code": code_digest(config.model.name),
        "tracked_in": str(tracked_in.resolve()) if tracked_in else None,
    }
    return About.model_validate(content)


def read_about(path: Path) -> About:
    """Read it from a run's folder."""
    file = path / ENVIRONMENT
    try:
        return About.model_validate(unsealed(read_bounded(file)))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise TurboSVMError(
            f"Cannot read '{file}': '{place}' in it is not what runs write ({first['msg']})."
        ) from error
    except ValueError as error:
        raise TurboSVMError(f"Cannot read '{file}': it is damaged ({error}).") from error


def surroundings(config: Config, federation: Federation) -> dict[str, Any]:
    """What a run computes with."""
    device = next(federation.module.parameters()).device
    engine, precision = choose_engine(config.engine, device), choose_precision(config.precision, device)
    return {**describe_environment(device), "engine": engine, "precision": precision}


def describe_data(federation: Federation) -> dict[str, Any]:
    """Say how many users train and how many are held out."""
    split, counts = federation.split, federation.data.counts
    return {
        "name": federation.data.name,
        "task": federation.data.task,
        "digest": federation.data.digest,
        "split": "hash" if federation.data.held_out is None else "own",
        "users_train": len(split.train),
        "samples_train": int(counts[list(split.train)].sum()),
        "users_held_out": len(split.held_out),
        "samples_held_out": int(counts[list(split.held_out)].sum()),
    }


def refuse_other_data(path: Path, before: Mapping[str, Any], federation: Federation) -> None:
    """Refuse to go on with data that is not what the run began with; what is the same may be called differently."""
    now = describe_data(federation)
    differing = [key for key in now if before.get(key) != now[key]]
    if differing and not (differing == ["name"] and now["digest"]):
        raise TurboSVMError(
            f"'{path}' was run on other data than '{federation.data.name}' is now: {', '.join(differing)} differ."
        )
