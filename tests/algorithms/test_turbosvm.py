"""The TurboSVM rule in the framework: rounds, moments, ablation, records."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import turbosvm
from tests.conftest import tiny_net
from turbosvm.algorithms.head.turbosvm import TurboSVM
from turbosvm.data.federated import FederatedData
from turbosvm.heads.merge import HeadState, merge_heads
from turbosvm.types import Moment

FAST: dict[str, Any] = {"clients_per_round": 4, "client": {"batch_size": 4, "learning_rate": 0.05}, "threads": 1}


def clients(seed: int = 0) -> torch.Tensor:
    return torch.randn(4, 3, 6, generator=torch.Generator().manual_seed(seed))


def test_the_rule_is_merge_heads_at_the_runs_round_and_seed() -> None:
    rule, samples = TurboSVM(classes=2, learning_rate=0.1), torch.tensor([1, 2, 3, 4])
    old = torch.full((3, 6), 100.0)  # the old head plays no part
    state = rule.init(old)
    for number in (1, 2, 3):
        merged = rule.merge(old, clients(number), samples, state, Moment(number, 4, 9))
        expected = merge_heads(
            clients(number), samples, HeadState(number - 1, dict(state)), rounds=4, seed=9, classes=2, learning_rate=0.1
        )
        assert torch.equal(merged.embeddings, expected.head)
        assert merged.diagnostics["svm_cost"] == (4 - number + 1) / 4
        state = merged.state
    assert 3 <= state["steps"].sum() <= 6  # two of three classes a round
    assert state["steps"].sum() == 6


@pytest.mark.parametrize("bias", [True, False])
def test_without_both_parts_turbosvm_is_fedavg(tiny_data: FederatedData, bias: bool) -> None:
    off: dict[str, Any] = {"turbosvm": {"head": {"selection": False, "spread_out": False}}}
    runs = [
        turbosvm.run(name, data=tiny_data, model=tiny_net(bias=bias), rounds=3, **FAST, **options)
        for name, options in (("fedavg", off), ("turbosvm", off), ("turbosvm", {}))
    ]
    plain, ablated, whole = (run.model.state_dict() for run in runs)
    for name, value in plain.items():
        torch.testing.assert_close(ablated[name], value, atol=1e-5, rtol=1e-5)
    assert (whole["head.weight"] - plain["head.weight"]).abs().max() > 1e-3


def test_each_round_records_the_head_steps_diagnostics(tiny_data: FederatedData, tmp_path: Path) -> None:
    result = turbosvm.run("turbosvm", data=tiny_data, model=tiny_net(), rounds=3, out=tmp_path / "out", **FAST)
    assert result.folder is not None
    lines = [json.loads(line) for line in (result.folder / "records.jsonl").read_text().splitlines()]
    for number, line in enumerate(lines, start=1):
        assert line["svm_cost"] == pytest.approx((3 - number + 1) / 3)
        assert line["svm_support_min"] <= line["svm_support_mean"] <= line["svm_support_max"] <= 4
        assert line["spread_loss_after"] < line["spread_loss_before"] <= 3
        assert len(line["client_selected"]) == len(line["client_slack"]) == len(line["cohort"]) == 4
        assert all(0 <= share <= 1 for share in line["client_selected"])
        assert line["svm_unsolved"] == 0
        assert {f"seconds_head_{phase}" for phase in ("check", "gram", "solve", "select", "spread")} <= line.keys()


def test_the_same_seed_gives_the_same_run(tiny_data: FederatedData) -> None:
    one, two = (turbosvm.run("turbosvm", data=tiny_data, model=tiny_net(), rounds=4, **FAST) for _ in range(2))
    columns = [name for name in one.records if not str(name).startswith("seconds")]
    assert one.records[columns].equals(two.records[columns])


def test_options_reach_the_rule(tiny_data: FederatedData) -> None:
    head = {"kernel": "rbf", "cost": [1.0, 0.5], "classes": 2, "optimiser": "yogi", "steps": 2}
    result = turbosvm.run("turbosvm", data=tiny_data, model=tiny_net(), rounds=3, turbosvm={"head": head}, **FAST)
    resolved = result.config.algorithm.head
    assert {name: resolved[name] for name in head} == head | {"cost": (1.0, 0.5)}
    assert result.records["svm_cost"].tolist() == [1.0, 0.5, 0.5]
    assert result.records["svm_classes"].tolist() == [2, 2, 2]


def test_a_run_that_diverges_ends_as_one_of_fedavg_does(tiny_data: FederatedData) -> None:
    wild = FAST | {"client": {"learning_rate": 1e30}}
    with pytest.warns(UserWarning, match="seed 0") as warned:
        comparison = turbosvm.compare(["turbosvm", "fedavg"], data=tiny_data, model=tiny_net(), rounds=3, **wild)
    told = [str(one.message) for one in warned]
    assert told[0].startswith(
        "turbosvm seed 0: 8 of 12 replies were bad ('body.weight' is not finite), and 2 of 3 rounds"
    )
    assert any(sentence.startswith("fedavg seed 0 diverged") for sentence in told)
    assert len(comparison.results) == 2
    for result in comparison.results:
        assert len(result.records) == 3
        assert not math.isfinite(result.final["loss"])
