"""`merge_heads`: TurboSVM's head step as one pure function, for anyone's own federated learning.

The clients' class embeddings are the samples of a K-class problem. SVMs are fitted to them; each class takes the mean
of those of its embeddings that are a support vector somewhere (Algorithm 1); one step of the server's optimiser then
spreads the classes along the SVMs' normals (Algorithm 2).

    w_k <- sum_m |D_m| v_k^m / sum_m |D_m|  over the support vectors v_k^m of class k
    w_k <- server_optimiser(w_k, -grad l_sp)

Wang, Bozkir, Kasneci: TurboSVM-FL: Boosting Federated Learning through SVM Aggregation for Lazy Clients. AAAI 2024.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import inf, nan
from typing import Any, NamedTuple

import torch
from torch import Tensor

from turbosvm.errors import TurboSVMError, unknown
from turbosvm.heads.options import HeadOptions
from turbosvm.heads.spread import hyperplanes_of, project, spread_gradient
from turbosvm.optimisers import Moments, Optimiser
from turbosvm.stopwatch import Stopwatch
from turbosvm.svm.arrays import Array, as_embeddings, is_numpy, refuse_not_finite, to_tensor
from turbosvm.svm.gram import full_precision
from turbosvm.svm.machine import fit_samples, margins, mean_slack, support
from turbosvm.svm.solver import Solution

Diagnostics = dict[str, Any]
"""Numbers, and under names that begin with `client_` lists with one for each client."""


@dataclass(frozen=True)
class HeadState:
    """What the head step remembers: how many rounds it has done, and the optimiser's moments for each class."""

    round: int
    moments: dict[str, Any]


@dataclass(frozen=True)
class MergedHeads:
    """The merged head `[K, D]`, the state for the next round, and what was seen on the way."""

    head: Any
    state: HeadState
    diagnostics: Diagnostics


def merge_heads(
    heads: Array | Sequence[Array],
    samples: Array | Sequence[float],
    state: HeadState | None = None,
    *,
    rounds: int = 100,
    seed: int = 0,
    **options: Any,
) -> MergedHeads:
    """Merge the heads of a round's clients as TurboSVM-FL does.

    Args:
        heads: `[C, K, D]`, or a sequence of C heads `[K, D]`: a row for each class, with the bias as its last number if
            the layer has one. NumPy or PyTorch, on any device; the result is of the same kind, and nothing is changed.
        samples: How many samples each client trained on, `[C]`. Clients with none have no say.
        state: The state that the last round gave; None in the first.
        rounds: T, the length of the run, over which the cost schedule goes.
        seed: Where classes are sampled, their choice is a function of it and of the round.
        options: Those of `turbosvm.heads.options.HeadOptions`, for instance kernel="rbf" or spread_out=False.

    Example:
        >>> import numpy as np
        >>> heads = np.array([[[2.0, 0.0], [0.0, 0.0]], [[4.0, 1.0], [-1.0, -1.0]]])  # two clients, two classes
        >>> merge_heads(heads, [10, 30], spread_out=False).head.tolist()  # the second client's rows support nothing
        [[2.0, 0.0], [0.0, 0.0]]
        >>> merge_heads(heads, [10, 30], optimiser="sgd", learning_rate=1.0).head.round(4).tolist()
        [[2.2707, 0.0], [-0.2707, 0.0]]
    """
    names = [field.name for field in fields(HeadOptions)]
    for name in options:
        if name not in names:
            raise unknown("option of merge_heads", name, names)
    chosen = HeadOptions(**options)
    if rounds < 1:
        raise TurboSVMError(f"rounds is {rounds}; it must be at least 1.")
    embeddings = as_embeddings(heads)
    counts = _checked_counts(samples, len(embeddings))
    number = 1 if state is None else state.round + 1
    moments = {} if state is None else _checked_moments(state.moments, embeddings, chosen.server_optimiser)
    step = head_step(embeddings, counts, moments, chosen, number, rounds, seed)
    if not is_numpy(heads):
        return MergedHeads(step.head, HeadState(number, dict(step.moments)), step.diagnostics)
    arrays = {name: value.cpu().numpy() for name, value in step.moments.items()}
    return MergedHeads(step.head.cpu().numpy(), HeadState(number, arrays), step.diagnostics)


class HeadStep(NamedTuple):
    """A head step's outcome in tensors."""

    head: Tensor
    moments: Moments
    diagnostics: Diagnostics


def head_step(
    heads: Tensor, counts: Tensor, moments: Moments, options: HeadOptions, number: int, rounds: int, seed: int
) -> HeadStep:
    """Merge checked heads `[C, K, D]` with sample counts `[C]`; without moments the optimiser begins anew."""
    watch = Stopwatch(heads.device)
    voting = counts > 0
    voters = heads if bool(voting.all()) else heads[voting.to(heads.device)]
    shares = (counts[voting] / counts.sum()).to(heads.device)
    classes = options.sampled(heads.shape[1], number, seed)
    if not (options.selection or options.spread_out):
        refuse_not_finite(heads)
        return HeadStep(_plain_mean(voters, shares), moments, {})
    seen = voters
    if len(classes) < heads.shape[1]:
        refuse_not_finite(heads)  # of all classes, not only of those that the SVMs see
        seen = voters[:, classes]
    limits = options.limits(number, rounds)
    watch.lap("check")
    samples, solution = fit_samples(seen, options.kernel_function, options.scheme, limits, watch)

    with full_precision():
        supports = support(samples, solution)
        weights = supports * shares if options.selection else shares.expand(supports.shape)
        weights = (weights / weights.sum(dim=1, keepdim=True)).to(samples.rows.dtype)
        embeddings = (weights[:, None] @ samples.rows).squeeze(1)  # relative to the samples' centre
        watch.lap("select")
        losses = []
        if options.spread_out:
            optimiser, planes = options.server_optimiser, hyperplanes_of(samples, solution)
            moments = moments or optimiser.init(heads[0].to(_state_type(heads)))
            own = {name: value[classes].to(samples.rows) for name, value in moments.items()}
            at = project(embeddings, planes)
            losses = [at.loss]
            for _ in range(options.steps):
                embeddings, own = optimiser.step(embeddings, spread_gradient(at, planes), own)
                at = project(embeddings, planes)
            losses += [at.loss]
            moments = {name: _with_rows(value, classes, own[name]) for name, value in moments.items()}
            watch.lap("spread")

    embeddings = (embeddings + samples.centre).to(heads.dtype)
    head = embeddings if seen is voters else _with_rows(_plain_mean(voters, shares), classes, embeddings)
    told = _diagnostics(supports, mean_slack(samples, solution), solution, losses, voting)
    told |= {"svm_cost": limits.cost, "svm_classes": len(classes)}
    told |= {f"seconds_head_{phase}": seconds for phase, seconds in watch.seconds.items()}
    return HeadStep(head, moments, told)


def _plain_mean(heads: Tensor, shares: Tensor) -> Tensor:
    """The mean of all clients' embeddings, weighted by their samples."""
    mean: Tensor = torch.tensordot(shares, heads.double(), dims=1)
    return mean.to(heads.dtype)


def _with_rows(table: Tensor, rows: list[int], values: Tensor) -> Tensor:
    """Copy a table with some rows replaced."""
    if len(rows) == len(table):
        return values.to(table.dtype)
    table = table.clone()
    table[rows] = values.to(table.dtype)
    return table


def _state_type(heads: Tensor) -> torch.dtype:
    """Moments are kept in the heads' own precision, but never in less than float32."""
    return torch.promote_types(heads.dtype, torch.float32)


def _diagnostics(
    supports: Tensor, slack: Tensor, solution: Solution, losses: list[Tensor], voting: Tensor
) -> Diagnostics:
    """What a step tells of itself; all numbers leave the device in one go."""
    per_class, margin, iterations = supports.sum(dim=1).double(), margins(solution), solution.facts[:, 2]
    margin = torch.where(margin.isfinite(), margin, torch.nan)
    numbers = {
        "svm_support_mean": per_class.mean(),
        "svm_support_min": per_class.min(),
        "svm_support_max": per_class.max(),
        "svm_margin_mean": margin.nanmean(),
        "svm_margin_min": torch.nan_to_num(margin, nan=inf).min(),
        "svm_margin_max": torch.nan_to_num(margin, nan=-inf).max(),
        "svm_iterations_mean": iterations.mean(),
        "svm_iterations_max": iterations.max(),
        "svm_unsolved": (1 - solution.facts[:, 3]).sum(),
        **dict(zip(("spread_loss_before", "spread_loss_after"), losses, strict=False)),
    }
    clients = torch.stack([supports.double().mean(dim=0), slack.double().mean(dim=0)])
    everything = torch.cat([torch.stack([number.double() for number in numbers.values()]), clients.flatten()]).tolist()
    told: Diagnostics = dict(zip(numbers, everything, strict=False))
    voters = slack.shape[1]
    told["client_selected"] = _for_all_clients(everything[-2 * voters : -voters], voting)
    told["client_slack"] = _for_all_clients(everything[-voters:], voting)
    return told


def _for_all_clients(values: list[float], voting: Tensor) -> list[float]:
    """Put the voters' numbers among all clients; those without samples have none."""
    voters = iter(values)
    return [next(voters) if votes else nan for votes in voting.tolist()]


def _checked_counts(samples: Array | Sequence[float], clients: int) -> Tensor:
    """Take sample counts `[C]` to the CPU in float64, and refuse what cannot be one."""
    counts = to_tensor(samples, "sample counts").detach().double().cpu()
    if counts.shape != (clients,):
        raise TurboSVMError(
            f"Sample counts have the shape {tuple(counts.shape)} for {clients} clients; expected ({clients},)."
        )
    for client, count in enumerate(counts.tolist()):
        if not 0 <= count < inf:
            raise TurboSVMError(f"Client {client} has {count:g} samples; expected a number from 0 on.")
    if counts.sum() == 0:
        raise TurboSVMError("No client has any samples, so there is nothing to merge.")
    return counts


def _checked_moments(moments: dict[str, Any], heads: Tensor, optimiser: Optimiser) -> Moments:
    """Take the moments of an earlier round, which must be of this optimiser and of heads of this shape."""
    tensors = {name: to_tensor(value, "moments").to(heads.device) for name, value in moments.items()}
    wanted = {name: value.shape for name, value in optimiser.init(heads[0]).items()}
    found = {name: value.shape for name, value in tensors.items()}
    if tensors and found != wanted:
        raise TurboSVMError(
            f"The state has moments {_shapes(found)}; {optimiser.name} on these heads has {_shapes(wanted)}. "
            "A state belongs to one head and one optimiser."
        )
    return tensors


def _shapes(shapes: dict[str, torch.Size]) -> str:
    """Write names with their shapes."""
    return ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
