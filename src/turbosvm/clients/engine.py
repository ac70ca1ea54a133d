"""Which way clients are trained: the one that was asked for, or the fastest that the machine and the model allow.

sequential  one after another, on any device: the readable reference
threads     on the CPU, one client a core
graphs      on CUDA, several clients at a time, their steps replayed from CUDA graphs
"""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, get_args

import numpy as np
import torch
from torch import Tensor, nn

from turbosvm.algorithms.rules import Algorithm
from turbosvm.allocator import keep_freed_memory
from turbosvm.clients.lanes import Lanes, UnrecordableError
from turbosvm.clients.local import Call
from turbosvm.clients.memory import ClientMemory
from turbosvm.clients.replies import Failure, Reply
from turbosvm.clients.sequential import train_clients
from turbosvm.clients.threads import Threads
from turbosvm.clients.training import LocalTraining
from turbosvm.clients.workbench import Workbench
from turbosvm.data.federated import FederatedData
from turbosvm.data.samples import Samples
from turbosvm.errors import TurboSVMError, in_one_line, unknown
from turbosvm.inputs import as_model_input
from turbosvm.layers.quicken import quicken, twin
from turbosvm.models.copies import hooked_part
from turbosvm.models.trace import layer_that_draws
from turbosvm.types import Moment

EngineName = Literal["auto", "sequential", "threads", "graphs"]

LANES = 8
"""Clients at a time on a GPU: eight are faster than four, two or one at FEMNIST's workload; more were not tried."""


def choose_engine(name: str, device: torch.device) -> EngineName:
    """Say what 'auto' means on a device, and refuse what the device cannot do."""
    if name not in get_args(EngineName):
        raise unknown("engine", name, get_args(EngineName))
    if name == "auto":
        return "graphs" if device.type == "cuda" else "threads"
    needed = {"graphs": "cuda", "threads": "cpu"}.get(name, device.type)
    if needed != device.type:
        what = {"cuda": "a CUDA device", "cpu": "the CPU"}
        raise TurboSVMError(
            f"Engine '{name}' needs {what[needed]}, and this run computes on {what[device.type]}; "
            f"allowed: auto, sequential, {'threads' if needed == 'cuda' else 'graphs'}."
        )
    return name  # type: ignore[return-value]


class Fast(Protocol):
    """A way to train several clients at a time."""

    def train(self, call: Call, ids: Sequence[int], memory: ClientMemory) -> list[Reply | Failure]:
        """Train each client from the same start; the replies come in the clients' order."""

    def expect(self, moment: Moment, ids: Sequence[int]) -> None:
        """Do what can be done for a round before it begins."""


class Engine:
    """Trains the clients of each round in the chosen way, and in the reference's where that proves impossible.

    Args:
        name: as `choose_engine` gave it.
        bench: the reference's own, at which `sequential` works.
        samples: the samples on the GPU, for 'graphs'.
        most_clients: C.
        say: called with a sentence for the person, when something turns out differently than asked for.
    """

    def __init__(
        self,
        name: EngineName,
        bench: Workbench,
        data: FederatedData,
        samples: Samples | None,
        algorithm: Algorithm,
        training: LocalTraining,
        most_clients: int,
        say: Callable[[str], None],
    ) -> None:
        self.bench, self._data, self._samples = bench, data, samples
        self._algorithm, self._training, self._most_clients, self._say = algorithm, training, most_clients, say
        self._width = min(most_clients, LANES if name == "graphs" else torch.get_num_threads())
        self._fast: Fast | None = None
        self._quick = bench.module
        if name != "sequential" and not algorithm.pooled:
            self._fast = self._build(self._probe())

    def train(self, call: Call, ids: Sequence[int], memory: ClientMemory) -> list[Reply | Failure]:
        """Train each client from the same start; the replies come in the clients' order."""
        while self._fast:
            obstacle = None
            try:
                return self._fast.train(call, ids, memory)
            except UnrecordableError as error:
                obstacle = str(error)
            except torch.OutOfMemoryError:
                pass  # dealt with below: while an error is handled, it holds on to what it was about
            if obstacle:
                self._give_up(obstacle)
            else:
                self._shrink()
        data, algorithm, training = self._data, self._algorithm, self._training
        return list(train_clients(self.bench, call, data, ids, algorithm, training, memory))

    def expect(self, moment: Moment, ids: Sequence[int]) -> None:
        """Tell of a round before it begins, while a GPU is still at work on the last."""
        if self._fast:
            self._fast.expect(moment, ids)

    @property
    def module(self) -> nn.Module:
        """What evaluates fastest: a faster copy of the model, or the model; it holds no weights of its own."""
        return self._quick if self._fast else self.bench.module

    @property
    def side_by_side(self) -> bool:
        """Whether several copies of the model run at a time, none of them drawing random numbers."""
        return self._fast is not None

    def _probe(self) -> Tensor:
        """Two inputs of the user who has most."""
        first = self._data.offsets[self._data.counts.argmax()]
        places = np.arange(first, min(first + 2, len(self._data.labels)))
        return as_model_input(self._data.tensors(places, self.bench.device)[0])

    def _build(self, probe: Tensor) -> Fast | None:
        try:
            if part := hooked_part(self.bench.module):
                self._give_up(f"{part} has a hook, which is called for the model itself alone")
                return None
            if layer := layer_that_draws(self.bench.module, probe):
                self._give_up(f"{layer} draws random numbers")
                return None
            quick = quicken(self.bench.module, probe)
            self._quick, *copies = (twin(quick) for _ in range(self._width + 1))
            return self._engine([self.bench.on(module) for module in copies])
        except torch.OutOfMemoryError:
            pass
        except Exception as error:  # the person's own model may raise anything, when it runs or is copied
            self._give_up(f"something cannot be copied or run twice: {in_one_line(error)}")
            return None
        return self._shrink()

    def _engine(self, benches: list[Workbench]) -> Fast:
        if self._samples is None:
            keep_freed_memory()
            return Threads(benches, self._data, self._algorithm, self._training)
        return Lanes(benches, self._data, self._samples, self._algorithm, self._training, self._most_clients)

    def _give_up(self, why: str) -> None:
        self._fast = None
        kind = type(self.bench.module).__name__
        self._say(f"Clients are trained one after another (engine 'sequential'): in model {kind}, {why}.")

    def _shrink(self) -> Fast | None:
        """Go on with half as many clients at a time; with one after another in the end."""
        self._fast = None
        torch.cuda.empty_cache()
        before, self._width = self._width, self._width // 2
        if self._width == 0:
            self._say("The GPU's memory is too small for engine 'graphs'; clients are trained one after another.")
            return None
        self._say(f"The GPU's memory is too small for {before} clients at a time; going on with {self._width}.")
        self._fast = self._build(self._probe())
        return self._fast
