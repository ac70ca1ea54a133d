"""Compiled code made ready before the first step, so that this takes no longer than the others."""

import torch
from torch import Tensor

from turbosvm.heads.options import HeadOptions
from turbosvm.heads.step import StepInputs, step
from turbosvm.stopwatch import Stopwatch
from turbosvm.svm.precision import full_precision, precisions
from turbosvm.workers import own_threads


def warm_up(options: HeadOptions, embeddings: Tensor, clients: int) -> None:
    """Compile, or load, what steps on so many clients' embeddings `[K, D]` run: do one that nobody looks at.

    Numba's loops depend on the type of the numbers alone, so a tiny step will do. Triton's depend on the shape too.
    """
    if not (options.selection or options.spread_out):
        return
    device, shape, kinds = embeddings.device, (2, 2, 2), precisions(embeddings)
    if embeddings.is_cuda:
        classes = len(options.sampled(len(embeddings), 1, 0))
        shape, kinds = (clients, classes, embeddings.shape[1]), kinds[:1]
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float32)
    heads = drawn.to(device=device, dtype=embeddings.dtype)
    moments = options.server_optimiser.init(heads[0].to(torch.promote_types(heads.dtype, torch.float32)))
    shares = torch.full((shape[0],), 1 / shape[0], dtype=torch.float64, device=device)
    with full_precision(), own_threads():
        for dtype in kinds:
            step(StepInputs(heads, shares, moments, options.limits(1, 1)), options, dtype, Stopwatch(device))
