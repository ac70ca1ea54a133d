"""Numbers on their way from the CPU to a device."""

import torch
from torch import Tensor


def sent_to(values: Tensor, device: torch.device) -> Tensor:
    """The same numbers on a device; where that is a GPU, without waiting until it has done what it is at."""
    if device.type == "cuda" and not values.is_cuda:
        return values.pin_memory().to(device, non_blocking=True)
    return values.to(device)
