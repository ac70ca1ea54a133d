"""The work of busy.py. Arguments: the sources to measure, and the work as JSON.

Whatever is asked for is done over and over; the answers are seconds. This file is run with the sources of any version.
"""

import json
import sys
from collections.abc import Callable, Iterator
from time import perf_counter, sleep
from typing import Any

import numpy as np
import torch

sys.path.insert(0, sys.argv[1])

from workload import serve

import turbosvm
from turbosvm.algorithms.catalogue import find_algorithm
from turbosvm.allocator import keep_freed_memory
from turbosvm.clients.training import LocalTraining
from turbosvm.data import glyphs
from turbosvm.data.federated import FederatedData
from turbosvm.data.split import Split, split_users
from turbosvm.experiment.runner import repeatable
from turbosvm.models.contract import find_head
from turbosvm.models.registry import build_model
from turbosvm.simulation import Federation, Plan, simulate

PAUSE = 0.002
"""Seconds between two steps, as there are between those of a run: long enough for waiting threads to fall asleep."""


def head_steps(classes: int, clients: int, size: int) -> Iterator[float]:
    """`merge_heads` on clients around random centres of the classes."""
    keep_freed_memory()  # as in a run
    draw = torch.Generator().manual_seed(0)
    centres = torch.randn(classes, size, generator=draw)
    heads = (centres + 0.3 * torch.randn(clients, classes, size, generator=draw)) * size**-0.5
    state = turbosvm.merge_heads(heads, [1] * clients).state
    while True:
        sleep(PAUSE)
        start = perf_counter()
        turbosvm.merge_heads(heads, [1] * clients, state)
        yield perf_counter() - start


def phase(algorithm: str, data: str, name: str) -> Iterator[float]:
    """One phase of the rounds of an algorithm, or all of a round."""
    federation, batch, rate = _glyphs() if data == "glyphs" else _one_image_each()
    every = 1 if name == "evaluate" else 10**6
    plan = Plan(10**6, 8, LocalTraining(epochs=1, batch_size=batch, learning_rate=rate), evaluate_every=every)
    rounds = simulate(federation, find_algorithm(algorithm), plan)
    while True:
        start = perf_counter()
        seconds = next(rounds).seconds
        yield perf_counter() - start if name == "all" else seconds[name]


def _glyphs() -> tuple[Federation, int, float]:
    data, module = glyphs.load(glyphs.GlyphOptions()), build_model("small", {"classes": 62}, seed=0)
    return Federation(data, split_users(data, 0.1), module, find_head(module)), 16, 0.1


def _one_image_each() -> tuple[Federation, int, float]:
    """FEMNIST's CNN, whose merging does not depend on how long clients have trained."""
    rng, users = np.random.default_rng(0), 16
    inputs = rng.integers(0, 256, (users, 1, 28, 28)).astype(np.uint8)
    data = FederatedData(
        "bench",
        inputs,
        rng.integers(0, 62, users),
        np.arange(users + 1),
        tuple(map(str, range(users))),
        tuple(map(str, range(62))),
    )
    module = build_model("femnist", {"classes": 62}, seed=0)
    return Federation(data, Split(tuple(range(users - 1)), (users - 1,)), module, find_head(module)), 1, 0.01


WORK: dict[str, Callable[..., Iterator[float]]] = {"head": head_steps, "phase": phase}


def main() -> None:
    """Do what is asked for."""
    asked: dict[str, Any] = json.loads(sys.argv[2])
    with repeatable(torch.device("cpu"), asked.pop("threads")):
        laps = WORK[asked.pop("work")](**asked)
        serve(lambda count: [next(laps) for _ in range(count)])


if __name__ == "__main__":
    main()
