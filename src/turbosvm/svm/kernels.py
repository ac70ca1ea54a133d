"""Kernels: what stands in for the inner product of two embeddings, and how it changes when one of them moves.

    linear   x·w
    poly     (a x·w + b)^degree
    rbf      exp(-a |x - w|^2)
    sigmoid  tanh(a x·w + b)

All are functions of inner products and squared norms alone, so whoever has those has the kernel. The gradient with
respect to w is slope * x, for rbf slope * (x - w), with one slope for each pair (x, w).
"""

from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor

from turbosvm.errors import unknown
from turbosvm.values import as_positive, as_real, as_whole

KernelName = Literal["linear", "poly", "rbf", "sigmoid"]


@dataclass(frozen=True)
class Kernel:
    """One of the four kernels with its coefficients; `degree`, `a` and `b` matter where the formula has them."""

    name: KernelName = "linear"
    degree: int = 3
    a: float = 1.0
    b: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in get_args(KernelName):
            raise unknown("kernel", self.name, get_args(KernelName))
        object.__setattr__(self, "degree", as_whole("The kernel's degree", self.degree, 1))
        object.__setattr__(self, "a", as_positive("The kernel's a", self.a))
        object.__setattr__(self, "b", as_real("The kernel's b", self.b))

    @property
    def ignores_origin(self) -> bool:
        """Whether moving all embeddings by one vector changes no SVM, so that they may be centred."""
        return self.name in ("linear", "rbf")

    def values_(self, products: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """Turn inner products `[..., m, n]` into kernel values, in place, given the squared norms of both sides."""
        match self.name:
            case "linear":
                return products
            case "poly":
                return products.mul_(self.a).add_(self.b).pow_(self.degree)
            case "sigmoid":
                return products.mul_(self.a).add_(self.b).tanh_()
        distances = products.mul_(-2).add_(left[..., :, None]).add_(right[..., None, :]).clamp_(min=0)
        return distances.mul_(-self.a).exp_()

    def steepest(self, norm: Tensor) -> Tensor | float:
        """Bound how much a kernel value changes with an inner product, for embeddings of squared norm up to `norm`."""
        match self.name:
            case "linear":
                return 1.0
            case "poly":
                return self.degree * self.a * (self.a * norm + abs(self.b)) ** (self.degree - 1)
            case "sigmoid":
                return self.a
        return 2 * self.a

    def slope(self, products: Tensor, values: Tensor) -> Tensor | None:
        """Return the gradient's slope, given inner products and the kernel values they became; None is 1 throughout."""
        match self.name:
            case "linear":
                return None
            case "poly":
                return (products * self.a + self.b).pow_(self.degree - 1).mul_(self.a * self.degree)
            case "sigmoid":
                return (1 - values * values).mul_(self.a)
        return values * (2 * self.a)
