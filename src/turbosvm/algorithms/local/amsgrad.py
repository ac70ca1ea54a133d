"""LocalAMSGrad's local rule: adaptive local steps, all clients dividing by the same, slowly growing, denominator.

    m <- beta1 m + (1 - beta1) g
    v <- beta2 v + (1 - beta2) g^2
    y <- y - eta m / sqrt(v')                             a local step
    v' <- max(v', mean of the clients' v, eps)            once a round, on the server

If each client had a v' of its own, the mean of their models would head for the minimum of no one's loss; that v' is
common, and changes between rounds only, is the point of the method.

Chen, Li, Li: Toward Communication Efficient Adaptive Gradient Method. FODS 2020.

There all clients take part in every round and keep m and v. Here few do: m and v are averaged like the weights and sent
with the next model. In the first round no v has been shared yet: a client's v begins as its first batch's g^2, and its
v' is the largest v so far.
"""

from dataclasses import dataclass

import torch

from turbosvm.algorithms.rules import Assignment, ClientSide, Gradient, Left, Stepped, Trained
from turbosvm.averaging import weighted_means
from turbosvm.grouping import grouped, ungrouped, zeros_like
from turbosvm.models.contract import Head
from turbosvm.types import Cohort, ModelState, Weights
from turbosvm.values import as_decay, as_positive

_SHARED, _OWN = "largest", "own largest"
"""v' as the server sent it, and a client's own while there is none."""


@dataclass(frozen=True)
class LocalAMSGrad(ClientSide):
    """AMSGrad steps on the client, with moments that the server averages.

    Args:
        learning_rate: eta; the `client.learning_rate` of the run is for plain gradients and is not used.
        beta1: Decay of the first moment, 0 <= beta1 < 1.
        beta2: Decay of the second moment, 0 <= beta2 < 1.
        eps: Smallest denominator squared, > 0.
    """

    learning_rate: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.99
    eps: float = 1e-6

    def __post_init__(self) -> None:
        object.__setattr__(self, "learning_rate", as_positive("LocalAMSGrad's learning_rate", self.learning_rate))
        object.__setattr__(self, "eps", as_positive("LocalAMSGrad's eps", self.eps))
        for name in ("beta1", "beta2"):
            object.__setattr__(self, name, as_decay(f"LocalAMSGrad's {name}", getattr(self, name)))

    def share(self, model: ModelState, head: Head) -> Weights:  # noqa: ARG002
        """Return m, v and v', zeros; a count of rounds says that they mean nothing yet."""
        moments = {moment: zeros_like(model.parameters) for moment in ("m", "v", "largest")}
        return {"rounds": torch.zeros(()), **grouped(moments)}

    def begin(self, client: Assignment) -> Weights:
        """Carry the moments as they were sent; in the first round m, which is zero, alone."""
        groups = ungrouped({name: value for name, value in client.shared.items() if name != "rounds"})
        return grouped(groups if client.shared["rounds"] > 0 else {"m": groups["m"]})

    def step(self, parameters: Weights, gradient: Gradient, carried: Weights, client: Assignment) -> Stepped:  # noqa: ARG002
        """Take one adaptive step on one batch."""
        gradients, before = gradient(parameters), ungrouped(carried)
        squares = {name: g * g for name, g in gradients.items()}
        m = {name: torch.lerp(before["m"][name], g, 1 - self.beta1) for name, g in gradients.items()}
        old_v = before.get("v", squares)
        v = {name: torch.lerp(old_v[name], square, 1 - self.beta2) for name, square in squares.items()}
        if _SHARED in before:
            largest = before[_SHARED]
        else:
            old = before.get(_OWN, v)
            largest = {name: torch.maximum(old[name], new).clamp(min=self.eps) for name, new in v.items()}
        moved = {
            name: value - self.learning_rate * m[name] / largest[name].sqrt() for name, value in parameters.items()
        }
        return Stepped(moved, grouped({"m": m, "v": v, _SHARED if _SHARED in before else _OWN: largest}))

    def finish(self, trained: Trained, carried: Weights, client: Assignment) -> Left:  # noqa: ARG002
        """Send m and v."""
        moments = ungrouped(carried)
        return Left(grouped({"m": moments["m"], "v": moments["v"]}), {})

    def merge(self, shared: Weights, sent: Weights, cohort: Cohort, population: int) -> Weights:  # noqa: ARG002
        """Return averaged m and v, and the grown v'."""
        moments = ungrouped(weighted_means(sent, cohort.samples))
        before = ungrouped(shared)["largest"]
        largest = {name: torch.maximum(before[name], v).clamp(min=self.eps) for name, v in moments["v"].items()}
        return {"rounds": shared["rounds"] + 1, **grouped({**moments, "largest": largest})}
