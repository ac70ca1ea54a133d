"""SCAFFOLD's local rule: each step is corrected by what the client's gradient usually lacks against everyone's.

    y   <- y - eta (g_n(y) - c_n + c)                     a local step
    c_n <- c_n - c + (x - y) / (K eta)                    after K steps ("option II")
    c   <- c + |S| / N  mean over the cohort S of the changes of c_n

x is the global model; c and c_n, the control variates, estimate the mean gradient of all clients and of client n. They
begin as zeros. c_n stays with client n, c is sent with the model, and the change of c_n is sent back with the weights.

Karimireddy, Kale, Mohri, Reddi, Stich, Suresh: SCAFFOLD: Stochastic Controlled Averaging for Federated Learning.
ICML 2020.

The paper's mean over clients is a plain one, so its row of the catalogue merges bodies with equal weights.
"""

from dataclasses import dataclass

from turbosvm.algorithms.local.sgd import descend
from turbosvm.algorithms.rules import Assignment, ClientSide, Gradient, Left, Stepped, Trained
from turbosvm.grouping import zeros_like
from turbosvm.models.contract import Head
from turbosvm.types import Cohort, ModelState, Weights


@dataclass(frozen=True)
class Scaffold(ClientSide):
    """Steps with control variates. It has no hyperparameters of its own."""

    def share(self, model: ModelState, head: Head) -> Weights:  # noqa: ARG002
        """Return c, zeros."""
        return zeros_like(model.parameters)

    def begin(self, client: Assignment) -> Weights:
        """Carry the correction c - c_n, which stays the same for the whole round."""
        if not client.memory:
            return client.shared
        return {name: everyone - client.memory[name] for name, everyone in client.shared.items()}

    def step(self, parameters: Weights, gradient: Gradient, carried: Weights, client: Assignment) -> Stepped:
        """Take one corrected step on one batch."""
        own = gradient(parameters)
        corrected = {name: value + carried[name] for name, value in own.items()}
        return Stepped(descend(parameters, corrected, client.learning_rate), carried)

    def finish(self, trained: Trained, carried: Weights, client: Assignment) -> Left:  # noqa: ARG002
        """Send the change of c_n, keep the new c_n."""
        scale = 1 / (trained.steps * client.learning_rate)
        change = {
            name: scale * (client.start.parameters[name] - value) - client.shared[name]
            for name, value in trained.model.parameters.items()
        }  # c_n's change is -c + (x - y) / (K eta), whatever c_n was
        kept = {name: client.memory[name] + value for name, value in change.items()} if client.memory else change
        return Left(change, kept)

    def merge(self, shared: Weights, sent: Weights, cohort: Cohort, population: int) -> Weights:
        """Return the new c."""
        share = len(cohort.ids) / population
        return {name: value + share * sent[name].mean(dim=0) for name, value in shared.items()}
