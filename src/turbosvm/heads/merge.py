"""`merge_heads`: TurboSVM's head step as one pure function, for anyone's own federated learning.

The clients' class embeddings are the samples of a K-class problem. SVMs are fitted to them; each class takes the mean
of those of its embeddings that are a support vector somewhere (Algorithm 1); one step of the server's optimiser then
spreads the classes along the SVMs' normals (Algorithm 2).

    w_k <- sum_m |D_m| v_k^m / sum_m |D_m|  over the support vectors v_k^m of class k
    w_k <- server_optimiser(w_k, -grad l_sp)

Wang, Bodonhelyi, Bozkir, Kasneci: TurboSVM-FL: Boosting Federated Learning through SVM Aggregation for Lazy Clients.
AAAI 2024.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import inf, nan
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from turbosvm.averaging import shares, weighted_mean
from turbosvm.errors import TurboSVMError, unknown
from turbosvm.heads.graphs import fast_step
from turbosvm.heads.options import HeadOptions
from turbosvm.heads.spread import noise_of_normal
from turbosvm.heads.step import StepInputs, Stepped, Told
from turbosvm.optimisers import Moments, Optimiser
from turbosvm.stopwatch import Stopwatch
from turbosvm.svm.arrays import Array, as_embeddings, refuse_not_finite, to_tensor
from turbosvm.svm.machine import unfit
from turbosvm.svm.precision import full_precision, precisions, trusted
from turbosvm.svm.solver import Fact
from turbosvm.transfer import sent_to
from turbosvm.values import as_whole
from turbosvm.workers import own_threads

Diagnostics = dict[str, Any]
"""Numbers, and under names that begin with `client_` lists with one for each client."""

TINY = 1e-290
"""The smallest share of samples, of the largest, that a client may have; smaller ones would vanish in divisions."""


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
    heads: Array | Iterable[Array],
    samples: Array | Sequence[float],
    state: HeadState | None = None,
    *,
    rounds: int = 100,
    seed: int = 0,
    **options: Any,
) -> MergedHeads:
    """Merge the heads of a round's clients as TurboSVM-FL does.

    Args:
        heads: `[C, K, D]`, or C heads `[K, D]`: one row (not column) a class, with the bias as its last number if
            the layer has one. NumPy or PyTorch, on the CPU or CUDA; the result is of the same kind, nothing is changed.
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
            raise unknown("option", name, names, where="of merge_heads")
    rounds, seed = as_whole("rounds", rounds, 1), as_whole("seed", seed, -(2**62))
    return merge_with(HeadOptions(**options), heads, samples, state, rounds, seed)


def merge_with(
    options: HeadOptions,
    heads: Array | Iterable[Array],
    samples: Array | Sequence[float],
    state: HeadState | None,
    rounds: int,
    seed: int,
) -> MergedHeads:
    """Do what `merge_heads` does, with options that have been checked once and for all."""
    embeddings, as_numpy = as_embeddings(heads)
    counts = _checked_counts(samples, len(embeddings))
    number, moments = _checked_state(state, embeddings, options.server_optimiser)
    with full_precision(), own_threads():
        step = head_step(embeddings, counts, moments, options, number, rounds, seed)
    if not as_numpy:
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
    classes = options.sampled(heads.shape[1], number, seed)
    sampled, all_vote, fits = len(classes) < heads.shape[1], bool(voting.all()), options.selection or options.spread_out
    if sampled or not (all_vote and fits):
        refuse_not_finite(heads)  # the SVMs would not see all of them
    voters = heads if all_vote else heads[voting.to(heads.device)]
    votes = (counts[voting] / counts.max()).clamp(min=TINY)
    if not fits:
        return HeadStep(weighted_mean(voters, votes), moments, {})
    if options.spread_out and not moments:
        moments = options.server_optimiser.init(heads[0].to(torch.promote_types(heads.dtype, torch.float32)))
    seen, own = voters, moments
    if sampled:
        seen, own = voters[:, classes], {name: value[classes] for name, value in moments.items()}
    limits = options.limits(number, rounds)
    watch.lap("check")
    stepped, told = _precise_step(StepInputs(seen, sent_to(shares(votes), heads.device), own, limits), options, watch)
    head, own = stepped.embeddings, stepped.moments
    if sampled:
        head = _with_rows(weighted_mean(voters, votes), classes, head)
        own = {name: _with_rows(value, classes, own[name]) for name, value in moments.items()}
    diagnostics = _diagnostics(told, voting) | {"svm_cost": limits.cost, "svm_classes": len(classes)}
    diagnostics |= {f"seconds_head_{phase}": round(seconds, 6) for phase, seconds in watch.seconds.items()}
    return HeadStep(head, own, diagnostics)


def _precise_step(inputs: StepInputs, options: HeadOptions, watch: Stopwatch) -> tuple[Stepped, Told]:
    """Step in float32, and once more in float64 where the rounding of the first could be felt."""
    clients, classes, _ = inputs.heads.shape
    for dtype in precisions(inputs.heads):
        stepped = fast_step(inputs, options, dtype, watch)
        if stepped:
            told = Told.unpack(stepped.packed, classes, clients, options)
            if trusted(dtype, told.rounding, told.facts, inputs.limits.tol):
                if not told.finite:
                    raise TurboSVMError(
                        "The server's step led to numbers that are not finite: look at its learning_rate and eps, "
                        "and at the moments in the state."
                    )
                return stepped, told
    raise unfit(inputs.heads, options.kernel_function)


def _with_rows(table: Tensor, rows: list[int], values: Tensor) -> Tensor:
    """Copy a table with some rows replaced."""
    table = table.clone()
    table[rows] = values
    return table


def _diagnostics(told: Told, voting: Tensor) -> Diagnostics:
    """Sum up what a step has told."""
    per_class, iterations = told.selected.sum(axis=1), told.facts[:, Fact.ITERATIONS]
    squared_norm, noise = told.facts[:, Fact.SQUARED_NORM], (told.facts[:, Fact.WEIGHT], told.facts[:, Fact.GAP])
    margin = 2 / np.sqrt(squared_norm[squared_norm > noise_of_normal(told.rounding, *noise)])
    narrowest, mean, widest = (margin.min(), margin.mean(), margin.max()) if margin.size else (nan, nan, nan)
    return {
        "svm_support_mean": float(per_class.mean()),
        "svm_support_min": float(per_class.min()),
        "svm_support_max": float(per_class.max()),
        "svm_margin_mean": float(mean),
        "svm_margin_min": float(narrowest),
        "svm_margin_max": float(widest),
        "svm_iterations_mean": float(iterations.mean()),
        "svm_iterations_max": float(iterations.max()),
        "svm_unsolved": float((told.facts[:, Fact.CONVERGED] == 0).sum()),
        **dict(zip(("spread_loss_before", "spread_loss_after"), told.losses.tolist(), strict=False)),
        "client_selected": _for_all_clients(told.selected.mean(axis=0), voting),
        "client_slack": _for_all_clients(told.slack.mean(axis=0), voting),
    }


def _for_all_clients(values: NDArray[np.float64], voting: Tensor) -> list[float]:
    """Put the voters' numbers among all clients; those without samples have none."""
    voters = iter(values.tolist())
    return [next(voters) if votes else nan for votes in voting.tolist()]


def _checked_counts(samples: Array | Sequence[float], clients: int) -> Tensor:
    """Take sample counts `[C]` to the CPU in float64, and refuse what cannot be one."""
    counts = to_tensor(samples, "sample counts")
    if counts.is_complex():
        raise TurboSVMError("The sample counts are complex; expected plain numbers.")
    counts = counts.double().cpu()
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


def _checked_state(state: HeadState | None, heads: Tensor, optimiser: Optimiser) -> tuple[int, Moments]:
    """Return the number of this round and the optimiser's moments, which must be those of such heads."""
    if state is None:
        return 1, {}
    if not isinstance(state, HeadState) or not isinstance(state.moments, Mapping):
        raise TurboSVMError(
            f"The state is a {type(state).__name__}; expected the `state` of an earlier result, or None."
        )
    number = as_whole("The state's round", state.round, 0) + 1
    tensors = {name: to_tensor(value, "moments") for name, value in state.moments.items()}
    wanted, found = optimiser.shapes(heads[0]), {name: value.shape for name, value in tensors.items()}
    if tensors and (found != wanted or not all(value.is_floating_point() for value in tensors.values())):
        raise TurboSVMError(
            f"The state has moments {_shapes(found)}; {optimiser.name} on these heads has {_shapes(wanted)}, all "
            "floating-point. A state belongs to one head and one kind of optimiser."
        )
    return number, {name: value.to(heads.device) for name, value in tensors.items()}


def _shapes(shapes: dict[str, torch.Size]) -> str:
    """Write names with their shapes."""
    return ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
