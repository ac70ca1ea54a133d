"""What an algorithm costs a client in traffic and storage on the paper's tasks, counted in a real round."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from turbosvm.algorithms.catalogue import find_algorithm
from turbosvm.clients.training import LocalTraining
from turbosvm.data.federated import FederatedData
from turbosvm.data.split import Split
from turbosvm.models.contract import find_head
from turbosvm.models.registry import build_model
from turbosvm.simulation import Federation, Plan, simulate


class Task(NamedTuple):
    """A task's model, and the form of its samples."""

    model: str
    shape: tuple[int, ...]
    classes: int
    tokens: bool = False


TASKS = {
    "femnist": Task("femnist", (1, 28, 28), 62),
    "celeba": Task("celeba", (3, 84, 84), 2),
    "shakespeare": Task("shakespeare", (80,), 80, tokens=True),
}


class Traffic(NamedTuple):
    """Bytes for one client and round, uncompressed."""

    down: int
    up: int
    kept: int
    """What stays on the client until its next round."""


def count_traffic(algorithm: str, task: str) -> Traffic:
    """Let one client with two samples take part in one round, and count."""
    model, shape, classes, tokens = TASKS[task]
    samples = (np.zeros((2, *shape), np.uint8), np.arange(2))
    data = FederatedData.from_users({"trains": samples, "held out": samples}, classes, task, tokens)
    module = build_model(model, {"classes": classes}, seed=0)
    federation = Federation(data, Split((0,), (1,)), module, find_head(module))
    plan = Plan(1, 1, LocalTraining(1, 2, 1e-4))
    (only,) = simulate(federation, find_algorithm(algorithm), plan)
    return Traffic(only.bytes_down, only.bytes_up, only.standing.memory.nbytes)


def traffic_table(algorithms: list[str]) -> pd.DataFrame:
    """A row for each algorithm: megabytes down and up, and kept, for each task."""
    rows = []
    for name in algorithms:
        row = {"algorithm": name}
        for task in TASKS:
            down, up, kept = (f"{count / 1e6:.2f}" for count in count_traffic(name, task))
            row[task] = f"{down} / {up} / {kept}"
        rows.append(row)
    return pd.DataFrame(rows)
