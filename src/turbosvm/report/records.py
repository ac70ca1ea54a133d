"""One run, as reports see it, and how it is read from its folder."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from turbosvm.bounded import read_bounded
from turbosvm.errors import TurboSVMError, in_one_line
from turbosvm.evaluation.divergence import OF, SAMPLES, USER, has_diverged, why_not_finite
from turbosvm.evaluation.milestones import RoundsToTarget, rounds_to_target
from turbosvm.identity import difference, identity_of
from turbosvm.names import OWN
from turbosvm.report.checks import check_config, check_ending, check_environment
from turbosvm.report.columns import COLUMNS, METRICS, SUPPORT, Floats, read_columns
from turbosvm.run_files import CONFIG, ENDED, ENVIRONMENT, RECORDS
from turbosvm.seals import unsealed
from turbosvm.visible import visible
from turbosvm.yaml_text import MOST_BYTES, YamlError, parse_yaml

NONE: Floats = np.empty(0)

SEED = re.compile(rb"^seed: (0|[1-9][0-9]{0,17})$", re.MULTILINE)
ANY_SEED = 10**18 + 1
"""Stands in a config for its seed; larger than those that are found."""


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
    """Read a run's folder, finished or not; a last line that a crash has cut off is left out, with a remark.

    Raises:
        TurboSVMError: it is not a run's folder, the run has not begun, or any of its files is damaged.
    """
    try:
        config = _parse_config(read_bounded(folder / CONFIG, MOST_BYTES))
        check_config(config)
        has_ended = os.path.lexists(folder / ENDED)  # asked before the records, which are complete once it is there
        ending = _read_sealed(folder / ENDED, check_ending) if has_ended else None
        if not has_ended and not os.path.lexists(folder / RECORDS):
            raise ValueError("it has not begun")
        records = read_bounded(folder / RECORDS)
        columns, cut = read_columns(records)
        if ending and ending["records"] != sha256(records).hexdigest():
            raise ValueError(f"{RECORDS} is not what it was when the run ended, as {ENDED} has it")
        environment = _read_sealed(folder / ENVIRONMENT, check_environment)
        if what := difference(environment["settings"], identity_of(config)):
            raise ValueError(f"{CONFIG} has been changed since the run was planned: {what}")
    except (TurboSVMError, ValueError) as error:
        raise _no_run(folder, str(error)) from error
    except Exception as error:  # one folder must never be the end of a report on others
        raise _no_run(folder, in_one_line(error)) from error
    return RunRecords(
        config["algorithm"]["name"],
        data_name(config),
        config["seed"],
        config["target"],
        columns,
        config,
        environment,
        f"After round {ending['round']}: {ending['stopped']}" if ending and ending["stopped"] else None,
        ("the last line of its records was cut off and is left out.",) if cut else (),
    )


def _no_run(folder: Path, reason: str) -> TurboSVMError:
    return TurboSVMError(f"'{folder}' cannot be reported on: {' '.join(reason.split()).rstrip('.')}.")


def data_name(config: Mapping[str, Any]) -> str:
    """How a config's data is called: the last part of a path, without the mark of what was handed over in Python."""
    return visible(Path(config["data"]["name"].removeprefix(OWN)).name)


def _parse_config(content: bytes) -> Any:
    """A config; those that differ in the seed alone are parsed once."""
    try:
        found = list(SEED.finditer(content))
        if len(found) == 1:
            start, end = found[0].span(1)
            rest = _parse_yaml(content[:start] + b"%d" % ANY_SEED + content[end:])
            if isinstance(rest, dict) and rest.get("seed") == ANY_SEED:  # and not a line of something else
                return {**rest, "seed": int(found[0][1])}
        return _parse_yaml(content)
    except YamlError as error:
        raise ValueError(f"{CONFIG}: {error}") from error


@lru_cache(maxsize=64)
def _parse_yaml(content: bytes) -> Any:
    return parse_yaml(content)


def _read_sealed(path: Path, check: Callable[[Any], None]) -> Mapping[str, Any]:
    """What a sealed file holds, if that is what it must be."""
    content = read_bounded(path, MOST_BYTES)
    try:
        about = unsealed(content)
        check(about)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error
    return about
