"""NumPy arrays and tensors in, tensors inside, the caller's kind out again."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from turbosvm.errors import TurboSVMError

Array = NDArray[Any] | Tensor
"""What the caller has: results come back in the same kind."""


def to_tensor(values: Array | Sequence[Any], what: str) -> Tensor:
    """View values as a tensor; arrays that cannot be written to, or are not plain numbers, are copied or refused."""
    if isinstance(values, Tensor):
        return values.detach()
    try:
        array = np.asarray(values)
        return torch.from_numpy(array if array.flags.writeable and array.flags.c_contiguous else array.copy())
    except (TypeError, ValueError) as error:
        raise TurboSVMError(f"The {what} must be numbers in an array or a tensor: {error}.") from error


def as_embeddings(heads: Array | Sequence[Array]) -> Tensor:
    """Take embeddings `[C, K, D]`, or a sequence of C heads `[K, D]`, and refuse what no machine can be fitted to."""
    if not isinstance(heads, Tensor | np.ndarray):
        heads = _stacked(heads)
    embeddings = to_tensor(heads, "embeddings")
    shape = tuple(embeddings.shape)
    if len(shape) != 3:
        raise TurboSVMError(f"Embeddings have the shape {shape}; expected three axes: [clients, classes, numbers].")
    for size, least, name in zip(shape, (1, 2, 1), ("client", "classes", "number"), strict=True):
        if size < least:
            raise TurboSVMError(
                f"Embeddings have the shape {shape} (clients, classes, numbers); at least {least} {name} needed."
            )
    if embeddings.device.type not in ("cpu", "cuda"):
        raise TurboSVMError(f"Embeddings are on '{embeddings.device}'; expected the CPU or a CUDA device.")
    if not embeddings.is_floating_point():
        raise TurboSVMError(f"Embeddings are {embeddings.dtype}; expected floating-point numbers.")
    return embeddings


def _stacked(heads: Sequence[Array]) -> Tensor:
    """Stack the heads of several clients, which must agree in shape."""
    tensors = [to_tensor(head, f"head of client {client}") for client, head in enumerate(heads)]
    if not tensors:
        raise TurboSVMError("There are no clients: at least one head is needed.")
    for client, tensor in enumerate(tensors):
        if tensor.shape != tensors[0].shape:
            raise TurboSVMError(
                f"Client {client} has a head of shape {tuple(tensor.shape)}, client 0 of {tuple(tensors[0].shape)}."
            )
    return torch.stack(tensors)


def refuse_not_finite(embeddings: Tensor) -> None:
    """Raise an error that names the first client and class with a NaN or an infinity, if there is one."""
    bad = (~torch.isfinite(embeddings).all(dim=-1)).nonzero()
    if len(bad):
        client, label = bad[0].tolist()
        more = f" ({len(bad)} embeddings in all)" if len(bad) > 1 else ""
        raise TurboSVMError(
            f"The embedding of class {label} from client {client} has a number that is not finite{more}."
        )


def is_numpy(values: Array | Sequence[Array]) -> bool:
    """Whether results for these values are to be NumPy arrays: unless they, or the first of them, are tensors."""
    return not isinstance(values[0] if isinstance(values, Sequence) else values, Tensor)
