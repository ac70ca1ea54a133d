"""How exact numbers are: which precision to work in, and whether a result can be trusted in it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from math import inf
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from turbosvm.svm.solver import Fact


def precisions(embeddings: Tensor) -> tuple[torch.dtype, ...]:
    """What to work in: float32 first, unless the embeddings themselves are finer."""
    return (torch.float64,) if embeddings.dtype is torch.float64 else (torch.float32, torch.float64)


def trusted(dtype: torch.dtype, rounding: float, facts: NDArray[np.float64], tol: float) -> bool:
    """Whether solved problems (their facts, `[P, 6]`) hold in spite of rounding.

    It must not be felt at `tol`, nor be all that there is of a normal. There is nothing finer than float64 to try.
    """
    if dtype is torch.float64:
        return rounding < inf
    weight, squared_norm = facts[:, Fact.WEIGHT], np.abs(facts[:, Fact.SQUARED_NORM])
    return bool((rounding * weight < tol / 4).all() and (squared_norm > rounding * weight**2).all())


class _FullPrecision:
    """Who is inside, and what the settings were before the first came; several threads may be."""

    def __init__(self) -> None:
        self._lock, self._inside, self._before = Lock(), 0, [""]
        self._matmuls: list[Any] = [torch.backends.cuda.matmul, torch.backends.mkldnn.matmul]  # type: ignore[attr-defined]

    def enter(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = [matmul.fp32_precision for matmul in self._matmuls]
                for matmul in self._matmuls:
                    matmul.fp32_precision = "ieee"
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                for matmul, precision in zip(self._matmuls, self._before, strict=True):
                    matmul.fp32_precision = precision


_full_precision = _FullPrecision()


@contextmanager
def full_precision() -> Iterator[None]:
    """Keep float32 products in float32 while this lasts, also where the caller allows tf32, bfloat16 or autocast."""
    _full_precision.enter()
    try:
        with ExitStack() as stack:
            for device in ("cpu", "cuda"):
                if torch.is_autocast_enabled(device):
                    stack.enter_context(torch.autocast(device, enabled=False))
            yield
    finally:
        _full_precision.leave()
