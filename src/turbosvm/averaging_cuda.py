"""The weighted mean over clients on CUDA, in one pass over their numbers, in Triton.

Triton comes with PyTorch's CUDA builds; where it does not (Windows), PyTorch's own operations serve.
"""

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True

    @triton.jit
    def _mean(stacked, weights, out, clients, size, BLOCK: tl.constexpr):  # noqa: N803
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        live = at < size
        first = tl.load(stacked + at, mask=live, other=0.0)
        total, same = tl.zeros_like(first), first == first
        row = stacked + at
        for client in range(clients):
            value = tl.load(row, mask=live, other=0.0)
            row += size
            total += tl.load(weights + client) * (value - first)
            same = same & (value == first)
        tl.store(out + at, tl.where(same, first, first + total), mask=live)


def takes(stacked: Tensor) -> bool:
    """Whether the kernel takes such numbers."""
    plain = stacked.dtype in (torch.float32, torch.float64) and stacked.is_contiguous() and stacked.numel() > 0
    return AVAILABLE and stacked.is_cuda and plain


def mean(stacked: Tensor, weights: Tensor) -> Tensor:
    """Sum over the first axis, each row times its weight; exactly a row's numbers where all agree."""
    out = stacked.new_empty(stacked.shape[1:])
    block = 1024
    with torch.cuda.device(stacked.device):
        _mean[triton.cdiv(out.numel(), block),](stacked, weights, out, len(stacked), out.numel(), BLOCK=block)
    return out
