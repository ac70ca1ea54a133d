"""Split by user: some users train, others are held out and never seen in training.

Data may come with a split of its own (LEAF's folders, where they were asked for). Otherwise who is held out is decided
by a hash of (seed, user name). So it depends neither on the order of users nor on the machine, and adding users moves
nobody from one side to the other.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError


@dataclass(frozen=True)
class Split:
    """Indices of users on either side."""

    train: tuple[int, ...]
    held_out: tuple[int, ...]


def split_users(data: FederatedData, held_out: float, min_samples: int = 1, seed: int = 0) -> Split:
    """Split the users that have at least `min_samples` samples; at least one is on either side.

    Without a split of the data's own, about a share `held_out` of them is held out. With one, the minimum is asked of
    those who train only, as the others may be the test samples of a larger user.
    """
    if data.held_out is not None:
        return _own_split(data, data.held_out, max(min_samples, 1))
    users = np.flatnonzero(data.counts >= max(min_samples, 1))
    if len(users) < 2:
        raise TurboSVMError(
            f"Data '{data.name}' has {len(users)} users with at least {min_samples} samples; "
            "at least 2 are needed, one to train and one to hold out."
        )
    places = np.array([_place(seed, data.users[user]) for user in users.tolist()])
    by_place = users[np.argsort(places, kind="stable")]
    count = min(max(int((places < held_out).sum()), 1), len(users) - 1)
    held, rest = np.sort(by_place[:count]), np.sort(by_place[count:])
    return Split(train=tuple(rest.tolist()), held_out=tuple(held.tolist()))


def _own_split(data: FederatedData, held_out: tuple[bool, ...], min_samples: int) -> Split:
    counts = data.counts.tolist()
    split = Split(
        train=tuple(user for user, count in enumerate(counts) if not held_out[user] and count >= min_samples),
        held_out=tuple(user for user, count in enumerate(counts) if held_out[user] and count),
    )
    if not split.train or not split.held_out:
        raise TurboSVMError(
            f"The own split of data '{data.name}' leaves {len(split.train)} users to train and {len(split.held_out)} "
            "held out; at least one of each is needed."
        )
    return split


def _place(seed: int, user: str) -> float:
    """A number from 0 to 1 that belongs to this user under this seed."""
    digest = hashlib.sha256(f"{seed}/{user}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
