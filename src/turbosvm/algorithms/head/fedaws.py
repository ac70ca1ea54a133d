"""FedAwS's head rule: average the class embeddings, then push apart those that are too close.

    reg(W)  = sum over k < k' of max(0, nu - ||u_k - u_k'||)^2     with u_k = w_k / ||w_k||
    W <- optimiser(W, gradient of reg)

The distance between directions is a function of the cosine between them, sqrt(2 - 2 cos); at nu = 2 all pairs count, at
nu = sqrt(2) only those at an acute angle. The server's optimiser is Adam, its moments kept from
round to round, as in the TurboSVM-FL paper's benchmark; FedAwS's own paper takes a plain step ("sgd").

Yu, Rawat, Menon, Kumar: Federated Learning with Only Positive Labels. ICML 2020.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from turbosvm.algorithms.rules import MergedHead
from turbosvm.averaging import weighted_mean
from turbosvm.optimisers import Optimiser, OptimiserName
from turbosvm.types import Moment, Weights
from turbosvm.values import as_positive


@dataclass(frozen=True)
class FedAwS:
    """Averaging with spread-out.

    Args:
        margin: nu, the distance that two directions should have, > 0.
        optimiser: "adam", "sgd", "amsgrad", "yogi" or "adagrad", with `learning_rate`, `beta1`, `beta2` and `eps`.
    """

    margin: float = 2.0
    optimiser: OptimiserName = "adam"
    learning_rate: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-5

    def __post_init__(self) -> None:
        object.__setattr__(self, "margin", as_positive("FedAwS's margin", self.margin))
        for name in ("learning_rate", "beta1", "beta2", "eps"):
            object.__setattr__(self, name, getattr(self._rule, name))

    @property
    def _rule(self) -> Optimiser:
        return Optimiser(self.optimiser, self.learning_rate, self.beta1, self.beta2, self.eps)

    def init(self, embeddings: Tensor) -> Weights:
        """Return the optimiser's moments before the first step."""
        return self._rule.init(embeddings)

    def merge(self, embeddings: Tensor, clients: Tensor, samples: Tensor, state: Weights, moment: Moment) -> MergedHead:  # noqa: ARG002
        """Return the clients' mean embeddings, spread out by one step."""
        mean = weighted_mean(clients, samples)
        gradient, before = torch.func.grad_and_value(self.spread_loss)(mean)
        step = self._rule.step(mean, gradient, dict(state))
        told = {"spread_loss_before": float(before), "spread_loss_after": float(self.spread_loss(step.weights))}
        return MergedHead(step.weights, step.moments, told)

    def spread_loss(self, embeddings: Tensor) -> Tensor:
        """The penalty on classes whose directions are closer than the margin, in float64: small angles cancel."""
        directions = functional.normalize(embeddings.double(), dim=1)
        first, second = torch.triu_indices(len(embeddings), len(embeddings), offset=1, device=embeddings.device)
        squared = (2 - 2 * directions @ directions.T)[first, second]
        distance = squared.clamp(min=1e-15).sqrt()
        return (self.margin - distance).clamp(min=0).square().sum()
