"""Training without a federation: the samples of all training users in one pool, for the ceiling line of a plot.

A round sees as many samples as the round's cohort would have, so that budgets are equal: the next ones of an endless
sequence of shuffled passes over the pool, in plain batches.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch

from turbosvm.algorithms.rules import Algorithm
from turbosvm.clients.local import Call, attempt, train_client
from turbosvm.clients.replies import Failure, Reply
from turbosvm.clients.training import LocalTraining, batch_sizes, too_few
from turbosvm.clients.workbench import Workbench
from turbosvm.data.federated import FederatedData
from turbosvm.randomness import lend_to_global, numpy_generator

POOL = -1
"""What stands where otherwise the index of a client does."""


def train_pooled(
    bench: Workbench,
    call: Call,
    data: FederatedData,
    users: Sequence[int],
    cohorts: Sequence[Sequence[int]],
    algorithm: Algorithm,
    training: LocalTraining,
) -> Reply | Failure:
    """Train on the round's share of the pool; `cohorts` are those of all rounds up to this one, and set the budgets."""
    moment = call.moment
    budgets = [training.epochs * int(data.counts[list(cohort)].sum()) for cohort in cohorts]
    owners = np.asarray(users)
    drawn = draw(int(data.counts[owners].sum()), sum(budgets[:-1]), budgets[-1], moment.seed)
    samples = data.tensors(places_of(data, owners, drawn), bench.device)
    if why := too_few(budgets[-1], training):
        return Failure(POOL, why)
    sizes = batch_sizes(budgets[-1], training)
    order = iter(torch.arange(sum(sizes)).split(sizes))
    with lend_to_global(moment.seed, "layers", moment.round, "pool"):
        return attempt(POOL, lambda: train_client(bench, call, POOL, samples, order, algorithm, training, {}))


def draw(size: int, first: int, count: int, seed: int) -> npt.NDArray[np.int64]:
    """Places `first` to `first + count` of an endless sequence of passes over a pool, each pass shuffled anew."""
    passes = range(first // size, (first + count - 1) // size + 1)
    ends = [(max(first - number * size, 0), first + count - number * size) for number in passes]
    return np.concatenate(
        [_shuffled(size, number, seed)[start:end] for number, (start, end) in zip(passes, ends, strict=True)]
    )


@lru_cache(maxsize=2)
def _shuffled(size: int, number: int, seed: int) -> npt.NDArray[np.int64]:
    return numpy_generator(seed, "pool", number).permutation(size)


def places_of(data: FederatedData, users: npt.NDArray[np.int64], drawn: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where in the whole array these samples of the users' pool are, counted in the users' order."""
    ends = np.cumsum(data.counts[users])
    user = np.searchsorted(ends, drawn, side="right")
    return data.offsets[users[user] + 1] - (ends[user] - drawn)
