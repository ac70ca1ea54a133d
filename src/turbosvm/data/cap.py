"""At most so many samples a user: for trying large data on a small machine, and for users much larger than others."""

from dataclasses import replace
from hashlib import sha256

import numpy as np

from turbosvm.data.federated import FederatedData
from turbosvm.randomness import numpy_generator


def cap_samples(data: FederatedData, most: int | None, seed: int = 0) -> FederatedData:
    """Let users with more than `most` samples keep that many, drawn by (seed, user name), in their order.

    The samples that are left are read into memory, unless nobody has more; without a `most`, data stays as it is.
    """
    if most is None or not (data.counts > most).any():
        return data
    kept = [_kept(user, int(start), int(count), most, seed) for user, start, count in _slices(data)]
    places = np.concatenate(kept)
    offsets = np.concatenate([[0], np.cumsum([len(own) for own in kept])])
    return replace(
        data,
        inputs=np.asarray(data.inputs[places]),
        labels=np.asarray(data.labels[places]),
        offsets=offsets,
        digest=data.digest and sha256(f"{data.digest}/{most}/{seed}".encode()).hexdigest(),
    )


def _slices(data: FederatedData) -> "zip[tuple[str, np.int64, np.int64]]":
    return zip(data.users, data.offsets[:-1], data.counts, strict=True)


def _kept(user: str, start: int, count: int, most: int, seed: int) -> np.typing.NDArray[np.int64]:
    """The places of a user's samples that stay."""
    if count <= most:
        return np.arange(start, start + count)
    drawn = numpy_generator(seed, "cap", user).choice(count, most, replace=False)
    return start + np.sort(drawn)
