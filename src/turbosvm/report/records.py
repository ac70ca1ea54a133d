"""Read what runs have written."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from turbosvm.errors import TurboSVMError
from turbosvm.evaluation.milestones import RoundsToTarget, rounds_to_target
from turbosvm.names import OWN

METRICS = ("accuracy", "macro_f1", "mcc", "loss", "auc")


@dataclass(frozen=True, eq=False)
class RunRecords:
    """One run, as a report sees it: who ran on what, and a row a round."""

    algorithm: str
    data: str
    seed: int
    target: float
    frame: pd.DataFrame

    @classmethod
    def from_config(cls, config: dict[str, Any], frame: pd.DataFrame) -> "RunRecords":
        """Take the names from a run's config; metrics become numbers, NaN where the model had none."""
        name = Path(config["data"]["name"].removeprefix(OWN)).name
        numbers = frame.astype({metric: float for metric in METRICS if metric in frame})
        return cls(config["algorithm"]["name"], name, config["seed"], config["target"], numbers)

    @property
    def evaluated(self) -> pd.DataFrame:
        """The rounds whose model was evaluated."""
        return self.frame[self.frame["accuracy"].notna()] if "accuracy" in self.frame else self.frame.iloc[:0]

    def rounds_to(self, target: float | None = None) -> RoundsToTarget:
        """Rounds until the accuracy on held-out users was first at least `target` (the config's, if none is given)."""
        shown = self.evaluated
        accuracy = shown["accuracy"].tolist() if len(shown) else []
        rounds = shown["round"].tolist() if len(shown) else []
        return rounds_to_target(rounds, accuracy, self.target if target is None else target)

    @property
    def final(self) -> dict[str, float]:
        """The metrics of the last evaluated round."""
        shown = self.evaluated
        if shown.empty:
            return {}
        last = shown.iloc[-1]
        return {"round": int(last["round"]), **{name: float(last[name]) for name in METRICS}}

    @property
    def diverged(self) -> bool:
        """Whether the loss at the end is not a number."""
        return bool(self.final) and not math.isfinite(self.final["loss"])

    @property
    def told(self) -> list[str]:
        """What the person should know of how it ended."""
        label = f"{self.algorithm} seed {self.seed}"
        return [f"{label} diverged (its loss is not finite): try smaller learning rates."] if self.diverged else []


def read_run(folder: Path) -> RunRecords:
    """Read a run's folder, finished or not."""
    try:
        config = yaml.safe_load((folder / "config.yaml").read_text())
        frame = pd.read_json(folder / "records.jsonl", lines=True, precise_float=True)
    except (OSError, ValueError) as error:
        raise TurboSVMError(f"'{folder}' is not a run's folder: {error}.") from error
    return RunRecords.from_config(config, frame)
