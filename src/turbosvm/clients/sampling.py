"""Who takes part in round t: a function of (seed, t) alone, the same for every algorithm."""

from collections.abc import Sequence

from turbosvm.errors import TurboSVMError
from turbosvm.randomness import numpy_generator


def sample_cohort(seed: int, number: int, users: Sequence[int], size: int) -> tuple[int, ...]:
    """Draw `size` different users for round `number`, each set of that size being equally likely."""
    if not 1 <= size <= len(users):
        raise TurboSVMError(
            f"clients_per_round is {size}; it must be from 1 to {len(users)}, the number of training users."
        )
    chosen = numpy_generator(seed, "cohort", number).choice(len(users), size=size, replace=False)
    return tuple(int(users[index]) for index in chosen)
