"""A data set in figures, beside the figures that others have printed for it.

Published figures: Table 1 of TurboSVM-FL (Wang et al., AAAI 2024), and LEAF's own (Caldas et al., arXiv 1812.01097, and
leaf.cmu.edu). LEAF's deviation is NumPy's `std`, the population's; so is ours.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from turbosvm.data.federated import Array, FederatedData

BLOCK = 2**22  # labels that are in memory at a time
UNKNOWN = "-"


@dataclass(frozen=True, eq=False)
class Summary:
    """How many users and samples, how many samples a user, and how many samples each of the K classes has.

    Users without samples count. A user on both sides of the data's own split is two.
    """

    users: int
    samples: int
    mean: float
    std: float
    smallest: int
    largest: int
    class_counts: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Figures:
    """What somebody has printed of a data set; None where they have not."""

    classes: int | None = None
    users: int | None = None
    samples: int | None = None
    mean: float | None = None
    std: float | None = None


@dataclass(frozen=True)
class Published:
    """What the paper and what LEAF say of a task's data."""

    paper: Figures
    leaf: Figures


@dataclass(frozen=True)
class Row:
    """One figure, as text: ours and theirs."""

    figure: str
    here: str
    paper: str
    leaf: str


PUBLISHED: dict[str, Published] = {
    "femnist": Published(
        paper=Figures(classes=62, users=3550, mean=226.8, std=88.9),
        leaf=Figures(classes=62, users=3550, samples=805_263, mean=226.83, std=88.94),
    ),
    "celeba": Published(
        paper=Figures(classes=2, users=9343, mean=21.4, std=7.6),
        leaf=Figures(classes=2, users=9343, samples=200_288, mean=21.44, std=7.63),
    ),
    "shakespeare": Published(
        paper=Figures(classes=80, users=1129, mean=3743.2, std=6212.3),
        leaf=Figures(classes=80, users=1129, samples=4_226_158, mean=3743.28, std=6212.26),
    ),
}


def summarise(data: FederatedData) -> Summary:
    """Count; labels are read a block at a time, inputs not at all."""
    counts = data.counts if len(data.users) else np.zeros(1, dtype=np.int64)
    return Summary(
        users=len(data.users),
        samples=len(data.labels),
        mean=float(counts.mean()),
        std=float(counts.std()),
        smallest=int(counts.min()),
        largest=int(counts.max()),
        class_counts=count_classes(data),
    )


def count_classes(data: FederatedData, block: int = BLOCK) -> npt.NDArray[np.int64]:
    """Count the samples of each class, in a block's memory however many they are."""
    counts = np.zeros(len(data.classes), dtype=np.int64)
    for labels in _blocks(data.labels, block):
        counts += np.bincount(labels, minlength=len(counts))
    return counts


def rows(summary: Summary, task: str | None = None) -> tuple[Row, ...]:
    """Lay the figures out one by one, beside those published for the task, if it is one of the known."""
    known = PUBLISHED.get(task or "", Published(Figures(), Figures()))

    def row(figure: str, here: str, name: str = "") -> Row:
        theirs = (getattr(source, name, None) for source in (known.paper, known.leaf))
        paper, leaf = (UNKNOWN if value is None else f"{value:,}" for value in theirs)
        return Row(figure, here, paper, leaf)

    return (
        row("classes", f"{len(summary.class_counts):,}", "classes"),
        row("users", f"{summary.users:,}", "users"),
        row("samples", f"{summary.samples:,}", "samples"),
        row("samples per user, mean", f"{summary.mean:,.2f}", "mean"),
        row("samples per user, std", f"{summary.std:,.2f}", "std"),
        row("samples per user, fewest", f"{summary.smallest:,}"),
        row("samples per user, most", f"{summary.largest:,}"),
    )


def _blocks(labels: Array, block: int) -> Iterable[Array]:
    return (np.asarray(labels[start : start + block]) for start in range(0, len(labels), block))
