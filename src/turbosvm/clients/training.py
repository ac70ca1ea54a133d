"""How a client trains: its settings, and the order in which it sees its samples."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from turbosvm.randomness import generator


@dataclass(frozen=True)
class LocalTraining:
    """Plain SGD on a client's own samples.

    Args:
        epochs: E, passes over the samples in one round.
        batch_size: B; the last batch of an epoch may be smaller.
        learning_rate: eta.
        dropout: Share of clients that do not answer before the deadline.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    dropout: float = 0.0


def batches(count: int, training: LocalTraining, seed: int, number: int, client: int) -> Iterator[Tensor]:
    """Yield the indices of each batch of round `number`; each epoch has an order of its own."""
    for epoch in range(training.epochs):
        order = torch.randperm(count, generator=generator(seed, "shuffle", number, client, epoch))
        yield from order.split(training.batch_size)
