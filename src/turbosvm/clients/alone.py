"""Whether a model can train on one sample alone, found out by trying; and what that means for the last batch.

BatchNorm behind a linear layer cannot: the variance of one number is none. Nor can what a model of one's own computes
over its batch. So nothing is looked up; the model is tried on one sample and, if that goes wrong, on several.
"""

import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from turbosvm.clients.probe import probe
from turbosvm.clients.training import LocalTraining, batch_sizes
from turbosvm.clients.workbench import Workbench
from turbosvm.data.federated import FederatedData
from turbosvm.errors import in_one_line
from turbosvm.randomness import lend_to_global

SEVERAL = 8
"""Samples that a model is tried on where it has failed on one."""
NOT_FINITE = "its numbers are not finite then"


def settle(
    training: LocalTraining,
    bench: Workbench,
    data: FederatedData,
    users: Sequence[int],
    seed: int,
    pooled: bool,
    say: Callable[[str], None],
) -> LocalTraining:
    """Decide what becomes of a last batch of one sample where nobody has said it.

    Where the model cannot train on one sample, the settings then say why. It is tried only where there is a batch of
    one sample. `say` is told where batches are not as usual.
    """
    counts = [int(count) for count in np.unique(data.counts[list(users)])]
    asked = training.last_batch
    if asked == "keep" or not (pooled or any(1 in batch_sizes(count, training) for count in counts)):
        return replace(training, last_batch=asked or "keep")
    why = cannot_train_alone(bench, data, users, seed)
    if asked:
        return replace(training, not_alone=why)
    settled = replace(training, last_batch="merge" if why else "keep", not_alone=why)
    others = any(batch_sizes(count, settled) != batch_sizes(count, training) for count in counts)
    if why and (pooled or others):
        say(
            "A last batch of one sample joins the one before it (client.last_batch): "
            f"model {type(bench.module).__name__} cannot train on one sample alone ({why})."
        )
    return settled


def cannot_train_alone(bench: Workbench, data: FederatedData, users: Sequence[int], seed: int) -> str | None:
    """Why the model cannot train on one sample, though it can on several; None if that is not so."""
    inputs = probe(data, users, SEVERAL, bench.device)
    with lend_to_global(seed, "layers"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what goes wrong is told in our words
        alone = _what_goes_wrong(bench, inputs[:1])
        together = _what_goes_wrong(bench, inputs) if alone else None
    return alone if together is None or alone != together == NOT_FINITE else None


def _what_goes_wrong(bench: Workbench, inputs: Tensor) -> str | None:
    """What goes wrong in a training step on these inputs; neither the model's numbers nor its mode change."""
    try:
        tried = bench.on(deepcopy(bench.module))
    except Exception:  # some models cannot be copied
        tried = bench
    before, was_training = tried.state(), tried.module.training
    tried.module.train()
    try:
        logits = tried.run(inputs)[0]
        loss = functional.cross_entropy(logits, torch.zeros(len(inputs), dtype=torch.int64, device=inputs.device))
        wanted = [value for value in tried.module.parameters() if value.requires_grad]
        found = torch.autograd.grad(loss, wanted, allow_unused=True) if wanted else ()
        tried.take_in_buffers()
        after = [value for name, value in tried.state().buffers.items() if before.buffers[name].isfinite().all()]
        made = [logits, *(value for value in found if value is not None), *after]
        return None if all(bool(value.isfinite().all()) for value in made) else NOT_FINITE
    except torch.OutOfMemoryError:
        return None
    except Exception as error:  # the person's own model may raise anything
        return in_one_line(error)
    finally:
        tried.load(before)
        tried.module.train(was_training)
