"""turbosvm's own rounds: everything but evaluation. Arguments: the workload, then algorithm, engine and precision."""

import sys
from time import perf_counter

import numpy as np
import torch
from workload import Workload, serve

from turbosvm.algorithms.catalogue import find_algorithm
from turbosvm.clients.training import LocalTraining
from turbosvm.data.federated import FederatedData
from turbosvm.data.split import Split
from turbosvm.experiment.runner import repeatable
from turbosvm.models.contract import find_head
from turbosvm.simulation import Federation, Plan, simulate

work = Workload.read(sys.argv[1])
algorithm, engine, precision = sys.argv[2:]


def federation() -> Federation:
    """The workload's data and model; the last user is held out, and evaluated on once in a million rounds."""
    with np.load(work.file) as stored:
        inputs, labels, offsets = stored["inputs"], stored["labels"], stored["offsets"]
    users = tuple(map(str, range(len(offsets) - 1)))
    names = tuple(map(str, range(work.classes)))
    data = FederatedData("bench", inputs, labels, offsets, users, names, tokens=work.model == "shakespeare")
    module = work.module()
    return Federation(data, Split(tuple(range(len(users) - 1)), (len(users) - 1,)), module, find_head(module))


training = LocalTraining(epochs=1, batch_size=work.batch_size, learning_rate=work.learning_rate)
plan = Plan(10**6, work.clients, training, evaluate_every=10**6, engine=engine, precision=precision)
running = simulate(federation(), find_algorithm(algorithm), plan)


def rounds(count: int) -> list[float]:
    """Run rounds one after another."""
    seconds = []
    for _ in range(count):
        start = perf_counter()
        finished = next(running)
        work.wait()
        seconds.append(perf_counter() - start)
        if finished.notes or finished.failures:
            raise SystemExit(f"{finished.notes} {finished.failures}")
    return seconds


with repeatable(torch.device(work.device), None):
    serve(rounds)
