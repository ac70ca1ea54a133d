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

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import IterableDataset, TensorDataset

from turbosvm.data.federated import Array, FederatedData
from turbosvm.errors import TurboSVMError, in_one_line, unknown
from turbosvm.randomness import lend_to_global, numpy_generator
from turbosvm.values import as_positive, as_whole

Rule = Literal["iid", "dirichlet", "shards"]
Assignment = npt.NDArray[np.int64]
Progress = Callable[[int, int], None]

DRAWS = 1000  # of Dirichlet shares, until every user has enough
EQUAL_SHARES = 1e12  # beyond this alpha, shares are equal as far as anybody can count, but drawing them overflows
MOST_CLASSES = 1_000_000  # that are believed because of a label alone
BLOCK = 2**22  # bytes that are moved at a time


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
        own = _checked(labels)
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
    return generator.permutation(np.arange(len(_checked(labels)), dtype=np.int64) % as_whole("users", users, 1))


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
    own = _checked(labels)
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
    own = _checked(labels)
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


def _checked(labels: npt.ArrayLike, what: str = "The label") -> Assignment:
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
    return inputs, _checked(_as_array(labels, f"{where}: the label of sample 0"), f"{where}: the label")


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
            return tuple(map(str, own))
        if needed > MOST_CLASSES:
            raise TurboSVMError(
                f"{where}: the label of sample {last} is {needed - 1}; if there are that many classes, say how many."
            )
        classes = needed
    if isinstance(classes, str):
        raise TurboSVMError(f"{where}: classes is '{classes}'; it must be a list of names, or their number.")
    names = tuple(map(str, classes if isinstance(classes, Iterable) else range(as_whole("classes", classes, 1))))
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
