"""Max-margin spread-out: push class embeddings apart along the normals of their SVMs (the paper's Algorithm 2).

    l_sp(w_1..w_K) = sum over k < m of exp(-u_km^2 / (2 |h_km|^2)),  u_km = (phi(w_k) - phi(w_l))·h_km

h_km = sum_t b_t phi(x_t) is the normal between classes k and m, a sum over the clients' embeddings x_t; phi is the
kernel's feature map, for the linear kernel w itself. So u_km is a sum of kernel values, |h_km|^2 comes with the solved
SVM, and the gradient is a sum of embeddings (and, with rbf, of w): no normal is ever written out.

One-vs-rest has one normal h_k for each class: the sum then runs over all k != m with h_k in the place of h_km, halved,
so that both schemes sum to K(K-1)/2 where all classes coincide. A pair with |h| = 0 (classes that cannot be told apart)
adds a constant 1 and no gradient.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from turbosvm.svm.gram import Samples
from turbosvm.svm.solver import Solution


class Hyperplanes(NamedTuple):
    """The normals of all problems, as coefficients of the embeddings."""

    samples: Samples
    coef: Tensor
    """[K, K, C]: of class k's embeddings in the problem with class j, or in problem j."""
    squared_norm: Tensor
    """|h|^2, [K, K] and symmetric for one-vs-one, [K] for one-vs-rest; 0 where it is nothing but rounding."""


def hyperplanes_of(samples: Samples, solution: Solution) -> Hyperplanes:
    """Arrange a solution by classes."""
    classes = len(samples.rows)
    noise = samples.rounding * solution.coef.abs().sum(dim=(1, 2)).square()
    norms = torch.where(solution.squared_norm > noise, solution.squared_norm, 0.0).to(samples.rows.dtype)
    if solution.scheme == "ovo":
        k, m = solution.problems.T
        table = norms.new_zeros(classes, classes)
        table[k, m] = table[m, k] = norms
        norms = table
    return Hyperplanes(samples, solution.by_class(solution.coef, classes), norms)


class Projections(NamedTuple):
    """Where embeddings `[K, D]` lie along all normals: what l_sp and its gradient are made of."""

    embeddings: Tensor
    products: Tensor
    """With all samples, [K, K C]."""
    values: Tensor
    """The kernel's, [K, K C]."""
    loss: Tensor
    """l_sp"""
    weights: Tensor
    """How much of the gradient of kernel(x_jn, w_k) is in that of w_k, [K, K C]."""


def project(embeddings: Tensor, planes: Hyperplanes) -> Projections:
    """Project embeddings `[K, D]`, which are relative to the samples' centre, onto the normals."""
    samples, kernel = planes.samples, planes.samples.kernel
    products = values = embeddings @ samples.rows.flatten(0, 1).T
    if kernel.name != "linear":
        values = kernel.values_(products.clone(), embeddings.square().sum(dim=-1), samples.norms.flatten())
    scheme = _pairs if planes.squared_norm.ndim == 2 else _rest
    loss, weights = scheme(values.view_as(planes.coef), planes)
    return Projections(embeddings, products, values, loss, weights.flatten(1))


def spread_gradient(at: Projections, planes: Hyperplanes) -> Tensor:
    """Return the gradient of l_sp, `[K, D]`."""
    slope, pull = planes.samples.kernel.slopes(at.products, at.values)
    gradient = (at.weights if slope is None else at.weights * slope) @ planes.samples.rows.flatten(0, 1)
    if pull is not None:
        gradient -= (at.weights * pull).sum(dim=1, keepdim=True) * at.embeddings
    return gradient


def _pairs(values: Tensor, planes: Hyperplanes) -> tuple[Tensor, Tensor]:
    """One-vs-one: l_sp, and the gradient's weights `[K, K, C]`."""
    coef = planes.coef
    own = torch.einsum("kjn,nk->kj", coef, torch.diagonal(values))  # class k's part of h_kj, at w_k
    other = torch.einsum("kjn,jkn->kj", coef, values)  # the same at w_j
    u = own - other
    u = u - u.T  # entry (k, m) is (w_k - w_l)·h, with one h for both orders of the pair
    similarity, push = _similarity(u, planes.squared_norm)
    weights = push[..., None] * coef.transpose(0, 1)
    torch.diagonal(weights).copy_(torch.einsum("kj,kjn->nk", push, coef))
    return torch.triu(similarity, diagonal=1).sum(), weights


def _rest(values: Tensor, planes: Hyperplanes) -> tuple[Tensor, Tensor]:
    """One-vs-rest: the same, with the normal h_k of class k for all its pairs."""
    projected = torch.einsum("mjn,jkn->mk", values, planes.coef)  # w_m on h_k
    u = torch.diagonal(projected)[:, None] - projected.T  # entry (k, m) is (w_k - w_l)·h_k
    similarity, push = _similarity(u, planes.squared_norm[:, None])
    on_normals = (torch.diag(push.sum(dim=1)) - push.T) / 2  # entry (m, k): how much of h_k is in w_m's gradient
    weights = torch.einsum("mk,jkn->mjn", on_normals, planes.coef)
    return (similarity.sum() - torch.diagonal(similarity).sum()) / 2, weights


def _similarity(u: Tensor, squared_norm: Tensor) -> tuple[Tensor, Tensor]:
    """exp(-u^2 / (2 |h|^2)) and its derivative with respect to u; 1 and 0 where h = 0."""
    real = squared_norm > 0
    norm = torch.where(real, squared_norm, 1.0)
    similarity = torch.where(real, torch.exp(-u * u / (2 * norm)), 1.0)
    return similarity, torch.where(real, -similarity * u / norm, 0.0)
