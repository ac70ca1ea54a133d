"""Named tensors, and several groups of them in one flat dictionary: what safetensors and server rules can hold."""

from collections.abc import Mapping

import torch
from torch import Tensor


def grouped(groups: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Turn `{"m": {"w": ...}}` into `{"m/w": ...}`; a group's name has no slash, names in it may."""
    return {f"{group}/{name}": value for group, tensors in groups.items() for name, value in tensors.items()}


def ungrouped(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """Turn `{"m/w": ...}` back into `{"m": {"w": ...}}`."""
    groups: dict[str, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        group, _, name = key.partition("/")
        groups.setdefault(group, {})[name] = value
    return groups


def zeros_like(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Zeros of the same names and shapes, sharing no memory."""
    return {name: torch.zeros_like(value) for name, value in tensors.items()}
