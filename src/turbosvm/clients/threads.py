"""Local training on the CPU, several clients at a time: one a core, each at one thread within its operations.

Operations on a client's small batches gain little from a second thread; clients do. (Where there are more cores than
clients, a client has several.) The operations, and their order within a client, are those of `sequential`.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from queue import SimpleQueue

import torch

from turbosvm.algorithms.rules import Algorithm
from turbosvm.clients.local import Call, absent, attempt, room_for, train_client
from turbosvm.clients.memory import ClientMemory
from turbosvm.clients.replies import Failure, Reply
from turbosvm.clients.training import LocalTraining, batches
from turbosvm.clients.workbench import Workbench
from turbosvm.data.federated import FederatedData
from turbosvm.types import ModelState, Moment
from turbosvm.workers import workers

CPU = torch.device("cpu")


class Threads:
    """Trains the clients of each round, as many at a time as there are benches."""

    def __init__(
        self, benches: Sequence[Workbench], data: FederatedData, algorithm: Algorithm, training: LocalTraining
    ) -> None:
        self._count, self._data, self._algorithm, self._training = len(benches), data, algorithm, training
        self._layouts = benches[0].layouts()
        self._free: SimpleQueue[Workbench] = SimpleQueue()
        for bench in benches:
            self._free.put(bench)

    def train(self, call: Call, ids: Sequence[int], memory: ClientMemory) -> list[Reply | Failure]:
        """Train each client from the same start; the replies come in the clients' order."""

        room = room_for(ids, self._layouts, CPU)

        def one(client: int) -> Reply | Failure:
            return absent(client, self._data, self._training, call.moment) or attempt(
                client, lambda: self._train(client, call, memory, room[client])
            )

        long_first = sorted(ids, key=lambda client: -int(self._data.counts[client]))  # so that none ends alone
        with workers(self._count) as pool:
            futures: dict[int, Future[Reply | Failure]] = {client: pool.submit(one, client) for client in long_first}
            return [futures[client].result() for client in ids]

    def expect(self, moment: Moment, ids: Sequence[int]) -> None:
        """Nothing can be done before a round begins: the cores are at work already."""

    def _train(self, client: int, call: Call, memory: ClientMemory, room: ModelState) -> Reply:
        moment, training = call.moment, self._training
        samples = self._data.user_tensors(client, CPU)
        order = batches(len(samples[1]), training, moment.seed, moment.round, client)
        bench = self._free.get()
        try:
            kept = memory.recall(client, CPU)
            return train_client(bench, call, client, samples, order, self._algorithm, training, kept, room)
        finally:
            self._free.put(bench)
