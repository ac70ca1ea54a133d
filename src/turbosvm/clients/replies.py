"""What comes back from the clients of a round: good replies are stacked into a cohort, bad ones are told of.

A reply is bad if the client has no samples, failed while training, did not answer in time, or sent numbers of another
shape or that are not finite. No number is ever mended in silence.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from turbosvm.types import Cohort, ModelState, Weights, nbytes

OnBadClient = Literal["skip", "abort", "replace"]
"""Leave it out; end the run; or put a small number in the place of each that is not finite, as the published code."""

SMALL = 1e-5


@dataclass(frozen=True)
class Reply:
    """One client's answer."""

    client: int
    samples: int
    model: ModelState
    loss: Tensor
    sent: dict[str, Weights] = field(default_factory=dict)
    kept: dict[str, Weights] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes that it took to send it."""
        return self.model.nbytes + nbytes(*self.sent.values())


class Failure(NamedTuple):
    """A client that gave no usable answer, and why."""

    client: int
    why: str


class Gathered(NamedTuple):
    """The good replies and the bad."""

    good: list[Reply]
    failures: list[Failure]


def gather(replies: Iterable[Reply | Failure], start: ModelState, on_bad_client: OnBadClient) -> Gathered:
    """Tell the good replies from the bad, given the model that was sent out."""
    good, failures = [], []
    for reply in replies:
        if isinstance(reply, Reply) and on_bad_client == "replace":
            reply = _replaced(reply)
        failure = reply if isinstance(reply, Failure) else _fault(reply, start)
        if failure is None:
            good.append(reply)
        else:
            failures.append(failure)
    return Gathered(good, failures)  # type: ignore[arg-type]


def stack(replies: Sequence[Reply]) -> Cohort:
    """Make a cohort of replies."""
    return Cohort(
        ids=tuple(reply.client for reply in replies),
        samples=torch.tensor([reply.samples for reply in replies]),
        parameters=_stacked([reply.model.parameters for reply in replies]),
        buffers=_stacked([reply.model.buffers for reply in replies]),
        train_loss=torch.stack([reply.loss for reply in replies]),
        sent={part: _stacked([reply.sent[part] for reply in replies]) for part in replies[0].sent},
    )


def _stacked(all_weights: Sequence[Weights]) -> Weights:
    return {name: torch.stack([weights[name] for weights in all_weights]) for name in all_weights[0]}


def _fault(reply: Reply, start: ModelState) -> Failure | None:
    if reply.samples < 1:
        return Failure(reply.client, "it has no samples")
    for kind, sent, asked in (
        ("parameter", reply.model.parameters, start.parameters),
        ("buffer", reply.model.buffers, start.buffers),
    ):
        for name, value in asked.items():
            if name not in sent:
                return Failure(reply.client, f"{kind} '{name}' is missing")
            if sent[name].shape != value.shape:
                shapes = f"{list(sent[name].shape)}, not {list(value.shape)}"
                return Failure(reply.client, f"{kind} '{name}' has shape {shapes}")
    groups = (reply.model.parameters, reply.model.buffers, *reply.sent.values())
    tensors = [(name, value) for group in groups for name, value in group.items() if value.is_floating_point()]
    changed = [(name, value, start.buffers.get(name)) for name, value in tensors]
    flags = torch.stack([_is_sound(value, before) for _, value, before in changed])
    if bool(flags.all()):
        return None
    first = next(name for (name, _), sound in zip(tensors, flags.tolist(), strict=True) if not sound)
    return Failure(reply.client, f"'{first}' is not finite")


def _is_sound(value: Tensor, before: Tensor | None) -> Tensor:
    """Whether all numbers are finite; a buffer may hold infinities that it held before, such as a mask's."""
    finite = value.isfinite()
    return (finite if before is None else finite | (value == before)).all()


def _replaced(reply: Reply) -> Reply:
    """Put a small number in the place of each parameter or buffer that is not finite."""
    parameters, buffers = (
        {
            name: value.nan_to_num(SMALL, SMALL, SMALL) if value.is_floating_point() else value
            for name, value in weights.items()
        }
        for weights in (reply.model.parameters, reply.model.buffers)
    )
    return replace(reply, model=ModelState(parameters, buffers))
