"""Who takes part in round t, and who of them never answers: functions of (seed, t), the same for every algorithm."""

from collections.abc import Sequence

from turbosvm.errors import TurboSVMError
from turbosvm.randomness import numpy_generator


def sample_cohort(seed: int, number: int, users: Sequence[int], size: int, *place: str) -> tuple[int, ...]:
    """Draw `size` different users for round `number`, each set of that size being equally likely.

    `place` names a stream apart, for those who want an algorithm to see cohorts of its own.
    """
    if not 1 <= size <= len(users):
        raise TurboSVMError(
            f"clients_per_round is {size}; it must be from 1 to {len(users)}, the number of training users."
        )
    chosen = numpy_generator(seed, "cohort", number, *place).choice(len(users), size=size, replace=False)
    return tuple(int(users[index]) for index in chosen)


def drops_out(seed: int, number: int, client: int, share: float) -> bool:
    """Whether a client of round `number` does not answer before the deadline; it does so with probability `share`."""
    return share > 0 and numpy_generator(seed, "dropout", number, client).random() < share
