"""FedProx's objective: cross-entropy, and a spring that holds the client near the global model.

    l(theta_n) + mu / 2 ||theta_n - theta_G||^2

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith: Federated Optimization in Heterogeneous Networks. MLSys 2020.

The TurboSVM-FL paper gives the coefficient 0.01 of a term without the 1/2; mu = 0.02 is the same objective.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from turbosvm.algorithms.objective.plain import Plain
from turbosvm.algorithms.rules import Assignment, Batch
from turbosvm.values import as_not_negative


@dataclass(frozen=True)
class Proximal(Plain):
    """Cross-entropy with a proximal term; `mu = 0` is the plain objective.

    Args:
        mu: Strength of the spring, at least 0.
    """

    mu: float = 0.02

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", as_not_negative("FedProx's mu", self.mu))

    def loss(self, batch: Batch, client: Assignment) -> Tensor:
        """Return the loss of one batch."""
        plain = super().loss(batch, client)
        if self.mu == 0:
            return plain
        start = client.start.parameters
        apart = torch.stack([(value - start[name]).square().sum() for name, value in batch.parameters.items()])
        return plain + self.mu / 2 * apart.sum()
