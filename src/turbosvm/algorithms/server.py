"""The server's half of a round: a cohort in, a new global model out.

The body rule merges the body (and the head, where the algorithm has no head rule), the head rule merges the head, the
clients' rules merge what was sent beside the weights, and buffers are averaged whatever the algorithm. Parameters that
are frozen stay what they are, whatever the rules.
"""

from collections.abc import Collection
from typing import NamedTuple

from turbosvm.algorithms.rules import Algorithm, Compiled
from turbosvm.averaging import weighted_means
from turbosvm.blocks import as_laid_out, chosen, completed, in_order
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
    own = {} if algorithm.head is None else algorithm.head.init(head.embeddings(model.parameters))
    return ServerState(body, own, {part: rule.share(model, head) for part, rule in algorithm.on_client().items()})


def warm_up(algorithm: Algorithm, model: ModelState, head: Head, clients: int) -> bool:
    """Have what is compiled ready before so many clients are merged; False where nothing is."""
    rule: object = algorithm.head
    if not isinstance(rule, Compiled):
        return False
    rule.warm_up(head.embeddings(model.parameters), clients)
    return True


def merge(
    algorithm: Algorithm,
    model: ModelState,
    cohort: Cohort,
    state: ServerState,
    head: Head,
    moment: Moment,
    population: int,
    frozen: Collection[str] = (),
) -> ServerStep:
    """Merge a cohort, drawn from a population of that many clients, into the global model.

    A head of which all is frozen is not shown to the head rule, which then has nothing to tell.
    """
    buffers = model.buffers if algorithm.frozen_buffers else weighted_means(cohort.buffers, cohort.samples)
    body = algorithm.body.merge(_body(algorithm, model.parameters, head), cohort, state.body)
    parameters, head_state, diagnostics = body.weights, state.head, dict(body.diagnostics)
    if algorithm.head is not None and not is_frozen(head, frozen):
        own, clients = head.embeddings(model.parameters), head.embeddings(cohort.parameters)
        merged = algorithm.head.merge(own, clients, cohort.samples, state.head, moment)
        parameters = completed(parameters, head.parameters(merged.embeddings))
        head_state, diagnostics = merged.state, diagnostics | dict(merged.diagnostics)
    if frozen:
        parameters = {**parameters, **chosen(model.parameters, frozen)}
    shared = {
        part: rule.merge(state.shared.get(part, {}), cohort.sent.get(part, {}), cohort, population)
        for part, rule in algorithm.on_client().items()
    }
    parameters = as_laid_out(in_order(parameters, model.parameters), cohort.parameters)
    return ServerStep(ModelState(parameters, buffers), ServerState(body.state, head_state, shared), diagnostics)


def is_frozen(head: Head, frozen: Collection[str]) -> bool:
    """Whether the whole head is."""
    return all(name in frozen for name in head.names)


def _body(algorithm: Algorithm, parameters: Weights, head: Head) -> Weights:
    """The parameters that the body rule merges."""
    own = () if algorithm.head is None else head.names
    return chosen(parameters, [name for name in parameters if name not in own])
