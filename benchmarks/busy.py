"""How much slower are the server's step and a round, while another program keeps a core busy?

    python benchmarks/busy.py                               this version
    python benchmarks/busy.py --against ../before/src       side by side with the sources of another checkout

Each piece of work is done in a process of its own, on two threads, alone and beside a process that counts without end.
The processes take turns, several times, so that a slow moment of the machine hits all of them; medians are compared.
Beside one busy process, a fair share of two cores is 1.5 of them, or 1 where work cannot be divided.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import hardware, in_ms, positive, save, table, title

HERE = Path(__file__).parent
OWN = HERE.parent / "src"

WORK: dict[str, Mapping[str, Any]] = {
    "head step, K, C, D = 62, 8, 2049": {"work": "head", "classes": 62, "clients": 8, "size": 2049},
    "head step, 62, 8, 65": {"work": "head", "classes": 62, "clients": 8, "size": 65},
    "head step, 2, 8, 577": {"work": "head", "classes": 2, "clients": 8, "size": 577},
    "head step, 62, 64, 2049": {"work": "head", "classes": 62, "clients": 64, "size": 2049},
    "FEMNIST's CNN: merge, fedavg": {"work": "phase", "algorithm": "fedavg", "data": "femnist", "name": "merge"},
    "FEMNIST's CNN: merge, fedadam": {"work": "phase", "algorithm": "fedadam", "data": "femnist", "name": "merge"},
    "FEMNIST's CNN: merge, turbosvm": {"work": "phase", "algorithm": "turbosvm", "data": "femnist", "name": "merge"},
    "glyphs: merge, fedavg": {"work": "phase", "algorithm": "fedavg", "data": "glyphs", "name": "merge"},
    "glyphs: merge, turbosvm": {"work": "phase", "algorithm": "turbosvm", "data": "glyphs", "name": "merge"},
    "glyphs: round, fedavg": {"work": "phase", "algorithm": "fedavg", "data": "glyphs", "name": "all"},
    "glyphs: round, turbosvm": {"work": "phase", "algorithm": "turbosvm", "data": "glyphs", "name": "all"},
    "glyphs: evaluation": {"work": "phase", "algorithm": "fedavg", "data": "glyphs", "name": "evaluate"},
}
STEPS, ROUNDS = 15, 3
"""In a turn."""


class Worker:
    """A process that does one piece of work whenever it is asked to."""

    def __init__(self, sources: Path, work: Mapping[str, Any], threads: int) -> None:
        command = [sys.executable, str(HERE / "contestants" / "server.py"), str(sources)]
        command.append(json.dumps({**work, "threads": threads}))
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def laps(self, count: int) -> list[float]:
        """Have it done so many times; the seconds of each."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("A process has ended; what it says is above.")
        seconds: list[float] = json.loads(line)["seconds"]
        return seconds

    def end(self) -> None:
        """Let it go."""
        self._process.kill()
        self._process.wait()


@contextmanager
def beside(count: int) -> Iterator[None]:
    """So many busy processes."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def measure(
    sources: Mapping[str, Path], work: Mapping[str, Any], chosen: argparse.Namespace
) -> dict[tuple[str, bool], list[float]]:
    """The seconds of a piece of work with each of the sources, alone and not."""
    steps = STEPS if work["work"] == "head" else ROUNDS
    workers = {name: Worker(path, work, chosen.threads) for name, path in sources.items()}
    laps: dict[tuple[str, bool], list[float]] = {key: [] for key in product(sources, (False, True))}
    try:
        for worker in workers.values():
            worker.laps(2)
        for _ in range(chosen.turns):
            for is_busy in (False, True):
                with beside(chosen.busy if is_busy else 0):
                    for name, worker in workers.items():
                        worker.laps(1)
                        laps[name, is_busy] += worker.laps(steps)
    finally:
        for worker in workers.values():
            worker.end()
    return laps


def cells(idle: list[float], busy: list[float]) -> list[str]:
    """Medians and quartiles in ms, and how many times as long it takes beside a busy core."""
    slower = statistics.median(busy) / statistics.median(idle)
    return [_spread(idle), _spread(busy), f"{slower:.1f}x"]


def _spread(laps: list[float]) -> str:
    low, median, high = map(float, np.percentile(laps, [25, 50, 75]))
    return f"{in_ms(median)} ({in_ms(low)}-{in_ms(high)})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="SRC", type=Path, help="the sources of another checkout")
    parser.add_argument("--threads", type=positive, default=2)
    parser.add_argument("--busy", type=positive, default=1, help="how many processes keep a core busy")
    parser.add_argument("--turns", type=positive, default=6, help="how often each process has a turn")
    parser.add_argument("--only", default="", help="the work whose name has this in it")
    parser.add_argument("--out", metavar="FILE.json", help="where the figures go")
    chosen = parser.parse_args()
    if chosen.against and not (chosen.against / "turbosvm").is_dir():
        raise SystemExit(f"There is no turbosvm in '{chosen.against}'.")
    sources = {**({"before": chosen.against.resolve()} if chosen.against else {}), "now": OWN}
    header = ["ms, median (quartiles)"]
    for name in sources:
        header += (
            [f"{name}: idle", f"{name}: busy", "busy / idle"] if chosen.against else ["idle", "busy", "busy / idle"]
        )
    rows, figures = [header], []
    for label, work in WORK.items():
        if chosen.only not in label:
            continue
        print(label, file=sys.stderr)
        laps = measure(sources, work, chosen)
        rows.append([label, *(cell for name in sources for cell in cells(laps[name, False], laps[name, True]))])
        figures += [
            {"work": label, "sources": name, "busy": is_busy, "laps": seconds}
            for (name, is_busy), seconds in laps.items()
        ]
    torch.set_num_threads(chosen.threads)
    about = {"busy": chosen.busy, "hardware": hardware(torch.device("cpu"))}
    print(f"{title(torch.device('cpu'))}; busy: beside {chosen.busy} counting without end\n")
    print(table(rows), end="")
    save(chosen.out, {"benchmark": "busy", **about, "work": figures})


if __name__ == "__main__":
    main()
