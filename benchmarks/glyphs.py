"""How long glyphs take to make, and how hard they are.

python benchmarks/glyphs.py speed       # the full size, made anew in a temporary cache
python benchmarks/glyphs.py difficulty  # a linear model and the small CNN on pooled data, then 100 rounds of FedAvg
"""

import os
import sys
import tempfile
from time import perf_counter, sleep

import torch
from torch import Tensor, nn
from torch.nn import functional

import turbosvm
from turbosvm.data import glyphs
from turbosvm.data.federated import FederatedData
from turbosvm.data.split import split_users
from turbosvm.data.verified import SETTLED
from turbosvm.evaluation.metrics import evaluate
from turbosvm.inputs import as_model_input
from turbosvm.models.registry import build_model
from turbosvm.randomness import generator


def speed() -> None:
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TURBOSVM_CACHE"] = cache
        began = perf_counter()
        data = glyphs.load(glyphs.FULL_SIZE)
        made = perf_counter() - began
        counts = data.counts
        print(f"{len(data.users)} writers, {len(data.labels):,} images, {data.inputs.nbytes / 2**20:.0f} MiB")
        print(f"samples per writer: mean {counts.mean():.1f}, std {counts.std():.1f}")
        print(f"made and stored in {made:.1f} s with {os.cpu_count()} cores ({len(data.labels) / made:,.0f} images/s)")
        sleep(2 * SETTLED / 1e9)
        for what in ("and verified", "again"):
            began = perf_counter()
            glyphs.load(glyphs.FULL_SIZE)
            print(f"opened {what} in {1000 * (perf_counter() - began):.1f} ms")


def difficulty() -> None:
    data = glyphs.load(glyphs.GlyphOptions())
    split = split_users(data, held_out=0.1)
    train, test = pooled(data, split.train), pooled(data, split.held_out)
    print(f"{len(split.train)} writers to train on, {len(split.held_out)} held out ({len(test[1])} images)")
    linear = nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 62))
    for decay in (0.0, 1e-3, 1e-2):
        nn.init.zeros_(linear[1].weight)
        nn.init.zeros_(linear[1].bias)
        report(f"linear model, weight decay {decay}", linear, train, test, epochs=30, decay=decay)
    report("small CNN", build_model("small", {}, seed=0), train, test, epochs=12, decay=0.0)
    for heterogeneity in (1.0, 0.0):
        result = turbosvm.run("fedavg", evaluate_every=10, **{"data.glyphs.heterogeneity": heterogeneity})
        curve = result.records.dropna(subset="accuracy")
        print(
            f"FedAvg, {heterogeneity=}: "
            + ", ".join(f"{row.accuracy:.1%} at {row.round}" for row in curve.itertuples())
        )


def pooled(data: FederatedData, users: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    pairs = [data.user_tensors(user, torch.device("cpu")) for user in users]
    return torch.cat([inputs for inputs, _ in pairs]), torch.cat([labels for _, labels in pairs])


def report(
    name: str, model: nn.Module, train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], epochs: int, decay: float
) -> None:
    """Train with Adam on pooled samples, and say how well that went."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=decay)
    inputs, labels = train
    model.train()
    for epoch in range(epochs):
        for batch in torch.randperm(len(labels), generator=generator(0, "shuffle", epoch)).split(64):
            loss = functional.cross_entropy(model(as_model_input(inputs[batch])), labels[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    own, held_out = evaluate(model, inputs, labels, 62), evaluate(model, *test, 62)
    print(f"{name}: {held_out.accuracy:.1%} on held-out writers, {own.accuracy:.1%} on those that it was trained on")


if __name__ == "__main__":
    {"speed": speed, "difficulty": difficulty}[sys.argv[1]]()
