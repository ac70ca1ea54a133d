"""What can be chosen in a head step, and what the choices mean for a given round."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, get_args

from turbosvm.errors import TurboSVMError, unknown
from turbosvm.optimisers import Optimiser, OptimiserName
from turbosvm.randomness import numpy_generator
from turbosvm.svm.kernels import Kernel, KernelName
from turbosvm.svm.machine import stopping
from turbosvm.svm.solver import Scheme, Stopping
from turbosvm.values import as_flag, as_positive, as_whole

Schedule = Literal["decreasing", "increasing", "constant"]


@dataclass(frozen=True)
class HeadOptions:
    """The options of TurboSVM's head step; the defaults are the paper's.

    Args:
        selection: Average the support vectors only; False averages all clients' embeddings.
        spread_out: Spread the classes along the hyperplanes; False leaves the averages where they are.
        kernel: "linear", "poly", "rbf" or "sigmoid", with `degree`, `a` and `b`.
        scheme: "ovo" (a machine for each pair of classes) or "ovr" (each class against the rest).
        cost: The SVM's cost over the T rounds: "decreasing" from 1 to 1/T, "increasing" from 1/T to 1, "constant" 1, a
            number, or a list with a number for each round, whose last one stays.
        classes: How many classes the SVMs see in a round: a whole number, or a share below 1. The others take the plain
            mean. None: all.
        optimiser: "adam", "sgd", "amsgrad", "yogi" or "adagrad", with `learning_rate`, `beta1`, `beta2` and `eps`.
        steps: How many steps the optimiser takes along the gradient of the spread-out loss.
        tol: Largest violation of the SVM's optimality conditions that counts as solved.
        max_iter: Most iterations of the solver for a problem, ordinary ones take dozens; None: until it is solved.
    """

    selection: bool = True
    spread_out: bool = True
    kernel: KernelName = "linear"
    degree: int = 3
    a: float = 1.0
    b: float = 1.0
    scheme: Scheme = "ovo"
    cost: Schedule | float | tuple[float, ...] = "decreasing"
    classes: int | float | None = None
    optimiser: OptimiserName = "adam"
    learning_rate: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-5
    steps: int = 1
    tol: float = 1e-3
    max_iter: int | None = 100_000

    def __post_init__(self) -> None:
        keep = partial(object.__setattr__, self)
        if self.scheme not in get_args(Scheme):
            raise unknown("scheme", self.scheme, get_args(Scheme))
        keep("selection", as_flag("selection", self.selection))
        keep("spread_out", as_flag("spread_out", self.spread_out))
        keep("steps", as_whole("steps", self.steps, 1))
        keep("cost", _plain_cost(self.cost))
        keep("classes", _plain_classes(self.classes))
        parts = {  # each checks its own
            self.kernel_function: ("degree", "a", "b"),
            self.server_optimiser: ("learning_rate", "beta1", "beta2", "eps"),
            self.limits(1, 1): ("tol",),
        }
        for part, names in parts.items():
            for name in names:
                keep(name, getattr(part, name))

    @cached_property
    def kernel_function(self) -> Kernel:
        """The kernel with its coefficients."""
        return Kernel(self.kernel, self.degree, self.a, self.b)

    @cached_property
    def server_optimiser(self) -> Optimiser:
        """The optimiser with its coefficients."""
        return Optimiser(self.optimiser, self.learning_rate, self.beta1, self.beta2, self.eps)

    def limits(self, number: int, rounds: int) -> Stopping:
        """The SVM's cost, and when to stop, in round `number` (from 1) of `rounds`."""
        return stopping(cost_of_round(self.cost, number, rounds), self.tol, self.max_iter)

    def sampled(self, classes: int, number: int, seed: int) -> list[int]:
        """Which of `classes` classes the SVMs see in round `number`; a function of the seed and the round."""
        wanted = classes if self.classes is None else self.classes
        size = round(wanted * classes) if isinstance(wanted, float) else wanted
        size = min(max(size, 2), classes)
        if size == classes:
            return list(range(classes))
        return sorted(numpy_generator(seed, "classes", number).permutation(classes)[:size].tolist())


def _plain_cost(cost: Any) -> Any:
    """Check a schedule's name, a number, or a list of them, and make it plain."""
    if isinstance(cost, str):
        if cost not in get_args(Schedule):
            raise unknown("cost schedule", cost, get_args(Schedule))
        return cost
    if isinstance(cost, Sequence) and not isinstance(cost, bytes | bytearray | memoryview):
        if not len(cost):
            raise TurboSVMError("The SVM's cost is an empty list; it must have a number for each round.")
        return tuple(as_positive("The SVM's cost", one) for one in cost)
    return as_positive("The SVM's cost", cost)


def _plain_classes(classes: Any) -> int | float | None:
    """Check a number of classes, or a share of them, and make it plain."""
    if classes is None or (isinstance(classes, float) and 0 < classes <= 1):
        return None if classes is None else float(classes)
    try:
        return as_whole("classes", classes, 2)
    except TurboSVMError as error:
        raise TurboSVMError(f"{str(error)[:-1]}, or a share up to 1.0.") from error


def cost_of_round(cost: Schedule | float | Sequence[float], number: int, rounds: int) -> float:
    """The SVM's cost in round `number`, counted from 1. After the last round it stays as it was there."""
    if isinstance(cost, int | float):
        return float(cost)
    if not isinstance(cost, str):
        return float(cost[min(number, len(cost)) - 1])
    now = min(number, rounds)
    return {"decreasing": (rounds - now + 1) / rounds, "increasing": now / rounds, "constant": 1.0}[cost]
