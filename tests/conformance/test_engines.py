"""Faster ways of training send what the reference sends, for every model, every rule of clients, uneven clients."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from turbosvm.algorithms.catalogue import find_algorithm
from turbosvm.algorithms.server import merge
from turbosvm.clients.engine import Engine, EngineName
from turbosvm.clients.local import Call
from turbosvm.clients.memory import ClientMemory
from turbosvm.clients.replies import Reply, stack
from turbosvm.clients.sequential import train_clients
from turbosvm.clients.training import LastBatch, LocalTraining
from turbosvm.clients.workbench import Workbench
from turbosvm.data.federated import FederatedData
from turbosvm.data.samples import Samples
from turbosvm.data.split import Split
from turbosvm.data.windows import Windows
from turbosvm.models.contract import find_head, state_of
from turbosvm.models.registry import build_model
from turbosvm.precision import Precision, working_precision
from turbosvm.simulation import Federation, Plan, begin
from turbosvm.types import Moment, Weights

SHAPES: dict[str, tuple[tuple[int, ...], int, float]] = {  # with the paper's learning rates
    "small": ((1, 28, 28), 62, 0.1),
    "femnist": ((1, 28, 28), 62, 0.1),
    "celeba": ((3, 84, 84), 2, 0.001),
    "shakespeare": ((80,), 80, 1.0),
}
RULES = [
    "fedavg",
    "fedprox",
    "moon",
    "fedproc",
    "scaffold",
    "localamsgrad",
    "fafed",
    "moon+scaffold",
    "fedproc+fafed",
    "fedprox+localamsgrad",
]
COUNTS = (5, 19, 8, 13, 2, 1)
CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def uneven(model: str, dtype: type = np.uint8) -> FederatedData:
    """Six users, the last with one sample; their batches are of many sizes."""
    shape, classes, _ = SHAPES[model]
    rng, text = np.random.default_rng(0), model == "shakespeare"
    counts = [count + (model == "celeba" and count % 8 == 1) for count in COUNTS]  # BatchNorm cannot take one sample
    total = sum(counts)
    labels = rng.integers(0, classes, total)
    if text:
        tokens = rng.integers(0, classes, total + shape[0]).astype(np.uint8)
        inputs: Any = Windows(tokens, np.array([0, total]), shape[0])
    else:
        inputs = rng.integers(0, 256, (total, *shape)).astype(np.uint8)
        inputs = inputs if dtype is np.uint8 else (inputs / 255.0).astype(dtype)
    offsets, users = np.concatenate([[0], np.cumsum(counts)]), tuple(map(str, range(len(counts))))
    return FederatedData("uneven", inputs, labels, offsets, users, tuple(map(str, range(classes))), tokens=text)


def groups_of(reply: Reply) -> dict[str, Weights]:
    groups: dict[str, Weights] = {
        "weights": reply.model.parameters,
        "buffers": reply.model.buffers,
        "loss": {"": reply.loss},
    }
    groups |= {f"sent, {part}": sent for part, sent in reply.sent.items()}
    return groups | {f"kept, {part}": kept for part, kept in (reply.kept or {}).items()}


def distances(one: Reply, two: Reply) -> dict[str, float]:
    """How far each group of tensors of a reply is from the other's, relative to its size."""
    first, second = groups_of(one), groups_of(two)
    assert {name: list(group) for name, group in first.items()} == {name: list(group) for name, group in second.items()}
    return {
        name: float(flat(group).sub(flat(second[name])).norm() / flat(group).norm())
        for name, group in first.items()
        if group
    }


def flat(group: Weights) -> Tensor:
    return torch.cat([value.double().flatten() for value in group.values()])


def assert_alike(
    model: str,
    rule: str,
    engine: EngineName,
    device: str,
    precision: Precision | None,
    rounds: int,
    tolerance: float,
    batch_size: int = 8,
    last_batch: LastBatch = "keep",
) -> None:
    """Have the engine and the reference train the same clients from the same states; the states are the reference's.

    Without a precision, in float64.
    """
    dtype, precision = torch.float32 if precision else torch.float64, precision or "float32"
    data = uneven(model, np.float64 if dtype == torch.float64 else np.uint8)
    module = build_model(model, {"classes": len(data.classes)}, seed=0).to(device, dtype)
    federation = Federation(data, Split(tuple(range(6)), ()), module, find_head(module))
    training = LocalTraining(rounds, batch_size, SHAPES[model][2], last_batch=last_batch)
    algorithm, plan, where = find_algorithm(rule), Plan(rounds, 6, training), torch.device(device)
    bench = Workbench(module, federation.head, precision)
    samples = Samples(data, where, 6) if device == "cuda" else None
    notes: list[str] = []
    fast = Engine(engine, bench.on(module), data, samples, algorithm, training, 6, notes.append)
    standing = begin(federation, algorithm, plan)
    model_state, server, memory = standing.model, standing.server, standing.memory
    for number in range(1, rounds + 1):
        moment = Moment(number, rounds + 1, 0)
        call, ids = Call(model_state, server.shared, moment), range(6)
        with working_precision(precision, where):
            expected = list(train_clients(bench, call, data, ids, algorithm, training, memory))
            got = fast.train(call, ids, memory)
        good = [reply for reply in expected if isinstance(reply, Reply)]
        assert len(good) == 6
        for wanted, reply in zip(good, got, strict=True):
            assert isinstance(reply, Reply)
            assert (reply.client, reply.samples) == (wanted.client, wanted.samples)
            loose = 100 * tolerance  # moments and control variates are differences, of which rounding is a larger part
            far = {
                name: distance
                for name, distance in distances(wanted, reply).items()
                if not distance <= (tolerance if name in ("weights", "buffers", "loss") else loose)
            }
            assert not far, (number, reply.client, far)
        step = merge(algorithm, model_state, stack(good), server, federation.head, moment, 6)
        model_state, server = step.model, step.state
        memory = memory.keeping({reply.client: reply.kept for reply in good if reply.kept is not None})
    assert not notes


# In float64 rounding plays no part: any difference is a mistake. In float32 it does, and more of them the longer one
# trains: a maximum or a ReLU tips over somewhere. So what is asked of it there is one round from a common start.


@pytest.mark.parametrize("rule", RULES)
def test_threads_compute_what_the_reference_computes(rule: str) -> None:
    assert_alike("small", rule, "threads", "cpu", None, rounds=3, tolerance=1e-10)


@pytest.mark.parametrize("model", ["femnist", "celeba", "shakespeare"])
def test_threads_compute_what_the_reference_computes_whatever_the_model(model: str) -> None:
    assert_alike(model, "moon+scaffold", "threads", "cpu", None, rounds=2, tolerance=1e-10)


@pytest.mark.parametrize("rule", ["fedavg", "fedproc+scaffold"])
@pytest.mark.parametrize("last_batch", ["merge", "drop"])
def test_threads_see_the_same_batches_where_one_sample_is_left_over(last_batch: LastBatch, rule: str) -> None:
    left_over = [count for count in COUNTS if count > 4 and count % 4 == 1]
    assert left_over == [5, 13]
    assert_alike("small", rule, "threads", "cpu", None, 2, 1e-10, batch_size=4, last_batch=last_batch)


@pytest.mark.parametrize("model", SHAPES)
def test_threads_agree_with_the_reference_in_float32(model: str) -> None:
    assert_alike(model, "fedavg", "threads", "cpu", "float32", rounds=1, tolerance=1e-4)


@pytest.mark.gpu
@CUDA
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("model", SHAPES)
def test_graphs_compute_what_the_reference_computes(model: str, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turbosvm.clients.engine.LANES", 4)  # fewer than clients
    assert_alike(model, rule, "graphs", "cuda", None, rounds=3, tolerance=1e-8)


@pytest.mark.gpu
@CUDA
@pytest.mark.parametrize("rule", ["fedavg", "fedproc+scaffold"])
@pytest.mark.parametrize("last_batch", ["merge", "drop"])
def test_graphs_see_the_same_batches_where_one_sample_is_left_over(last_batch: LastBatch, rule: str) -> None:
    assert_alike("small", rule, "graphs", "cuda", None, 2, 1e-8, batch_size=4, last_batch=last_batch)


@pytest.mark.gpu
@CUDA
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("model", SHAPES)
def test_graphs_agree_with_the_reference_in_float32(model: str, rule: str) -> None:
    if model == "celeba" and ("amsgrad" in rule or "fafed" in rule):
        pytest.skip("a bias before BatchNorm has no gradient, and these rules make a whole step of its rounding")
    assert_alike(model, rule, "graphs", "cuda", "float32", rounds=1, tolerance=1e-4)


@pytest.mark.gpu
@CUDA
@pytest.mark.parametrize("rule", ["fedavg", "moon+scaffold"])
@pytest.mark.parametrize("model", SHAPES)
def test_in_tf32_graphs_stay_as_near_to_float32_as_tf32_allows(model: str, rule: str) -> None:
    """Not to the reference in TF32: each kernel rounds in its own places, and cuDNN not always."""
    data, where = uneven(model), torch.device("cuda")
    module = build_model(model, {"classes": len(data.classes)}, seed=0).to(where)
    training = LocalTraining(epochs=1, batch_size=8, learning_rate=SHAPES[model][2])
    algorithm, head, ids, memory = find_algorithm(rule), find_head(module), range(6), ClientMemory(0)
    start = begin(Federation(data, Split(tuple(ids), ()), module, head), algorithm, Plan(1, 6, training))
    call = Call(start.model, start.server.shared, Moment(1, 2, 0))
    with working_precision("float32", where):
        exact = list(train_clients(Workbench(module, head, "float32"), call, data, ids, algorithm, training, memory))
    bench, samples = Workbench(module, head, "tf32"), Samples(data, where, 6)
    engine = Engine("graphs", bench, data, samples, algorithm, training, 6, pytest.fail)
    with working_precision("tf32", where):
        rounded = engine.train(call, ids, memory)
    for one, two in zip(exact, rounded, strict=True):
        assert isinstance(one, Reply)
        assert isinstance(two, Reply)
        far = distances(one, two)
        assert max(far.values()) > 1e-7, "nothing was rounded"
        for name, distance in far.items():
            near = 4 * 2**-11  # TF32 has 10 bits behind the first
            assert distance <= (near if name in ("weights", "buffers", "loss") else 100 * near), (name, one.client)


def test_the_number_of_threads_does_not_change_a_single_bit() -> None:
    data = uneven("small")
    module = build_model("small", {}, seed=0)
    bench, before = Workbench(module, find_head(module)), torch.get_num_threads()
    call = Call(state_of(module), {}, Moment(1, 1, 0))
    replies = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            training = LocalTraining(epochs=2, batch_size=8, learning_rate=0.1)
            engine = Engine("threads", bench, data, None, find_algorithm("fedavg"), training, 6, pytest.fail)
            replies.append(engine.train(call, range(6), ClientMemory(0)))
    finally:
        torch.set_num_threads(before)
    for others in replies[1:]:
        for one, two in zip(replies[0], others, strict=True):
            assert isinstance(one, Reply)
            assert isinstance(two, Reply)
            assert all(
                torch.equal(flat(group), flat(groups_of(two)[name])) for name, group in groups_of(one).items() if group
            )
