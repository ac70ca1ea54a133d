"""The figures of the TurboSVM-FL paper's tables, to be put beside one's own; `paper.json` has them and their source."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

ROUND = 100
"""The round that the paper's tables of metrics are at."""


@dataclass(frozen=True)
class PaperFigure:
    """A mean over the paper's five seeds, with its deviation where printed; or the rounds that it is above."""

    mean: float | None
    std: float | None = None
    above: int | None = None

    def __str__(self) -> str:
        if self.mean is None:
            return f">{self.above}"
        return f"{self.mean:.1f}" if self.std is None else f"{self.mean:.1f} ± {self.std:.1f}"


def paper_figure(data: str, algorithm: str, metric: str, clients: int, epochs: int) -> PaperFigure | None:
    """The paper's 'rounds' (to target) or 'accuracy', 'macro_f1', 'mcc' (percent, at round 100), if it printed one."""
    figure = _figures().get((data, algorithm, clients, epochs), {}).get(metric)
    return PaperFigure(figure.get("mean"), figure.get("std"), figure.get("above")) if figure else None


def paper_target(data: str) -> float | None:
    """The accuracy that the paper counts rounds to."""
    target: float | None = _content()["targets"].get(data)
    return target


def paper_place(data: str) -> int:
    """Where a data set comes among the paper's, in the paper's order; others come after them."""
    tasks = list(_content()["targets"])
    return tasks.index(data) if data in tasks else len(tasks)


def paper_figure_of(config: Mapping[str, Any], data: str, metric: str) -> PaperFigure | None:
    """The paper's figure for what a config runs, if the paper ran the same: data, model, C, E, the method itself.

    Rounds count where the target is the paper's; metrics are the paper's at its round.
    """
    algorithm, model, client = (_part(config, name) for name in ("algorithm", "model", "client"))
    head = _part(algorithm, "head")
    plain = {"selection": True, "spread_out": True, "kernel": "linear", "scheme": "ovo"}
    same_method = all(head.get(option, value) == value for option, value in plain.items())
    same_target = metric != "rounds" or config.get("target") == paper_target(data)
    if not same_method or not same_target or model.get("name", data) != data or model.get("options"):
        return None
    clients, epochs = config.get("clients_per_round"), client.get("epochs")
    if not isinstance(clients, int) or not isinstance(epochs, int):
        return None
    return paper_figure(data, algorithm.get("name", ""), metric, clients, epochs)


def _part(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A section of a config; nothing, where there is something else in its place."""
    part = config.get(name)
    return part if isinstance(part, Mapping) else {}


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(files("turbosvm.report").joinpath("paper.json").read_text())
    return content


@cache
def _figures() -> dict[tuple[str, str, int, int], dict[str, dict[str, Any]]]:
    return {(row["data"], row["algorithm"], row["clients"], row["epochs"]): row for row in _content()["figures"]}
