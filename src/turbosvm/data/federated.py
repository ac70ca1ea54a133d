"""Many users' samples in one contiguous array, a user being a slice of it.

A population costs an index, not a list of objects: `inputs` and `labels` may be memory maps of any size, and opening a
user's data touches that user's bytes only.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from turbosvm.data.windows import Windows
from turbosvm.errors import TurboSVMError

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class FederatedData:
    """Labelled samples of many users.

    Args:
        name: what to call it in records and pictures.
        inputs: `[n, ...]`; uint8 images are scaled to 0..1 when a model sees them, other numbers are taken as they are.
            Windows over text are made when they are asked for.
        labels: `[n]`, integers from 0 to K - 1.
        offsets: `[users + 1]`; user u owns samples `offsets[u]` to `offsets[u + 1]`.
        users: a name for each user.
        classes: a name for each of the K classes.
        tokens: inputs are indices (of characters, say) and not quantities, whatever integers they are stored in.
        held_out: for each user, whether the data's own split holds them out; None where it has no split of its own.
        digest: a hash of all of it, where it is known; data of the same digest is the same data.
        task: what it was prepared as ('femnist', 'own', ...), whatever it is called.
    """

    name: str
    inputs: Array | Windows
    labels: Array
    offsets: npt.NDArray[np.int64]
    users: tuple[str, ...]
    classes: tuple[str, ...]
    tokens: bool = False
    held_out: tuple[bool, ...] | None = None
    digest: str | None = None
    task: str | None = None

    def __post_init__(self) -> None:
        n, users = len(self.labels), len(self.users)
        if len(self.inputs) != n:
            raise TurboSVMError(f"Data '{self.name}' has {len(self.inputs)} inputs but {n} labels.")
        if self.labels.ndim != 1 or not np.issubdtype(self.labels.dtype, np.integer):
            raise TurboSVMError(
                f"Data '{self.name}': labels must be one whole number a sample, not {self.labels.dtype} "
                f"of shape {self.labels.shape}."
            )
        offsets = np.asarray(self.offsets)
        if not np.issubdtype(offsets.dtype, np.integer) or offsets.shape != (users + 1,):
            raise TurboSVMError(f"Data '{self.name}': offsets must be {users + 1} whole numbers, for {users} users.")
        offsets = offsets.astype(np.int64)
        if offsets[0] != 0 or offsets[-1] != n:
            raise TurboSVMError(f"Data '{self.name}': offsets must go from 0 to {n}, the number of samples.")
        if np.any(np.diff(offsets) < 0):
            first = int(np.argmax(np.diff(offsets) < 0))
            raise TurboSVMError(f"Data '{self.name}': offsets fall at user '{self.users[first]}'; they must rise.")
        if len(set(self.users)) < users:
            raise TurboSVMError(f"Data '{self.name}' has two users of the same name.")
        if self.held_out is not None and len(self.held_out) != users:
            raise TurboSVMError(f"Data '{self.name}': its own split speaks of {len(self.held_out)} users, not {users}.")
        object.__setattr__(self, "offsets", offsets)

    def __repr__(self) -> str:
        return (
            f"FederatedData('{self.name}': {len(self.users)} users, {len(self.labels)} samples, "
            f"{len(self.classes)} classes)"
        )

    @classmethod
    def from_users(
        cls,
        samples: Mapping[str, tuple[Any, Any]],
        classes: Iterable[str] | int,
        name: str = "own data",
        tokens: bool = False,
    ) -> "FederatedData":
        """Build it from `{user: (inputs, labels)}`, arrays or tensors; `classes` are names, or their number."""
        if not samples:
            raise TurboSVMError(f"Data '{name}' has no users.")
        inputs = [np.asarray(x) for x, _ in samples.values()]
        labels = [np.asarray(y, dtype=np.int64 if len(y) == 0 else None) for _, y in samples.values()]
        for user, x, y in zip(samples, inputs, labels, strict=True):
            if len(x) != len(y):
                raise TurboSVMError(f"Data '{name}': user '{user}' has {len(x)} inputs but {len(y)} labels.")
            if x.shape[1:] != inputs[0].shape[1:]:
                raise TurboSVMError(
                    f"Data '{name}': inputs of user '{user}' have shape {list(x.shape[1:])} each, "
                    f"those of the first user {list(inputs[0].shape[1:])}; all must be alike."
                )
        offsets = np.concatenate([[0], np.cumsum([len(y) for y in labels])]).astype(np.int64)
        names = tuple(map(str, range(classes))) if isinstance(classes, int | np.integer) else tuple(classes)
        users = tuple(map(str, samples))
        data = cls(name, np.concatenate(inputs), np.concatenate(labels), offsets, users, names, tokens)
        for index in range(len(users)):
            data.user(index)  # checks the labels
        return data

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """Samples per user."""
        return np.diff(self.offsets)

    def user(self, index: int) -> tuple[Array, Array]:
        """One user's inputs and labels, as views; labels are checked."""
        labels = self.labels_of(index)
        return self.inputs[int(self.offsets[index]) : int(self.offsets[index + 1])], labels

    def labels_of(self, index: int) -> Array:
        """One user's labels, checked."""
        labels = self.labels[int(self.offsets[index]) : int(self.offsets[index + 1])]
        if len(labels) and not 0 <= labels.min() <= labels.max() < len(self.classes):
            raise TurboSVMError(
                f"Data '{self.name}': user '{self.users[index]}' has labels from {labels.min()} to {labels.max()}; "
                f"they must be 0 to {len(self.classes) - 1}, one for each class."
            )
        return labels

    def user_tensors(self, index: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """One user's inputs and labels on a device; images stay uint8, tokens and labels become int64."""
        return self._on(device, *self.user(index))

    def tensors(self, places: npt.NDArray[np.int64], device: torch.device) -> tuple[Tensor, Tensor]:
        """The inputs and labels at these places of the whole array, whoever owns them, on a device."""
        return self._on(device, self.inputs[places], self.labels[places])

    def _on(self, device: torch.device, inputs: Array, labels: Array) -> tuple[Tensor, Tensor]:
        kind = torch.int64 if self.tokens else None
        return torch.tensor(inputs, dtype=kind, device=device), torch.tensor(labels, dtype=torch.int64, device=device)
