"""What comes back from the clients of a round: good replies are stacked into a cohort, bad ones are told of.

A reply is bad if the client has no samples, failed while training, did not answer in time, or sent numbers of another
shape or that are not finite. No number is ever mended in silence: where one asks for that, it is told of as well.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from turbosvm.blocks import nbytes, pieces_of, same_layout, stacked
from turbosvm.types import Cohort, ModelState, Weights

OnBadClient = Literal["skip", "abort", "replace"]
"""Leave it out; end the run; or put SMALL where a number is not finite, as the paper's published code does."""

SMALL = 1e-5
FEW = 4
"""Norms that are computed one by one: of a few large tensors that takes fewer operations than all at once."""


@dataclass(frozen=True)
class Reply:
    """One client's answer."""

    client: int
    samples: int
    model: ModelState
    loss: Tensor
    sent: dict[str, Weights] = field(default_factory=dict)
    kept: dict[str, Weights] | None = field(default_factory=dict)
    """What the client keeps for its next time; None leaves what it kept before."""

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


def gather(
    replies: Sequence[Reply | Failure], start: ModelState, on_bad_client: OnBadClient, sound: bool = False
) -> Gathered:
    """Tell the good replies from the bad, given the model that was sent out; `sound` if all are known to be finite."""
    good: list[Reply] = []
    failures: list[Failure] = []
    for reply in replies:
        if isinstance(reply, Failure):
            failures.append(reply)
        elif why := _misfit(reply, start):
            failures.append(Failure(reply.client, why))
        elif not sound and (name := _not_finite(reply, start)):
            mended = on_bad_client == "replace"
            failures.append(
                Failure(reply.client, f"'{name}' is not finite{f'; replaced by {SMALL}' if mended else ''}")
            )
            good += [_mended(reply, start)] if mended else []
        else:
            good.append(reply)
    return Gathered(good, failures)


def stack(replies: Sequence[Reply]) -> Cohort:
    """Make a cohort of replies."""
    return Cohort(
        ids=tuple(reply.client for reply in replies),
        samples=torch.tensor([reply.samples for reply in replies]),
        parameters=stacked([reply.model.parameters for reply in replies]),
        buffers=stacked([reply.model.buffers for reply in replies]),
        train_loss=torch.stack([reply.loss for reply in replies]),
        sent={part: stacked([reply.sent[part] for reply in replies]) for part in replies[0].sent},
    )


def _misfit(reply: Reply, start: ModelState) -> str | None:
    """What of a reply does not fit the model that was sent out."""
    if reply.samples < 1:
        return "it has no samples"
    for kind, sent, asked in (
        ("parameter", reply.model.parameters, start.parameters),
        ("buffer", reply.model.buffers, start.buffers),
    ):
        for name, value in () if same_layout([sent, asked]) else asked.items():
            if name not in sent:
                return f"{kind} '{name}' is missing"
            if sent[name].shape != value.shape:
                return f"{kind} '{name}' has shape {list(sent[name].shape)}, not {list(value.shape)}"
    return None


def _not_finite(reply: Reply, start: ModelState) -> str | None:
    """The name of a tensor of the reply that is not finite."""
    return (
        first_not_finite(reply.model.parameters, start.parameters)
        or first_not_finite(reply.model.buffers, start.buffers)
        or next(filter(None, (first_not_finite(sent, {}) for sent in reply.sent.values())), None)
    )


def numbers_of(replies: Iterable[Reply | Failure]) -> list[Weights]:
    """All that the replies carry to the server."""
    good = [reply for reply in replies if isinstance(reply, Reply)]
    return [group for reply in good for group in (reply.model.parameters, reply.model.buffers, *reply.sent.values())]


def look_for_infinities(groups: Sequence[Weights]) -> Callable[[], bool]:
    """Start looking whether all numbers are finite; the answer is there when it is asked for.

    It is no, too, where they are so large that their squares are not finite.
    """
    devices: dict[torch.device, list[Tensor]] = {}
    for value in pieces_of(groups):
        if _can_be_infinite(value) and value.numel():
            devices.setdefault(value.device, []).append(torch.view_as_real(value) if value.is_complex() else value)
    answers = [torch.stack(_norms(group)).isfinite().all() for group in devices.values()]
    return lambda: all(answers)


def _norms(values: list[Tensor]) -> list[Tensor]:
    if len(values) <= FEW:
        return [torch.linalg.vector_norm(value) for value in values]
    return list(torch._foreach_norm(values))


def first_not_finite(weights: Weights, before: Weights) -> str | None:
    """The first tensor with a number that is not finite; what was so before, such as a mask's infinities, may stay."""
    names = [name for name, value in weights.items() if _can_be_infinite(value)]
    if not names:
        return None
    device = weights[names[0]].device  # counters of steps may be on the CPU, whatever the rest is on
    sound = torch.stack([(~_faulty(weights[name], before.get(name))).all().to(device) for name in names])
    return None if bool(sound.all()) else names[sound.tolist().index(False)]


def _can_be_infinite(value: Tensor) -> bool:
    return value.is_floating_point() or value.is_complex()


def _faulty(value: Tensor, before: Tensor | None) -> Tensor:
    faulty = ~value.isfinite()
    return faulty if before is None else faulty & (value != before)


def _mended(reply: Reply, start: ModelState) -> Reply:
    """Put a small number in the place of each that is not finite; what the client kept before stays as it was."""

    def mend(weights: Weights, before: Weights) -> Weights:
        return {
            name: torch.where(_faulty(value, before.get(name)), SMALL, value) if _can_be_infinite(value) else value
            for name, value in weights.items()
        }

    model = ModelState(mend(reply.model.parameters, start.parameters), mend(reply.model.buffers, start.buffers))
    return replace(reply, model=model, sent={part: mend(sent, {}) for part, sent in reply.sent.items()}, kept=None)
