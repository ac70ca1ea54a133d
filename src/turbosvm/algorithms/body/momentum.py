"""FedAvgM's rule: the server treats the mean change of a round as a gradient and adds momentum to it.

    Delta   <- theta_G - sum_n |D_n| / |D_G| theta_n
    v       <- beta v + Delta
    theta_G <- theta_G - eta v

Hsu, Qi, Brown: Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification. 2019.
"""

from dataclasses import dataclass
from math import inf

import torch

from turbosvm.averaging import weighted_mean
from turbosvm.errors import TurboSVMError
from turbosvm.types import Cohort, Merged, Weights


@dataclass(frozen=True)
class Momentum:
    """Server momentum; `momentum = 0` and `learning_rate = 1` is FedAvg.

    Args:
        momentum: beta, 0 <= beta < 1.
        learning_rate: eta of the server, > 0.
    """

    momentum: float = 0.9
    learning_rate: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise TurboSVMError(f"Server momentum is {self.momentum}; it must be at least 0 and less than 1.")
        if not 0 < self.learning_rate < inf:
            raise TurboSVMError(f"Server learning_rate is {self.learning_rate}; it must be greater than 0, and finite.")

    def init(self, weights: Weights) -> Weights:
        """Return zero velocity."""
        return {name: torch.zeros_like(value) for name, value in weights.items()}

    def merge(self, weights: Weights, cohort: Cohort, state: Weights) -> Merged:
        """Return the weights moved along the new velocity."""
        velocity = {
            name: self.momentum * state[name] + (value - weighted_mean(cohort.parameters[name], cohort.samples))
            for name, value in weights.items()
        }
        moved = {name: value - self.learning_rate * velocity[name] for name, value in weights.items()}
        return Merged(moved, velocity, {})
