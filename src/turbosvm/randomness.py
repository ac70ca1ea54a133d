"""Named streams of random numbers: every draw of a run is a function of (seed, stream, round, client).

A stream is asked for by name and place, never by "whatever the generator gives next". So two algorithms at one seed
see the same cohorts and the same batches, a resumed run continues with the numbers it would have drawn, and the order
in which things are computed does not matter.

No global generator is relied on. Layers that can draw from PyTorch's global generator only (dropout has no other way)
run inside `lend_to_global`, which puts a named stream in its place and gives the caller's state back afterwards.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import numpy as np
import torch

Stream = Literal["cohort", "dropout", "shuffle", "pool", "init", "layers", "classes", "glyphs", "partition", "cap"]


def stream_key(seed: int, stream: Stream, *place: int | str) -> int:
    """Return the 64-bit key of a stream; `place` says where in it (round, client, ...)."""
    text = "/".join(map(str, (seed, stream, *place)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def generator(seed: int, stream: Stream, *place: int | str) -> torch.Generator:
    """Return a fresh PyTorch generator (on the CPU, so that every device draws the same numbers)."""
    return torch.Generator().manual_seed(stream_key(seed, stream, *place))


def numpy_generator(seed: int, stream: Stream, *place: int | str) -> np.random.Generator:
    """Return a fresh NumPy generator."""
    return np.random.Generator(np.random.PCG64(stream_key(seed, stream, *place)))


@contextmanager
def lend_to_global(seed: int, stream: Stream, *place: int | str) -> Iterator[None]:
    """Let code without a generator argument draw from a named stream, leaving the caller's global state as it was."""
    with torch.random.fork_rng():
        torch.set_rng_state(generator(seed, stream, *place).get_state())
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(stream_key(seed, stream, *place))
        yield
