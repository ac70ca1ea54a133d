"""Samples in a device's memory, gathered by index: what a training step on a GPU reads.

The whole data set is brought to the device once, as it is stored (a byte a pixel or character), if it fits. Otherwise
the samples of a round's clients are, into one buffer that stays in its place.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from turbosvm.data.federated import FederatedData
from turbosvm.data.windows import Windows

SHARE = 0.5
"""The largest part of the device's free memory that a data set may take."""


def free_memory(device: torch.device) -> int:
    """Bytes that are free on a CUDA device, those included that PyTorch holds and does not use."""
    free, _ = torch.cuda.mem_get_info(device)
    return int(free) + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


class Samples:
    """Inputs and labels on a device.

    Args:
        data: where they come from.
        device: where they are kept.
        visitors: how many users' samples must have room at the same time, if all of them have not.
        room: bytes that there are for them; by default, `SHARE` of the free memory.
    """

    def __init__(self, data: FederatedData, device: torch.device, visitors: int, room: int | None = None) -> None:
        self._data, self._device = data, device
        room = int(free_memory(device) * SHARE) if room is None else room
        self.resident = _stored_bytes(data) <= room
        if self.resident and isinstance(data.inputs, Windows):
            self._text = torch.tensor(data.inputs.text, device=device)
            self._segments = torch.tensor(data.inputs.segments, device=device)
            self._span = torch.arange(data.inputs.length, device=device)
            self._labels = torch.tensor(data.labels, device=device)
        elif self.resident:
            self._inputs, self._labels = (
                torch.tensor(data.inputs, device=device),
                torch.tensor(data.labels, device=device),
            )
        else:
            largest = int(np.sort(data.counts)[-visitors:].sum())
            some = torch.tensor(data.inputs[:1]), torch.tensor(data.labels[:1])
            self._inputs, self._labels = (one.new_zeros((largest, *one.shape[1:]), device=device) for one in some)

    def bring(self, users: Sequence[int]) -> list[int]:
        """See to it that these users' samples are here; return where each user's begin."""
        if self.resident:
            return [int(self._data.offsets[user]) for user in users]
        counts = self._data.counts[list(users)]
        starts = np.cumsum(counts) - counts
        for user, start in zip(users, starts, strict=True):
            inputs, labels = self._data.user(user)
            own = slice(int(start), int(start) + len(labels))
            self._inputs[own].copy_(torch.tensor(inputs))
            self._labels[own].copy_(torch.tensor(labels))
        return [int(start) for start in starts]

    def at(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """The inputs and labels at these places; images stay uint8, tokens and labels become int64."""
        labels = self._labels[places].long()
        if self.resident and isinstance(self._data.inputs, Windows):
            segment = torch.searchsorted(self._segments, places, right=True) - 1
            begins = places + self._data.inputs.length * segment
            return self._text[begins.unsqueeze(1) + self._span].long(), labels
        inputs = self._inputs[places]
        return inputs.long() if self._data.tokens else inputs, labels


def _stored_bytes(data: FederatedData) -> int:
    inputs = data.inputs
    stored: Sequence[npt.NDArray[np.generic]] = (
        [inputs.text, inputs.segments] if isinstance(inputs, Windows) else [inputs]
    )
    return sum(array.nbytes for array in (*stored, data.labels))
