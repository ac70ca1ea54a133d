"""Threads that share the CPU's cores among them: small pieces of work go faster side by side than one by one."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch


@contextmanager
def workers(count: int) -> Iterator[ThreadPoolExecutor]:
    """A pool of `count` threads; PyTorch's operations in each use an equal part of the cores that this thread may use.

    When something goes wrong, work that has not begun is not done.
    """
    before = torch.get_num_threads()
    pool = ThreadPoolExecutor(count, "turbosvm", lambda: torch.set_num_threads(max(1, before // count)))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)
