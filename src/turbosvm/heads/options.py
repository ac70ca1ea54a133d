"""What can be chosen in a head step, and what the choices mean for a given round."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from turbosvm.errors import TurboSVMError, unknown
from turbosvm.optimisers import Optimiser, OptimiserName
from turbosvm.randomness import numpy_generator
from turbosvm.svm.kernels import Kernel, KernelName
from turbosvm.svm.machine import stopping
from turbosvm.svm.solver import Scheme, Stopping

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
        max_iter: Most iterations of the solver for a problem; None goes on until it is solved.
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
    max_iter: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.cost, str | int | float):
            object.__setattr__(self, "cost", tuple(self.cost))  # also a list, as people write it
        if self.scheme not in get_args(Scheme):
            raise unknown("scheme", self.scheme, get_args(Scheme))
        if isinstance(self.cost, str) and self.cost not in get_args(Schedule):
            raise unknown("cost schedule", self.cost, get_args(Schedule))
        if self.cost == ():
            raise TurboSVMError("The SVM's cost is an empty list; it must have a number for each round.")
        for cost in (self.cost,) if isinstance(self.cost, int | float) else self.cost:
            if not isinstance(cost, str):
                stopping(cost, self.tol, self.max_iter)
        ok = self.classes is None or (self.classes >= 2 if isinstance(self.classes, int) else 0 < self.classes <= 1)
        if not ok or isinstance(self.classes, bool):
            raise TurboSVMError(
                f"classes is {self.classes}; it must be a whole number from 2 on, or a share up to 1.0."
            )
        if isinstance(self.steps, bool) or not (isinstance(self.steps, int) and self.steps >= 1):
            raise TurboSVMError(f"steps is {self.steps}; it must be a whole number from 1 on.")
        _ = self.kernel_function, self.server_optimiser, self.limits(1, 1)  # each checks its own part

    @property
    def kernel_function(self) -> Kernel:
        """The kernel with its coefficients."""
        return Kernel(self.kernel, self.degree, self.a, self.b)

    @property
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


def cost_of_round(cost: Schedule | float | Sequence[float], number: int, rounds: int) -> float:
    """The SVM's cost in round `number`, counted from 1. After the last round it stays as it was there."""
    if isinstance(cost, int | float):
        return float(cost)
    if not isinstance(cost, str):
        return float(cost[min(number, len(cost)) - 1])
    now = min(number, rounds)
    return {"decreasing": (rounds - now + 1) / rounds, "increasing": now / rounds, "constant": 1.0}[cost]
