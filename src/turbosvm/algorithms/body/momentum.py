"""FedAvgM's rule: the server treats the mean change of a round as a gradient and adds momentum to it.

    Delta   <- theta_G - sum_n |D_n| / |D_G| theta_n
    v       <- beta v + Delta
    theta_G <- theta_G - eta v

Hsu, Qi, Brown: Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification. 2019.
"""

from dataclasses import dataclass

from turbosvm.averaging import weighted_means
from turbosvm.grouping import zeros_like
from turbosvm.types import Cohort, Merged, Weights
from turbosvm.values import as_decay, as_positive


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
        object.__setattr__(self, "momentum", as_decay("Server momentum", self.momentum))
        object.__setattr__(self, "learning_rate", as_positive("Server learning_rate", self.learning_rate))

    def init(self, weights: Weights) -> Weights:
        """Return zero velocity."""
        return zeros_like(weights)

    def merge(self, weights: Weights, cohort: Cohort, state: Weights) -> Merged:
        """Return the weights moved along the new velocity."""
        means = weighted_means(cohort.parameters, cohort.samples, weights)
        velocity = {name: self.momentum * state[name] + (value - means[name]) for name, value in weights.items()}
        moved = {name: value - self.learning_rate * velocity[name] for name, value in weights.items()}
        return Merged(moved, velocity, {})
