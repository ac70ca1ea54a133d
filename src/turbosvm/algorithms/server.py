"""The server's half of a round: a cohort in, a new global model out.

The body rule merges the body (and the head, where the algorithm has no head rule), the head rule merges the head, and
buffers are averaged whatever the algorithm.
"""

from typing import NamedTuple

from turbosvm.algorithms.rules import Algorithm
from turbosvm.averaging import merge_buffers
from turbosvm.models.contract import Head
from turbosvm.types import Cohort, Diagnostics, ModelState, Moment, ServerState, Weights


class ServerStep(NamedTuple):
    """What the server has after a round."""

    model: ModelState
    state: ServerState
    diagnostics: Diagnostics


def init_server(algorithm: Algorithm, model: ModelState, head: Head) -> ServerState:
    """Return the server's state before the first round."""
    body = algorithm.body.init(_body(algorithm, model.parameters, head))
    if algorithm.head is None:
        return ServerState(body, {})
    return ServerState(body, algorithm.head.init(head.embeddings(model.parameters)))


def merge(
    algorithm: Algorithm, model: ModelState, cohort: Cohort, state: ServerState, head: Head, moment: Moment
) -> ServerStep:
    """Merge a cohort into the global model."""
    body = algorithm.body.merge(_body(algorithm, model.parameters, head), cohort, state.body)
    parameters, head_state, diagnostics = dict(body.weights), state.head, dict(body.diagnostics)
    if algorithm.head is not None:
        own, clients = head.embeddings(model.parameters), head.embeddings(cohort.parameters)
        merged = algorithm.head.merge(own, clients, cohort.samples, state.head, moment)
        parameters |= head.parameters(merged.embeddings)
        head_state, diagnostics = merged.state, diagnostics | dict(merged.diagnostics)
    buffers = merge_buffers(cohort.buffers, cohort.samples)
    return ServerStep(ModelState(parameters, buffers), ServerState(body.state, head_state), diagnostics)


def _body(algorithm: Algorithm, parameters: Weights, head: Head) -> Weights:
    """The parameters that the body rule merges."""
    own = () if algorithm.head is None else head.names
    return {name: value for name, value in parameters.items() if name not in own}
