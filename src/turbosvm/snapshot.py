"""Where a run stands as named parts of named tensors, and back: what the files of a checkpoint hold.

What a client keeps is a part of its own, since few of them change in a round.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from turbosvm.blocks import in_order
from turbosvm.clients.memory import ClientMemory
from turbosvm.grouping import grouped, ungrouped
from turbosvm.simulation import Standing
from turbosvm.types import ModelState, ServerState, Weights

_SHARED = "shared."


class MisfitError(ValueError):
    """Numbers that were written as they are, but for another model or another algorithm."""


def pack_run(standing: Standing) -> Weights:
    """Return every number that a run needs to go on, but for what clients keep, by names that tell what they are."""
    server = standing.server
    return grouped(
        {
            "counts": {
                "round": torch.tensor(standing.round),
                "failed_rounds": torch.tensor(standing.failed_rounds),
            },
            "parameters": standing.model.parameters,
            "buffers": standing.model.buffers,
            "body": server.body,
            "head": server.head,
            **{f"{_SHARED}{part}": weights for part, weights in server.shared.items()},
        }
    )


def pack_client(memory: ClientMemory, client: int) -> Weights:
    """Return what a client keeps."""
    return grouped(memory.recall(client, torch.device("cpu")))


def unpack(run: Weights, clients: Mapping[int, Weights], begun: Standing) -> Standing:
    """Return the standing that was packed, where a run that has `begun` so goes on from.

    Numbers come in the order that they have there, so that sums over them are the same to the last bit.
    """
    device = next(iter(begun.model.parameters.values())).device
    groups = {
        group: {name: value.to(device) for name, value in weights.items()} for group, weights in ungrouped(run).items()
    }
    if "counts" not in groups or "parameters" not in groups:
        raise ValueError("these tensors are not a snapshot of a run: its counts or its parameters are missing")
    first = begun.server
    shared = {part: _in_order(groups.get(f"{_SHARED}{part}", {}), own) for part, own in first.shared.items()}
    counts = groups["counts"]
    return Standing(
        _whole(counts["round"]),
        _whole(counts["failed_rounds"]),
        ModelState(
            _in_order(groups["parameters"], begun.model.parameters),
            _in_order(groups.get("buffers", {}), begun.model.buffers),
        ),
        ServerState(
            _in_order(groups.get("body", {}), first.body), _in_order(groups.get("head", {}), first.head), shared
        ),
        begun.memory.keeping({client: ungrouped(weights) for client, weights in clients.items()}),
    )


def refuse_misfits(standing: Standing, begun: Standing, number: int) -> None:
    """Refuse numbers that cannot be those of a run that has `begun` so, after that round.

    Raises:
        MisfitError: names, shapes or types differ.
        ValueError: it stands after another round.
    """
    if standing.round != number or not 0 <= standing.failed_rounds <= number:
        raise ValueError(f"it is of round {standing.round}, with {standing.failed_rounds} that failed")
    pairs = [
        ("parameters", standing.model.parameters, begun.model.parameters),
        ("buffers", standing.model.buffers, begun.model.buffers),
        ("the server's state of the body", standing.server.body, begun.server.body),
        ("the server's state of the head", standing.server.head, begun.server.head),
        *(
            (f"what is shared for {part}", standing.server.shared[part], own)
            for part, own in begun.server.shared.items()
        ),
    ]
    for what, found, expected in pairs:
        old, new = _forms(found), _forms(expected)
        if other := [name for name in {**new, **old} if old.get(name) != new.get(name)]:
            raise MisfitError(
                f"of {what}, '{other[0]}' is {new.get(other[0], 'gone')}, it was {old.get(other[0], 'not there')}"
            )


def _in_order(found: Weights, like: Weights) -> Weights:
    """The same in the order of others, where they have the same names."""
    return in_order(found, like) if set(found) == set(like) else found


def _whole(count: Tensor) -> int:
    if count.shape != () or count.dtype != torch.int64:
        raise ValueError("a count is not a whole number")
    return int(count)


def _forms(weights: Weights) -> dict[str, str]:
    return {name: f"{list(value.shape)} of {value.dtype}" for name, value in weights.items()}
