"""Configs as flat settings: which of them make runs different, and how a person tells them apart."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Settings = Mapping[str, Any]

MANNERS = ("client_memory_mb", "device", "engine", "precision", "threads")
"""Settings that say how a run is computed, not what."""
MANNER_PREFIXES = ("checkpoint", "resume", "track")

SHORT = {"clients_per_round": "C", "client.epochs": "E"}
"""The paper's names."""

TASK = ("data.", "model.", "client.dropout", "client.epochs", "clients_per_round", "target")
"""Settings that say what is to be learned, under which conditions: rows are comparable where these agree."""


def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a run is, apart from its seed, the place of its data, and how it is computed: dotted keys and values."""
    flat = _flatten(config)
    return {key: value for key, value in flat.items() if key not in ("seed", "data.name") and not _is_manner(key)}


def task_of(settings: Settings) -> dict[str, Any]:
    """The settings that two algorithms must share to be compared."""
    return {key: value for key, value in settings.items() if key.startswith(TASK)}


def differing(many: Iterable[Settings]) -> list[str]:
    """The keys whose values are not the same everywhere, in order of first appearance."""
    listed = list(many)
    keys = dict.fromkeys(key for settings in listed for key in settings)
    return [key for key in keys if len({_word(settings, key) for settings in listed}) > 1]


def describe(settings: Settings, keys: Sequence[str]) -> str:
    """Name some settings and their values, e.g. 'C=16 kernel=rbf'; names are as short as is clear."""
    return " ".join(f"{_short(key, settings)}={_word(settings, key)}" for key in keys)


def _flatten(value: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, part in value.items():
        if isinstance(part, Mapping):
            flat |= _flatten(part, f"{before}{key}.")
        else:
            flat[f"{before}{key}"] = part
    return flat


def _is_manner(key: str) -> bool:
    return key in MANNERS or key.startswith(MANNER_PREFIXES)


def _word(settings: Settings, key: str) -> str:
    """A value as text; 1 and 1.0 are the same."""
    value = settings.get(key, "unset")
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, int | float) else str(value)


def _short(key: str, settings: Settings) -> str:
    """The paper's name, or the key without its first parts, as far as no other key ends so."""
    if key in SHORT:
        return SHORT[key]
    parts = key.split(".")
    for count in range(1, len(parts)):
        end = ".".join(parts[-count:])
        if not any(other != key and f".{other}".endswith(f".{end}") for other in (*settings, "seed")):
            return end
    return key
