"""The spread-out loss and its gradient against the explicit formula with normals written out, through autograd."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from turbosvm.heads.spread import hyperplanes_of, project, spread_gradient
from turbosvm.svm import Machine, fit

KERNELS: list[dict[str, Any]] = [
    {"kernel": "linear"},
    {"kernel": "poly", "degree": 2},
    {"kernel": "poly", "degree": 3, "a": 0.7, "b": 0.3},
    {"kernel": "poly", "degree": 4, "a": 0.5, "b": 1.0},
    {"kernel": "rbf", "a": 0.2},
    {"kernel": "sigmoid", "a": 0.3, "b": 0.1},
]


def heads(classes: int = 5, clients: int = 4, size: int = 6) -> Tensor:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(classes, size)) + 0.5 * rng.normal(size=(clients, classes, size)) + 0.5
    return torch.from_numpy(rows * 0.4)


def kernel_of(x: Tensor, w: Tensor, kernel: str, degree: int = 3, a: float = 1.0, b: float = 1.0) -> Tensor:
    """The kernels' formulas, stated once more."""
    if kernel == "linear":
        return x @ w
    if kernel == "poly":
        return (a * (x @ w) + b) ** degree
    if kernel == "rbf":
        return torch.exp(-a * ((x - w) ** 2).sum(dim=-1))
    return torch.tanh(a * (x @ w) + b)


def explicit_loss(w: Tensor, embeddings: Tensor, machine: Machine, scheme: str, options: dict[str, Any]) -> Tensor:
    """l_sp with one term a pair, each from its own problem's coefficients; a plain loop, for autograd."""
    loss, classes = w.new_zeros(()), len(w)
    x = embeddings.transpose(0, 1)  # class, client, numbers
    for p, (k, m) in enumerate(machine.pairs_.tolist()):
        members = x[[k, m]] if scheme == "ovo" else x
        samples, b = members.flatten(0, 1), machine.dual_coef_[p].flatten()
        gram = torch.stack([kernel_of(samples, row, **options) for row in samples])
        squared_norm = b @ gram @ b
        for other in [m] if scheme == "ovo" else [label for label in range(classes) if label != k]:
            u = b @ kernel_of(samples, w[k], **options) - b @ kernel_of(samples, w[other], **options)
            loss = loss + torch.exp(-(u**2) / (2 * squared_norm)) * (1.0 if scheme == "ovo" else 0.5)
    return loss


@pytest.mark.parametrize("options", KERNELS, ids=str)
@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_gradient_is_that_of_the_explicit_formula(options: dict[str, Any], scheme: Any) -> None:
    embeddings = heads()
    machine = fit(embeddings, cost=3.0, scheme=scheme, **options)
    planes = hyperplanes_of(machine.samples, machine.solution)
    w = (embeddings.mean(dim=0) + 0.1).requires_grad_()
    loss = explicit_loss(w, embeddings, machine, scheme, options)
    loss.backward()
    at = project(w.detach() - machine.samples.centre, planes)
    assert w.grad is not None
    assert w.grad.norm() > 1e-4
    torch.testing.assert_close(at.loss, loss.detach(), rtol=1e-9, atol=0)
    torch.testing.assert_close(spread_gradient(at, planes), w.grad, rtol=1e-6, atol=1e-6 * float(w.grad.abs().max()))


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_classes_that_cannot_be_told_apart_add_one_to_the_loss_and_nothing_to_the_gradient(scheme: Any) -> None:
    embeddings = heads(classes=2)
    embeddings[:, 1] = embeddings[:, 0]
    machine = fit(embeddings, scheme=scheme)
    planes = hyperplanes_of(machine.samples, machine.solution)
    at = project(embeddings.mean(dim=0) - machine.samples.centre, planes)
    assert at.loss.item() == 1.0
    assert spread_gradient(at, planes).abs().max().item() == 0.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_pair_without_a_normal_does_not_disturb_the_others(dtype: torch.dtype) -> None:
    embeddings = heads(classes=3).to(dtype).double()  # float32 is left for float64 here anyway
    embeddings[:, 1] = embeddings[:, 0]
    machine = fit(embeddings)
    planes = hyperplanes_of(machine.samples, machine.solution)
    at = project(embeddings.mean(dim=0) - machine.samples.centre, planes)
    gradient = spread_gradient(at, planes)
    assert torch.isfinite(gradient).all()
    torch.testing.assert_close(gradient[0], gradient[1])  # both are pushed away from class 2 alone
    torch.testing.assert_close(gradient.sum(dim=0), torch.zeros(6, dtype=torch.float64), atol=1e-6, rtol=0)


def test_a_kernel_that_is_not_positive_definite_gives_finite_numbers() -> None:
    embeddings = heads() * 8
    machine = fit(embeddings, kernel="sigmoid", a=2.0, b=-3.0, cost=10.0)
    planes = hyperplanes_of(machine.samples, machine.solution)
    assert (planes.inverse_norm >= 0).all()
    assert (planes.inverse_norm == 0).sum() > 5  # beyond the diagonal: some |h|^2 are not positive
    at = project(embeddings.mean(dim=0), planes)
    assert torch.isfinite(at.loss)
    assert torch.isfinite(spread_gradient(at, planes)).all()
