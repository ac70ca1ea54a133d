"""Metrics of a classifier over all samples of the held-out users, gathered on the device.

Everything but the loss and AUC is read off one confusion matrix (rows: truth, columns: prediction). A last column
counts samples without an answer, those whose logits are not finite: they are never right. Names and conventions are
scikit-learn's: macro F1 is over the classes that occur in the truth or the predictions, an empty class scoring 0; MCC
is the K-class form R_K (Gorodkin 2004); AUC is one-vs-rest, the plain mean over the classes that occur.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from turbosvm.inputs import as_model_input
from turbosvm.precision import Precision, mixed

Places = npt.NDArray[np.int64] | Tensor
Map = Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]


class Unanswered(NamedTuple):
    """Samples whose logits are not finite."""

    samples: int
    of: int
    """How many were evaluated."""
    first: int
    """The place of the first of them."""


@dataclass(frozen=True)
class Metrics:
    """One evaluation: shares from 0 to 1 (MCC from -1 to 1), mean cross-entropy loss."""

    accuracy: float
    macro_f1: float
    mcc: float
    loss: float
    auc: float
    unanswered: Unanswered | None = None


Fetch = Callable[[Places], tuple[Tensor, Tensor]]
"""From places of samples to their inputs and labels, on the model's device."""


def evaluate(module: nn.Module, inputs: Tensor, labels: Tensor, classes: int, batch_size: int = 512) -> Metrics:
    """Evaluate a model on tensors; it is left in the mode (training or not) that it was in."""
    places = np.arange(len(labels))
    return evaluate_at(module, places, lambda some: (inputs[some], labels[some]), classes, batch_size)


def evaluate_at(
    module: nn.Module,
    places: Places,
    fetch: Fetch,
    classes: int,
    batch_size: int,
    each: Map = map,
    precision: Precision = "float32",
) -> Metrics:
    """Evaluate a model on the samples at these places, fetched a batch at a time; `each` may be the map of a pool."""
    was_training, device = module.training, next(module.parameters(), torch.empty(0)).device
    batches = [places[start : start + batch_size] for start in range(0, len(places), batch_size)]

    @torch.no_grad()
    def answer(batch: Places) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        inputs, truth = fetch(batch)
        with mixed(precision, device):
            logits = module(as_model_input(inputs))
        logits = logits if logits.dtype == torch.float64 else logits.float()
        answers = torch.where(logits.isfinite().all(dim=1), logits.argmax(dim=1), classes)
        loss = functional.cross_entropy(logits, truth, reduction="sum").double()
        return logits.softmax(dim=1).float(), truth, answers, loss

    module.eval()
    try:
        scores, truths, answers, losses = zip(*each(answer, batches), strict=True)
    finally:
        module.train(was_training)
    truth = torch.cat(truths)
    answer_of_each = torch.cat(answers)
    pairs = truth * (classes + 1) + answer_of_each
    confusion = torch.bincount(pairs, minlength=classes * (classes + 1)).view(classes, classes + 1).cpu()
    unanswered = None
    if lost := int(confusion[:, classes].sum()):
        first = int((answer_of_each == classes).nonzero()[0])
        unanswered = Unanswered(lost, len(places), int(places[first]))
    return Metrics(
        accuracy=accuracy(confusion),
        macro_f1=macro_f1(confusion),
        mcc=mcc(confusion),
        loss=float(torch.stack(losses).sum()) / len(places),
        auc=macro_auc(torch.cat(scores), truth),
        unanswered=unanswered,
    )


def accuracy(confusion: Tensor) -> float:
    """Share of samples on the diagonal."""
    return int(confusion.diagonal().sum()) / int(confusion.sum())


def macro_f1(confusion: Tensor) -> float:
    """Mean over classes of F1 = 2 TP / (2 TP + FP + FN)."""
    hits = confusion.diagonal().double()
    truth, predicted = confusion.sum(dim=1), confusion.sum(dim=0)[: len(confusion)]
    ends = (truth + predicted).double()  # = 2 TP + FP + FN
    occurs = ends > 0
    return float((2 * hits[occurs] / ends[occurs]).mean())


def mcc(confusion: Tensor) -> float:
    """Matthews correlation coefficient of K classes; 0 where truth or prediction is constant."""
    truth, predicted = confusion.sum(dim=1).double(), confusion.sum(dim=0).double()
    n, hits = confusion.sum().double(), confusion.diagonal().sum().double()
    covariance = hits * n - truth @ predicted[: len(truth)]
    spread = (n**2 - truth @ truth) * (n**2 - predicted @ predicted)
    return float(covariance / spread.sqrt()) if spread > 0 else 0.0


def macro_auc(scores: Tensor, labels: Tensor) -> float:
    """Mean over classes of the area under the one-vs-rest ROC curve, by ranks; ties count half. NaN if undefined."""
    if not scores.isfinite().all():
        return float("nan")
    samples, classes = scores.shape
    ordered = _keys(scores.T.sort(dim=1).values, torch.arange(classes, device=labels.device).unsqueeze(1)).flatten()
    own = _keys(scores.gather(1, labels.unsqueeze(1)).squeeze(1), labels)
    below, not_above = (torch.searchsorted(ordered, own, right=right) - labels * samples for right in (False, True))
    rank = (below + not_above + 1).double() / 2  # of each sample among all in the score for its class, from 1 on
    ranks = torch.zeros(classes, dtype=torch.float64, device=labels.device).index_add_(0, labels, rank).cpu()
    positive = torch.bincount(labels, minlength=classes).double().cpu()
    areas = (ranks - positive * (positive + 1) / 2) / (positive * (samples - positive))
    return float(areas[(positive > 0) & (positive < samples)].mean())


def _keys(scores: Tensor, classes: Tensor) -> Tensor:
    """Whole numbers that order scores by class first; bits of floats that are not negative order as the floats do."""
    return (classes << 32) + scores.float().contiguous().view(torch.int32).long()
