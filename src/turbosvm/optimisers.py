"""Server optimisers: adaptive steps as pure functions, moments in and moments out.

With gradient g, step number s of a row, and m, v the row's moments (all element-wise):

    sgd      w <- w - lr g
    adam     m <- beta1 m + (1 - beta1) g,  v <- beta2 v + (1 - beta2) g^2
             w <- w - lr m' / (sqrt(v') + eps)  with  m' = m / (1 - beta1^s),  v' = v / (1 - beta2^s)
    amsgrad  as adam, with the largest v so far in the place of v
    yogi     as adam, with v <- v - (1 - beta2) sign(v - g^2) g^2
    adagrad  v <- v + g^2,  w <- w - lr g / (sqrt(v) + eps)

Each row (index of the first axis) counts its own steps, so rows may be stepped on their own.

Kingma, Ba: Adam. ICLR 2015. Reddi, Kale, Kumar: On the Convergence of Adam and Beyond. ICLR 2018.
Zaheer, Reddi, Sachan, Kale, Kumar: Adaptive Methods for Nonconvex Optimization. NeurIPS 2018.
Duchi, Hazan, Singer: Adaptive Subgradient Methods for Online Learning and Stochastic Optimization. JMLR 2011.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from turbosvm.errors import unknown
from turbosvm.values import as_decay, as_flag, as_not_negative, as_positive

OptimiserName = Literal["adam", "sgd", "amsgrad", "yogi", "adagrad"]

Moments = dict[str, Tensor]

_MOMENTS: dict[str, tuple[str, ...]] = {
    "sgd": (),
    "adam": ("first", "second"),
    "amsgrad": ("first", "second", "largest"),
    "yogi": ("first", "second"),
    "adagrad": ("second",),
}


class Step(NamedTuple):
    """Where a step has led, and the moments for the next."""

    weights: Tensor
    moments: Moments


@dataclass(frozen=True)
class Optimiser:
    """One of the rules above with its coefficients.

    `bias_correction = False` takes m and v as they are in the place of m' and v'; `initial` is what v begins with.
    """

    name: OptimiserName = "adam"
    learning_rate: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-5
    bias_correction: bool = True
    initial: float = 0.0

    def __post_init__(self) -> None:
        if self.name not in get_args(OptimiserName):
            raise unknown("optimiser", self.name, get_args(OptimiserName))
        object.__setattr__(self, "learning_rate", as_positive("The server's learning_rate", self.learning_rate))
        object.__setattr__(self, "eps", as_positive("The optimiser's eps", self.eps))
        for name in ("beta1", "beta2"):
            object.__setattr__(self, name, as_decay(f"The optimiser's {name}", getattr(self, name)))
        object.__setattr__(self, "initial", as_not_negative("The optimiser's initial", self.initial))
        object.__setattr__(self, "bias_correction", as_flag("bias_correction", self.bias_correction))

    def init(self, weights: Tensor) -> Moments:
        """Return the moments before the first step: zeros (v: `initial`), and a count of steps for each row."""
        first = {"second": self.initial, "largest": self.initial}
        return {name: weights.new_full(shape, first.get(name, 0.0)) for name, shape in self.shapes(weights).items()}

    def shapes(self, weights: Tensor) -> dict[str, torch.Size]:
        """Return the shapes of the moments of such weights."""
        steps = torch.Size((*weights.shape[:1], *[1] * (weights.ndim - 1)))
        return {"steps": steps, **dict.fromkeys(_MOMENTS[self.name], weights.shape)}

    def step(self, weights: Tensor, gradient: Tensor, moments: Moments) -> Step:
        """Take one step down the gradient; nothing that is handed in is changed."""
        new = {**moments, "steps": moments["steps"] + 1}
        if self.name == "sgd":
            return Step(weights - self.learning_rate * gradient, new)
        square = gradient * gradient
        if self.name == "adagrad":
            new["second"] = moments["second"] + square
            return Step(weights - self.learning_rate * gradient / (new["second"].sqrt() + self.eps), new)
        new["first"] = torch.lerp(moments["first"], gradient, 1 - self.beta1)
        if self.name == "yogi":
            new["second"] = moments["second"] - (1 - self.beta2) * torch.sign(moments["second"] - square) * square
        else:
            new["second"] = torch.lerp(moments["second"], square, 1 - self.beta2)
        if self.name == "amsgrad":
            new["largest"] = torch.maximum(moments["largest"], new["second"])
        second = new["largest"] if self.name == "amsgrad" else new["second"]
        first = new["first"]
        if self.bias_correction:
            first = first / (1 - self.beta1 ** new["steps"])
            second = second / (1 - self.beta2 ** new["steps"])
        return Step(weights - self.learning_rate * first / (second.sqrt() + self.eps), new)
