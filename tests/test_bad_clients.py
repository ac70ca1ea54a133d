"""Rounds with clients that fail: who and why is told, the others go on, and nothing is mended in silence."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import turbosvm
from tests.conftest import tiny_net
from tests.conftest import turbosvm as command
from tests.test_simulation import federation
from turbosvm.algorithms.catalogue import find_algorithm
from turbosvm.clients.local import Call
from turbosvm.clients.memory import ClientMemory
from turbosvm.clients.replies import stack
from turbosvm.clients.sequential import train_clients
from turbosvm.clients.training import LocalTraining
from turbosvm.clients.workbench import Workbench
from turbosvm.data.federated import FederatedData
from turbosvm.data.store import save
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.algorithm import build_algorithm
from turbosvm.models.contract import state_of
from turbosvm.seals import unsealed
from turbosvm.simulation import Plan, Round, begin, simulate
from turbosvm.snapshot import pack_run, unpack
from turbosvm.types import Moment

TRAINING = LocalTraining(1, 4, 0.2)


def spoil(data: FederatedData, users: list[int]) -> FederatedData:
    """Inputs of these users become no numbers after they were checked, so that their weights will not be either."""
    inputs = np.array(data.inputs)
    spoilt = replace(data, inputs=inputs)
    for user in users:
        inputs[data.offsets[user] : data.offsets[user + 1]] = np.nan
    return spoilt


def rounds_of(data: FederatedData, plan: Plan, name: str = "fedavg") -> list[Round]:
    return list(simulate(federation(data), find_algorithm(name), plan))


def train_users(data: FederatedData) -> list[int]:
    return list(federation(data).split.train)


def test_the_rest_are_merged_as_if_the_bad_ones_had_not_been_there(tiny_data: FederatedData) -> None:
    setup = federation(tiny_data)
    plan = Plan(1, 4, TRAINING)
    (clean,) = simulate(setup, find_algorithm("fedavg"), plan)
    bad = list(clean.cohort[:2])
    (finished,) = rounds_of(spoil(tiny_data, bad), plan)
    assert [failure.client for failure in finished.failures] == bad
    assert finished.cohort == clean.cohort[2:]
    assert finished.samples == tiny_data.counts[list(clean.cohort[2:])].sum()
    assert finished.bytes_down == 2 * finished.bytes_up  # all four were sent the model
    weights = tiny_data.counts[list(finished.cohort)] / finished.samples
    start = federation(tiny_data)
    call = Call(state_of(start.module), {}, Moment(1, 1, 0))
    bench = Workbench(start.module, start.head)
    replies = train_clients(
        bench, call, tiny_data, finished.cohort, find_algorithm("fedavg"), TRAINING, ClientMemory(0)
    )
    cohort = stack(list(replies))  # type: ignore[arg-type]
    mean = torch.tensordot(torch.tensor(weights, dtype=torch.float32), cohort.parameters["head.weight"], dims=1)
    torch.testing.assert_close(finished.model.parameters["head.weight"], mean)


@pytest.mark.parametrize("name", ["fedavg", "scaffold", "fedadam+turbosvm"])
def test_a_round_without_enough_clients_leaves_all_as_it_was(name: str, tiny_data: FederatedData) -> None:
    users = train_users(tiny_data)
    plan = Plan(4, len(users), TRAINING, min_clients=len(users), max_failed_rounds=4)
    before, *_ = simulate(federation(tiny_data), find_algorithm(name), plan)
    assert before.cohort
    rounds = rounds_of(spoil(tiny_data, users[:1]), plan, name)
    assert len(rounds) == 4
    start = tiny_net()
    for number, finished in enumerate(rounds, start=1):
        assert finished.cohort == ()
        assert finished.samples == 0
        assert np.isnan(finished.train_loss)
        assert [failure.client for failure in finished.failures] == users[:1]
        assert finished.standing.failed_rounds == number
        assert finished.metrics is not None  # of the model that stayed
        for key, value in start.named_parameters():
            assert torch.equal(finished.model.parameters[key], value)
        assert not finished.standing.memory.clients


def test_too_many_failed_rounds_end_the_run_with_a_sentence(tiny_data: FederatedData) -> None:
    spoilt = spoil(tiny_data, train_users(tiny_data))
    rounds = simulate(federation(spoilt), find_algorithm("fedavg"), Plan(9, 4, TRAINING, max_failed_rounds=2))
    for _ in range(3):
        assert next(rounds).failed == "0 usable clients, at least 1 are needed"
    with pytest.raises(
        TurboSVMError,
        match=r"3 rounds failed \(max_failed_rounds is 2\)\. Round 3: 0 usable clients, at least 1 are needed; "
        r"user 'user-\d+': 'body.weight' is not finite\. If training has diverged, try smaller learning rates\.",
    ):
        next(rounds)


def test_failed_rounds_are_counted_in_all_not_in_a_row(tiny_data: FederatedData) -> None:
    spoilt = spoil(tiny_data, train_users(tiny_data)[:4])
    plan = Plan(40, 4, TRAINING, min_clients=4, max_failed_rounds=3)
    rounds, seen = simulate(federation(spoilt), find_algorithm("fedavg"), plan), [False]
    while sum(seen) < 4:
        seen.append(next(rounds).failed is not None)
    with pytest.raises(TurboSVMError, match="4 rounds failed"):
        next(rounds)
    assert any(not failed and any(seen[:place]) for place, failed in enumerate(seen))  # good rounds between bad ones


def test_a_server_step_that_leaves_the_numbers_is_a_failed_round(tiny_data: FederatedData) -> None:
    wild = build_algorithm("fedavgm", {"body": {"learning_rate": 3e38, "momentum": 0.0}})
    (finished,) = simulate(federation(tiny_data), wild, Plan(1, 4, LocalTraining(1, 4, 50.0)))
    assert finished.failed == "the server's step made 'body.weight' not finite"
    assert not finished.failures
    assert torch.equal(finished.model.parameters["body.weight"], tiny_net().body.weight)


def test_states_of_the_server_are_kept_finite_too(tiny_data: FederatedData) -> None:
    (finished,) = simulate(federation(tiny_data), find_algorithm("fedadam"), Plan(1, 4, LocalTraining(1, 12, 1e20)))
    assert finished.failed == "the server's step made 'second/body.weight' not finite"
    assert all(value.isfinite().all() for value in finished.standing.server.body.values())


def test_a_step_of_the_server_that_fails_is_told_of_at_the_end(tiny_data: FederatedData) -> None:
    wild = {"body": {"learning_rate": 3e38, "momentum": 0.0}}
    settings = {**FAST, "client": {"learning_rate": 50.0}}
    with pytest.warns(UserWarning, match=r"stopped: Nothing was merged in any of its 2 rounds \(the server's step"):
        turbosvm.run("fedavgm", data=tiny_data, model=tiny_net(), rounds=2, fedavgm=wild, **settings)


def test_replacing_leaves_what_a_client_kept_before(tiny_data: FederatedData) -> None:
    plan = Plan(2, 15, TRAINING, on_bad_client="replace")
    whole = list(simulate(federation(tiny_data), find_algorithm("scaffold"), plan))
    user = train_users(tiny_data)[0]
    one = whole[0].standing
    (two,) = simulate(federation(spoil(tiny_data, [user])), find_algorithm("scaffold"), plan, one)
    assert [failure.client for failure in two.failures] == [user]
    assert two.failures[0].why.endswith("replaced by 1e-05")
    assert user in two.cohort
    cpu = torch.device("cpu")
    kept = [standing.memory.recall(user, cpu)["local"]["head.weight"] for standing in (one, two.standing)]
    assert torch.equal(*kept)


def test_failed_rounds_are_remembered_in_a_checkpoint(tiny_data: FederatedData) -> None:
    spoilt = spoil(tiny_data, train_users(tiny_data))
    plan = Plan(9, 4, TRAINING, max_failed_rounds=2)
    rounds = simulate(federation(spoilt), find_algorithm("fedavg"), plan)
    standing = [next(rounds) for _ in range(2)][-1].standing
    begun = begin(federation(spoilt), find_algorithm("fedavg"), plan)
    resumed = simulate(federation(spoilt), find_algorithm("fedavg"), plan, unpack(pack_run(standing), {}, begun))
    assert next(resumed).standing.failed_rounds == 3
    with pytest.raises(TurboSVMError, match="3 rounds failed"):
        next(resumed)


def test_a_round_that_is_held_can_be_gone_on_from_later(tiny_data: FederatedData) -> None:
    for name in ("scaffold", "moon"):
        plan = Plan(5, 8, TRAINING)
        whole = list(simulate(federation(tiny_data), find_algorithm(name), plan))
        again = list(simulate(federation(tiny_data), find_algorithm(name), plan, whole[1].standing))
        for key, value in whole[-1].model.parameters.items():
            assert torch.equal(value, again[-1].model.parameters[key])


def test_abort_ends_the_run_at_the_first_bad_client(tiny_data: FederatedData) -> None:
    bad = federation(tiny_data).split.train[0]
    plan = Plan(30, 4, TRAINING, on_bad_client="abort")
    with pytest.raises(
        TurboSVMError, match=rf"Round \d+: user 'user-{bad}': 'body.weight' is not finite \(on_bad_client"
    ):
        rounds_of(spoil(tiny_data, [bad]), plan)


FAST: dict[str, Any] = {"clients_per_round": 4, "client": {"batch_size": 4}, "threads": 1, "data.held_out": 0.25}


def test_records_say_who_and_why(tiny_data: FederatedData, tmp_path: Path) -> None:
    spoilt = spoil(tiny_data, train_users(tiny_data)[:5])
    with pytest.warns(UserWarning, match=r"fedavg seed 0: \d+ of 16 replies were bad \('body.weight' is not finite"):
        result = turbosvm.run("fedavg", data=spoilt, model=tiny_net(), rounds=4, out=tmp_path / "out", **FAST)
    assert result.folder is not None
    lines = [json.loads(line) for line in (result.folder / "records.jsonl").read_text().splitlines()]
    failures = [failure for line in lines for failure in line["failures"]]
    assert failures
    assert all(failure["why"].endswith("is not finite") for failure in failures)
    assert all(failure["user"] == f"user-{failure['client']}" for failure in failures)
    assert unsealed((result.folder / "ended.json").read_bytes())["stopped"] is None
    assert all(failure["client"] not in line["cohort"] for line in lines for failure in line["failures"])


def test_dropouts_are_recorded_and_the_same_for_every_algorithm(tiny_data: FederatedData) -> None:
    client = {"batch_size": 4, "dropout": 0.4}
    with pytest.warns(UserWarning, match=r"replies were bad \(it did not answer before the deadline\)"):
        runs = [
            turbosvm.run(name, data=tiny_data, model=tiny_net(), rounds=5, **{**FAST, "client": client})
            for name in ("fedavg", "moon")
        ]
    assert [list(run.records["failures"]) for run in runs[1:]] == [list(runs[0].records["failures"])]
    told = [failure for failures in runs[0].records["failures"] for failure in failures]
    assert {failure["why"] for failure in told} == {"it did not answer before the deadline"}
    assert 3 <= len(told) <= 14


def test_a_run_that_stops_keeps_its_records_and_tells_why(tiny_data: FederatedData) -> None:
    spoilt = spoil(tiny_data, train_users(tiny_data))
    with pytest.warns(UserWarning, match="fedavg seed 0 stopped: 2 rounds failed"):
        result = turbosvm.run("fedavg", data=spoilt, model=tiny_net(), rounds=9, max_failed_rounds=1, **FAST)
    assert len(result.records) == 2
    assert result.stopped is not None
    assert "stopped: 2 rounds failed" in repr(result)
    with pytest.warns(UserWarning, match="on_bad_client: abort"):
        comparison = turbosvm.compare(
            ["fedavg", "moon"], data=spoilt, model=tiny_net(), rounds=9, on_bad_client="abort", **FAST
        )
    assert [len(one.records) for one in comparison.results] == [0, 0]
    with pytest.raises(TurboSVMError, match="on_bad_client: abort"):
        turbosvm.run("fedavg", data=spoilt, model=tiny_net(), rounds=9, on_bad_client="abort", **FAST)


def test_in_a_comparison_the_others_go_on(
    tiny_data: FederatedData, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(spoil(tiny_data, train_users(tiny_data)[:1]), tmp_path / "spoilt")
    (tmp_path / "own_net.py").write_text("from tests.conftest import TinyNet\n")
    settings = [
        "clients_per_round=15",
        "data.held_out=0.25",
        "threads=1",
        "on_bad_client=abort",
        "fedprox.objective.mu=0.1",
    ]
    status = command(
        "compare", "fedavg", "fedprox", "--data", str(tmp_path / "spoilt"), "--model", "own_net:TinyNet",
        "--rounds", "2", "--out", str(tmp_path / "out"), *(part for setting in settings for part in ("--set", setting)),
    )  # fmt: skip
    printed = capsys.readouterr().out
    assert status == 1
    assert "fedavg seed 0 stopped: Round 1: user" in printed
    assert "fedprox seed 0 stopped: Round 1: user" in printed
    (told,) = (tmp_path / "out").glob("*/fedavg-seed0/ended.json")
    assert unsealed(told.read_bytes())["stopped"].startswith("Round 1: user 'user-")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"on_bad_client": "ignore"}, "on_bad_client"),
        ({"min_clients": 0}, "min_clients"),
        ({"min_clients": 5}, "'min_clients' is 5; it must be at most 4"),
        ({"max_failed_rounds": -1}, "max_failed_rounds"),
        ({"client": {"dropout": 1.0}}, r"client\.dropout"),
    ],
)
def test_policies_out_of_range_are_refused(settings: dict[str, Any], sentence: str, tiny_data: FederatedData) -> None:
    with pytest.raises(TurboSVMError, match=sentence):
        turbosvm.run("fedavg", data=tiny_data, model=tiny_net(), **{**FAST, **settings})
