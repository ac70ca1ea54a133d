from dataclasses import replace
from functools import partial
from time import sleep
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.conftest import tiny_net
from turbosvm.algorithms.catalogue import CATALOGUE, find_algorithm
from turbosvm.algorithms.server import merge
from turbosvm.clients.training import LocalTraining
from turbosvm.data.federated import FederatedData
from turbosvm.data.split import Split, split_users
from turbosvm.experiment.algorithm import build_algorithm
from turbosvm.experiment.runner import repeatable
from turbosvm.models.contract import find_head
from turbosvm.simulation import Federation, Plan, Round, simulate
from turbosvm.svm import smo


def federation(data: FederatedData) -> Federation:
    net = tiny_net()
    return Federation(data, split_users(data, 0.25), net, find_head(net))


def rounds_of(data: FederatedData, algorithm: str, seed: int = 0, rounds: int = 8) -> list[Round]:
    plan = Plan(rounds, 4, LocalTraining(1, 4, 0.2), seed=seed)
    return list(simulate(federation(data), find_algorithm(algorithm), plan))


def test_a_fedavg_round_by_hand() -> None:
    """Two classes, one input, weights zero: client a (1 sample of class 0) sends (1/2, -1/2), client b (3 samples of
    class 1) sends (-1/2, 1/2), so the mean weighted 1 : 3 is (-1/4, 1/4). The held-out sample is of class 1."""
    one = np.ones((1, 1), np.float32)
    data = FederatedData.from_users({"a": (one, [0]), "b": (one.repeat(3, 0), [1, 1, 1]), "c": (one, [1])}, classes=2)
    module = nn.Linear(1, 2, bias=False)
    nn.init.zeros_(module.weight)
    model = nn.Sequential(module)
    setup = Federation(data, Split(train=(0, 1), held_out=(2,)), model, find_head(model, "0"))
    (only,) = simulate(setup, find_algorithm("fedavg"), Plan(1, 2, LocalTraining(1, 8, 1.0)))
    assert only.model.parameters["0.weight"].squeeze().tolist() == [-0.25, 0.25]
    assert only.samples == 4
    assert only.metrics is not None
    assert only.metrics.accuracy == 1.0
    assert only.metrics.loss == pytest.approx(np.log(1 + np.exp(-0.5)))
    assert only.bytes_down == only.bytes_up == 2 * 2 * 4  # two clients, two float32 numbers


@pytest.mark.parametrize("algorithm", CATALOGUE)
def test_the_same_seed_gives_the_same_rounds_bit_for_bit(algorithm: str, tiny_data: FederatedData) -> None:
    one, two = rounds_of(tiny_data, algorithm), rounds_of(tiny_data, algorithm)
    for first, second in zip(one, two, strict=True):
        assert first.cohort == second.cohort
        assert first.metrics == second.metrics
        assert first.train_loss == second.train_loss
        assert all(torch.equal(value, second.model.parameters[name]) for name, value in first.model.parameters.items())


def test_all_algorithms_see_the_same_cohorts_at_one_seed(tiny_data: FederatedData) -> None:
    names = [name for name in CATALOGUE if not find_algorithm(name).pooled]
    cohorts = {name: [finished.cohort for finished in rounds_of(tiny_data, name, seed=3)] for name in names}
    assert len(cohorts) >= 14
    assert all(seen == cohorts["fedavg"] for seen in cohorts.values())
    assert cohorts["fedavg"] != [finished.cohort for finished in rounds_of(tiny_data, "fedavg", seed=4)]


@pytest.mark.parametrize("algorithm", CATALOGUE)
def test_algorithms_learn(algorithm: str, tiny_data: FederatedData) -> None:
    rounds = rounds_of(tiny_data, algorithm, rounds=30)
    assert rounds[-1].metrics is not None
    assert rounds[-1].metrics.accuracy > 0.85
    assert rounds[0].metrics is not None
    assert rounds[-1].metrics.loss < 0.9 * rounds[0].metrics.loss


def test_held_out_users_never_train(tiny_data: FederatedData) -> None:
    held_out = set(federation(tiny_data).split.held_out)
    assert held_out
    assert all(held_out.isdisjoint(finished.cohort) for finished in rounds_of(tiny_data, "fedavg", rounds=20))


def test_evaluation_every_n_rounds_and_at_the_end(tiny_data: FederatedData) -> None:
    plan = Plan(8, 2, LocalTraining(1, 4, 0.1), evaluate_every=3)
    rounds = list(simulate(federation(tiny_data), find_algorithm("fedavg"), plan))
    assert [finished.number for finished in rounds if finished.metrics] == [3, 6, 8]


def test_a_run_neither_reads_nor_changes_global_generators(tiny_data: FederatedData) -> None:
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    one = rounds_of(tiny_data, "fedavg")[-1]
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert np.random.get_state()[1].tolist() == numpy_state  # type: ignore[index]  # noqa: NPY002
    torch.rand(5)
    two = rounds_of(tiny_data, "fedavg")[-1]
    assert torch.equal(one.model.parameters["head.weight"], two.model.parameters["head.weight"])


def test_seconds_are_told_by_phase(tiny_data: FederatedData) -> None:
    (first, *_) = rounds_of(tiny_data, "fedavg")
    assert set(first.seconds) == {"train", "merge", "evaluate"}
    assert all(seconds > 0 for seconds in first.seconds.values())


def test_buffers_can_be_frozen_as_in_the_published_code(tiny_data: FederatedData) -> None:
    for frozen in (True, False):
        net = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3))
        setup = Federation(tiny_data, split_users(tiny_data, 0.25), net, find_head(net, "1"))
        algorithm = replace(find_algorithm("fedadam"), frozen_buffers=frozen)
        last = list(simulate(setup, algorithm, Plan(3, 4, LocalTraining(1, 12, 0.2))))[-1]
        fresh = nn.BatchNorm1d(4)
        assert torch.equal(last.model.buffers["0.running_var"], fresh.running_var) == frozen  # type: ignore[arg-type]
        assert (last.model.buffers["0.num_batches_tracked"] == 0) == frozen


def test_cohorts_of_ones_own_differ_between_algorithms_and_repeat_for_one(tiny_data: FederatedData) -> None:
    plan = Plan(5, 4, LocalTraining(1, 4, 0.2), paired_cohorts=False)
    cohorts = [
        [finished.cohort for finished in simulate(federation(tiny_data), find_algorithm(name), plan)]
        for name in ("fedavg", "fedavgm", "fedavg")
    ]
    assert cohorts[0] == cohorts[2] != cohorts[1]


def test_published_moon_is_fedavg_and_keeps_nothing(tiny_data: FederatedData) -> None:
    moon = build_algorithm("moon", {"objective": {"contrast": False}})
    plan = Plan(6, 8, LocalTraining(1, 4, 0.2))
    ends = [list(simulate(federation(tiny_data), one, plan))[-1] for one in (moon, find_algorithm("fedavg"))]
    assert all(torch.equal(value, ends[1].model.parameters[key]) for key, value in ends[0].model.parameters.items())
    assert not ends[0].standing.memory.clients


def test_scaffold_is_told_how_many_clients_there_are_in_all(tiny_data: FederatedData) -> None:
    """After round 1 every c_n of the cohort is its change, so c is their sum over the number of training users."""
    setup = federation(tiny_data)
    (first,) = simulate(setup, find_algorithm("scaffold"), Plan(1, 4, LocalTraining(1, 4, 0.2)))
    memory = first.standing.memory
    kept = [memory.recall(client, torch.device("cpu"))["local"]["head.weight"] for client in first.cohort]
    c = first.standing.server.shared["local"]["head.weight"]
    torch.testing.assert_close(c, torch.stack(kept).sum(dim=0) / len(setup.split.train))


@pytest.mark.parametrize("algorithm", ["turbosvm", "fedavgm+turbosvm"])
def test_compiling_has_a_phase_of_its_own_in_the_first_round_alone(
    algorithm: str, tiny_data: FederatedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = partial(sleep, 0.3)
    compiled: list[Any] = []

    def solve(problems: Any, within: Any, *others: Any) -> None:
        """Stands in for the compiled loops: what they are called with first, they compile for."""
        if within.dtype not in compiled:
            compiled.append(within.dtype)
            slow()
        solve_compiled(problems, within, *others)

    solve_compiled = smo.solve
    monkeypatch.setattr(smo, "solve", solve)
    first, *later = rounds_of(tiny_data, algorithm, rounds=3)
    assert compiled == [np.float32, np.float64]
    assert first.seconds["compile"] >= 0.6
    assert first.seconds["merge"] < 0.3
    assert set(first.seconds) == {"compile", "train", "merge", "evaluate"}
    assert all(set(finished.seconds) == {"train", "merge", "evaluate"} for finished in later)


def test_what_compiles_nothing_has_no_such_phase(tiny_data: FederatedData) -> None:
    for algorithm in ("fedavg", "fedaws"):
        assert all("compile" not in finished.seconds for finished in rounds_of(tiny_data, algorithm, rounds=2))


def test_the_server_computes_with_threads_of_its_own(tiny_data: FederatedData, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def watched(*arguments: Any) -> Any:
        seen.append(torch.get_num_threads())
        return merge(*arguments)

    monkeypatch.setattr("turbosvm.simulation.merge", watched)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        rounds_of(tiny_data, "fedadam", rounds=2)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert seen == [1, 1]


@pytest.mark.parametrize("algorithm", ["fedadam", "fedaws", "turbosvm"])
def test_a_wide_head_is_merged_to_the_same_bits_at_any_number_of_threads(algorithm: str) -> None:
    rng = np.random.default_rng(0)
    samples = {f"{user}": (rng.normal(size=(2, 4)).astype(np.float32), rng.integers(0, 62, 2)) for user in range(12)}
    data, found = FederatedData.from_users(samples, classes=62), []
    for threads in (1, 2, 3):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            module = nn.Sequential(nn.Linear(4, 2048), nn.ReLU(), nn.Linear(2048, 62))
        setup = Federation(data, split_users(data, 0.25), module, find_head(module, "2"))
        with repeatable(torch.device("cpu"), threads):
            *_, last = simulate(setup, find_algorithm(algorithm), Plan(2, 8, LocalTraining(1, 4, 0.2)))
        found.append(last.model.parameters["2.weight"])
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
