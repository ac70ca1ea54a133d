"""How exact the arithmetic of training and evaluation is; the server's steps are never rounded.

auto        tf32 on GPUs that have it, float32 elsewhere
float32     full float32 everywhere
tf32        float32 numbers; inputs of products and convolutions are rounded to TF32 (10 bits) on their way in
bfloat16    mixed: float32 weights, products and convolutions in bfloat16 (PyTorch's autocast)
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, get_args

import torch
from torch import nn

from turbosvm.errors import TurboSVMError, unknown

Precision = Literal["auto", "float32", "tf32", "bfloat16"]

_TF32_SINCE = (8, 0)
"""The compute capability of the first GPUs with TF32 (Ampere)."""


def choose_precision(name: str, device: torch.device) -> Precision:
    """Say what 'auto' means on a device, and refuse what the device cannot do."""
    if name not in get_args(Precision):
        raise unknown("precision", name, get_args(Precision))
    has_tf32 = device.type == "cuda" and torch.cuda.get_device_capability(device) >= _TF32_SINCE
    if name == "auto":
        return "tf32" if has_tf32 else "float32"
    if name == "tf32" and not has_tf32:
        raise TurboSVMError(
            f"Precision 'tf32' needs an NVIDIA GPU since Ampere; {_told(device)}. Allowed: auto, float32, bfloat16."
        )
    if name == "bfloat16" and device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise TurboSVMError(f"Precision 'bfloat16' is not supported here; {_told(device)}. Allowed: auto, float32.")
    return name  # type: ignore[return-value]


def check_precision(name: str, module: nn.Module) -> None:
    """Refuse mixed precision for a model whose own numbers are not float32: autocast would leave it as it is."""
    others = {parameter.dtype for parameter in module.parameters()} - {torch.float32}
    if name == "bfloat16" and others:
        raise TurboSVMError(
            f"Precision 'bfloat16' is for models in float32; model {type(module).__name__} has parameters in "
            f"{', '.join(sorted(str(dtype).removeprefix('torch.') for dtype in others))}."
        )


@contextmanager
def working_precision(name: Precision, device: torch.device) -> Iterator[None]:
    """Let float32 products on CUDA be rounded to TF32, or not, while this lasts."""
    if device.type != "cuda":
        yield
        return
    matmul: Any = torch.backends.cuda.matmul
    before = torch.backends.cudnn.allow_tf32, matmul.fp32_precision
    torch.backends.cudnn.allow_tf32 = name == "tf32"
    matmul.fp32_precision = "tf32" if name == "tf32" else "ieee"
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32, matmul.fp32_precision = before


def mixed(name: Precision, device: torch.device) -> torch.autocast:
    """A context for forward passes; it does something for 'bfloat16' alone. Weights change, so no casts are kept."""
    return torch.autocast(device.type, torch.bfloat16, enabled=name == "bfloat16", cache_enabled=False)


def _told(device: torch.device) -> str:
    if device.type != "cuda":
        return f"this run computes on the {device.type.upper()}"
    major, minor = torch.cuda.get_device_capability(device)
    return f"this is a {torch.cuda.get_device_name(device)} (compute capability {major}.{minor})"
