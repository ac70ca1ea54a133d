"""FAFED's local rule: adaptive steps along a gradient estimate whose variance shrinks.

    y <- y_before - eta m / (sqrt(v_G) + rho)             a local step; v_G stays the same for the whole round
    m <- g(y) + (1 - alpha) (m - g(y_before))             both gradients on the batch at hand
    v <- beta v + (1 - beta) g(y)^2

m corrects the old estimate by how the gradient of the same batch changed with the step. The server averages m and v
like the weights; the next round's clients begin with the averages, v_G being the averaged v.

Wu, Huang, Hu, Huang: Faster Adaptive Federated Learning. AAAI 2023.

Before the very first step there is neither m nor v: a client of the first round begins with m = g and v = v_G = g^2 of
its first batch. Learning rate and alpha are constants here, where the paper's analysis lets both fall slowly. Each
batch costs two gradients.
"""

from dataclasses import dataclass

import torch

from turbosvm.algorithms.rules import Assignment, ClientSide, Gradient, Left, Stepped, Trained
from turbosvm.averaging import weighted_means
from turbosvm.grouping import grouped, ungrouped, zeros_like
from turbosvm.models.contract import Head
from turbosvm.types import Cohort, ModelState, Weights
from turbosvm.values import as_decay, as_positive


@dataclass(frozen=True)
class Fafed(ClientSide):
    """Variance-reduced adaptive steps on the client, with moments that the server averages.

    Args:
        learning_rate: eta; the `client.learning_rate` of the run is for plain gradients and is not used.
        alpha: How much of the old estimate is forgotten in a step, 0 <= alpha < 1; near 1, m is the batch's gradient.
        beta: Decay of the second moment, 0 <= beta < 1.
        rho: Added to the denominator, > 0.
    """

    learning_rate: float = 0.01
    alpha: float = 0.5
    beta: float = 0.9
    rho: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "learning_rate", as_positive("FAFED's learning_rate", self.learning_rate))
        object.__setattr__(self, "rho", as_positive("FAFED's rho", self.rho))
        for name in ("alpha", "beta"):
            object.__setattr__(self, name, as_decay(f"FAFED's {name}", getattr(self, name)))

    def share(self, model: ModelState, head: Head) -> Weights:  # noqa: ARG002
        """Return m and v, zeros; a count of rounds says that they mean nothing yet."""
        moments = {moment: zeros_like(model.parameters) for moment in ("m", "v")}
        return {"rounds": torch.zeros(()), **grouped(moments)}

    def begin(self, client: Assignment) -> Weights:
        """Carry m and v as they were sent, and v_G, which is that v; nothing in the first round."""
        if client.shared["rounds"] == 0:
            return {}
        sent = ungrouped({name: value for name, value in client.shared.items() if name != "rounds"})
        return grouped({**sent, "divisor": sent["v"]})

    def step(self, parameters: Weights, gradient: Gradient, carried: Weights, client: Assignment) -> Stepped:  # noqa: ARG002
        """Take one step, then bring the estimate up to date on the batch."""
        if not carried:
            first = gradient(parameters)
            square = {name: g * g for name, g in first.items()}
            return Stepped(
                self._moved(parameters, first, square), grouped({"m": first, "v": square, "divisor": square})
            )
        before = ungrouped(carried)
        moved = self._moved(parameters, before["m"], before["divisor"])
        here, there = gradient(moved), gradient(parameters)
        m = {name: g + (1 - self.alpha) * (before["m"][name] - there[name]) for name, g in here.items()}
        v = {name: torch.lerp(before["v"][name], g * g, 1 - self.beta) for name, g in here.items()}
        return Stepped(moved, grouped({"m": m, "v": v, "divisor": before["divisor"]}))

    def _moved(self, parameters: Weights, m: Weights, divisor: Weights) -> Weights:
        return {
            name: value - self.learning_rate * m[name] / (divisor[name].sqrt() + self.rho)
            for name, value in parameters.items()
        }

    def finish(self, trained: Trained, carried: Weights, client: Assignment) -> Left:  # noqa: ARG002
        """Send m and v."""
        moments = ungrouped(carried)
        return Left(grouped({"m": moments["m"], "v": moments["v"]}), {})

    def merge(self, shared: Weights, sent: Weights, cohort: Cohort, population: int) -> Weights:  # noqa: ARG002
        """Return averaged m and v."""
        return {"rounds": shared["rounds"] + 1, **weighted_means(sent, cohort.samples)}
