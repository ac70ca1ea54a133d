"""Max-margin spread-out: push class embeddings apart along the normals of their SVMs (the paper's Algorithm 2).

    l_sp(w_1..w_K) = sum over k < m of exp(-u_km^2 / (2 |h_km|^2)),  u_km = (phi(w_k) - phi(w_m))·h_km

h_km = sum_t b_t phi(x_t) is the normal between classes k and m, a sum over the clients' embeddings x_t; phi is the
kernel's feature map, for the linear kernel w itself. So u_km is a sum of kernel values, |h_km|^2 comes with the solved
SVM, and the gradient is a sum of embeddings (and, with rbf, of w): no normal is ever written out.

One-vs-rest has one normal h_k for each class: the sum then runs over all k != m with h_k in the place of h_km, halved,
so that both schemes sum to K(K-1)/2 where all classes coincide. A pair with h = 0 (classes that cannot be told apart)
adds a constant 1 and no gradient.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from turbosvm.svm.gram import Samples
from turbosvm.svm.products import product
from turbosvm.svm.solver import Fact, Scheme, Solution


class Hyperplanes(NamedTuple):
    """The normals of all problems, as coefficients of the embeddings."""

    scheme: Scheme
    samples: Samples
    coef: Tensor
    """[K, K, C]: of class k's embeddings in the problem with class j, or in problem j."""
    inverse_norm: Tensor
    """1 / |h|^2, [K, K] for one-vs-one, [K, 1] for one-vs-rest; 0 where h may be 0 for all that is known of it."""


class Projections(NamedTuple):
    """Where embeddings `[K, D]` lie along the normals: what l_sp and its gradient are made of."""

    embeddings: Tensor
    products: Tensor
    """With all samples, [K, K C]."""
    values: Tensor
    """The kernel's, [K, K C]."""
    apart: Tensor
    """u, [K, K]; for one-vs-one entry (k, m) is (w_k - w_m)·h, with one h for both orders of the pair."""
    similarity: Tensor
    """exp(-u^2 / (2 |h|^2)), [K, K]; 1 where h = 0."""

    @property
    def loss(self) -> Tensor:
        """l_sp; each pair is in `similarity` twice, and the diagonal's ones are no pairs."""
        return (self.similarity.sum() - len(self.similarity)) / 2


def hyperplanes_of(samples: Samples, solution: Solution) -> Hyperplanes:
    """Take the normals from a solution; one that is nothing but noise must not push anything."""
    squared_norm = solution.by_normal(Fact.SQUARED_NORM)
    noise = noise_of_normal(samples.rounding, solution.by_normal(Fact.WEIGHT), solution.by_normal(Fact.GAP))
    inverse = ((squared_norm > noise) / squared_norm).nan_to_num_(nan=0.0).to(samples.rows.dtype)
    by_pair = inverse if solution.scheme == "ovo" else inverse[:, None]
    return Hyperplanes(solution.scheme, samples, solution.coef, by_pair)


def noise_of_normal(rounding: Any, weight: Any, gap: Any) -> Any:
    """Bound |h|^2 of what may be found where there is no normal: rounding, and the square of a length of sqrt(2 gap).

    A found normal is that far from the true one at most, so a shorter one has no direction.
    """
    return rounding * weight**2 + 2 * gap


def project(embeddings: Tensor, planes: Hyperplanes) -> Projections:
    """Project embeddings `[K, D]`, which are relative to the samples' centre, onto the normals."""
    samples, coef = planes.samples, planes.coef
    products = values = product(embeddings, samples.rows.flatten(0, 1).T)
    if samples.kernel.name != "linear":
        values = samples.kernel.values_(products.clone(), embeddings.square().sum(dim=-1), samples.norms.flatten())
    table = values.view_as(coef)  # entry (k, j): w_k with class j's samples
    if planes.scheme == "ovo":
        own = torch.diagonal(table).T.unsqueeze(1)  # w_k with its own class's samples
        part = torch.linalg.vecdot(coef, own - table.transpose(0, 1))  # (w_k - w_j) on class k's part of their normal
        apart = part - part.T
    else:
        projected = torch.einsum("mjn,jkn->km", table, coef)  # entry (k, m): w_m on h_k
        apart = torch.diagonal(projected)[:, None] - projected
    similarity = torch.exp(apart * apart * planes.inverse_norm * -0.5)
    return Projections(embeddings, products, values, apart, similarity)


def spread_gradient(at: Projections, planes: Hyperplanes) -> Tensor:
    """Return the gradient of l_sp, `[K, D]`."""
    push = at.similarity * at.apart * planes.inverse_norm  # minus the derivative of each similarity by its u
    if planes.scheme == "ovo":
        weights = push[..., None] * planes.coef.transpose(0, 1)  # entry (k, j): of class j's samples in w_k's gradient
        torch.diagonal(weights).copy_(torch.linalg.vecdot(push[..., None], planes.coef, dim=1).T)
    else:
        on_normals = (torch.diag(push.sum(dim=1)) - push.T) / 2  # entry (m, k): of h_k in w_m's gradient
        weights = torch.einsum("mk,jkn->mjn", on_normals, planes.coef)
    kernel, weights = planes.samples.kernel, weights.flatten(1)
    slope = kernel.slope(at.products, at.values)
    if slope is not None:
        weights = weights * slope
    gradient = product(weights, planes.samples.rows.flatten(0, 1))
    if kernel.name == "rbf":
        gradient -= weights.sum(dim=1, keepdim=True) * at.embeddings
    return gradient.neg_()
