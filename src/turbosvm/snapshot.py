"""Where a run stands as named parts of named tensors, and back: what the files of a checkpoint hold.

What a client keeps is a part of its own, since few of them change in a round.
"""

from collections.abc import Mapping

import torch

from turbosvm.clients.memory import ClientMemory
from turbosvm.errors import TurboSVMError
from turbosvm.grouping import grouped, ungrouped
from turbosvm.simulation import Standing
from turbosvm.types import ModelState, ServerState, Weights

_SHARED = "shared."


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


def unpack(run: Weights, clients: Mapping[int, Weights], memory: ClientMemory, device: torch.device) -> Standing:
    """Return the standing that was packed; the clients' part of it is put into a memory."""
    groups = {
        group: {name: value.to(device) for name, value in weights.items()} for group, weights in ungrouped(run).items()
    }
    if "counts" not in groups or "parameters" not in groups:
        raise TurboSVMError("These tensors are not a snapshot of a run: its counts or its parameters are missing.")
    shared = {group.removeprefix(_SHARED): weights for group, weights in groups.items() if group.startswith(_SHARED)}
    counts = groups["counts"]
    return Standing(
        int(counts["round"]),
        int(counts["failed_rounds"]),
        ModelState(groups["parameters"], groups.get("buffers", {})),
        ServerState(groups.get("body", {}), groups.get("head", {}), shared),
        memory.keeping({client: ungrouped(weights) for client, weights in clients.items()}),
    )
