"""Where a run stands as one flat dictionary of tensors, and back: what a checkpoint file holds."""

import torch
from torch import Tensor

from turbosvm.clients.memory import ClientMemory
from turbosvm.errors import TurboSVMError
from turbosvm.grouping import grouped, ungrouped
from turbosvm.simulation import Standing
from turbosvm.types import ModelState, ServerState, Weights

_CLIENT, _SHARED = "client.", "shared."


def pack(standing: Standing) -> dict[str, Tensor]:
    """Return every number that a run needs to go on, by names that tell what they are."""
    counts = {"round": torch.tensor(standing.round), "failed_rounds": torch.tensor(standing.failed_rounds)}
    server, memory = standing.server, standing.memory
    cpu = torch.device("cpu")
    return grouped(
        {
            "counts": counts,
            "parameters": standing.model.parameters,
            "buffers": standing.model.buffers,
            "body": server.body,
            "head": server.head,
            **{f"{_SHARED}{part}": weights for part, weights in server.shared.items()},
            **{f"{_CLIENT}{client}": grouped(memory.recall(client, cpu)) for client in memory.clients},
        }
    )


def unpack(tensors: Weights, client_memory: int, device: torch.device) -> Standing:
    """Return the standing that was packed; `client_memory` is the budget in bytes for what clients keep."""
    packed = ungrouped(tensors)
    if "counts" not in packed or "parameters" not in packed:
        raise TurboSVMError("These tensors are not a snapshot of a run: its counts or its parameters are missing.")
    clients = {group for group in packed if group.startswith(_CLIENT)}
    kept = {int(group.removeprefix(_CLIENT)): ungrouped(packed[group]) for group in clients}
    groups = {
        group: {name: value.to(device) for name, value in weights.items()}
        for group, weights in packed.items()
        if group not in clients
    }
    shared = {group.removeprefix(_SHARED): weights for group, weights in groups.items() if group.startswith(_SHARED)}
    counts = groups["counts"]
    return Standing(
        int(counts["round"]),
        int(counts["failed_rounds"]),
        ModelState(groups["parameters"], groups.get("buffers", {})),
        ServerState(groups.get("body", {}), groups.get("head", {}), shared),
        ClientMemory(client_memory).keeping(kept),
    )
