"""What every algorithm must do, whatever it is. A new row of the catalogue is picked up by itself."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from tests.conftest import tiny_net
from turbosvm.algorithms.catalogue import CATALOGUE, find_algorithm
from turbosvm.algorithms.rules import Algorithm
from turbosvm.algorithms.server import ServerStep, merge
from turbosvm.averaging import weighted_means
from turbosvm.blocks import in_order
from turbosvm.clients.local import Call
from turbosvm.clients.memory import ClientMemory
from turbosvm.clients.replies import Reply, stack
from turbosvm.clients.sequential import train_clients
from turbosvm.clients.training import LocalTraining
from turbosvm.clients.workbench import Workbench
from turbosvm.data.federated import FederatedData
from turbosvm.data.split import split_users
from turbosvm.models.contract import find_head
from turbosvm.simulation import Federation, Plan, Round, Standing, begin, simulate
from turbosvm.snapshot import pack_client, pack_run, unpack
from turbosvm.types import Cohort, Moment, Weights

COMBINATIONS = (
    "fedavgm+turbosvm",
    "fedprox+turbosvm",
    "fedadam+turbosvm",
    "moon+turbosvm",
    "scaffold+fedams+fedaws",
    "fedproc+fafed+fedyogi+turbosvm",
)
NAMES = [*CATALOGUE, *COMBINATIONS]
FEDERATED = [name for name in NAMES if not find_algorithm(name).pooled]
TRAINING, ROUNDS = LocalTraining(epochs=3, batch_size=12, learning_rate=0.1), 5
CPU = torch.device("cpu")


class Normed(nn.Module):
    """As TinyNet, with BatchNorm."""

    head_name = "head"

    def __init__(self, bias: bool) -> None:
        super().__init__()
        plain = tiny_net(bias=bias)
        plain.body.register_parameter("bias", None)  # BatchNorm would take it away again: its gradient is zero
        self.body = nn.Sequential(plain.body, nn.BatchNorm1d(5), nn.ReLU())
        self.head = plain.head

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.body(inputs))  # type: ignore[no-any-return]


def federation(data: FederatedData, bias: bool = True, norm: bool = False) -> Federation:
    module = Normed(bias) if norm else tiny_net(bias=bias)
    return Federation(data, split_users(data, 0.25), module, find_head(module))


def precise(name: str) -> Algorithm:
    """The algorithm, with what it solves by iteration solved well."""
    algorithm = find_algorithm(name)
    if algorithm.head is not None and "tol" in {field.name for field in fields(algorithm.head)}:  # type: ignore[arg-type]
        return replace(algorithm, head=replace(algorithm.head, tol=1e-9))  # type: ignore[type-var]
    return algorithm


def rounds(
    setup: Federation, algorithm: Algorithm, standing: Standing | None = None, last: int = ROUNDS
) -> list[Round]:
    found: list[Round] = []
    for finished in simulate(setup, algorithm, Plan(ROUNDS, 6, TRAINING), standing):
        found.append(finished)
        if finished.number == last:
            break
    return found


class Stage:
    """A federation after two rounds, and the cohort of the third: states are no longer zeros, some clients return."""

    def __init__(self, name: str, data: FederatedData, bias: bool = True, norm: bool = False) -> None:
        self.setup, self.algorithm = federation(data, bias, norm), precise(name)
        self.standing = rounds(self.setup, self.algorithm, last=2)[-1].standing
        self.moment = Moment(3, ROUNDS, 0)
        self.population = len(self.setup.split.train)

    def replies(self) -> list[Reply]:
        call = Call(self.standing.model, self.standing.server.shared, self.moment)
        bench, ids = Workbench(self.setup.module, self.setup.head), self.setup.split.train[:6]
        found = train_clients(bench, call, self.setup.data, ids, self.algorithm, TRAINING, self.standing.memory)
        return [reply for reply in found if isinstance(reply, Reply)]

    def merge(self, cohort: Cohort) -> ServerStep:
        server = self.standing.server
        head = self.setup.head
        return merge(self.algorithm, self.standing.model, cohort, server, head, self.moment, self.population)


def tensors_of(step: ServerStep) -> Iterator[tuple[str, Tensor]]:
    state = step.state
    groups = (step.model.parameters, step.model.buffers, state.body, state.head, *state.shared.values())
    for place, group in enumerate(groups):
        for name, value in group.items():
            yield f"{place}/{name}", value


def assert_close(one: ServerStep, two: ServerStep) -> None:
    for (name, first), (other, second) in zip(tensors_of(one), tensors_of(two), strict=True):
        assert name == other
        torch.testing.assert_close(first, second, atol=2e-5, rtol=2e-4)


def every_tensor(*things: Any) -> list[Tensor]:
    """Copies of all tensors in nested dictionaries and lists."""
    found: list[Tensor] = []
    for thing in things:
        if isinstance(thing, Tensor):
            found.append(thing.clone())
        elif isinstance(thing, Mapping):
            found += every_tensor(*thing.values())
    return found


@pytest.mark.parametrize("name", FEDERATED)
def test_the_order_of_clients_does_not_matter(name: str, tiny_data: FederatedData) -> None:
    stage = Stage(name, tiny_data)
    replies = stage.replies()
    assert len(replies) == 6
    assert_close(stage.merge(stack(replies)), stage.merge(stack([replies[place] for place in (4, 2, 5, 0, 3, 1)])))


@pytest.mark.parametrize("name", FEDERATED)
def test_scaling_all_sample_counts_does_not_matter(name: str, tiny_data: FederatedData) -> None:
    stage = Stage(name, tiny_data)
    cohort = stack(stage.replies())
    assert_close(stage.merge(cohort), stage.merge(replace(cohort, samples=1000 * cohort.samples)))


@pytest.mark.parametrize("name", FEDERATED)
def test_identical_clients_count_as_one(name: str, tiny_data: FederatedData) -> None:
    stage = Stage(name, tiny_data)
    reply = stage.replies()[0]
    one, three = stage.merge(stack([reply])), stage.merge(stack([reply] * 3))
    for key, value in one.model.parameters.items():
        torch.testing.assert_close(three.model.parameters[key], value, atol=2e-5, rtol=2e-4)
    assert all(value.isfinite().all() for _, value in tensors_of(one))
    if type(stage.algorithm.body) is type(CATALOGUE["fedavg"].body):
        assert torch.equal(one.model.parameters["body.weight"], reply.model.parameters["body.weight"])


@pytest.mark.parametrize("name", FEDERATED)
def test_inputs_are_not_changed(name: str, tiny_data: FederatedData) -> None:
    stage = Stage(name, tiny_data, norm=True)
    server, model = stage.standing.server, stage.standing.model
    first = every_tensor(model.parameters, model.buffers, server.body, server.head, server.shared)
    cohort = stack(stage.replies())
    sent = (cohort.parameters, cohort.buffers, cohort.sent, cohort.samples)
    before = every_tensor(*sent)
    stage.merge(cohort)
    assert all(map(torch.equal, before, every_tensor(*sent)))
    after = every_tensor(model.parameters, model.buffers, server.body, server.head, server.shared)
    assert all(map(torch.equal, first, after))
    assert len(first) == len(after) >= 8


@pytest.mark.parametrize("name", FEDERATED)
def test_buffers_are_averaged_and_counters_take_the_largest(name: str, tiny_data: FederatedData) -> None:
    stage = Stage(name, tiny_data, norm=True)
    cohort = stack(stage.replies())
    merged = stage.merge(cohort).model.buffers
    expected = weighted_means(cohort.buffers, cohort.samples)
    assert len(expected) == 3
    assert all(torch.equal(merged[key], value) for key, value in expected.items())
    weights = cohort.samples / cohort.samples.sum()
    mean = (weights[:, None] * cohort.buffers["body.1.running_mean"]).sum(dim=0)
    torch.testing.assert_close(merged["body.1.running_mean"], mean)
    assert merged["body.1.num_batches_tracked"] == cohort.buffers["body.1.num_batches_tracked"].max()


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("norm", [True, False], ids=["norm", "no norm"])
@pytest.mark.parametrize("name", NAMES)
def test_models_with_and_without_batchnorm_and_bias(
    name: str, norm: bool, bias: bool, tiny_data: FederatedData
) -> None:
    setup = federation(tiny_data, bias, norm)
    before = {key: value.detach().clone() for key, value in setup.module.named_parameters()}
    last = rounds(setup, find_algorithm(name), last=3)[-1]
    assert not last.failures
    assert set(last.model.parameters) == set(before)
    for key, value in before.items():
        new = last.model.parameters[key]
        assert new.shape == value.shape
        assert new.dtype == value.dtype
        assert new.isfinite().all()
        assert not torch.equal(new, value)
    assert all(value.dtype == setup.module.get_buffer(key).dtype for key, value in last.model.buffers.items())


def written_and_read(standing: Standing, begun: Standing) -> Standing:
    """What comes back of it from files, which have an order of their own."""

    def through_a_file(tensors: Weights) -> Weights:
        return load(save({key: value.contiguous() for key, value in tensors.items()}))

    memory = standing.memory
    packed = {client: pack_client(memory, client) for client in memory.clients}
    kept = {client: in_order(through_a_file(tensors), tensors) for client, tensors in packed.items()}
    return unpack(through_a_file(pack_run(standing)), kept, replace(begun, memory=ClientMemory(0)))


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_in_the_middle_changes_nothing(name: str, tiny_data: FederatedData) -> None:
    algorithm = find_algorithm(name)
    whole = rounds(federation(tiny_data, norm=True), algorithm)
    half = rounds(federation(tiny_data, norm=True), algorithm, last=2)[-1]
    begun = begin(federation(tiny_data, norm=True), algorithm, Plan(ROUNDS, 6, TRAINING))
    resumed = rounds(federation(tiny_data, norm=True), algorithm, written_and_read(half.standing, begun))
    assert [finished.number for finished in resumed] == [3, 4, 5]
    for straight, again in zip(whole[2:], resumed, strict=True):
        assert (straight.cohort, straight.metrics) == (again.cohort, again.metrics)
        assert straight.train_loss == again.train_loss
    one, two = whole[-1].standing, resumed[-1].standing
    assert one.memory.clients == two.memory.clients
    pairs = [(pack_run(one), pack_run(two))]
    pairs += [(pack_client(one.memory, who), pack_client(two.memory, who)) for who in two.memory.clients]
    for end, other in pairs:
        assert list(end) == list(other)  # a rule that sums over them does so in one order
        assert all(torch.equal(value, other[key]) for key, value in end.items())


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_before_the_first_round_is_one_too(name: str, tiny_data: FederatedData) -> None:
    setup, algorithm = federation(tiny_data), find_algorithm(name)
    begun = begin(setup, algorithm, Plan(ROUNDS, 6, TRAINING))
    start = written_and_read(begun, begun)
    resumed = rounds(federation(tiny_data), algorithm, start, last=1)[0]
    straight = rounds(federation(tiny_data), algorithm, last=1)[0]
    assert all(torch.equal(value, resumed.model.parameters[key]) for key, value in straight.model.parameters.items())


@pytest.mark.parametrize("name", FEDERATED)
def test_a_bad_client_is_left_out_and_told_of(name: str, tiny_data: FederatedData) -> None:
    """The round goes on as if it had been sampled without that client."""
    setup, algorithm = federation(tiny_data), find_algorithm(name)
    bad = rounds(setup, algorithm, last=1)[0].cohort[2]
    inputs = np.array(tiny_data.inputs)
    spoilt = replace(tiny_data, inputs=inputs)
    inputs[tiny_data.offsets[bad] : tiny_data.offsets[bad + 1]] = float("nan")  # after it was checked
    (first, *_) = rounds(federation(spoilt), algorithm, last=1)
    assert [failure.client for failure in first.failures] == [bad]
    assert "not finite" in first.failures[0].why
    assert len(first.cohort) == 5
    assert bad not in first.cohort
    assert bad not in first.standing.memory.clients
    assert all(value.isfinite().all() for value in first.model.parameters.values())


def weights_sent(weights: Weights) -> int:
    return sum(value.numel() * value.element_size() for value in weights.values())


@pytest.mark.parametrize("name", FEDERATED)
def test_bytes_are_those_of_all_tensors_that_travel(name: str, tiny_data: FederatedData) -> None:
    stage = Stage(name, tiny_data, norm=True)
    plan = Plan(ROUNDS, 6, TRAINING)
    third = next(simulate(stage.setup, stage.algorithm, plan, stage.standing))
    model, shared = stage.standing.model, stage.standing.server.shared
    down = weights_sent(model.parameters) + weights_sent(model.buffers) + sum(map(weights_sent, shared.values()))
    assert third.bytes_down == 6 * down
    cohort = stack(stage.replies())
    up = weights_sent(cohort.parameters) + weights_sent(cohort.buffers) + sum(map(weights_sent, cohort.sent.values()))
    assert third.bytes_up == up


def test_every_row_of_the_catalogue_is_here() -> None:
    assert set(NAMES) >= set(CATALOGUE)
    assert len(FEDERATED) >= 20
