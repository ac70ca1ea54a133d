"""Embeddings in the order that the solvers want them, and the kernel matrix between them, piece by piece.

All that a solver needs of an embedding are its kernel values with the others. The matrix of all of them has (K C)^2
entries, so for one-vs-one it is made in strips of classes, and is never whole unless that is small. One-vs-rest
needs it whole.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from turbosvm.svm.kernels import Kernel
from turbosvm.svm.products import LEAST_PER_THREAD, product
from turbosvm.workers import side_by_side

STRIP_BYTES = {"cpu": 2**28, "cuda": 2**31}
"""The most memory that a strip may take. A strip has at least one class, whatever that takes."""
LEAST_STAIR = {"cpu": 112, "cuda": 4096}
"""Rows of the matrix made by one product. Fewer would skip more of the pairs already done, but each runs less well."""
MOST_STAIRS = 16
"""More than these skip hardly anything more."""


@dataclass(frozen=True)
class Samples:
    """C embeddings of each of K classes, class by class, moved to their mean where the kernel allows it.

    Centring changes no result, but it keeps kernel values small, and with them the rounding of float32.
    """

    rows: Tensor
    """[K, C, D]"""
    norms: Tensor
    """Squared norms, [K, C]."""
    centre: Tensor
    """What was subtracted, [D]."""
    kernel: Kernel
    rounding: Tensor
    """How far off a kernel value may be: a few units in the last place of the inner products, through the kernel.
    Infinite where kernel values, or the embeddings themselves, are not finite."""

    @classmethod
    def of(cls, embeddings: Tensor, kernel: Kernel, dtype: torch.dtype) -> "Samples":
        """Take embeddings `[C, K, D]`, as clients send them."""
        ordered = embeddings.to(dtype).transpose(0, 1).contiguous()
        centre = ordered.new_zeros(ordered.shape[-1])
        if kernel.ignores_origin:
            centre = ordered.mean(dim=(0, 1))
            ordered = ordered - centre
        norms = ordered.square().sum(dim=-1)
        largest = norms.max().double()
        scale = 4 * largest * kernel.steepest(largest)  # no kernel value, nor a sum of four, is larger
        rounding = torch.where(scale < torch.finfo(dtype).max, scale * torch.finfo(dtype).eps, torch.inf)
        return cls(ordered, norms, centre, kernel, rounding)

    def within(self) -> Tensor:
        """Kernel values inside each class, `[K, C, C]`."""
        return self.kernel.values_(self.rows @ self.rows.mT, self.norms, self.norms)

    def whole(self) -> Tensor:
        """Kernel values between all embeddings, `[K C, K C]`."""
        rows, norms = self.rows.flatten(0, 1), self.norms.flatten()
        return self.kernel.values_(product(rows, rows.T), norms, norms)

    def across(self, first: int, last: int) -> Tensor:
        """Kernel values of classes first..last-1 with classes first..K-1, `[(last-first) C, (K-first) C]`.

        Blocks left of the diagonal are those of pairs the other way round; most of them are left unset.
        """
        classes, clients, size = self.rows.shape
        strip = self.rows.new_empty((last - first) * clients, (classes - first) * clients)
        height = max(1, -(-classes // MOST_STAIRS), LEAST_STAIR[self.rows.device.type] // clients)

        def fill(top: int) -> None:
            bottom, offset = min(top + height, last), (top - first) * clients
            stair = strip[offset : (bottom - first) * clients, offset:]
            torch.mm(self.rows[top:bottom].flatten(0, 1), self.rows[top:].flatten(0, 1).T, out=stair)
            self.kernel.values_(stair, self.norms[top:bottom].flatten(), self.norms[top:].flatten())

        tops = range(first, last, height)
        entries = sum((min(top + height, last) - top) * (classes - top) for top in tops) * clients**2
        on_cpu = not self.rows.is_cuda  # a GPU is told of its work by one thread, in order
        side_by_side(fill, tops, entries * size * on_cpu, LEAST_PER_THREAD)
        return strip

    def against(self, points: Tensor) -> Tensor:
        """Kernel values of points `[M, D]` with every embedding, `[M, K, C]`."""
        moved = points - self.centre
        products = moved @ self.rows.flatten(0, 1).T
        norms = moved.square().sum(dim=-1)
        return self.kernel.values_(products, norms, self.norms.flatten()).view(len(points), *self.norms.shape)

    def strips(self) -> list[tuple[int, int]]:
        """Cut the classes into ranges whose strips fit into memory."""
        classes, clients, _ = self.rows.shape
        per_class = clients * classes * clients * self.rows.element_size()
        height = max(1, STRIP_BYTES[self.rows.device.type] // per_class)
        return [(first, min(first + height, classes)) for first in range(0, classes, height)]
