"""Random SVM problems, and what scikit-learn makes of them: the oracle of the solver's tests."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

Array = NDArray[Any]

PATIENCE = 1_000_000
"""Iterations a pair; without an end, scikit-learn never comes back from some near duplicates."""

FLAVOURS = (
    "plain",
    "near duplicates",
    "duplicates",
    "unbalanced numbers",
    "unbalanced classes",
    "one overlapping class",
)


@dataclass(frozen=True)
class Draw:
    """One random problem: K classes with C embeddings of D numbers each."""

    classes: int
    clients: int
    size: int
    cost: float
    flavour: str
    seed: int

    def embeddings(self) -> Array:
        """[C, K, D]; norms are about 1 before the flavour does its work."""
        rng = np.random.default_rng(self.seed)
        scale = 1 / np.sqrt(self.size)
        centres = rng.normal(size=(self.classes, self.size)) * scale
        noise = rng.normal(size=(self.clients, self.classes, self.size)) * scale * 10 ** rng.uniform(-1.5, 0.3)
        if self.flavour == "near duplicates":
            noise[::2] = noise[0] + 1e-6 * noise[::2]
        if self.flavour == "duplicates":
            noise[1::2] = noise[: len(noise[1::2])]
        if self.flavour == "one overlapping class":
            centres[0] = centres[-1]
        embeddings: Array = centres + noise
        if self.flavour == "unbalanced numbers":
            embeddings *= 10 ** rng.uniform(-1, 1, size=self.size)
        if self.flavour == "unbalanced classes":
            embeddings *= 10 ** rng.uniform(-1, 1, size=(self.classes, 1))
        embeddings += rng.normal(size=self.size) * scale
        return embeddings


def pair_coefficients(embeddings: Array, cost: float, tol: float) -> tuple[Array, Array]:
    """scikit-learn's signed dual coefficients, [P, 2, C], pairs in order, and whether it solved each pair, [P]."""
    clients, classes, size = embeddings.shape
    rows = embeddings.transpose(1, 0, 2).reshape(-1, size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        unfitted = SVC(kernel="linear", C=cost, tol=tol, max_iter=PATIENCE)
        fitted = unfitted.fit(rows, np.repeat(np.arange(classes), clients))
    dual = np.zeros((classes - 1, classes, clients))
    dual.reshape(classes - 1, -1)[:, fitted.support_] = fitted.dual_coef_
    if classes == 2:
        dual = -dual  # with two classes, scikit-learn turns the sign
    pairs = [(k, m) for k in range(classes) for m in range(k + 1, classes)]
    return np.array([[dual[m - 1, k], dual[k, m]] for k, m in pairs]), np.asarray(fitted.n_iter_) < PATIENCE


class Pair:
    """The dual problem between two classes, judged from the embeddings themselves in float64."""

    def __init__(self, embeddings: Array, k: int, m: int, cost: float) -> None:
        rows = np.concatenate([embeddings[:, k], embeddings[:, m]]).astype(np.float64)
        self.rows, self.cost = rows - rows.mean(axis=0), cost
        self.y = np.repeat([1.0, -1.0], len(embeddings))

    def objective(self, b: Array) -> float:
        """The dual objective of signed coefficients [2, C]."""
        normal = b.reshape(-1) @ self.rows
        return float(normal @ normal / 2 - np.abs(b).sum())

    def intercepts(self, b: Array) -> tuple[Array, float, float]:
        """v of each sample, the largest of those that could grow, the smallest of those that could shrink."""
        flat = b.reshape(-1)
        v = self.y - self.rows @ (flat @ self.rows)
        alpha, rounding = flat * self.y, self.cost * 1e-6
        grows = np.where(self.y > 0, alpha < self.cost - rounding, alpha > rounding)
        shrinks = np.where(self.y > 0, alpha > rounding, alpha < self.cost - rounding)
        return v, float(v[grows].max()), float(v[shrinks].min())

    def violation(self, b: Array) -> float:
        """By how much the optimality conditions are violated."""
        _, top, bottom = self.intercepts(b)
        return top - bottom

    def distance_from_margin(self, b: Array) -> Array:
        """How far each sample's decision is from its margin, [2, C]."""
        v, top, bottom = self.intercepts(b)
        distance: Array = np.abs(v - (top + bottom) / 2).reshape(b.shape)
        return distance
