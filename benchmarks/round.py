"""How long does a round take? Ours, side by side with a plain PyTorch loop, Flower's simulation and pfl-research.

    python benchmarks/round.py femnist                         on the CPU
    python benchmarks/round.py femnist --device cuda           on a GPU
    python benchmarks/round.py femnist --peers peers/bin/python

All train the same model on the same bytes, each in a process of its own; they take turns, and medians are compared. A
round is all that leads from one global model to the next: local training of C clients and the server's step, without
evaluation. What the arithmetic alone would take (see limit.py) stands below. Peers need an environment of their own
(their requirements and ours exclude one another):

    python -m venv peers && peers/bin/pip install torch==2.13.0 "flwr[simulation]==1.41.0" pfl==0.6.0
"""

import argparse
import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from limit import Limit, limit_of
from measuring import hardware, in_ms, positive, save, usable

from turbosvm.data import glyphs

HERE = Path(__file__).parent / "contestants"
sys.path.insert(0, str(HERE))

from workload import Workload  # noqa: E402

TASKS = {  # model, shape, classes, samples a user, batch size, learning rate
    "femnist": ("femnist", (1, 28, 28), 62, 227, 64, 0.1),
    "celeba": ("celeba", (3, 84, 84), 2, 21, 8, 0.001),
    "shakespeare": ("shakespeare", (80,), 80, 640, 64, 1.0),
    "glyphs": ("small", (1, 28, 28), 62, 0, 16, 0.1),
}


class Contestant:
    """A process that runs rounds when it is asked to."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name, self.seconds, self.peak_mib = name, list[float](), 0.0
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (it lives as long as the process)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        self.failed: str | None = None

    def run(self, rounds: int, counted: bool = True) -> None:
        """Have it run rounds; one that fails is not asked again."""
        if self.failed or not (self._process.stdin and self._process.stdout):
            return
        try:
            self._process.stdin.write(f"{rounds}\n")
            self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline())
        except (OSError, json.JSONDecodeError):
            self._process.wait()
            self._log.seek(0)
            self.failed = (self._log.read().strip().splitlines() or ["it ended without a word"])[-1]
            return
        self.peak_mib = answer["peak_mib"]
        self.seconds += answer["seconds"] if counted else []

    def end(self) -> None:
        """Let it go."""
        self._process.kill()
        self._process.wait()


def store(task: str, users: int, folder: Path) -> Path:
    """Write the task's bytes: random ones, or the first users of glyphs."""
    _, shape, classes, count, _, _ = TASKS[task]
    rng, path = np.random.default_rng(0), folder / "data.npz"
    if task == "glyphs":
        data = glyphs.load(glyphs.GlyphOptions())
        offsets = data.offsets[: users + 1]
        inputs, labels = np.asarray(data.inputs[: offsets[-1]]), np.asarray(data.labels[: offsets[-1]]).astype(np.int64)
    else:
        offsets = np.arange(users + 1) * count
        inputs = rng.integers(0, 80 if task == "shakespeare" else 256, (users * count, *shape)).astype(np.uint8)
        labels = rng.integers(0, classes, users * count)
    np.savez(path, inputs=inputs, labels=labels, offsets=offsets)
    return path


def figures(chosen: argparse.Namespace, contestants: list[Contestant], limit: Limit) -> dict[str, object]:
    """What was measured, for a file."""
    rows = [
        {"name": one.name, "seconds": statistics.median(one.seconds), "laps": one.seconds, "peak_mib": one.peak_mib}
        for one in contestants
        if one.seconds and not one.failed
    ]
    about = {"task": chosen.task, "clients": chosen.clients, "hardware": hardware(torch.device(chosen.device))}
    return {"benchmark": "round", **about, "limit": asdict(limit), "contestants": rows}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--clients", type=positive, default=8)
    parser.add_argument("--turns", type=positive, default=5, help="how often each contestant has a turn")
    parser.add_argument("--rounds", type=positive, default=3, help="rounds in a turn")
    parser.add_argument("--peers", default=sys.executable, help="a Python in whose environment the peers are")
    parser.add_argument("--out", metavar="FILE.json", help="where the figures go")
    precisions = ["auto", "float32", "tf32", "bfloat16"]
    parser.add_argument("--precision", default="auto", choices=precisions, help="of ours")
    chosen = parser.parse_args()
    usable(chosen.device)
    if shutil.which(chosen.peers) is None:
        raise SystemExit(f"There is no Python at '{chosen.peers}'.")
    model, _, classes, _, batch_size, learning_rate = TASKS[chosen.task]
    with tempfile.TemporaryDirectory() as folder:
        path = store(chosen.task, 2 * chosen.clients + 1, Path(folder))
        work = Workload(model, classes, chosen.clients, batch_size, learning_rate, chosen.device, str(path))
        spec = json.dumps(asdict(work))
        own = [sys.executable, str(HERE / "ours.py"), spec]
        contestants = [
            Contestant("plain PyTorch loop", [sys.executable, str(HERE / "plain.py"), spec]),
            Contestant("turbosvm, FedAvg", [*own, "fedavg", "auto", chosen.precision]),
            Contestant("turbosvm, TurboSVM", [*own, "turbosvm", "auto", chosen.precision]),
            Contestant("turbosvm, sequential", [*own, "fedavg", "sequential", chosen.precision]),
            Contestant("pfl-research", [chosen.peers, str(HERE / "pfl_research.py"), spec]),
            Contestant("Flower's simulation", [chosen.peers, str(HERE / "flower.py"), spec]),
        ]
        for contestant in contestants:
            print(f"{contestant.name}: warming up", file=sys.stderr)
            contestant.run(3, counted=False)
        for turn in range(chosen.turns):
            print(f"turn {turn + 1} of {chosen.turns}", file=sys.stderr)
            for contestant in contestants:
                contestant.run(chosen.rounds)
        for contestant in contestants:
            contestant.end()
        limit = limit_of(work)
    device = torch.cuda.get_device_name() if chosen.device == "cuda" else f"{torch.get_num_threads()} CPU threads"
    print(f"{chosen.task}, C = {chosen.clients}, {device}, PyTorch {torch.__version__}")
    print(f"{'':22} {'ms a round':>11} {'spread':>17} {'plain / it':>11} {'peak MiB':>9}")
    plain = statistics.median(contestants[0].seconds or [math.nan])
    for contestant in contestants:
        if contestant.failed or not contestant.seconds:
            print(f"{contestant.name:22} not measured: {contestant.failed}")
            continue
        median, low, high = (f(contestant.seconds) for f in (statistics.median, min, max))
        spread = f"{low * 1e3:.1f}-{high * 1e3:.1f}"
        row = (
            f"{contestant.name:22} {median * 1e3:11.2f} {spread:>17} {plain / median:10.2f}x {contestant.peak_mib:9.0f}"
        )
        print(row)
    print(
        f"The arithmetic ({limit.operations / 1e9:.3g} G operations, {limit.bytes / 1e9:.3g} GB of weights) takes "
        f"{in_ms(limit.seconds)} ms at this device's own speeds: "
        f"{limit.seconds / statistics.median(contestants[1].seconds or [math.nan]):.0%} of turbosvm's round."
    )
    save(chosen.out, figures(chosen, contestants, limit))


if __name__ == "__main__":
    main()
