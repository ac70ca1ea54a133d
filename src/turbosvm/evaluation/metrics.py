"""Metrics of a classifier over all samples of the held-out users, gathered on the device.

Everything but the loss and AUC is read off one confusion matrix (rows: truth, columns: prediction). A last column
counts samples without an answer, those whose logits are not finite: they are never right. Names and conventions are
scikit-learn's: macro F1 is over the classes that occur in the truth or the predictions, an empty class scoring 0; MCC
is the K-class form R_K (Gorodkin 2004); AUC is one-vs-rest, the plain mean over the classes that occur.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from turbosvm.inputs import as_model_input


@dataclass(frozen=True)
class Metrics:
    """One evaluation: shares from 0 to 1 (MCC from -1 to 1), mean cross-entropy loss."""

    accuracy: float
    macro_f1: float
    mcc: float
    loss: float
    auc: float


@torch.no_grad()
def evaluate(module: nn.Module, inputs: Tensor, labels: Tensor, classes: int, batch_size: int = 512) -> Metrics:
    """Evaluate a model in large batches; leaves it in the mode (training or not) that it was in."""
    was_training = module.training
    module.eval()
    columns = classes + 1
    confusion = torch.zeros(classes * columns, dtype=torch.int64, device=labels.device)
    loss = torch.zeros((), dtype=torch.float64, device=labels.device)
    scores = torch.empty(len(labels), classes, device=labels.device)
    for start in range(0, len(labels), batch_size):
        batch = slice(start, start + batch_size)
        logits = module(as_model_input(inputs[batch]))
        truth = labels[batch]
        scores[batch] = logits.softmax(dim=1)
        answers = torch.where(logits.isfinite().all(dim=1), logits.argmax(dim=1), classes)
        confusion += torch.bincount(truth * columns + answers, minlength=classes * columns)
        loss += functional.cross_entropy(logits, truth, reduction="sum").double()
    module.train(was_training)
    matrix = confusion.view(classes, columns)
    return Metrics(
        accuracy=accuracy(matrix),
        macro_f1=macro_f1(matrix),
        mcc=mcc(matrix),
        loss=float(loss) / len(labels),
        auc=macro_auc(scores, labels),
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
    areas = []
    for k in range(scores.shape[1]):
        positive = labels == k
        p = int(positive.sum())
        if 0 < p < len(labels):
            ordered = scores[:, k].sort().values
            own = scores[positive, k].contiguous()
            below = torch.searchsorted(ordered, own, right=False).sum()
            not_above = torch.searchsorted(ordered, own, right=True).sum()
            ranks = (below + not_above + p).double() / 2  # sum of the positives' mean ranks, counted from 1
            areas.append(float((ranks - p * (p + 1) / 2) / (p * (len(labels) - p))))
    return sum(areas) / len(areas) if areas else float("nan")
