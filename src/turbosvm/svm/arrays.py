"""NumPy arrays and tensors in, tensors inside, the caller's kind out again."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from turbosvm.errors import TurboSVMError, in_one_line

Array = NDArray[Any] | Tensor
"""What the caller has: results come back in the same kind."""


def to_tensor(values: Any, what: str) -> Tensor:
    """View values as a tensor on the CPU or CUDA; what is not plain numbers in an array is refused."""
    try:
        if not isinstance(values, Tensor):
            array = np.asarray(values)
            array = array.astype(array.dtype.newbyteorder("="), copy=not array.flags.writeable)
            return torch.from_numpy(np.ascontiguousarray(array))
        if values.layout is torch.strided and values.device.type in ("cpu", "cuda") and not values.is_nested:
            return values.detach()
        reason = f"a {values.layout} tensor on '{values.device}'"
    except (TypeError, ValueError, RuntimeError, NotImplementedError) as error:
        reason = in_one_line(error).rstrip(".")
    raise TurboSVMError(f"The {what} must be numbers in an array, or in a tensor on the CPU or CUDA: {reason}.")


def as_embeddings(heads: Any) -> tuple[Tensor, bool]:
    """Take embeddings `[C, K, D]`, or C heads `[K, D]` one after another; refuse what no machine can be fitted to.

    Also returns whether results are to be NumPy arrays: unless the embeddings, or the first of the heads, are tensors.
    """
    if not isinstance(heads, Tensor | np.ndarray):
        heads = _listed(heads)
    as_numpy = not isinstance(heads[0] if isinstance(heads, list) else heads, Tensor)
    embeddings = _stacked(heads) if isinstance(heads, list) else to_tensor(heads, "embeddings")
    shape = tuple(embeddings.shape)
    if len(shape) != 3:
        raise TurboSVMError(f"Embeddings have the shape {shape}; expected three axes: [clients, classes, numbers].")
    for size, least, name in zip(shape, (1, 2, 1), ("client", "classes", "number"), strict=True):
        if size < least:
            raise TurboSVMError(
                f"Embeddings have the shape {shape} (clients, classes, numbers); at least {least} {name} needed."
            )
    if embeddings.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        raise TurboSVMError(f"Embeddings are {embeddings.dtype}; expected floating-point numbers of 16 bits or more.")
    return embeddings, as_numpy


def _listed(heads: Any) -> list[Any]:
    """List the heads of several clients."""
    if isinstance(heads, Mapping | str | bytes) or not isinstance(heads, Iterable):
        raise TurboSVMError(f"Embeddings are a {type(heads).__name__}; expected an array, a tensor, or a list of them.")
    listed = list(heads)
    if not listed:
        raise TurboSVMError("There are no clients: at least one head is needed.")
    return listed


def _stacked(heads: list[Any]) -> Tensor:
    """Stack the heads of several clients, which must agree in shape, type and device."""
    tensors = [to_tensor(head, f"head of client {client}") for client, head in enumerate(heads)]
    first = tensors[0]
    for client, tensor in enumerate(tensors):
        if tensor.shape != first.shape:
            raise TurboSVMError(
                f"Client {client} has a head of shape {tuple(tensor.shape)}, client 0 of {tuple(first.shape)}."
            )
        if (tensor.dtype, tensor.device) != (first.dtype, first.device):
            raise TurboSVMError(
                f"The head of client {client} is {tensor.dtype} on '{tensor.device}', "
                f"that of client 0 {first.dtype} on '{first.device}'."
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
