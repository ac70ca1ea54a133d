"""Samples that belong to nobody, given to made-up users.

Most data sets (MNIST, CIFAR, one's own folder of images) do not say whose a sample is. Three rules are common:

- `iid`: samples are shuffled and dealt out, so that every user looks like the population.
- `dirichlet`: each class is divided among users by shares drawn from Dir(alpha), after Yurochkin et al., "Bayesian
  Nonparametric Federated Learning of Neural Networks" (2019, arXiv 1905.12022) and Li et al., "Federated Learning on
  Non-IID Data Silos" (2022, arXiv 2102.02079). Small alpha: a class belongs to few users, and sizes differ much.
- `shards`: samples are sorted by label and cut into equal shards, of which each user gets a few, after McMahan et al.,
  "Communication-Efficient Learning of Deep Networks from Decentralized Data" (2017, arXiv 1602.05629).

Who gets what is a function of (labels, users, the rule's parameters, seed), and of nothing else.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from turbosvm.errors import TurboSVMError, unknown
from turbosvm.randomness import numpy_generator
from turbosvm.values import as_positive, as_whole

Rule = Literal["iid", "dirichlet", "shards"]
Assignment = npt.NDArray[np.int64]

DRAWS = 1000  # of Dirichlet shares, until every user has enough
EQUAL_SHARES = 1e12  # beyond this alpha, shares are equal as far as anybody can count, but drawing them overflows


@dataclass(frozen=True)
class Partition:
    """How to divide samples among made-up users.

    Args:
        rule: 'iid', 'dirichlet' or 'shards'.
        users: number of users.
        alpha: for 'dirichlet' only: small is skewed, large is nearly IID; 0.1 to 1 is common.
        shards_per_user: for 'shards' only; 2 is common.
        min_samples: what every user must have. Data that cannot give it is refused, so that nobody is empty unless
            this is 0; then empty users are kept, so that there are as many as were asked for.
        seed: another seed gives another division.
    """

    rule: Rule
    users: int
    alpha: float | None = None
    shards_per_user: int | None = None
    min_samples: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rule not in get_args(Rule):
            raise unknown("partition", self.rule, get_args(Rule))
        keep = object.__setattr__
        keep(self, "users", as_whole("The partition's users", self.users, 1))
        keep(self, "min_samples", as_whole("The partition's min_samples", self.min_samples, 0))
        keep(self, "seed", as_whole("The partition's seed", self.seed, 0))
        if _is_wanted("alpha", self.alpha, "dirichlet", self.rule):
            keep(self, "alpha", as_positive("The partition's alpha", self.alpha))
        if _is_wanted("shards_per_user", self.shards_per_user, "shards", self.rule):
            keep(self, "shards_per_user", as_whole("The partition's shards_per_user", self.shards_per_user, 1))

    def __str__(self) -> str:
        """As `parse` reads it: 'iid', 'dirichlet:0.5', 'shards:2'."""
        number = self.shards_per_user if self.alpha is None else self.alpha
        return self.rule if number is None else f"{self.rule}:{number!r}"

    def assign(self, labels: npt.ArrayLike) -> Assignment:
        """Return the user of each sample, `[n]`."""
        own = checked_labels(labels)
        _refuse_too_few(len(own), self.users, self.min_samples)
        generator = numpy_generator(self.seed, "partition", self.rule)
        if self.alpha is not None:
            return dirichlet(own, self.users, self.alpha, generator, self.min_samples)
        if self.shards_per_user is None:
            return iid(own, self.users, generator)
        assignment = shards(own, self.users, self.shards_per_user, generator)
        least = int(np.bincount(assignment, minlength=self.users).min())
        if least < self.min_samples:
            raise TurboSVMError(
                f"Shards leave a user with {least} of the {self.min_samples} samples that everybody must have; "
                "take fewer users or a smaller min_samples."
            )
        return assignment


def parse(text: str, users: int, min_samples: int = 1, seed: int = 0) -> Partition:
    """Read a rule as people write it: 'iid', 'dirichlet:0.5' (alpha) or 'shards:2' (a user)."""
    rule, colon, number = (part.strip() for part in text.partition(":"))
    if rule == "iid" and not colon:
        return Partition("iid", users, min_samples=min_samples, seed=seed)
    if rule == "iid":
        raise TurboSVMError(f"Partition '{text}' has a number too many; write 'iid'.")
    try:
        if rule == "dirichlet":
            return Partition("dirichlet", users, alpha=float(number), min_samples=min_samples, seed=seed)
        if rule == "shards":
            return Partition("shards", users, shards_per_user=int(number), min_samples=min_samples, seed=seed)
    except ValueError as error:
        example = {"dirichlet": "dirichlet:0.5", "shards": "shards:2"}[rule]
        raise TurboSVMError(f"Partition '{text}' needs a number after a colon, such as '{example}'.") from error
    raise unknown("partition", rule, get_args(Rule))


def iid(labels: npt.ArrayLike, users: int, generator: np.random.Generator) -> Assignment:
    """Deal shuffled samples out, whatever their labels; users' sizes differ by at most one."""
    return generator.permutation(np.arange(len(checked_labels(labels)), dtype=np.int64) % as_whole("users", users, 1))


def dirichlet(
    labels: npt.ArrayLike, users: int, alpha: float, generator: np.random.Generator, min_samples: int = 1
) -> Assignment:
    """Divide each class among users by shares drawn from Dir(alpha, ..., alpha), one draw a class.

    Users' sizes follow from the shares. Much code for this rule also passes over users who have reached the mean size;
    this does not. (The other Dirichlet rule, of Hsu et al., 2019, arXiv 1909.06335, draws a mixture of classes for each
    user, all of one size.) Shares become whole samples by rounding that favours nobody: a user's
    count of a class is less than one sample away from their share of it, and equal to it on average.

    All shares are drawn anew, at most a thousand times, until every user has `min_samples` samples.
    """
    own = checked_labels(labels)
    users, alpha = as_whole("users", users, 1), min(as_positive("alpha", alpha), EQUAL_SHARES)
    min_samples = as_whole("min_samples", min_samples, 0)
    _refuse_too_few(len(own), users, min_samples)
    order = _by_label(own, generator)
    sizes = np.unique(own, return_counts=True)[1]
    most = 0
    for _ in range(DRAWS):
        counts = np.stack([_divide(size, generator.dirichlet(np.full(users, alpha)), generator) for size in sizes])
        least = int(counts.sum(axis=0).min())
        if least >= min_samples:
            assignment = np.empty(len(own), dtype=np.int64)
            assignment[order] = np.repeat(np.tile(np.arange(users), len(sizes)), counts.ravel())
            return assignment
        most = max(most, least)
    raise TurboSVMError(
        f"Dirichlet shares with alpha {alpha:g} left one of the {users} users with fewer than {min_samples} samples in "
        f"each of {DRAWS} draws ({most} at best); take a larger alpha, fewer users or a smaller min_samples."
    )


def shards(labels: npt.ArrayLike, users: int, shards_per_user: int, generator: np.random.Generator) -> Assignment:
    """Sort samples by label, cut them into `users * shards_per_user` shards, and deal those out at random.

    Shards' sizes differ by at most one. Where no class is smaller than a shard, a shard has one class or two
    neighbouring ones, so a user has at most `2 * shards_per_user` classes, and half of that where shards end with
    classes.
    """
    own = checked_labels(labels)
    users, shards_per_user = as_whole("users", users, 1), as_whole("shards_per_user", shards_per_user, 1)
    count = users * shards_per_user
    if count > len(own):
        raise TurboSVMError(
            f"{len(own)} samples cannot be cut into {count} shards, {shards_per_user} for each of {users} users; "
            "take fewer users or a smaller shards_per_user."
        )
    order = _by_label(own, generator)
    owners = generator.permutation(np.repeat(np.arange(users, dtype=np.int64), shards_per_user))
    assignment = np.empty(len(own), dtype=np.int64)
    assignment[order] = np.repeat(owners, np.diff(np.arange(count + 1) * len(own) // count))
    return assignment


def user_names(users: int) -> tuple[str, ...]:
    """Name made-up users."""
    digits = max(4, len(str(users - 1)))
    return tuple(f"user-{user:0{digits}}" for user in range(users))


def _is_wanted(what: str, value: object, by: Rule, rule: Rule) -> bool:
    """Whether the rule uses this parameter; one that is missing or out of place is refused."""
    if rule == by and value is None:
        raise TurboSVMError(f"Partition '{rule}' needs {what}.")
    if rule != by and value is not None:
        raise TurboSVMError(f"Partition '{rule}' has no {what}; that is for '{by}'.")
    return rule == by


def _refuse_too_few(samples: int, users: int, min_samples: int) -> None:
    if samples < users * min_samples:
        raise TurboSVMError(
            f"{samples} samples are not enough for {users} users with at least {min_samples} each; "
            "take fewer users or a smaller min_samples."
        )


def checked_labels(labels: npt.ArrayLike, what: str = "The label") -> Assignment:
    """Labels as int64 `[n]`; the first that is no whole number from 0 on is named."""
    given = np.asarray(labels)
    if given.ndim == 0 or len(given) == 0:
        raise TurboSVMError("There are no samples to give to users.")
    if given.ndim > 1 or not np.issubdtype(given.dtype, np.integer):
        for index, label in enumerate(given):
            as_whole(f"{what} of sample {index}", label.tolist() if hasattr(label, "tolist") else label, 0)
    whole = given.astype(np.int64, copy=False)
    if whole.min() < 0:
        first = int(np.argmax(whole < 0))
        as_whole(f"{what} of sample {first}", given[first].tolist(), 0)
    return whole


def _by_label(labels: Assignment, generator: np.random.Generator) -> Assignment:
    """The samples' indices, sorted by label, in random order within one."""
    shuffled = generator.permutation(len(labels))
    return shuffled[np.argsort(labels[shuffled], kind="stable")]


def _divide(count: int, shares: npt.NDArray[np.float64], generator: np.random.Generator) -> Assignment:
    """Turn shares into whole numbers that add up to `count`.

    The shares lie side by side on a line of length `count`, and a comb with teeth one apart, put down at random, says
    how many samples fall into each.
    """
    ends = np.floor(np.cumsum(shares) * count + generator.random()).astype(np.int64)
    ends[-1] = count  # which rounding may have missed
    return np.diff(np.minimum(ends, count), prepend=0)
