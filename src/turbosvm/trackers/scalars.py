"""Records and configs as trackers take them: numbers with grouped names, and plain values with dotted ones."""

from collections.abc import Mapping
from typing import Any

EVALUATED = ("accuracy", "macro_f1", "mcc", "loss", "auc")
GROUPS = {
    "bytes_": "traffic/bytes_",
    "not_finite_": "held_out/not_finite_",
    "seconds_": "seconds/",
    "spread_loss_": "spread_loss/",
    "svm_": "svm/",
}
COUNTED = {"cohort": "clients", "failures": "failures"}


def scalars(record: Mapping[str, Any]) -> dict[str, float]:
    """Return a record's numbers as `group/name`; of the cohort and the failures, how many there are."""
    counts = {f"training/{name}": float(len(record.get(column) or ())) for column, name in COUNTED.items()}
    numbers = {
        tag(column): float(value)
        for column, value in record.items()
        if isinstance(value, int | float) and column != "round"
    }
    return {**numbers, **counts, "training/failed": float(bool(record.get("failed")))}


def tag(column: str) -> str:
    """Name a column's curve: `held_out/accuracy`, `seconds/train`, `training/train_loss`."""
    if column in EVALUATED:
        return f"held_out/{column}"
    for prefix, group in GROUPS.items():
        if column.startswith(prefix):
            return f"{group}{column.removeprefix(prefix)}"
    return f"training/{column}"


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, str | int | float | bool]:
    """Return a nested config as dotted keys, without those that hold nothing."""
    flat: dict[str, str | int | float | bool] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        elif isinstance(value, str | int | float):
            flat[f"{prefix}{key}"] = value
        elif value is not None:
            flat[f"{prefix}{key}"] = str(value)
    return flat


def summarise(records: list[dict[str, Any]], stopped: str | None) -> dict[str, Any]:
    """Return what a run came to: its rounds, the metrics of the last evaluated one, and why it stopped, if it did."""
    evaluated: dict[str, Any] = next((record for record in reversed(records) if record.get("accuracy") is not None), {})
    metrics = {name: evaluated[name] for name in EVALUATED if evaluated.get(name) is not None}
    return {"rounds": records[-1]["round"] if records else 0, **metrics, **({"stopped": stopped} if stopped else {})}
