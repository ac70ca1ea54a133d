"""How long a round's arithmetic would take at the speed that the machine reaches in a large product.

The larger of two times counts: that of the operations of all training steps, and that of the bytes that they move where
no cache holds them (each step reads the weights forwards and backwards, and reads and writes them once more to change
them). Both speeds are measured here, on the device in its present state, in TF32 where it has that. What else a round
reads and writes (activations, gradients, copies of models) comes on top.
"""

import warnings
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from measuring import least_seconds
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode


@dataclass(frozen=True)
class Limit:
    """What the arithmetic of a round of C clients costs."""

    operations: float
    bytes: float
    seconds: float


class Work(Protocol):
    """The part of a workload that matters here."""

    clients: int
    batch_size: int
    file: str
    device: str

    def module(self) -> nn.Module:
        """The model."""

    def as_input(self, stored: Tensor) -> Tensor:
        """What the model sees of stored bytes."""


def limit_of(work: Work) -> Limit:
    """Count a mean client's steps, and measure how fast the device is."""
    device = torch.device(work.device)
    with np.load(work.file) as stored:
        inputs, labels = (torch.from_numpy(stored[name][: work.batch_size]) for name in ("inputs", "labels"))
        samples = float(np.diff(stored["offsets"]).mean())
        steps = float(np.ceil(np.diff(stored["offsets"]) / work.batch_size).mean())
    module = work.module().cpu()
    with warnings.catch_warnings(), FlopCounterMode(display=False) as counter:
        warnings.simplefilter("ignore")  # of settings for other devices
        with torch.backends.mkldnn.flags(enabled=False):  # its LSTM is not counted
            loss = functional.cross_entropy(module(work.as_input(inputs)), labels)
        loss.backward()
    operations = work.clients * samples * counter.get_total_flops() / len(labels)
    moved = work.clients * steps * 4 * sum(value.nbytes for value in module.parameters())
    return Limit(operations, moved, max(operations / _products_a_second(device), moved / _bytes_a_second(device)))


def _products_a_second(device: torch.device) -> float:
    """Operations a second in a large product, in TF32 where the device has it."""
    size = 8192 if device.type == "cuda" else 2048
    one, two = torch.rand(2, size, size, device=device)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        return 2 * size**3 / least_seconds(lambda: one @ two, device, 10)
    finally:
        torch.set_float32_matmul_precision(before)


def _bytes_a_second(device: torch.device) -> float:
    """Bytes a second read and written by a copy of a large array."""
    size = 2**30 if device.type == "cuda" else 2**28
    one, two = torch.zeros(2, size // 4, device=device)
    return 2 * size / least_seconds(lambda: two.copy_(one), device, 10)
