"""Local training, one client after another: the plain reference that every faster way must agree with."""

from collections.abc import Iterator, Sequence

from turbosvm.algorithms.rules import Algorithm
from turbosvm.clients.local import Call, absent, attempt, train_client
from turbosvm.clients.memory import ClientMemory
from turbosvm.clients.replies import Failure, Reply
from turbosvm.clients.training import LocalTraining, batches
from turbosvm.clients.workbench import Workbench
from turbosvm.data.federated import FederatedData
from turbosvm.randomness import lend_to_global


def train_clients(
    bench: Workbench,
    call: Call,
    data: FederatedData,
    ids: Sequence[int],
    algorithm: Algorithm,
    training: LocalTraining,
    memory: ClientMemory,
) -> Iterator[Reply | Failure]:
    """Train each client from the same start. Whatever goes wrong with one of them is its failure alone."""
    moment = call.moment
    for client in ids:

        def train(client: int = client) -> Reply:
            samples = data.user_tensors(client, bench.device)
            order = batches(len(samples[1]), training, moment.seed, moment.round, client)
            kept = memory.recall(client, bench.device)
            with lend_to_global(moment.seed, "layers", moment.round, client):
                return train_client(bench, call, client, samples, order, algorithm, training, kept)

        yield absent(client, data, training, moment) or attempt(client, train)
