"""Local training on CUDA, several clients at a time: each in a lane of its own, its steps replayed from CUDA graphs.

A training step of a small model keeps a GPU busy for less time than it takes Python to start its operations, and most
of its operations leave most of the GPU idle. So a lane has a copy of the model that stays in its place, and a stream; a
step is recorded once for each size of batch, and from then on replayed, which takes Python one call; and the GPU
interleaves the lanes. The operations, and their order within a client, are those of `sequential`.

All that a recorded step reads and writes stays at its address: the round's model, what the server shares, and the order
of all samples on the `Stage`; a client's own numbers in its lane; the samples in `Samples`.
"""

import gc
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor

from turbosvm.algorithms.rules import Algorithm
from turbosvm.blocks import Layout, copied, copy_into, laid_out
from turbosvm.clients.local import Assignments, Call, absent, advance, answer, assign, failure_of, room_for
from turbosvm.clients.memory import ClientMemory
from turbosvm.clients.replies import Failure, Reply
from turbosvm.clients.training import LocalTraining, batch_sizes, largest_batch, orders
from turbosvm.clients.workbench import Workbench
from turbosvm.data.federated import FederatedData
from turbosvm.data.samples import Samples
from turbosvm.errors import TurboSVMError, in_one_line
from turbosvm.grouping import grouped, ungrouped
from turbosvm.inputs import as_model_input
from turbosvm.models.trace import watched
from turbosvm.types import ModelState, Moment, Weights


class Key(NamedTuple):
    """What makes one recorded step differ from another."""

    size: int
    """The batch's."""
    first: bool
    """Whether it is a client's first, which begins with the round's model."""
    carried: tuple[str, ...]
    """Which numbers the client's rule carries from step to step."""
    kept: tuple[str, ...]
    """Which numbers the client has kept from its last round."""


@dataclass(frozen=True)
class Job:
    """One client's work: where on the stage the order of its samples begins, and the batches of each epoch."""

    client: int
    start: int
    count: int
    """How many samples it has."""
    epochs: int
    sizes: list[int]
    """Those of one epoch's batches, which may leave a sample out."""

    def steps(self) -> Iterator[tuple[int, int]]:
        """Where on the stage each batch begins, and its size."""
        for epoch in range(self.epochs):
            places = accumulate(self.sizes, initial=self.start + epoch * self.count)
            yield from zip(places, self.sizes, strict=False)


@dataclass(frozen=True)
class Programme:
    """What is known of a round before it begins: who does what, who does nothing, and all samples in their order."""

    moment: Moment
    ids: tuple[int, ...]
    jobs: list[Job]
    failures: dict[int, Failure]
    order: Tensor


Rooms = Callable[[], dict[int, ModelState]]
"""Gives room for each client's trained numbers: when it is first asked for, since the GPU should begin before."""


class UnrecordableError(Exception):
    """A step cannot be recorded in a CUDA graph; the text says where and why."""


class Lanes:
    """Trains the clients of each round, as many at a time as there are benches. All must be used on one thread."""

    def __init__(
        self,
        benches: Sequence[Workbench],
        data: FederatedData,
        samples: Samples,
        algorithm: Algorithm,
        training: LocalTraining,
        most_clients: int,
    ) -> None:
        self._data, self._samples, self._training = data, samples, training
        largest = int(data.counts[data.counts.argsort()[-most_clients:]].sum())
        self._layouts = benches[0].layouts()
        for bench in benches:
            bench.lay_out(*self._layouts)
        self._stage = Stage(benches[0].device, self._layouts, largest * training.epochs)
        self._expected: Programme | None = None
        met: set[Key] = set()
        self._lanes = [Lane(bench, self._stage, samples, algorithm, training, met) for bench in benches]

    def train(self, call: Call, ids: Sequence[int], memory: ClientMemory) -> list[Reply | Failure]:
        """Train each client from the same start; the replies come in the clients' order."""
        programme, self._expected = self._expected, None
        if programme is None or (programme.moment, programme.ids) != (call.moment, tuple(ids)):
            programme = self._programme(call.moment, ids)
        self._stage.prepare(call, programme.order)
        with self._streams() as main:

            @cache
            def rooms() -> dict[int, ModelState]:
                with torch.cuda.stream(main):  # all lanes have waited for those who had this memory before
                    return room_for([job.client for job in programme.jobs], self._layouts, self._stage.device)

            replies = programme.failures | self._run(programme.jobs, memory, rooms)
        return [replies[client] for client in ids]

    def expect(self, moment: Moment, ids: Sequence[int]) -> None:
        """Do what can be done for a round before it begins, while the GPU is still at work on the last."""
        if self._samples.resident:  # others would take the places of those that are being read
            self._expected = self._programme(moment, ids)

    def _programme(self, moment: Moment, ids: Sequence[int]) -> Programme:
        failures = {client: failure for client in ids if (failure := self._refused(client, moment))}
        present = [client for client in ids if client not in failures]
        starts = self._samples.bring(present)
        shuffled = [start + self._shuffled(client, moment) for client, start in zip(present, starts, strict=True)]
        places = [0, *accumulate(len(order) for order in shuffled)]
        jobs = [self._job(client, place) for client, place in zip(present, places, strict=False)]
        order = torch.cat([torch.empty(0, dtype=torch.int64), *shuffled]).pin_memory()
        return Programme(moment, tuple(ids), jobs, failures, order)

    @contextmanager
    def _streams(self) -> Iterator[torch.cuda.Stream]:
        """The lanes' streams begin when all work before is done, and all work after begins when theirs is done."""
        main = torch.cuda.current_stream(self._stage.device)
        ready = main.record_event()
        for lane in self._lanes:
            lane.stream.wait_event(ready)
        try:
            yield main
        finally:
            torch.cuda.set_stream(main)
            for lane in self._lanes:
                main.wait_stream(lane.stream)

    def _run(self, jobs: Sequence[Job], memory: ClientMemory, rooms: Rooms) -> dict[int, Reply | Failure]:
        """Give each lane that has nothing to do a client; start the next step in each lane, in turn."""
        waiting = sorted(jobs, key=lambda job: -len(job.sizes))  # long ones first, so that none ends alone
        replies: dict[int, Reply | Failure] = {}
        busy: dict[Lane, tuple[int, Generator[None, None, Reply]]] = {}
        while waiting or busy:
            for lane in self._lanes:
                if lane not in busy and waiting:
                    job = waiting.pop(lane.best(waiting))
                    busy[lane] = job.client, lane.train(job, memory, rooms)
                if lane in busy and (reply := _next(*busy[lane])):
                    replies[reply.client] = reply
                    del busy[lane]
        return replies

    def _refused(self, client: int, moment: Moment) -> Failure | None:
        try:
            self._data.labels_of(client)  # such as are no classes would stop the whole GPU
        except TurboSVMError as error:
            return Failure(client, str(error))
        return absent(client, self._data, self._training, moment)

    def _shuffled(self, client: int, moment: Moment) -> Tensor:
        """The order in which a client sees its samples."""
        count = int(self._data.counts[client])
        return torch.cat(list(orders(count, self._training, moment.seed, moment.round, client)))

    def _job(self, client: int, start: int) -> Job:
        count, training = int(self._data.counts[client]), self._training
        return Job(client, start, count, training.epochs, batch_sizes(count, training))


def _next(client: int, steps: Generator[None, None, Reply]) -> Reply | Failure | None:
    """Start a client's next step; return its reply after the last, or its failure."""
    try:
        next(steps)
    except StopIteration as end:
        reply: Reply = end.value
        return reply
    except (UnrecordableError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # the person's own model may raise anything
        return failure_of(client, error)
    return None


class Stage:
    """What is the same for all clients of a round, at fixed addresses."""

    def __init__(self, device: torch.device, layouts: tuple[Layout, Layout], capacity: int) -> None:
        self.device = device
        self._model = ModelState(*(laid_out(layout, device) for layout in layouts))
        self.order = torch.zeros(capacity, dtype=torch.int64, device=device)
        self.progress = torch.zeros((), dtype=torch.float64, device=device)
        self._shared = Slots()
        self._call: Call | None = None

    @property
    def call(self) -> Call:
        """The round's call, with the numbers that lie here in the place of those that came."""
        assert self._call is not None  # noqa: S101 (a round is prepared before its clients train)
        return self._call

    def prepare(self, call: Call, order: Tensor) -> None:
        """Put a round's numbers here."""
        copy_into(self._model.parameters, call.model.parameters)
        copy_into(self._model.buffers, call.model.buffers)
        self._shared.set(grouped(call.shared))
        self.progress.fill_(call.moment.round / call.moment.rounds)
        self._call = Call(self._model, ungrouped(self._shared.values), call.moment)
        self.order[: len(order)].copy_(order, non_blocking=True)


class Lane:
    """A model in its place and a stream: clients train here one after another."""

    def __init__(
        self,
        bench: Workbench,
        stage: Stage,
        samples: Samples,
        algorithm: Algorithm,
        training: LocalTraining,
        met: set[Key],
    ) -> None:
        self.stream = torch.cuda.Stream(bench.device)
        self._bench, self._stage, self._samples = bench, stage, samples
        self._algorithm, self._training = algorithm, training
        self._cursor = torch.zeros((), dtype=torch.int64, device=bench.device)
        self._total = torch.zeros((), dtype=torch.float64, device=bench.device)
        self._kept, self._carried = Slots(), Slots()
        self._span = torch.arange(largest_batch(training), device=bench.device)
        self._met = met
        """Steps that some lane has done already; what they compile and set up is there."""
        self._recorded: dict[Key, tuple[torch.cuda.CUDAGraph, tuple[str, ...]]] = {}
        self._pool: Any = None

    def best(self, jobs: Sequence[Job]) -> int:
        """The place of the first job whose last batch is of a size that is recorded here; else of the first."""
        recorded = {key.size for key in self._recorded}
        return next((place for place, job in enumerate(jobs) if job.sizes[-1] in recorded), 0)

    def train(self, job: Job, memory: ClientMemory, rooms: Rooms) -> Generator[None, None, Reply]:
        """Start a client's work on the GPU, a step at a time."""
        algorithm, bench = self._algorithm, self._bench
        torch.cuda.set_stream(self.stream)
        self._kept.set(grouped(memory.recall(job.client, bench.device)))
        assigned = self._assigned()
        self._carried.set(algorithm.local.begin(assigned["local"]))
        cursor = None
        for place, size in job.steps():
            torch.cuda.set_stream(self.stream)  # another lane's may have been set since
            if place != cursor:  # at first, and behind a sample that is left out
                self._cursor.fill_(place)
            self._step(size, first=cursor is None)
            cursor = place + size
            yield
        torch.cuda.set_stream(self.stream)
        seen, steps = job.epochs * sum(job.sizes), job.epochs * len(job.sizes)
        own = self._stage.order[job.start : job.start + job.count]
        samples, loss = lambda: self._samples.at(own), self._total / seen
        carried = copied(self._carried.values)  # the places are the next client's soon
        room = rooms()[job.client]
        return answer(bench, algorithm, assigned, carried, job.client, samples, job.count, loss, steps, room)

    def _assigned(self) -> Assignments:
        kept = ungrouped(self._kept.values)
        return assign(self._algorithm, self._stage.call, kept, self._training.learning_rate, self._stage.progress)

    def _step(self, size: int, first: bool = False) -> None:
        """Take the next step: from its recording, or, the first time that any lane takes such a step, by hand."""
        key = Key(size, first, self._carried.names, self._kept.names)
        if key not in self._recorded:
            if key not in self._met:
                self._compute(size, first)
                self._met.add(key)  # only now: a step that failed by hand is the client's failure, each time
                return
            self._recorded[key] = self._record(size, first)
        graph, self._carried.names = self._recorded[key]
        graph.replay()

    def _record(self, size: int, first: bool) -> tuple[torch.cuda.CUDAGraph, tuple[str, ...]]:
        graph, before = torch.cuda.CUDAGraph(), self._carried.names
        collecting = gc.isenabled()
        gc.disable()  # what it would free, such as an older run's graphs, must not be freed during a recording
        graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
        try:
            with watched(self._bench.module) as inside:
                self._compute(size, first)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            place = inside[-1] if inside else "a step"
            raise UnrecordableError(f"{place} cannot be recorded in a CUDA graph: {in_one_line(error)}") from error
        finally:
            after, self._carried.names = self._carried.names, before
            with suppress(RuntimeError), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a recording that failed says so once more when it ends
                graph.capture_end()
            if collecting:
                gc.enable()
        self._pool = graph.pool()
        return graph, after

    def _compute(self, size: int, first: bool) -> None:
        if first:
            self._bench.load(self._stage.call.model)
            self._total.zero_()
        places = self._stage.order[self._cursor + self._span[:size]]
        inputs, labels = self._samples.at(places)
        assigned, carried = self._assigned(), self._carried.values
        with warnings.catch_warnings():  # weights lie as the lane wants them, not as cuDNN does
            warnings.filterwarnings("ignore", "RNN module weights")
            carried, loss = advance(self._bench, self._algorithm, assigned, carried, as_model_input(inputs), labels)
        self._carried.set(carried)
        self._total += loss * size
        self._cursor += size


class Slots:
    """Named tensors that stay in their places; which of them are in use changes."""

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        self._places: dict[str, Tensor] = {}

    @property
    def values(self) -> Weights:
        """The tensors in use."""
        return {name: self._places[name] for name in self.names}

    def set(self, values: Weights) -> None:
        """Copy numbers in."""
        self.names = tuple(values)
        for name, value in values.items():
            if name not in self._places:
                self._places[name] = torch.empty_like(value, memory_format=torch.contiguous_format)
        elsewhere = {name: value for name, value in values.items() if value.data_ptr() != self._places[name].data_ptr()}
        copy_into({name: self._places[name] for name in elsewhere}, elsewhere)
