"""Run folders made up for tests of reports: configs as runs save them, curves that rise as they should."""

import math
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from turbosvm.identity import identity_of
from turbosvm.record_lines import line_of
from turbosvm.seals import sealed
from turbosvm.yaml_text import parse_yaml

SPEED = {"fedavg": 40.0, "fedadam": 30.0, "fedavgm": 20.0, "turbosvm": 14.0}
HEAD: dict[str, Any] = {
    "selection": True,
    "spread_out": True,
    "kernel": "linear",
    "scheme": "ovo",
    "cost": "decreasing",
}


def config_of(algorithm: str = "fedavg", data: str = "glyphs", seed: int = 0, **changes: Any) -> dict[str, Any]:
    """A config like those that runs save; dots in keys are written as double underscores."""
    config: dict[str, Any] = {
        "algorithm": {
            "name": algorithm,
            "objective": {},
            "local": {},
            "body": {"weighting": "samples"},
            "head": {**HEAD, "learning_rate": 0.01} if algorithm == "turbosvm" else {},
            "buffers": "mean",
        },
        "data": {"name": data, "held_out": 0.1, "min_samples": 1, "split_seed": 0},
        "model": {"name": "small", "head": None, "options": {}},
        "client": {"epochs": 1, "batch_size": 16, "learning_rate": 0.1, "dropout": 0.0},
        "rounds": 100,
        "clients_per_round": 8,
        "cohorts": "paired",
        "seed": seed,
        "target": 0.7,
        "evaluate_every": 1,
        "device": "auto",
        "threads": 1,
        "engine": "auto",
        "precision": "auto",
    }
    for key, value in changes.items():
        *path, last = key.split("__")
        place = config
        for part in path:
            place = place[part]
        place[last] = value
    return config


MACHINE: dict[str, Any] = {
    "svm_support_mean": 7.2,
    "svm_support_min": 4.0,
    "svm_support_max": 8.0,
    **{f"svm_margin_{name}": 4.590755094649547 for name in ("mean", "min", "max")},
    **{f"spread_loss_{name}": 0.07326126098632812 for name in ("before", "after")},
    **{f"client_{name}": [0.8387096774193549] * 8 for name in ("selected", "slack")},
    **{f"seconds_head_{name}": 0.002132 for name in ("check", "gram", "solve", "select", "spread")},
}


def record_of(number: int, accuracy: float | None, support: bool = False) -> dict[str, Any]:
    """One round's line."""
    metrics = {} if accuracy is None else _metrics(accuracy)
    machine = MACHINE if support else {}
    traffic = {"bytes_down": 3_580_864, "bytes_up": 3_580_864, "seconds_train": 0.25, "seconds_merge": 0.014}
    rest = {"train_loss": 3.3119601684384796, "samples": 747, "cohort": list(range(8)), "failures": [], "failed": None}
    return {"round": number, **metrics, **traffic, **machine, **rest}


def _metrics(accuracy: float) -> dict[str, float | None]:
    loss = 4 * (1 - accuracy) if math.isfinite(accuracy) else None
    return {"accuracy": accuracy, "macro_f1": accuracy * 0.9, "mcc": accuracy - 0.02, "loss": loss, "auc": accuracy}


def write_run(
    folder: Path, config: dict[str, Any], accuracies: list[float | None], environment: dict[str, Any] | None = None
) -> Path:
    """Write a run whose rounds had these accuracies; None where the model was not evaluated."""
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    support = "turbosvm" in config["algorithm"]["name"]
    lines = [line_of(record_of(number, value, support)) for number, value in enumerate(accuracies, 1)]
    (folder / "records.jsonl").write_text("".join(lines))
    (folder / "environment.json").write_text(sealed({"settings": identity_of(config), **(environment or ENVIRONMENT)}))
    return folder


def end_run(folder: Path, stopped: str | None = None) -> None:
    """Say that a run has ended, as runs do."""
    records = (folder / "records.jsonl").read_bytes()
    ending = {"round": records.count(b"\n"), "stopped": stopped, "records": sha256(records).hexdigest(), "model": None}
    (folder / "ended.json").write_text(sealed(ending))


def change_config(folder: Path, content: str) -> None:
    """Give a run another config, as if it had been planned with it."""
    (folder / "config.yaml").write_text(content)
    settings = identity_of(parse_yaml(content))
    (folder / "environment.json").write_text(sealed({**ENVIRONMENT, "settings": settings}))


ENVIRONMENT: dict[str, Any] = {
    "started": "2026-01-01T00:00:00+00:00",
    "command": ["turbosvm", "compare", "fedavg", "turbosvm"],
    "turbosvm": "0.1.0",
    "commit": None,
    "python": "3.11.7",
    "packages": {"torch": "2.13.0"},
    "platform": "Linux",
    "device": "cpu (x86_64)",
    "cores": 2,
    "engine": "threads",
    "precision": "float32",
    "data": {"name": "glyphs", "digest": None, "users_train": 177, "users_held_out": 23},
}


def rising(algorithm: str, seed: int, rounds: int = 100, top: float = 0.85) -> list[float | None]:
    """A curve that rises to `top`, at the algorithm's speed, with some noise."""
    rng = np.random.default_rng([seed, *algorithm.encode()])
    steps = np.arange(1, rounds + 1)
    curve = top * (1 - np.exp(-steps / SPEED.get(algorithm, 25.0))) + 0.01 * rng.normal(size=rounds)
    return [float(value) for value in np.clip(curve, 0, 1)]


def write_runs(root: Path, data: str = "glyphs", seeds: int = 3, rounds: int = 100, **changes: Any) -> Path:
    """A comparison of four algorithms at some seeds."""
    for algorithm in SPEED:
        for seed in range(seeds):
            config = config_of(algorithm, data, seed, rounds=rounds, **changes)
            write_run(root / f"{algorithm}-seed{seed}", config, rising(algorithm, seed, rounds))
    return root
