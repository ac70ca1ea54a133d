"""Which run it is: the settings that its numbers depend on, to the last bit, as words that can be compared."""

import json
from collections.abc import Mapping
from typing import Any

from turbosvm.names import CHANGES_NO_BIT

Identity = Mapping[str, str]
"""Settings by dotted key, as JSON."""


def identity_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings that decide a run's numbers; wherever its data lies, and however often it is saved."""
    apart = {*CHANGES_NO_BIT, "data.name"}
    flat = flattened(config)
    return {key: json.dumps(value, default=str) for key, value in flat.items() if key not in apart}


def difference(before: Identity, now: Identity) -> str | None:
    """Say which settings are others than before; None where all are the same."""
    keys = [key for key in {**now, **before} if now.get(key) != before.get(key)]
    if not keys:
        return None
    told = [f"{key} is {now.get(key, 'not set')}, it was {before.get(key, 'not set')}" for key in keys[:3]]
    return "; ".join(told) + (f"; and {len(keys) - 3} more" if len(keys) > 3 else "")


def flattened(nested: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Turn `{"client": {"epochs": 2}}` into `{"client.epochs": 2}`."""
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        if isinstance(value, Mapping):
            flat |= flattened(value, f"{before}{key}.")
        else:
            flat[f"{before}{key}"] = value
    return flat
