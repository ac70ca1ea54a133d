"""Configs as flat settings: which of them make runs different, and how a person tells them apart."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from turbosvm.identity import flattened
from turbosvm.names import HOW
from turbosvm.visible import visible

Settings = Mapping[str, Any]

SHORT = {"clients_per_round": "C", "client.epochs": "E"}
"""The paper's names."""

TASK = ("data.", "model.", "client.dropout", "client.epochs", "clients_per_round", "target")
"""Settings that say what is to be learned, under which conditions: rows are comparable where these agree."""


def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a run is, apart from its seed, the place of its data, and how it is computed: dotted keys and values.

    What is not set is left out, as older runs do without what they did not know of.
    """
    apart = {"seed", "data.name", *HOW}
    return {key: value for key, value in flattened(config).items() if value is not None and key not in apart}


def task_of(settings: Settings) -> dict[str, Any]:
    """The settings that two algorithms must share to be compared."""
    return {key: value for key, value in settings.items() if key.startswith(TASK)}


def fingerprint(settings: Settings) -> tuple[tuple[str, str], ...]:
    """The same for the same settings, in whatever order, and for nothing else."""
    return tuple(sorted((key, _word(settings, key)) for key in settings))


def differing(many: Iterable[Settings]) -> list[str]:
    """The keys whose values are not the same everywhere, in order of first appearance."""
    listed = list(many)
    keys = dict.fromkeys(key for settings in listed for key in settings)
    return [key for key in keys if len({_word(settings, key) for settings in listed}) > 1]


def describe(settings: Settings, names: Mapping[str, str]) -> str:
    """Say some settings by the names that are given for them, e.g. 'C=16 kernel=rbf'."""
    return " ".join(f"{name}={_word(settings, key)}" for key, name in names.items())


def labels_of(many: Sequence[tuple[str, Settings]]) -> list[str]:
    """Names for algorithms with their settings: what of the task differs at all, and what tells one from namesakes."""
    tasks = differing([task_of(settings) for _, settings in many])
    namesakes: dict[str, list[Settings]] = {}
    for algorithm, settings in many:
        namesakes.setdefault(algorithm, []).append(settings)
    known = dict.fromkeys(key for _, settings in many for key in settings)
    names = {
        algorithm: {key: short_name(key, known) for key in (*tasks, *differing(listed))}
        for algorithm, listed in namesakes.items()
    }
    return [f"{algorithm} {describe(settings, names[algorithm])}".strip() for algorithm, settings in many]


def short_name(key: str, known: Iterable[str]) -> str:
    """The paper's name, or the key without its first parts, as far as no other known key ends so."""
    if key in SHORT:
        return SHORT[key]
    others = [f".{other}" for other in (*known, "seed") if other != key]
    parts = key.split(".")
    ends = (".".join(parts[-count:]) for count in range(1, len(parts)))
    return next((end for end in ends if not any(other.endswith(f".{end}") for other in others)), key)


def _word(settings: Settings, key: str) -> str:
    """A value as text; 1 and 1.0 are the same."""
    value = settings.get(key, "unset")
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, float) else visible(str(value))
