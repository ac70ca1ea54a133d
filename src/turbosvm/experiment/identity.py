"""Which run it is: the settings that its numbers depend on, to the last bit, as words that can be compared."""

import json
from collections.abc import Mapping
from typing import Any

from turbosvm.experiment.config import Config
from turbosvm.names import CHANGES_NO_BIT

Identity = Mapping[str, str]
"""Settings by dotted key, those that are as by default left out."""


def identity_of(config: Config) -> dict[str, str]:
    """Return the settings that decide a run's numbers; wherever its data lies, and however often it is saved."""
    apart: dict[str, Any] = {**dict.fromkeys(CHANGES_NO_BIT, True), "data": {"name"}}
    return dict(_flattened(config.model_dump(exclude=apart, exclude_defaults=True)))


def difference(before: Identity, now: Identity) -> str | None:
    """Say which settings are others than before; None where all are the same."""
    keys = [key for key in {**now, **before} if now.get(key) != before.get(key)]
    if not keys:
        return None
    told = [f"{key} is {now.get(key, 'the default')}, it was {before.get(key, 'the default')}" for key in keys[:3]]
    return "; ".join(told) + (f"; and {len(keys) - 3} more" if len(keys) > 3 else "")


def _flattened(content: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    flat: list[tuple[str, str]] = []
    for key, value in content.items():
        if isinstance(value, Mapping):
            flat += _flattened(value, f"{before}{key}.")
        else:
            flat.append((f"{before}{key}", json.dumps(value, default=str)))
    return flat
