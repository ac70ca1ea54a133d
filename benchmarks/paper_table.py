"""How long does the paper's first table take? Seven algorithms on three tasks, 5 seeds, 200 rounds of 8 clients each.

    python benchmarks/paper_table.py --device cuda                   under five minutes on an H200
    python benchmarks/paper_table.py --device cuda --tasks femnist   one task
    python benchmarks/paper_table.py --quick                         tiny users, to see that it works

Models, batches, learning rates and how often is evaluated are those of the presets. The data is random, in the shape of
the real data: as many users as the paper counts, with samples drawn from a log-normal distribution of the paper's mean
and standard deviation (its table of data sets), users with too few left out, a tenth of the users held out.

Each algorithm has some seconds to run rounds without evaluation, up to the 200 of a run; all see the same cohorts. As
many go before that are not counted: kernels are compiled and chosen once a machine, not once a run.
`start` is what the first two rounds take beyond the mean of the others. Evaluation is the same whatever the algorithm,
so it is timed once a task. A seed is projected as `start`, all rounds, and as many evaluations as the preset asks for.
"""

import argparse
import sys
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
from measuring import enough, hardware, in_ms, means, rounds_of, save, table, title, usable

from turbosvm.data.federated import FederatedData
from turbosvm.data.windows import Windows
from turbosvm.experiment.algorithm import build_algorithm
from turbosvm.experiment.build import build_federation, build_module, build_plan
from turbosvm.experiment.config import Config
from turbosvm.experiment.resolve import resolve_config
from turbosvm.simulation import Federation, Plan

ALGORITHMS = ("fedavg", "fedadam", "fedams", "fedprox", "moon", "fedaws", "turbosvm")
SEEDS = 5
WARM = 2
"""Rounds at the start that count apart: the first does all by hand, the second records it on a GPU."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Shape:
    """A task's data: users, samples a user (mean and standard deviation), one sample's shape, classes."""

    users: int
    mean: float
    deviation: float
    sample: tuple[int, ...]
    classes: int
    tokens: bool = False

    @property
    def tiny(self) -> "Shape":
        """Few users with few samples, for a look at it."""
        return replace(self, users=20, mean=4, deviation=2)


SHAPES = {
    "femnist": Shape(3550, 226.8, 88.9, (1, 28, 28), 62),
    "celeba": Shape(9343, 21.4, 7.6, (3, 84, 84), 2),
    "shakespeare": Shape(1129, 3743.2, 6212.3, (80,), 80, tokens=True),
}


def counts_of(shape: Shape, draw: np.random.Generator) -> npt.NDArray[np.int64]:
    """Samples of each user: log-normal, and scaled so that their mean is the shape's whatever the tail has drawn."""
    variance = np.log(1 + (shape.deviation / shape.mean) ** 2)
    drawn = draw.lognormal(-variance / 2, variance**0.5, shape.users)
    counts: npt.NDArray[np.int64] = np.maximum(1, np.rint(drawn * shape.mean / drawn.mean())).astype(np.int64)
    return counts


def random_data(task: str, shape: Shape) -> FederatedData:
    """Random samples in the task's shape."""
    draw = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(counts_of(shape, draw))])
    total, users = int(offsets[-1]), tuple(f"user-{number}" for number in range(shape.users))
    labels = draw.integers(0, shape.classes, total, dtype=np.uint8)
    inputs: np.ndarray | Windows
    if shape.tokens:
        text = draw.integers(0, shape.classes, total + shape.users * shape.sample[0], dtype=np.uint8)
        inputs = Windows(text, offsets, shape.sample[0])
    else:
        inputs = draw.integers(0, 256, (total, *shape.sample), dtype=np.uint8)
    names = tuple(map(str, range(shape.classes)))
    return FederatedData(task, inputs, labels, offsets, users, names, tokens=shape.tokens)


def config_of(task: str, algorithm: str, device: str, quick: bool) -> Config:
    """The preset's settings, with the hyperparameters tuned for the task."""
    overrides: Row = {"algorithm": algorithm, "device": device}
    if quick:
        overrides |= {"data": {"min_samples": 1}, "client": {"batch_size": 8}, "clients_per_round": 2}
    return resolve_config(task, overrides=overrides)


def federation_of(config: Config, data: FederatedData) -> Federation:
    """A new model for the data, on its device."""
    return build_federation(config, data, build_module(config, len(data.classes)))


def never_evaluating(plan: Plan) -> Plan:
    """The plan with an evaluation at its end only."""
    return replace(plan, evaluate_every=plan.rounds)


def measure_evaluation(config: Config, data: FederatedData) -> tuple[float, int]:
    """Seconds of an evaluation, and the held-out samples; the first of three does not count."""
    federation = federation_of(config, data)
    plan = replace(build_plan(config), rounds=3, evaluate_every=1)
    algorithm = build_algorithm("fedavg", {})
    laps = list(rounds_of(federation, algorithm, plan))
    return fmean(lap.evaluate for lap in laps[1:]), int(data.counts[list(federation.split.held_out)].sum())


def measure(config: Config, data: FederatedData, seconds: float) -> Row:
    """Rounds of one algorithm on one task, for some seconds."""
    algorithm = build_algorithm(config.algorithm.name, config.algorithm.model_dump())
    plan = never_evaluating(build_plan(config))
    laps = rounds_of(federation_of(config, data), algorithm, plan)
    first = enough(laps, 0, WARM, WARM)
    counted = enough(laps, seconds, 2, plan.rounds - WARM - 1)
    mean = means(counted)
    start = sum(lap.seconds for lap in first) - WARM * mean["seconds"]
    return {"algorithm": config.algorithm.name, "measured": len(counted), "start": max(start, 0.0), **mean}


def projected(row: Row, evaluate: float, plan: Plan) -> float:
    """Hours of all seeds."""
    evaluations = -(-plan.rounds // plan.evaluate_every)
    return SEEDS * float(row["start"] + plan.rounds * row["seconds"] + evaluations * evaluate) / 3600


def measure_task(task: str, device: str, seconds: float, quick: bool) -> Row:
    """All algorithms on one task."""
    shape = SHAPES[task].tiny if quick else SHAPES[task]
    data = random_data(task, shape)
    configs = {algorithm: config_of(task, algorithm, device, quick) for algorithm in ALGORITHMS}
    plan = build_plan(configs["fedavg"])
    evaluate, held_out = measure_evaluation(configs["fedavg"], data)
    print(f"{task}: warming up", file=sys.stderr)
    measure(configs["fedavg"], data, seconds)
    rows = []
    for algorithm, config in configs.items():
        print(f"{task}, {algorithm}", file=sys.stderr)
        row = measure(config, data, seconds)
        rows.append(row | {"evaluate": evaluate, "hours": projected(row, evaluate, plan)})
    about = {"task": task, "shape": asdict(shape), "samples": len(data.labels), "held_out": held_out}
    return about | {"expected": plan.clients_per_round * len(data.labels) / shape.users, "rows": rows}


def tell(measured: Row) -> str:
    """One task's table."""
    times = ["ms a round", "of it, train", "merge", "ms an evaluation", "hours"]
    cells = [["algorithm", "rounds", "samples a round", "start, s", *times]]
    cells += [
        [
            row["algorithm"],
            str(row["measured"]),
            f"{row['samples']:,.0f}",
            f"{row['start']:.1f}",
            in_ms(row["seconds"]),
            *(in_ms(row[name]) for name in ("train", "merge", "evaluate")),
            f"{row['hours']:.2f}",
        ]
        for row in measured["rows"]
    ]
    hours = sum(row["hours"] for row in measured["rows"])
    about = f"{measured['task']} ({measured['samples']:,} samples, {measured['held_out']:,} held out, "
    about += f"{measured['expected']:,.0f} expected in a round)"
    return f"{about}\n\n{table(cells)}\n{measured['task']}: {hours:.2f} hours\n"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--tasks", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--seconds", type=float, default=6.0, help="how long the rounds of an algorithm are measured")
    parser.add_argument("--quick", action="store_true", help="tiny users, two rounds each")
    parser.add_argument("--out", metavar="FILE.json", help="where the figures go")
    chosen = parser.parse_args()
    device = usable(chosen.device)
    print(title(device))
    tasks = []
    for task in chosen.tasks:
        tasks.append(measure_task(task, chosen.device, 0.0 if chosen.quick else chosen.seconds, chosen.quick))
        print(f"\n{tell(tasks[-1])}", end="", flush=True)
    hours = sum(row["hours"] for task in tasks for row in task["rows"])
    tiny = " (of tiny users: this is not the paper's table)" if chosen.quick else ""
    print(f"\nAll of it, {SEEDS} seeds: {hours:.2f} hours{tiny}")
    save(chosen.out, {"benchmark": "paper_table", "hardware": hardware(device), "seeds": SEEDS, "tasks": tasks})


if __name__ == "__main__":
    main()
