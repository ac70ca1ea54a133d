"""Every metric against scikit-learn on random data."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from torch import nn

from tests.conftest import tiny_net
from turbosvm.evaluation.metrics import accuracy, evaluate, macro_auc, macro_f1, mcc


def random_answers(seed: int, classes: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Skewed truth, so that some classes are rare or absent, and predictions that are right half of the time."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(classes, 0.5))
    truth = rng.choice(classes, size=n, p=weights)
    guess = rng.choice(classes, size=n, p=rng.permutation(weights))
    return truth, np.where(rng.random(n) < 0.5, truth, guess)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.integers(1, 300))
def test_agrees_with_scikit_learn(seed: int, classes: int, n: int) -> None:
    truth, predicted = random_answers(seed, classes, n)
    confusion = torch.from_numpy(sk.confusion_matrix(truth, predicted, labels=range(classes)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns of single-class problems
        assert accuracy(confusion) == pytest.approx(sk.accuracy_score(truth, predicted), abs=1e-12)
        assert macro_f1(confusion) == pytest.approx(
            sk.f1_score(truth, predicted, average="macro", zero_division=0), abs=1e-12
        )
        assert mcc(confusion) == pytest.approx(sk.matthews_corrcoef(truth, predicted), abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.integers(12, 200), st.booleans())
def test_auc_agrees_with_scikit_learn(seed: int, classes: int, n: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    truth = np.concatenate([np.arange(classes), rng.integers(0, classes, n)])
    scores = rng.dirichlet(np.ones(classes), size=len(truth))
    if ties:
        scores = np.round(scores * 4) + 1
        scores /= scores.sum(axis=1, keepdims=True)
    expected = np.mean([sk.roc_auc_score(truth == k, scores[:, k]) for k in range(classes)])
    got = macro_auc(torch.from_numpy(scores), torch.from_numpy(truth))
    assert got == pytest.approx(expected, abs=1e-9)


def test_evaluate_agrees_with_scikit_learn_whatever_the_batch() -> None:
    net, rng = tiny_net(), torch.Generator().manual_seed(3)
    inputs, labels = torch.randn(101, 4, generator=rng), torch.randint(0, 3, (101,), generator=rng)
    with torch.no_grad():
        logits = net(inputs)
    predicted, probabilities = logits.argmax(dim=1).numpy(), logits.softmax(dim=1).numpy()
    for batch_size in (1, 7, 101, 500):
        got = evaluate(net, inputs, labels, 3, batch_size)
        assert got.accuracy == pytest.approx(sk.accuracy_score(labels, predicted))
        assert got.macro_f1 == pytest.approx(sk.f1_score(labels, predicted, average="macro"))
        assert got.mcc == pytest.approx(sk.matthews_corrcoef(labels, predicted))
        assert got.loss == pytest.approx(nn.CrossEntropyLoss()(logits, labels).item(), rel=1e-5)
        assert got.auc == pytest.approx(sk.roc_auc_score(labels, probabilities, multi_class="ovr"), abs=1e-6)


def test_evaluate_uses_running_statistics_and_restores_the_mode() -> None:
    net = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3))
    net.train()
    evaluate(net, torch.randn(8, 4), torch.zeros(8, dtype=torch.int64), 3)
    assert net.training
    assert net[0].num_batches_tracked == 0


class Echo(nn.Module):
    """Its inputs are its logits."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs


def test_a_sample_whose_logits_are_not_finite_is_never_right() -> None:
    logits = torch.tensor([[math.nan, 1.0, 2.0], [1.0, 2.0, 3.0], [3.0, math.inf, 1.0], [0.0, 1.0, 0.0]])
    got = evaluate(Echo(), logits, torch.tensor([0, 2, 1, 1]), 3)
    as_other_class = np.array([3, 2, 3, 1])
    truth = np.array([0, 2, 1, 1])
    assert got.accuracy == 0.5
    assert got.macro_f1 == pytest.approx(sk.f1_score(truth, as_other_class, labels=[0, 1, 2], average="macro"))
    assert got.mcc == pytest.approx(sk.matthews_corrcoef(truth, as_other_class))


def test_a_broken_model_scores_nan_not_a_number() -> None:
    net = tiny_net()
    nn.init.constant_(net.head.bias, math.nan)
    got = evaluate(net, torch.randn(8, 4), torch.arange(8) % 3, 3)
    assert got.accuracy == 0
    assert math.isnan(got.loss)
    assert math.isnan(got.auc)
