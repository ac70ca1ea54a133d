"""One run, as reports see it, and how it is read from its folder."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import yaml
from pydantic_core import from_json

from turbosvm.errors import TurboSVMError
from turbosvm.evaluation.divergence import OF, SAMPLES, USER, has_diverged, why_not_finite
from turbosvm.evaluation.milestones import RoundsToTarget, rounds_to_target
from turbosvm.names import OWN

Floats = npt.NDArray[np.float64]

METRICS = ("accuracy", "macro_f1", "mcc", "loss", "auc")
TRAFFIC = ("bytes_down", "bytes_up")
SECONDS = ("seconds_train", "seconds_merge")
SUPPORT = ("svm_support_mean", "svm_support_min", "svm_support_max")
COLUMNS = ("round", *METRICS, *TRAFFIC, *SECONDS, *SUPPORT, SAMPLES, OF)
"""What reports need of the records."""

MOST_ROUNDS = 2**31

NONE: Floats = np.empty(0)

SEED = re.compile(rb"^seed: (\d+)$", re.MULTILINE)

# PyYAML's compiled reader is many times faster, but not built everywhere.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, eq=False)
class RunRecords:
    """One run, as a report sees it: who ran on what, and a row a round."""

    algorithm: str
    data: str
    seed: int
    target: float
    records: pd.DataFrame | Mapping[str, Floats]
    """A row a round, or the columns that reports need of it, which are read faster."""
    config: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    stopped: str | None = None
    remarks: tuple[str, ...] = ()
    """What was odd about its files, in sentences without its name."""

    def __repr__(self) -> str:
        return f"RunRecords({self.label} on {self.data}, {self.rounds} rounds)"

    @classmethod
    def from_config(cls, config: Mapping[str, Any], frame: pd.DataFrame, **others: Any) -> "RunRecords":
        """Take the names from a run's config; metrics become numbers, NaN where the model had none."""
        numbers = frame.astype({metric: float for metric in METRICS if metric in frame})
        return cls(
            config["algorithm"]["name"], data_name(config), config["seed"], config["target"], numbers, config, **others
        )

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The records as a table, a row a round."""
        return self.records if isinstance(self.records, pd.DataFrame) else pd.DataFrame(self.records)

    @property
    def evaluated(self) -> pd.DataFrame:
        """The rounds whose model was evaluated."""
        return self.frame[self.frame["accuracy"].notna()] if "accuracy" in self.frame else self.frame.iloc[:0]

    @cached_property
    def arrays(self) -> dict[str, Floats]:
        """The columns that reports need, as numbers; metrics that were not recorded are NaN."""
        there = {name: np.asarray(self.records[name], dtype=float) for name in COLUMNS if name in self.records}
        nothing = np.full(len(there.get("round", NONE)), np.nan)
        return {**{metric: nothing for metric in METRICS if "accuracy" in there}, **there}

    @cached_property
    def points(self) -> dict[str, Floats]:
        """The same of the evaluated rounds alone."""
        if "accuracy" not in self.arrays:
            return {}
        there = ~np.isnan(self.arrays["accuracy"])
        return {name: column[there] for name, column in self.arrays.items()} if there.any() else {}

    @property
    def rounds(self) -> int:
        """The number of the last round."""
        numbers = self.arrays.get("round", NONE)
        return int(numbers[-1]) if len(numbers) else 0

    def rounds_to(self, target: float | None = None) -> RoundsToTarget:
        """Rounds until the accuracy on held-out users was first at least `target` (the config's, if none is given)."""
        rounds, accuracies = (self.points.get(name, NONE).tolist() for name in ("round", "accuracy"))
        return rounds_to_target(map(int, rounds), accuracies, self.target if target is None else target)

    def metrics_at(self, number: int) -> dict[str, float]:
        """The metrics of the last evaluation up to a round, and the support vectors a class, where there are any.

        There are none where the run ended before that, or had no evaluation yet.
        """
        place = int(self.points["round"].searchsorted(number, side="right")) - 1 if self.points else -1
        if self.rounds < number or place < 0:
            return {}
        return {name: float(self.points[name][place]) for name in (*METRICS, SUPPORT[0]) if name in self.points}

    @property
    def final(self) -> dict[str, float]:
        """The metrics of the last evaluated round."""
        if not self.points:
            return {}
        last = {name: float(self.points[name][-1]) for name in METRICS}
        return {"round": int(self.points["round"][-1]), **last}

    @property
    def diverged(self) -> bool:
        """Whether the loss at the end is not a number, and not for some of the held-out samples alone."""
        return "loss" in self._end and has_diverged(self._end)

    @property
    def _end(self) -> dict[str, Any]:
        """What the last evaluated round tells of answers that are finite, and of those that are not."""
        if not self.points:
            return {}
        place = int(np.flatnonzero(~np.isnan(self.arrays["accuracy"]))[-1])
        found = {name: self.arrays[name][place] for name in ("accuracy", SAMPLES, OF) if name in self.arrays}
        loss = {"loss": self.arrays["loss"][place]} if "loss" in self.records else {}
        return {**found, **loss, USER: list(self.records[USER])[place] if USER in self.records else None}

    @property
    def label(self) -> str:
        """How sentences call it."""
        return f"{self.algorithm} seed {self.seed}"

    @property
    def told(self) -> list[str]:
        """What the person should know of how it ended."""
        return self.told_of(self.label)

    def told_of(self, label: str) -> list[str]:
        """The same under another name."""
        told = [f"{label}: {remark}" for remark in self.remarks]
        if self.diverged:
            return [*told, f"{label} diverged (its loss is not finite): try smaller learning rates."]
        why = why_not_finite(self._end) if "loss" in self._end else ""
        return [*told, f"{label}: {why}."] if why else told


def read_run(folder: Path) -> RunRecords:
    """Read a run's folder, finished or not; a last line that a crash has cut off is left out, with a remark."""
    try:
        config = _checked(_parse_config((folder / "config.yaml").read_bytes()))
        rows, cut = _parse_lines((folder / "records.jsonl").read_bytes())
        columns = _columns(rows)
        environment = _read_environment(folder / "environment.json")
        stopped = (folder / "stopped.txt").read_text().strip() if (folder / "stopped.txt").exists() else None
    except (OSError, ValueError, TypeError, OverflowError, RecursionError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise TurboSVMError(f"'{folder}' is not a run's folder: {reason}.") from error
    name, seed = config["algorithm"]["name"], config["seed"]
    return RunRecords(
        name,
        data_name(config),
        seed,
        config["target"],
        columns,
        config,
        environment,
        stopped,
        ("the last line of its records was cut off and is left out.",) if cut else (),
    )


def data_name(config: Mapping[str, Any]) -> str:
    """How a config's data is called: the last part of a path, without the mark of what was handed over in Python."""
    return Path(config["data"]["name"].removeprefix(OWN)).name


def _parse_config(content: bytes) -> Any:
    """A config; those that differ in the seed alone are parsed once."""
    found = SEED.search(content)
    if found is None:
        return _parse_yaml(content)
    rest = _parse_yaml(content[: found.start()] + content[found.end() :])
    return {**rest, "seed": int(found[1])} if isinstance(rest, dict) else rest


@lru_cache(maxsize=64)
def _parse_yaml(content: bytes) -> Any:
    return yaml.load(content, Loader=LOADER)  # noqa: S506 - both loaders are safe


def _parse_lines(content: bytes) -> tuple[list[Mapping[str, Any]], bool]:
    """The rows in the order of their rounds, and whether a last line had to be left out."""
    lines = [line for line in content.split(b"\n") if line.strip()]
    try:
        rows, cut = from_json(b"[" + b",".join(lines) + b"]"), False  # all at once, and not by json, is faster
    except ValueError:
        rows, cut = _parse_each(lines, may_be_cut=not content.endswith(b"\n"))
    try:
        by_round = {int(row["round"]): row for row in rows}
    except (KeyError, TypeError) as error:
        raise ValueError("a line of records.jsonl is not a round's record") from error
    if by_round and not 1 <= min(by_round) <= max(by_round) <= MOST_ROUNDS:
        raise ValueError("a line of records.jsonl has a round that cannot be")
    return [by_round[number] for number in sorted(by_round)], cut


def _parse_each(lines: Sequence[bytes], may_be_cut: bool) -> tuple[list[Any], bool]:
    """Line by line, to find the one that is broken; the last one may be."""
    rows: list[Any] = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            if number < len(lines) or not may_be_cut:
                raise ValueError(f"line {number} of records.jsonl is not JSON") from error
    return rows, len(rows) < len(lines)


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The columns that reports need, as numbers; those that no row has are left out."""
    names = [name for name in COLUMNS if any(name in row for row in rows)]
    columns: dict[str, Any] = {name: np.array([row.get(name) for row in rows], dtype=float) for name in names}
    for name, column in columns.items():
        if column.ndim != 1:
            raise ValueError(f"'{name}' of records.jsonl is not a number")
    if SAMPLES in columns:
        columns[USER] = [str(row.get(USER)) for row in rows]
    return {name: column.astype(int) if name == "round" else column for name, column in columns.items()}


def _read_environment(path: Path) -> Mapping[str, Any]:
    """What the run ran on; nothing where that was not kept, or only half."""
    try:
        about = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return about if isinstance(about, dict) else {}


def _checked(config: Any) -> Mapping[str, Any]:
    """Refuse a config without what every report needs."""
    kinds = {"algorithm": dict, "data": dict, "seed": int, "target": int | float}
    wrong = [
        key for key, kind in kinds.items() if not isinstance(config, dict) or not isinstance(config.get(key), kind)
    ]
    wrong = wrong or [key for key in ("algorithm", "data") if not isinstance(config[key].get("name"), str)]
    if wrong:
        raise ValueError(f"config.yaml does not say its {wrong[0]}")
    if not 0 <= config["target"] <= 1:
        raise ValueError(f"config.yaml has {config['target']} for its target")
    return dict(config)
