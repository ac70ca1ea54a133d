"""How fast is the head step? Ours, side by side with scikit-learn's fit alone and with a straightforward step.

    python benchmarks/head_step.py                      the four sizes, on the CPU
    python benchmarks/head_step.py --device cuda        the same on a GPU (ours alone)
    python benchmarks/head_step.py --size 1000,100,2048 one size (K, C, d), ours alone where scikit-learn takes hours

The straightforward step is what one writes first: `SVC.fit`, the hyperplanes read once, a loop over the pairs that adds
up the spread-out loss, autograd, Adam. Embeddings are random: class centres of norm 1, and clients around them at
distance `--spread`. Needs scikit-learn.
"""

import argparse
import platform
import resource
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from sklearn.svm import SVC
from torch import Tensor

import turbosvm

SIZES = [(62, 8, 2048), (80, 8, 256), (62, 64, 1024), (62, 512, 1024)]


def embeddings(classes: int, clients: int, size: int, spread: float, device: str) -> Tensor:
    """Make [C, K, d + 1] embeddings (the last number is the bias)."""
    draw = torch.Generator().manual_seed(0)
    scale = (size + 1) ** -0.5
    centres = torch.randn(classes, size + 1, generator=draw) * scale
    made = torch.empty(clients, classes, size + 1)
    for client in range(clients):
        made[client] = centres + torch.randn(classes, size + 1, generator=draw) * scale * spread
    return made.to(device)


def as_problem(heads: Tensor) -> tuple[np.ndarray, np.ndarray]:
    clients, classes, size = heads.shape
    return heads.transpose(0, 1).reshape(-1, size).numpy(), np.repeat(np.arange(classes), clients)


def fit_alone(heads: Tensor) -> SVC:
    return SVC(kernel="linear", C=1.0, tol=1e-3).fit(*as_problem(heads))


def straightforward(heads: Tensor, samples: Tensor) -> Tensor:
    """A head step as one writes it first; returns the new head."""
    clients, classes, _ = heads.shape
    machine = fit_alone(heads)
    chosen = torch.zeros(classes * clients, dtype=torch.bool)
    chosen[machine.support_] = True
    weights = chosen.view(classes, clients) * samples
    weights = weights / weights.sum(dim=1, keepdim=True)
    head = torch.nn.Parameter(torch.einsum("kn,nkd->kd", weights, heads))
    normals = torch.tensor(machine.coef_, dtype=torch.float32)  # read once: scikit-learn works it out at each access
    loss, pair = torch.zeros(()), 0
    for k in range(classes):
        for other in range(k + 1, classes):
            normal = normals[pair]
            apart = (head[k] - head[other]) @ normal
            loss = loss + torch.exp(-apart.square() / (2 * normal.square().sum()))
            pair += 1
    loss.backward()
    torch.optim.Adam([head], lr=0.01, eps=1e-5).step()
    return head.detach()


def seconds(work: Callable[[], object], device: str) -> float:
    start = time.perf_counter()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def measure(size: tuple[int, int, int], arguments: argparse.Namespace) -> str:
    classes, clients, numbers = size
    device = arguments.device
    heads = embeddings(classes, clients, numbers, arguments.spread, device)
    samples = torch.ones(clients)
    state = turbosvm.merge_heads(heads, samples).state  # compiles, and brings the optimiser under way
    with_peers = device == "cpu" and not arguments.alone
    rivals: dict[str, Callable[[], object]] = {"ours": lambda: turbosvm.merge_heads(heads, samples, state)}
    if with_peers:
        rivals |= {"fit": lambda: fit_alone(heads), "plain": lambda: straightforward(heads, samples)}
        apart = (turbosvm.merge_heads(heads, samples).head - straightforward(heads, samples)).abs().mean()
        assert apart < 1e-4, f"the two steps must agree, but are {apart:.1e} apart"  # Adam moves numbers by 1e-2
    repeats = arguments.repeats or (3 if clients > 100 else 15)
    laps: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(repeats):  # in turn, so that a slow moment of the machine hits all of them
        for name, work in rivals.items():
            laps[name].append(seconds(work, device))
    best = {name: statistics.median(values) for name, values in laps.items()}
    row = f"| {classes}, {clients}, {numbers} | {best['ours'] * 1e3:.1f} ms |"
    if with_peers:
        row += f" {best['fit'] * 1e3:.0f} ms | {best['plain'] * 1e3:.0f} ms |"
        return f"{row} {best['fit'] / best['ours']:.1f}x | {best['plain'] / best['ours']:.1f}x |"
    if device == "cuda":
        return f"{row} {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB |"
    return f"{row} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--size", action="append", help="K,C,d")
    parser.add_argument("--spread", type=float, default=0.3, help="how far clients are from their class centre")
    parser.add_argument("--repeats", type=int, default=0)
    parser.add_argument("--alone", action="store_true", help="time ours only")
    arguments = parser.parse_args()
    sizes = [tuple(map(int, size.split(","))) for size in arguments.size] if arguments.size else SIZES
    where = torch.cuda.get_device_name() if arguments.device == "cuda" else platform.processor() or platform.machine()
    print(f"{where}, {torch.get_num_threads()} threads, PyTorch {torch.__version__}, median of the runs\n")
    if arguments.device == "cpu" and not arguments.alone:
        print("| K, C, d | ours | scikit-learn fit (a) | straightforward step (b) | against (a) | against (b) |")
        print("| --- | --- | --- | --- | --- | --- |")
    else:
        print("| K, C, d | ours | most memory |\n| --- | --- | --- |")
    for size in sizes:
        print(measure(size, arguments), flush=True)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
