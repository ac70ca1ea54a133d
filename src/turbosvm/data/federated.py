"""Many users' samples in one contiguous array, a user being a slice of it.

A population costs an index, not a list of objects: `inputs` and `labels` may be memory maps of any size, and opening a
user's data touches that user's bytes only.
"""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from turbosvm.data.handed_over import (
    Array,
    as_array,
    as_labels,
    as_names,
    check_class_names,
    check_user_names,
    class_names,
    first_bad_input,
)
from turbosvm.data.windows import Windows
from turbosvm.errors import TurboSVMError
from turbosvm.values import as_flag

__all__ = ["Array", "FederatedData"]


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
        if not isinstance(self.name, str) or not self.name.strip() or not self.name.isprintable():
            raise TurboSVMError(f"Data cannot be called {ascii(self.name)[:60]}; that must be printable text.")
        users = _as_tuple(f"Data '{self.name}'", "users", self.users)
        where, keep = f"Data '{self.name}'", object.__setattr__
        if not isinstance(self.inputs, Windows):
            keep(self, "inputs", as_array(f"{where}: inputs", self.inputs))
        keep(self, "labels", as_labels(f"{where}: labels", self.labels))
        keep(self, "users", users)
        keep(self, "classes", check_class_names(where, _as_tuple(where, "classes", self.classes)))
        check_user_names(where, self.users)
        if len(self.inputs) != len(self.labels):
            raise TurboSVMError(f"{where} has {len(self.inputs)} inputs but {len(self.labels)} labels.")
        keep(self, "offsets", self._checked_offsets(where))
        if self.held_out is not None:
            own_split = _as_tuple(where, "held_out", self.held_out)
            keep(self, "held_out", tuple(as_flag(f"{where}: held_out", own) for own in own_split))
            if len(self.held_out) != len(users):
                raise TurboSVMError(f"{where}: its own split speaks of {len(self.held_out)} users, not {len(users)}.")
        self._check_labels(where)
        self._check_inputs(where)

    def _checked_offsets(self, where: str) -> npt.NDArray[np.int64]:
        n, users = len(self.labels), len(self.users)
        offsets = as_array(f"{where}: offsets", self.offsets)
        if not np.issubdtype(offsets.dtype, np.integer) or offsets.shape != (users + 1,):
            raise TurboSVMError(f"{where}: offsets must be {users + 1} whole numbers, for {users} users.")
        offsets = offsets.astype(np.int64)
        if offsets[0] != 0 or offsets[-1] != n:
            raise TurboSVMError(f"{where}: offsets must go from 0 to {n}, the number of samples.")
        if np.any(np.diff(offsets) < 0):
            first = int(np.argmax(np.diff(offsets) < 0))
            raise TurboSVMError(f"{where}: offsets fall at user '{self.users[first]}'; they must rise.")
        return offsets

    def _check_labels(self, where: str) -> None:
        if not len(self.labels) or 0 <= self.labels.min() <= self.labels.max() < len(self.classes):
            return
        user, _ = self._owner(int(np.argmax((self.labels < 0) | (self.labels >= len(self.classes)))))
        own = self.labels_of(user)
        raise TurboSVMError(
            f"{where}: user '{self.users[user]}' has labels from {own.min()} to {own.max()}; "
            f"they must be 0 to {len(self.classes) - 1}, one for each class."
        )

    def _check_inputs(self, where: str) -> None:
        """Look for numbers that no model can learn from; what has a digest was looked through when it was prepared."""
        if isinstance(self.inputs, Windows):
            return
        if self.tokens and self.inputs.dtype.kind not in "iu" and self.inputs.size:
            raise TurboSVMError(f"{where}: tokens must be whole numbers, not {self.inputs.dtype}.")
        if self.digest is None and (bad := first_bad_input(self.inputs, self.tokens)) is not None:
            user, sample = self._owner(bad)
            what = "token that is less than 0" if self.tokens else "number that is not finite (NaN or infinite)"
            raise TurboSVMError(f"{where}: user '{self.users[user]}', sample {sample} has a {what} in its input.")

    def _owner(self, place: int) -> tuple[int, int]:
        """The user of the sample at a place, and its number among theirs."""
        user = int(np.searchsorted(self.offsets, place, side="right")) - 1
        return user, place - int(self.offsets[user])

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
        """Build it from `{user: (inputs, labels)}`, arrays, tensors or lists; `classes` are names, or their number.

        Users without samples are kept, and told of: they neither train nor are held out.
        """
        if not isinstance(samples, Mapping):
            raise TurboSVMError(
                f"Data '{name}' is a {type(samples).__name__}; it must be a mapping of users to (inputs, labels)."
            )
        if not samples:
            raise TurboSVMError(f"Data '{name}' has no users.")
        users = as_names(f"Data '{name}'", "users", samples)
        pairs = [_pair(f"Data '{name}': user {user!a}", own) for user, own in zip(users, samples.values(), strict=True)]
        empty = [user for user, (_, labels) in zip(users, pairs, strict=True) if not len(labels)]
        filled = [(user, x) for user, (x, y) in zip(users, pairs, strict=True) if len(y)]
        if not filled:
            raise TurboSVMError(f"Data '{name}' has no samples.")
        first = filled[0][1]
        for user, x in filled:
            if x.shape[1:] != first.shape[1:]:
                raise TurboSVMError(
                    f"Data '{name}': inputs of user '{user}' have shape {list(x.shape[1:])} each, "
                    f"those of the first user {list(first.shape[1:])}; all must be alike."
                )
            if not tokens and (x.dtype == np.uint8) != (first.dtype == np.uint8):
                raise TurboSVMError(
                    f"Data '{name}': inputs of user '{user}' are {x.dtype}, those of the first user {first.dtype}; "
                    "uint8 is scaled to 0..1 and other numbers are not, so that all must be alike."
                )
        data = cls(
            name,
            np.concatenate([x for _, x in filled]),
            np.concatenate([y.astype(np.int64) for _, y in pairs]),
            np.cumsum([0, *(len(y) for _, y in pairs)], dtype=np.int64),
            users,
            class_names(f"Data '{name}'", classes),
            tokens,
        )
        if empty:
            warnings.warn(
                f"Data '{name}': {len(empty)} of {len(users)} users have no samples, such as '{empty[0]}'; "
                "they neither train nor are held out.",
                stacklevel=2,
            )
        return data

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """Samples per user."""
        return np.diff(self.offsets)

    def user(self, index: int) -> tuple[Array, Array]:
        """One user's inputs and labels, as views."""
        labels = self.labels_of(index)
        return self.inputs[int(self.offsets[index]) : int(self.offsets[index + 1])], labels

    def labels_of(self, index: int) -> Array:
        """One user's labels."""
        return self.labels[int(self.offsets[index]) : int(self.offsets[index + 1])]

    def user_tensors(self, index: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """One user's inputs and labels on a device; images stay uint8, tokens and labels become int64."""
        return self._on(device, *self.user(index))

    def tensors(self, places: npt.NDArray[np.int64], device: torch.device) -> tuple[Tensor, Tensor]:
        """The inputs and labels at these places of the whole array, whoever owns them, on a device."""
        return self._on(device, self.inputs[places], self.labels[places])

    def _on(self, device: torch.device, inputs: Array, labels: Array) -> tuple[Tensor, Tensor]:
        kind = torch.int64 if self.tokens else None
        return torch.tensor(inputs, dtype=kind, device=device), torch.tensor(labels, dtype=torch.int64, device=device)


def _pair(what: str, own: Any) -> tuple[Array, Array]:
    """A user's inputs and labels, of one length."""
    if not isinstance(own, tuple | list) or len(own) != 2:
        raise TurboSVMError(f"{what} has a {type(own).__name__}; it must be a pair of inputs and labels.")
    inputs, labels = as_array(f"{what}: inputs", own[0]), as_labels(f"{what}: labels", own[1])
    if len(inputs) != len(labels):
        raise TurboSVMError(f"{what} has {len(inputs)} inputs but {len(labels)} labels.")
    return inputs, labels


def _as_tuple(where: str, what: str, given: Any) -> tuple[Any, ...]:
    if not isinstance(given, tuple | list):
        raise TurboSVMError(f"{where}: {what} is a {type(given).__name__}; it must be a tuple.")
    return tuple(given)
