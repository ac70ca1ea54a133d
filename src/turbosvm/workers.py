"""Threads that share the CPU's cores among them: small pieces of work go faster side by side than one by one.

PyTorch's own threads (OpenMP's) cut each operation into equal parts, and at its end wait for one another awake. Where
another program wants a core, the system puts one of them to sleep in the middle of its part, and all others wait until
its turn comes again: a step of a hundred operations, 10 ms long, takes 200. So the server's step is computed on one
thread, and what is large of it is cut into pieces, of which each thread takes another whenever it is done with one. A
thread that the system keeps from working takes fewer, and the others wait for its last piece at most.

Pieces depend on the size of a problem alone, never on the number of threads: any number gives the same bits.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch

Piece = TypeVar("Piece")


@contextmanager
def workers(count: int) -> Iterator[ThreadPoolExecutor]:
    """A pool of `count` threads; PyTorch's operations in each use an equal part of the cores that this thread may use.

    In this thread they use no other while that lasts. When something goes wrong, work that has not begun is not done.
    """
    before = torch.get_num_threads()
    pool = ThreadPoolExecutor(count, "turbosvm", lambda: torch.set_num_threads(max(1, before // count)))
    try:
        torch.set_num_threads(1)
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)


@contextmanager
def own_threads() -> Iterator[None]:
    """Let PyTorch's operations in this thread start no others; `side_by_side` uses as many as PyTorch would have."""
    if _crew.get():
        yield
        return
    before = torch.get_num_threads()
    crew = _Crew(before)
    token = _crew.set(crew)
    try:
        torch.set_num_threads(1)
        yield
    finally:
        _crew.reset(token)
        crew.end()
        torch.set_num_threads(before)


def threads_for(size: int, least: int, most: int) -> int:
    """How many threads pay for work of some size, if each is to have `least` of it: from 1 to `most`."""
    return max(1, min(most, size // least))


def side_by_side(work: Callable[[Piece], object], pieces: Sequence[Piece], size: int, least: int) -> None:
    """Do `work` with each piece, in the threads of `own_threads` that pay for work of this size."""
    crew = _crew.get()
    threads = min(len(pieces), threads_for(size, least, crew.most)) if crew else 1
    if crew is None or threads < 2:
        for piece in pieces:
            work(piece)
    else:
        crew.share(work, pieces, threads)


class _Crew:
    """The thread that asks, and helpers, of which there are none before they are needed."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._helpers: ThreadPoolExecutor | None = None

    def share(self, work: Callable[[Piece], object], pieces: Sequence[Piece], threads: int) -> None:
        """Do `work` with each piece, in order; an error ends it, once the pieces that have begun are done."""
        if self._helpers is None:
            self._helpers = ThreadPoolExecutor(self.most, "turbosvm", lambda: torch.set_num_threads(1))
        left, inference = list(reversed(pieces)), torch.is_inference_mode_enabled()

        def taken() -> list[Piece]:
            try:
                return [left.pop()]
            except IndexError:
                return []

        def take() -> None:
            try:
                with torch.inference_mode(inference):  # a thread has a mode of its own
                    while piece := taken():
                        work(*piece)
            finally:
                left.clear()  # after an error, none of the others begins another

        helpers: list[Future[None]] = [self._helpers.submit(take) for _ in range(threads - 1)]
        try:
            take()
        finally:
            begun, _ = wait([helper for helper in helpers if not helper.cancel()])
        for helper in begun:
            helper.result()

    def end(self) -> None:
        """Let the helpers go."""
        if self._helpers:
            self._helpers.shutdown(cancel_futures=True)


_crew: ContextVar[_Crew | None] = ContextVar("crew", default=None)
