"""The figures of the TurboSVM-FL paper's tables, to be put beside one's own; `paper.json` has them and their source."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from turbosvm.report.text import number

ROUNDS = "rounds"
"""Those to the target accuracy."""
MEASURED = (ROUNDS, "accuracy", "macro_f1", "mcc", "loss", "svm_support_mean")
"""What the paper's tables have, under the names of our records."""

PAPERS_HEAD: Mapping[str, Any] = {
    "selection": True,
    "spread_out": True,
    "kernel": "linear",
    "scheme": "ovo",
    "cost": "decreasing",
    "classes": None,
}
"""The paper's head, but for what a figure says of its own."""

DIGITS = {"loss": 2}
"""After the point, where it is not one."""


@dataclass(frozen=True)
class PaperFigure:
    """A mean over the paper's seeds, with its deviation where printed; or the rounds that it is above."""

    measure: str
    at: int | None
    """The round that it was measured at; None for rounds to target."""
    mean: float | None
    std: float | None = None
    above: int | None = None

    @property
    def digits(self) -> int:
        """How many it has after the point."""
        return DIGITS.get(self.measure, 1)

    def __str__(self) -> str:
        if self.mean is None:
            return f">{self.above}"
        mean = number(self.mean, self.digits)
        return mean if self.std is None else f"{mean} ± {number(self.std, self.digits)}"


def paper_target(data: str) -> float | None:
    """The accuracy that the paper counts rounds to."""
    target: float | None = _content()["targets"].get(data)
    return target


def paper_place(data: str) -> int:
    """Where a data set comes among the paper's, in the paper's order; others come after them."""
    tasks = list(_content()["targets"])
    return tasks.index(data) if data in tasks else len(tasks)


def unlike_the_paper(settings: Mapping[str, Any], data: str) -> dict[str, tuple[Any, Any]]:
    """Settings that the paper says, or its published code, and that are others here: ours and theirs; None is not set.

    Learning rates of kernels are told apart by the figures themselves. What a run does not say, it may not know of.
    """
    said, name = _content()["settings"], settings.get("algorithm.name")
    theirs = {key: value for part in ("all", data, name, f"{data} {name}") for key, value in said.get(part, {}).items()}
    if settings.get("algorithm.head.kernel", "linear") != "linear":
        theirs.pop("algorithm.head.learning_rate", None)
    return {key: (settings[key], value) for key, value in theirs.items() if settings.get(key, value) != value}


def paper_figures_of(config: Mapping[str, Any], data: str) -> list[PaperFigure]:
    """The paper's figures for what a config runs, if the paper ran the same: data, model, C, E, the method itself.

    Metrics are in percent. Rounds count where the target is the paper's.
    """
    algorithm, model, client = (_part(config, name) for name in ("algorithm", "model", "client"))
    clients, epochs = config.get("clients_per_round"), client.get("epochs")
    if model.get("name", data) != data or not isinstance(clients, int) or not isinstance(epochs, int):
        return []
    rows = _rows().get((data, algorithm.get("name", ""), clients, epochs), [])
    same = [row for row in rows if _same_model(model, row) and _same_head(_part(algorithm, "head"), row)]
    figures = [figure for row in same for figure in row["figures"]]
    same_target = config.get("target") == paper_target(data)
    return [figure for figure in figures if same_target or figure.at is not None]


def _same_model(model: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    return bool((model.get("options") or {}) == row.get("model", {}))


def _same_head(head: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    return all(
        head.get(option, PAPERS_HEAD.get(option)) == value
        for option, value in {**PAPERS_HEAD, **row.get("head", {})}.items()
    )


def _part(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A section of a config; nothing, where there is something else in its place."""
    part = config.get(name)
    return part if isinstance(part, Mapping) else {}


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(files("turbosvm.report").joinpath("paper.json").read_text())
    return content


@cache
def _rows() -> dict[tuple[str, str, int, int], list[dict[str, Any]]]:
    """The rows of the paper's tables by data, algorithm, clients and epochs, each with its figures."""
    rows: dict[tuple[str, str, int, int], list[dict[str, Any]]] = {}
    for row in _content()["figures"]:
        at = row.get("round", _content()["round"])
        found = [
            PaperFigure(
                measure, None if measure == ROUNDS else at, said.get("mean"), said.get("std"), said.get("above")
            )
            for measure in MEASURED
            if (said := row.get(measure))
        ]
        place = (row["data"], row["algorithm"], row["clients"], row["epochs"])
        rows.setdefault(place, []).append({**row, "figures": found})
    return rows
