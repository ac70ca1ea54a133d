"""PyTorch data sets, whose samples belong to nobody, as data of made-up users."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import IterableDataset, TensorDataset

from turbosvm.data.federated import Array, FederatedData
from turbosvm.data.handed_over import MOST_CLASSES, class_names
from turbosvm.data.partition import Assignment, Partition, checked_labels, user_names
from turbosvm.errors import TurboSVMError, in_one_line
from turbosvm.randomness import lend_to_global
from turbosvm.values import as_whole

Progress = Callable[[int, int], None]

BLOCK = 2**22  # bytes that are moved at a time


def from_dataset(
    dataset: Any,
    partition: Partition,
    classes: Iterable[str] | int | None = None,
    name: str = "own data",
    on_progress: Progress | None = None,
    tokens: bool = False,
) -> FederatedData:
    """Give the samples of a PyTorch data set to made-up users, 'user-0000' and so on.

    Each sample is read once and kept, so random transforms are frozen as they fall (they draw from a stream of the
    partition's seed). At most twice the data is in memory at a time.

    Args:
        dataset: anything with `len(dataset)` and `dataset[i]`, a pair (input, label). An input is a tensor, a NumPy
            array, a number, or a PIL image, which becomes uint8 `[channels, height, width]`; floats become float32,
            truth values 0.0 and 1.0, integers stay as they are. All must have one shape and kind. A label is a whole
            number from 0 on.
        partition: who gets what.
        classes: names, or their number; else they are `dataset.classes` where that is a list long enough, else the
            numbers up to the largest label.
        name: what to call the data.
        on_progress: `on_progress(read, of)` is told about a hundred times how many samples have been read.
        tokens: inputs are indices (of characters, say) and not quantities.
    """
    where = f"Data '{name}'"
    if not isinstance(partition, Partition):
        raise TurboSVMError(
            f"{where}: the partition is a {type(partition).__name__}; it must be turbosvm.Partition(...)."
        )
    count = _length(dataset, where)
    inputs: Array | Tensor
    if getattr(type(dataset), "__getitem__", None) is TensorDataset.__getitem__:
        inputs, labels = _whole_tensors(dataset, where)
        if on_progress:
            on_progress(count, count)
    else:
        with lend_to_global(partition.seed, "partition", "transforms"):
            inputs, labels = _read(dataset, count, where, on_progress)
    names = _class_names(classes, dataset, labels, where)
    assignment = partition.assign(labels)
    order = np.argsort(assignment, kind="stable")
    counts = np.bincount(assignment, minlength=partition.users)
    return FederatedData(
        name=name,
        inputs=_in_order(inputs, order),
        labels=labels[order],
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        users=user_names(partition.users),
        classes=names,
        tokens=tokens,
    )


def _length(dataset: Any, where: str) -> int:
    if isinstance(dataset, IterableDataset) or not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise TurboSVMError(
            f"{where} is a {type(dataset).__name__}, which cannot be asked for its length and for any one sample; "
            "hand over a data set with __len__ and __getitem__."
        )
    try:
        count = len(dataset)
    except Exception as error:
        raise TurboSVMError(f"{where} does not tell its length: {in_one_line(error)}.") from error
    if count == 0:
        raise TurboSVMError(f"{where} has no samples.")
    return count


def _whole_tensors(dataset: TensorDataset, where: str) -> tuple[Tensor, Assignment]:
    if len(dataset.tensors) != 2:
        raise TurboSVMError(f"{where} has {len(dataset.tensors)} tensors; it must have 2, inputs and labels.")
    inputs, labels = dataset.tensors
    _as_array(inputs[:1], f"{where}: the input of sample 0")
    return inputs, checked_labels(_as_array(labels, f"{where}: the label of sample 0"), f"{where}: the label")


def _read(dataset: Any, count: int, where: str, on_progress: Progress | None) -> tuple[Array, Assignment]:
    """Read a data set sample by sample."""
    labels = np.empty(count, dtype=np.int64)
    inputs: Array = np.empty(0)
    every = max(1, count // 100)
    for index in range(count):
        given, label = _pair(dataset, index, where)
        own = _as_array(given, f"{where}: the input of sample {index}")
        if index == 0:
            inputs = np.empty((count, *own.shape), dtype=own.dtype)
        if own.shape != inputs.shape[1:] or own.dtype != inputs.dtype:
            raise TurboSVMError(
                f"{where}: the input of sample {index} is {own.dtype} of shape {list(own.shape)}, that of sample 0 is "
                f"{inputs.dtype} of shape {list(inputs.shape[1:])}; all must be alike."
            )
        inputs[index] = own
        plain = label.tolist() if isinstance(label, Tensor | np.ndarray | np.generic) else label
        labels[index] = as_whole(f"{where}: the label of sample {index}", plain, 0)
        if on_progress and ((index + 1) % every == 0 or index + 1 == count):
            on_progress(index + 1, count)
    return inputs, labels


def _pair(dataset: Any, index: int, where: str) -> tuple[Any, Any]:
    try:
        sample = dataset[index]
    except Exception as error:
        raise TurboSVMError(f"{where}: sample {index} cannot be read: {in_one_line(error)}.") from error
    if not isinstance(sample, tuple | list) or len(sample) != 2:
        raise TurboSVMError(f"{where}: sample {index} is not a pair of an input and a label.")
    return sample[0], sample[1]


def _as_array(given: Any, what: str) -> Array:
    """A tensor, array, number or image as an array of the kind that is kept."""
    if isinstance(given, Image.Image):
        return _pixels(given, what)
    try:
        if isinstance(given, Tensor):
            floats = given.dtype.is_floating_point
            array: Array = given.detach().to("cpu", torch.float32 if floats else given.dtype).numpy()
        elif isinstance(given, np.ndarray | np.generic | int | float):
            array = np.asarray(given)
        else:
            raise TurboSVMError(f"{what} is a {type(given).__name__}; it must be a tensor, array, number or PIL image.")
    except (TypeError, RuntimeError) as error:  # sparse tensors, say
        raise TurboSVMError(f"{what} cannot be made an array: {in_one_line(error)}.") from error
    if array.dtype.kind in "fb":
        return array.astype(np.float32, copy=False)
    if array.dtype.kind in "iu":
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    raise TurboSVMError(f"{what} holds {array.dtype}; it must hold real numbers.")


def _pixels(image: Image.Image, what: str) -> Array:
    """An image's bytes, `[channels, height, width]`; colours of a palette are looked up."""
    if image.mode == "1":
        image = image.convert("L")
    elif image.mode in ("P", "PA"):
        image = image.convert("RGBA").convert("RGB" if image.mode == "P" else "RGBA")
    pixels = np.asarray(image)
    if pixels.dtype != np.uint8:
        raise TurboSVMError(
            f"{what} is an image of mode '{image.mode}', which has no bytes for pixels; "
            "turn it into a tensor in the data set."
        )
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def _class_names(classes: Iterable[str] | int | None, dataset: Any, labels: Assignment, where: str) -> tuple[str, ...]:
    last = int(np.argmax(labels))
    needed = int(labels[last]) + 1
    if classes is None:
        own = getattr(dataset, "classes", None)
        if isinstance(own, Sequence) and not isinstance(own, str) and len(own) >= needed:
            names = tuple(map(str, own))
            if len(set(names)) == len(names):
                return names
        if needed > MOST_CLASSES:
            raise TurboSVMError(
                f"{where}: the label of sample {last} is {needed - 1}; it must be below {MOST_CLASSES:,}."
            )
        classes = needed
    names = class_names(where, classes)
    if len(names) < needed:
        raise TurboSVMError(
            f"{where}: the label of sample {last} is {needed - 1}; it must be 0 to {len(names) - 1}, "
            "one for each class."
        )
    return names


def _in_order(inputs: Array | Tensor, order: Assignment) -> Array:
    """A copy with samples in this order, made piece by piece, so that nothing else of that size is needed."""
    first = _as_array(inputs[:1], "The first input")
    arranged = np.empty((len(order), *first.shape[1:]), dtype=first.dtype)
    for piece in _pieces(len(order), max(1, BLOCK // max(1, first.nbytes))):
        wanted = order[piece]
        found = inputs[torch.from_numpy(wanted)] if isinstance(inputs, Tensor) else inputs[wanted]
        arranged[piece] = _as_array(found, "An input")
    return arranged


def _pieces(count: int, size: int) -> Iterator[slice]:
    return (slice(begin, begin + size) for begin in range(0, count, size))
