"""Flower's Simulation Runtime (the one behind `flwr run`) on Ray, with FedAvg; an actor a core, one thread each."""

import os
import sys
from itertools import pairwise
from time import perf_counter
from typing import Any

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch.nn import functional
from workload import Workload, serve

WORK = sys.argv[1]
client_app = ClientApp()
_here: dict[str, Any] = {}


@client_app.train()  # type: ignore[misc]
def train(message: Message, context: Context) -> Message:
    """One client's epoch; an actor keeps data and model between clients."""
    work = Workload.read(WORK)
    if not _here:
        _here.update(users=work.users(), model=work.module())
        torch.set_num_threads(1)
    model, (inputs, labels) = _here["model"], _here["users"][int(context.node_config["partition-id"])]
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    model.train()
    optimiser = torch.optim.SGD(model.parameters(), lr=work.learning_rate)
    for batch in torch.randperm(len(labels), device=work.device).split(work.batch_size):
        optimiser.zero_grad()
        functional.cross_entropy(model(work.as_input(inputs[batch])), labels[batch]).backward()
        optimiser.step()
    metrics = MetricRecord({"num-examples": len(labels)})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)


def rounds(count: int) -> list[float]:
    """Run a simulation of so many rounds."""
    work = Workload.read(WORK)
    users, ends = len(work.users()), []
    server_app = ServerApp()

    @server_app.main()  # type: ignore[misc]
    def serve_rounds(grid: Grid, context: Context) -> None:  # noqa: ARG001
        strategy = FedAvg(
            fraction_train=work.clients / users, fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=users
        )

        def note(*_: Any) -> None:
            ends.append(perf_counter())

        strategy.start(grid, ArrayRecord(work.module().state_dict()), num_rounds=count, evaluate_fn=note)

    cores = os.cpu_count() or 1
    resources = {"num_cpus": 1, "num_gpus": min(1.0, 1 / cores) if work.device == "cuda" else 0.0}
    run_simulation(server_app, client_app, users, backend_config={"client_resources": resources})
    return [end - start for start, end in pairwise(ends)]


serve(rounds)
