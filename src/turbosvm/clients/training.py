"""How a client trains: its settings, and the order in which it sees its samples."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from turbosvm.randomness import generator

LastBatch = Literal["merge", "drop", "keep"]
"""What becomes of a single sample that is left over behind whole batches.

merge   it joins the batch before, which then has one sample more
drop    it is left out of that epoch; each epoch leaves out another one
keep    it is a batch of its own
"""


@dataclass(frozen=True)
class LocalTraining:
    """Plain SGD on a client's own samples.

    Args:
        epochs: E, passes over the samples in one round.
        batch_size: B; the last batch of an epoch may be smaller, or have one sample more.
        learning_rate: eta.
        dropout: Share of clients that do not answer before the deadline.
        last_batch: What becomes of a single sample that is left over. None, which `alone.settle` settles, means 'merge'
            where the model cannot train on one sample alone, and 'keep' elsewhere and before that is known.
        not_alone: Why the model cannot train on one sample alone, if that is known.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    dropout: float = 0.0
    last_batch: LastBatch | None = None
    not_alone: str | None = None


def batch_sizes(count: int, training: LocalTraining) -> list[int]:
    """The sizes of the batches of one epoch. A client's only sample is a batch of its own, whatever is asked for."""
    size = training.batch_size
    whole, left = divmod(count, size)
    sizes = [size] * whole
    if left == 1 and whole and training.last_batch in ("merge", "drop"):
        return [*sizes[:-1], size + 1] if training.last_batch == "merge" else sizes
    return [*sizes, left] if left else sizes


def largest_batch(training: LocalTraining) -> int:
    """How many samples a batch may have."""
    return training.batch_size + (training.last_batch == "merge")


def orders(count: int, training: LocalTraining, seed: int, number: int, client: int) -> Iterator[Tensor]:
    """Yield the order in which a client sees its samples in each epoch of round `number`."""
    for epoch in range(training.epochs):
        yield torch.randperm(count, generator=generator(seed, "shuffle", number, client, epoch))


def batches(count: int, training: LocalTraining, seed: int, number: int, client: int) -> Iterator[Tensor]:
    """Yield the indices of each batch of round `number`; each epoch has an order of its own."""
    sizes = batch_sizes(count, training)
    for order in orders(count, training, seed, number, client):
        yield from order[: sum(sizes)].split(sizes)


def too_few(count: int, training: LocalTraining) -> str | None:
    """Why nobody can train on so many samples, if the model cannot train on one alone and some batch has only that."""
    if training.not_alone is None or 1 not in batch_sizes(count, training):
        return None
    what = "it has one sample" if count == 1 else "client.batch_size is 1"
    return f"{what}, and the model cannot train on one sample alone ({training.not_alone})"
