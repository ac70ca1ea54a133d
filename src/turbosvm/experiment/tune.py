"""The paper's search for learning rates: the clients' for FedAvg first, then each server's with that one.

What counts is the mean over seeds of the accuracy in the last evaluated round; a run that diverged counts as nothing.
FedAMS takes FedAdam's rate in the paper; here it gets one of its own.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from turbosvm.algorithms.catalogue import find_algorithm
from turbosvm.errors import TurboSVMError
from turbosvm.evaluation.divergence import has_diverged
from turbosvm.experiment.algorithm import all_options
from turbosvm.experiment.layers import Layer, merge_layers, nest
from turbosvm.experiment.recorded import recorded
from turbosvm.experiment.sweep import Planned

RATES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0)
CLIENT = "client.learning_rate"


def client_search(preset: str, seeds: Sequence[int], rates: Sequence[float]) -> Layer:
    """The sweep over the clients' rate."""
    grid = {CLIENT: list(rates), "seed": list(seeds)}
    return {"preset": preset, "set": {"algorithm": "fedavg"}, "grid": grid}


def server_search(
    preset: str,
    seeds: Sequence[int],
    rates: Sequence[float],
    algorithms: Sequence[str],
    client_rate: float,
) -> Layer:
    """The sweep over the rates of the algorithms that have some on the server."""
    grids = [
        {"algorithm": [name], **{f"{name}.{part}": list(rates) for part in server_rates(name)}, "seed": list(seeds)}
        for name in algorithms
        if server_rates(name)
    ]
    return {
        "preset": preset,
        "set": {CLIENT: client_rate},
        "runs": [{"grid": grid} for grid in grids],
    }


def server_rates(algorithm: str) -> list[str]:
    """Where an algorithm has a learning rate on the server."""
    options = all_options(find_algorithm(algorithm))
    return [f"{part}.learning_rate" for part in ("body", "head") if "learning_rate" in options[part]]


def accuracies(runs: Sequence[Planned], keys: Sequence[str]) -> dict[tuple[float, ...], float]:
    """The mean accuracy over seeds for each value of some settings, in order."""
    found: dict[tuple[float, ...], list[float]] = {}
    for run in runs:
        config = run.config.model_dump()
        found.setdefault(tuple(float(_at(config, key)) for key in keys), []).append(_accuracy(run))
    return {rates: fmean(values) for rates, values in sorted(found.items())}


def best_of(scores: Mapping[tuple[float, ...], float]) -> tuple[float, ...]:
    """The rates with the highest score; of equals, the smallest."""
    if not any(scores.values()):
        raise TurboSVMError("With none of the rates did a run go well; try smaller ones.")
    return max(scores, key=lambda rates: scores[rates])


def as_settings(client_rate: float, servers: Mapping[str, tuple[float, ...]]) -> Layer:
    """What was found, as a config file has it."""
    layers = [nest(CLIENT, client_rate)]
    for name, rates in servers.items():
        layers += [{name: nest(part, rate)} for part, rate in zip(server_rates(name), rates, strict=True)]
    return merge_layers(layers)


def _accuracy(run: Planned) -> float:
    """In the last evaluated round; 0 where the run failed or diverged."""
    records = recorded(run.path)
    evaluated = [record for record in records if record.get("accuracy") is not None]
    if not run.done or not evaluated or has_diverged(evaluated[-1]) or records[-1]["failed"] is not None:
        return 0.0
    return float(evaluated[-1]["accuracy"])


def _at(config: Any, key: str) -> Any:
    for part in key.split("."):
        config = config[part]
    return config
