"""Small head steps on CUDA, replayed from CUDA graphs.

A step of ordinary size keeps a GPU busy for half a millisecond, but starting its hundred operations one by one takes
several. So the second step of the same shape and options is recorded, and from then on replayed: the operations and
their results are the same. Each phase is a graph of its own, so that phases can be timed.
"""

from collections import OrderedDict
from dataclasses import replace
from threading import Lock
from typing import Any

import torch

from turbosvm.heads.options import HeadOptions
from turbosvm.heads.step import StepInputs, Stepped, step
from turbosvm.stopwatch import Laps
from turbosvm.svm import smo_cuda

MOST_EMBEDDINGS = 2048
"""Steps with more embeddings take the GPU longer than their start takes the CPU."""
MOST_RECORDED = 8
"""Recordings kept at a time; each holds the memory of its step."""

_recorded: OrderedDict[Any, "Recording | None"] = OrderedDict()
_lock = Lock()


def fast_step(inputs: StepInputs, options: HeadOptions, dtype: torch.dtype, watch: Laps) -> Stepped | None:
    """Do what `step` does, from a recording where that pays."""
    heads = inputs.heads
    small = heads.shape[0] * heads.shape[1] <= MOST_EMBEDDINGS
    if not (heads.is_cuda and small and options.scheme == "ovo" and smo_cuda.AVAILABLE):
        return step(inputs, options, dtype, watch)
    kinds = tuple((name, value.dtype) for name, value in inputs.moments.items())
    key = (heads.shape, heads.dtype, heads.device, kinds, options, dtype)
    with _lock:  # a recording has one set of buffers
        if key not in _recorded:  # the first step compiles and warms up what the second records
            _recorded[key] = None
            if len(_recorded) > MOST_RECORDED:
                _recorded.popitem(last=False)
            return step(inputs, options, dtype, watch)
        _recorded.move_to_end(key)
        recording = _recorded[key] or Recording(inputs, options, dtype)
        _recorded[key] = recording
        return recording.replay(inputs, watch)


class Recording:
    """A step as CUDA graphs, a graph a phase, with the buffers that they read and write."""

    def __init__(self, inputs: StepInputs, options: HeadOptions, dtype: torch.dtype) -> None:
        device, limits = inputs.heads.device, inputs.limits
        self._set = limits.cost, limits.tol
        self._limits = smo_cuda.limits_tensor(limits.cost, limits.tol, device)
        self._inputs = StepInputs(
            inputs.heads.clone(memory_format=torch.contiguous_format),
            inputs.shares.clone(),
            {name: value.clone() for name, value in inputs.moments.items()},
            replace(limits, on_device=self._limits),
        )
        phases = _Phases(last="spread" if options.spread_out else "select")
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            phases.begin()
            stepped = step(self._inputs, options, dtype, phases)
        assert stepped is not None  # noqa: S101 (on CUDA a step always has an answer)
        self._graphs, self._stepped = phases.graphs, stepped

    def replay(self, inputs: StepInputs, watch: Laps) -> Stepped:
        """Do the recorded step with other numbers."""
        heads, shares, moments, limits = inputs
        own = self._inputs
        torch._foreach_copy_([own.heads, *(own.moments[name] for name in moments)], [heads, *moments.values()])
        own.shares.copy_(shares)
        if (limits.cost, limits.tol) != self._set:
            self._limits.copy_(smo_cuda.limits_tensor(limits.cost, limits.tol, heads.device))
            self._set = limits.cost, limits.tol
        for phase, graph in self._graphs:
            graph.replay()
            watch.lap(phase)
        embeddings, moments, packed = self._stepped
        kept, told = {name: value.clone() for name, value in moments.items()}, packed.to("cpu", non_blocking=True)
        stepped = Stepped(embeddings.clone(), kept, told)
        torch.cuda.current_stream(heads.device).synchronize()  # before another thread may use the buffers
        return stepped


class _Phases:
    """Laps that end one graph and begin the next; they share their memory, as they are replayed in order."""

    def __init__(self, last: str) -> None:
        self.graphs: list[tuple[str, torch.cuda.CUDAGraph]] = []
        self._last, self._pool = last, torch.cuda.graph_pool_handle()

    def begin(self) -> None:
        self._graph = torch.cuda.CUDAGraph()
        self._graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")

    def lap(self, phase: str) -> None:
        self._graph.capture_end()
        self.graphs.append((phase, self._graph))
        if phase != self._last:
            self.begin()
