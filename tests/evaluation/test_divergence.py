"""A few samples without a finite answer are told of as such; only a model that has none for most has diverged."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import turbosvm
from tests.conftest import tiny_net
from turbosvm.data.federated import FederatedData
from turbosvm.data.split import split_users
from turbosvm.evaluation.divergence import has_diverged, why_not_finite
from turbosvm.evaluation.metrics import Unanswered, evaluate
from turbosvm.experiment.recorded import recorded
from turbosvm.report.records import read_run

FAST: dict[str, Any] = {"clients_per_round": 4, "client": {"batch_size": 4}, "threads": 1, "data.held_out": 0.25}
COLUMNS = ["not_finite_samples", "not_finite_of", "not_finite_user"]


def one_nan(data: FederatedData) -> tuple[FederatedData, str, int]:
    """The data with one number of a held-out user's second sample lost after it was checked; that user; all samples."""
    held_out = split_users(data, 0.25).held_out
    inputs = np.array(data.inputs)
    spoilt = replace(data, inputs=inputs)
    inputs[data.offsets[held_out[1]] + 1, 0] = np.nan
    return spoilt, data.users[held_out[1]], int(data.counts[list(held_out)].sum())


def test_evaluation_counts_them_and_says_where_the_first_is() -> None:
    inputs = torch.randn(20, 4)
    inputs[[7, 13]] = torch.nan
    labels = torch.zeros(20, dtype=torch.int64)
    for batch_size in (3, 20):
        assert evaluate(tiny_net(), inputs, labels, 3, batch_size).unanswered == Unanswered(2, 20, 7)
    assert evaluate(tiny_net(), inputs[:7], labels[:7], 3).unanswered is None


@pytest.mark.parametrize("engine", ["sequential", "threads"])
def test_one_bad_sample_is_not_a_divergence(tiny_data: FederatedData, tmp_path: Path, engine: str) -> None:
    data, user, samples = one_nan(tiny_data)
    sentence = f"fedavg seed 0: its answers are not finite for 1 of {samples} held-out samples, first of user '{user}'"
    with pytest.warns(UserWarning, match=sentence) as told:
        result = turbosvm.run("fedavg", data=data, model=tiny_net(), rounds=20, out=tmp_path, engine=engine, **FAST)
    assert len(told) == 1
    assert result.final["accuracy"] > 0.8
    assert result.folder is not None
    last = json.loads((result.folder / "records.jsonl").read_text().splitlines()[-1])
    assert [last[name] for name in COLUMNS] == [1, samples, user]
    assert last["loss"] is None
    report = read_run(result.folder)
    assert not report.diverged
    assert report.told == [f"{sentence}; these count as wrong."]


def test_undisturbed_records_have_no_such_columns(tiny_data: FederatedData, tmp_path: Path) -> None:
    result = turbosvm.run("fedavg", data=tiny_data, model=tiny_net(), rounds=2, out=tmp_path, **FAST)
    assert not set(COLUMNS) & set(result.records.columns)
    assert result.folder is not None
    assert not read_run(result.folder).told


def test_a_model_without_answers_has_diverged(tiny_data: FederatedData, tmp_path: Path) -> None:
    model = tiny_net()
    torch.nn.init.constant_(model.head.bias, torch.nan)
    with pytest.warns(UserWarning, match="diverged|Nothing was merged") as told:
        result = turbosvm.run("fedavg", data=tiny_data, model=model, rounds=1, out=tmp_path, **FAST)
    assert any("fedavg seed 0 diverged (its loss is not finite)" in str(one.message) for one in told)
    assert result.folder is not None
    assert has_diverged(recorded(result.folder)[-1])
    assert read_run(result.folder).diverged


@pytest.mark.parametrize(
    ("record", "diverged", "sentence"),
    [
        ({"accuracy": 0.5, "loss": 1.0}, False, ""),
        ({"accuracy": 0.1, "loss": None}, True, ""),  # older records do not count
        ({"accuracy": 0.8, "loss": None}, False, "its loss is not finite, though most of its answers are right"),
        ({"accuracy": 0.1, "loss": None, "not_finite_samples": 51, "not_finite_of": 100}, True, ""),
        (
            {"accuracy": 0.1, "loss": None, "not_finite_samples": 1500, "not_finite_of": 5000, "not_finite_user": "u7"},
            False,
            "its answers are not finite for 1,500 of 5,000 held-out samples, first of user 'u7'; these count as wrong",
        ),
        (  # a model that rules a class out by an infinite logit has a loss all the same
            {"accuracy": 0.9, "loss": 0.3, "not_finite_samples": 1, "not_finite_of": 10, "not_finite_user": "u7"},
            False,
            "its answers are not finite for 1 of 10 held-out samples, first of user 'u7'; these count as wrong",
        ),
    ],
)
def test_what_is_told_of_a_record(record: Mapping[str, Any], diverged: bool, sentence: str) -> None:
    assert has_diverged(record) == diverged
    if not diverged:
        assert why_not_finite(record) == sentence
