"""How does the cost grow? With the clients of a round, the population, the classes and the size of an embedding.

    python benchmarks/scale.py                                   on the CPU, about four minutes
    python benchmarks/scale.py --threads 1                       steadier on a machine that others use as well
    python benchmarks/scale.py --device cuda --out gpu.json      on a GPU, with the figures in a file
    python benchmarks/scale.py --quick                           a look at each axis, in seconds

One thing grows, all else stays. Times are fastest, after rounds that are not counted. `train` is the clients' work,
`merge` the server's step. Memory is the most that was in use beyond what was before: on a GPU its own, else the
process's. An exponent of 1 means twice the time for twice the size. Images are random, so only times have a meaning.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import numpy as np
import torch
from measuring import (
    Memory,
    enough,
    fastest,
    growth,
    hardware,
    in_mib,
    in_ms,
    least_seconds,
    positive,
    rounds_of,
    save,
    table,
    title,
    usable,
)

import turbosvm
from turbosvm.algorithms.catalogue import find_algorithm
from turbosvm.averaging import weighted_mean
from turbosvm.clients.sampling import sample_cohort
from turbosvm.clients.training import LocalTraining
from turbosvm.data.federated import FederatedData
from turbosvm.data.split import Split, split_users
from turbosvm.errors import in_one_line
from turbosvm.models.contract import find_head
from turbosvm.models.registry import build_model
from turbosvm.simulation import Federation, Plan

ALGORITHMS = ("fedavg", "turbosvm")
SIDE = (1, 28, 28)
COHORT = 8

Row = dict[str, Any]


@dataclass(frozen=True)
class Work:
    """What a client of the growing cohort does: one epoch over so many images."""

    model: str
    classes: int
    samples: int
    batch_size: int
    learning_rate: float = 0.1


WORK = {"cpu": Work("small", 10, 8, 8), "cuda": Work("femnist", 62, 227, 64)}


@dataclass(frozen=True)
class Axes:
    """How far each axis goes, and how long a point of the first two is measured."""

    clients: tuple[int, ...] = (8, 16, 32, 64, 128, 256, 512, 1024)
    users: tuple[int, ...] = (10**3, 10**4, 10**5, 10**6)
    classes: tuple[int, ...] = (2, 10, 62, 200, 1000)
    embedding: tuple[int, ...] = (64, 256, 1024, 4096)
    usual_classes: int = 62
    usual_embedding: int = 256
    seconds: float = 2.0
    rounds: int = 20


QUICK = Axes(
    clients=(8, 16, 32),
    users=(10**3, 10**4),
    classes=(2, 10),
    embedding=(64, 256),
    usual_classes=10,
    seconds=0.0,
    rounds=3,
)


def clients_axis(axes: Axes, work: Work, device: torch.device) -> list[Row]:
    """Rounds of more and more clients, FedAvg and TurboSVM in turn."""
    users = max(axes.clients) + 1
    draw = np.random.default_rng(0)
    inputs = draw.integers(0, 256, (users * work.samples, *SIDE), dtype=np.uint8)
    labels = draw.integers(0, work.classes, users * work.samples)
    data = federated(inputs, labels, users, work.classes)
    split = Split(tuple(range(users - 1)), (users - 1,))
    # What is loaded and compiled once counts nowhere.
    clients_point(QUICK, work, data, split, COHORT, "turbosvm", device)
    return [
        clients_point(axes, work, data, split, clients, algorithm, device)
        for clients in axes.clients
        for algorithm in ALGORITHMS
    ]


def clients_point(
    axes: Axes, work: Work, data: FederatedData, split: Split, clients: int, algorithm: str, device: torch.device
) -> Row:
    """Rounds of so many clients; where they cannot be run, for want of memory say, the reason is told."""
    row: Row = {"algorithm": algorithm, "clients": clients}
    memory = Memory(device)
    training = LocalTraining(1, work.batch_size, work.learning_rate)
    plan = Plan(10**6, clients, training, evaluate_every=10**6)
    try:
        laps = rounds_of(federation(data, split, work, device), find_algorithm(algorithm), plan)
        first = enough(laps, 0, 2, 2)[0].seconds  # the second records what the first has tried
        row |= fastest(enough(laps, axes.seconds, 3, axes.rounds)) | {"first": first}
    except (MemoryError, RuntimeError) as error:
        return row | {"failed": in_one_line(error)[:80]}
    return row | {"host_mib": memory.host_mib, "gpu_mib": memory.gpu_mib}


def population_axis(axes: Axes, work: Work, device: torch.device) -> list[Row]:
    """Rounds of eight clients, out of more and more users with two samples each."""
    return [population_point(axes, work, users, device) for users in axes.users]


def population_point(axes: Axes, work: Work, users: int, device: torch.device) -> Row:
    """What a population costs before the first round, and at each."""
    samples = 2 * users
    inputs = np.broadcast_to(np.random.default_rng(0).integers(0, 256, SIDE, dtype=np.uint8), (samples, *SIDE))
    labels = np.broadcast_to(np.zeros((), np.int64), (samples,))
    memory = Memory(device)
    start = perf_counter()
    data = federated(inputs, labels, users, work.classes)
    opened = perf_counter()
    split = split_users(data, held_out=0.1)
    divided = perf_counter()
    plan = Plan(10**6, COHORT, LocalTraining(1, 2, work.learning_rate), evaluate_every=10**6)
    laps = rounds_of(federation(data, split, work, device), find_algorithm("fedavg"), plan)
    first = enough(laps, 0, 2, 2)[0].seconds
    row: Row = {"users": users, "open": opened - start, "split": divided - opened, "first": first}
    numbers = iter(range(1, 10**6))
    cohort = least_seconds(
        lambda: sample_cohort(0, next(numbers), split.train, COHORT), torch.device("cpu"), 50, axes.seconds
    )
    row |= {"cohort": cohort, **fastest(enough(laps, axes.seconds, 5, 3 * axes.rounds))}
    return row | {"host_mib": memory.host_mib, "gpu_mib": memory.gpu_mib}


def head_axis(sizes: Sequence[tuple[int, int]], axes: Axes, device: torch.device) -> list[Row]:
    """The head step alone: TurboSVM's, and FedAvg's mean of the same heads; sizes are K and d."""
    return [head_point(classes, embedding, axes, device) for classes, embedding in sizes]


def head_point(classes: int, embedding: int, axes: Axes, device: torch.device) -> Row:
    """Merge the heads of eight clients: random embeddings of norm 1, clients a third of that apart from their class."""
    draw, scale = torch.Generator().manual_seed(0), (embedding + 1) ** -0.5
    centres = torch.randn(classes, embedding + 1, generator=draw)
    apart = 0.3 * torch.randn(COHORT, classes, embedding + 1, generator=draw)
    heads, samples = (scale * (centres + apart)).to(device), torch.ones(COHORT)
    memory = Memory(device)
    state = turbosvm.merge_heads(heads, samples).state
    most = 5 if axes.rounds < 5 else 15
    ours = least_seconds(lambda: turbosvm.merge_heads(heads, samples, state), device, most)
    row: Row = {"classes": classes, "embedding": embedding, "turbosvm": ours}
    row |= {"host_mib": memory.host_mib, "gpu_mib": memory.gpu_mib}
    return row | {"mean": least_seconds(lambda: weighted_mean(heads, samples), device, most)}


def federated(inputs: np.ndarray, labels: np.ndarray, users: int, classes: int) -> FederatedData:
    """Users with equally many samples."""
    each = len(labels) // users
    names = tuple(f"user-{number}" for number in range(users))
    return FederatedData("scale", inputs, labels, each * np.arange(users + 1), names, tuple(map(str, range(classes))))


def federation(data: FederatedData, split: Split, work: Work, device: torch.device) -> Federation:
    """The work's model, new, on its device."""
    module = build_model(work.model, {"classes": work.classes}, seed=0).to(device)
    return Federation(data, split, module, find_head(module))


def tell_clients(rows: list[Row], work: Work) -> str:
    """The first axis as text."""
    about = f"{work.samples} images a client in batches of {work.batch_size}, {work.model} model, K = {work.classes}"
    cells = [["C", "algorithm", "ms a round", "train", "merge", "ms a client", "MiB"]]
    for row in rows:
        head = [str(row["clients"]), row["algorithm"]]
        if "failed" in row:
            cells.append([*head, row["failed"], "", "", "", ""])
            continue
        times = [in_ms(row[name]) for name in ("seconds", "train", "merge")]
        cells.append([*head, *times, in_ms(row["seconds"] / row["clients"]), in_mib(peak(row))])
    text = f"Clients a round ({about})\n\n{table(cells)}\n"
    for algorithm in ALGORITHMS:
        own = [row for row in rows if row["algorithm"] == algorithm and "failed" not in row]
        sizes = [row["clients"] for row in own]
        for name, what in (("seconds", "a round"), ("merge", "its merge")):
            seconds = [row[name] for row in own]
            text += f"{algorithm}: {what} grows as C^{growth(sizes, seconds):.2f}, "
            text += f"over the last doubling as C^{growth(sizes[-2:], seconds[-2:]):.2f}\n"
    return text


def tell_population(rows: list[Row]) -> str:
    """The second axis as text."""
    names = ("open", "split", "first", "cohort", "seconds", "train", "merge")
    cells = [["users", "open", "split", "first round", "cohort", "ms a round", "train", "merge", "MiB of the process"]]
    cells += [[f"{row['users']:,}", *(in_ms(row[name]) for name in names), in_mib(row["host_mib"])] for row in rows]
    exponent = growth([row["users"] for row in rows], [row["seconds"] for row in rows])
    about = f"Population (FedAvg, C = {COHORT}, two images a user; ms)"
    return f"{about}\n\n{table(cells)}\na round grows as N^{exponent:.2f}\n"


def tell_head(rows: list[Row], name: str, symbol: str, about: str) -> str:
    """One of the axes of the head step as text."""
    cells = [[symbol, "TurboSVM, ms", "mean, ms", "MiB"]]
    cells += [[str(row[name]), in_ms(row["turbosvm"]), in_ms(row["mean"]), in_mib(peak(row))] for row in rows]
    sizes, seconds = [row[name] for row in rows], [row["turbosvm"] for row in rows]
    text = f"Head step, {about}, C = {COHORT}\n\n{table(cells)}\n"
    return text + f"TurboSVM grows as {symbol}^{growth(sizes[-2:], seconds[-2:]):.2f} from {sizes[-2]} to {sizes[-1]}\n"


def peak(row: Row) -> float | None:
    """The memory that matters: the GPU's where there is one."""
    memory: float | None = row["host_mib"] if row["gpu_mib"] is None else row["gpu_mib"]
    return memory


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=positive, help="of the CPU; by default, a thread a core")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller points")
    parser.add_argument("--out", metavar="FILE.json", help="where the figures go")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads or torch.get_num_threads())
    device, axes = usable(chosen.device), QUICK if chosen.quick else Axes()
    work = WORK["cpu" if chosen.quick else chosen.device]
    by_classes = [(classes, axes.usual_embedding) for classes in axes.classes]
    by_embedding = [(axes.usual_classes, embedding) for embedding in axes.embedding]
    k, d = f"d = {axes.usual_embedding}", f"K = {axes.usual_classes}"
    parts: dict[str, tuple[Callable[[], list[Row]], Callable[[list[Row]], str]]] = {
        "clients": (lambda: clients_axis(axes, work, device), lambda rows: tell_clients(rows, work)),
        "population": (lambda: population_axis(axes, work, device), tell_population),
        "classes": (lambda: head_axis(by_classes, axes, device), lambda rows: tell_head(rows, "classes", "K", k)),
        "embedding": (
            lambda: head_axis(by_embedding, axes, device),
            lambda rows: tell_head(rows, "embedding", "d", d),
        ),
    }
    measured: Row = {"benchmark": "scale", "hardware": hardware(device), "work": asdict(work), "axes": asdict(axes)}
    print(title(device))
    for name, (measure, tell) in parts.items():
        start = perf_counter()
        print(f"{name} ...", file=sys.stderr)
        measured[name] = measure()
        print(f"\n{tell(measured[name])}", end="", flush=True)
        print(f"{name}: {perf_counter() - start:.0f} s", file=sys.stderr)
    save(chosen.out, measured)


if __name__ == "__main__":
    main()
