"""The FedOpt family: the server treats the mean change of a round as a gradient for an adaptive optimiser.

    Delta   <- theta_G - sum_n |D_n| / |D_G| theta_n
    theta_G <- optimiser(theta_G, Delta)

with Adam (FedAdam), AMSGrad (FedAMS), Yogi (FedYogi) or Adagrad (FedAdagrad), as `turbosvm.optimisers` states them.

Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan: Adaptive Federated Optimization. ICLR 2021.
Wang, Lin, Chen: Communication-Efficient Adaptive Federated Learning. ICML 2022 (FedAMS).

Both papers leave out Adam's bias correction (`bias_correction = False`), and Reddi et al. begin with v = eps^2
(`initial`). FedAdam and FedAMS of the TurboSVM-FL paper are the optimisers as PyTorch has them, and so are these rows
of the catalogue, so that the paper's learning rates mean the same here. FedYogi and FedAdagrad, which it has no figures
for, are Reddi et al.'s.
"""

from dataclasses import dataclass, fields
from typing import Literal

from turbosvm.averaging import weighted_means
from turbosvm.grouping import grouped, ungrouped
from turbosvm.optimisers import Moments, Optimiser
from turbosvm.types import Cohort, Merged, Weights


@dataclass(frozen=True)
class Adaptive:
    """An adaptive optimiser on the mean change of the weights.

    Args:
        optimiser: "adam", "amsgrad", "yogi" or "adagrad".
        learning_rate: eta of the server, > 0.
        beta1: Decay of the first moment, 0 <= beta1 < 1.
        beta2: Decay of the second moment, 0 <= beta2 < 1.
        eps: Added to the denominator, > 0.
        bias_correction: Divide the moments by how much of them has been filled yet.
        initial: What the second moment begins with, at least 0.
    """

    optimiser: Literal["adam", "amsgrad", "yogi", "adagrad"] = "adam"
    learning_rate: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    bias_correction: bool = True
    initial: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self)[1:]:
            object.__setattr__(self, field.name, getattr(self._rule, field.name))

    @property
    def _rule(self) -> Optimiser:
        return Optimiser(
            self.optimiser,
            self.learning_rate,
            self.beta1,
            self.beta2,
            self.eps,
            self.bias_correction,
            self.initial,
        )

    def init(self, weights: Weights) -> Weights:
        """Return the moments before the first round, of each of the weights."""
        return grouped(_by_moment({name: self._rule.init(value) for name, value in weights.items()}))

    def merge(self, weights: Weights, cohort: Cohort, state: Weights) -> Merged:
        """Return the weights after one step of the optimiser."""
        moments, moved, after = ungrouped(state), {}, {}
        means = weighted_means(cohort.parameters, cohort.samples, weights)
        for name, value in weights.items():
            change = value - means[name]
            step = self._rule.step(value, change, {moment: tensors[name] for moment, tensors in moments.items()})
            moved[name], after[name] = step.weights, step.moments
        return Merged(moved, grouped(_by_moment(after)), {})


def _by_moment(by_name: dict[str, Moments]) -> dict[str, Weights]:
    """Turn `{name: {moment: tensor}}` inside out."""
    moments = next(iter(by_name.values()), {})
    return {moment: {name: tensors[moment] for name, tensors in by_name.items()} for moment in moments}
