"""The server's half of a round, on numbers small enough to check by hand."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from turbosvm.algorithms.body.mean import Mean
from turbosvm.algorithms.body.momentum import Momentum
from turbosvm.algorithms.local.sgd import SGD
from turbosvm.algorithms.objective.plain import Plain
from turbosvm.algorithms.rules import Algorithm, MergedHead
from turbosvm.algorithms.server import init_server, merge
from turbosvm.averaging import shares, weighted_mean, weighted_means
from turbosvm.errors import TurboSVMError
from turbosvm.models.contract import Head
from turbosvm.types import Cohort, ModelState, Moment, Weights


def cohort(**parameters: list[Any]) -> Cohort:
    """Two clients with 1 and 3 samples."""
    return Cohort(
        ids=(4, 9),
        samples=torch.tensor([1, 3]),
        parameters={name: torch.tensor(value) for name, value in parameters.items()},
        buffers={},
        train_loss=torch.zeros(2),
    )


def test_mean_weighs_clients_by_their_samples() -> None:
    merged = Mean().merge({"w": torch.zeros(2)}, cohort(w=[[4.0, 0.0], [0.0, 8.0]]), {})
    assert merged.weights["w"].tolist() == [1.0, 6.0]  # (1*4 + 3*0)/4, (1*0 + 3*8)/4


def test_numbers_that_no_client_changed_stay_as_they_are() -> None:
    frozen = torch.cat([torch.linspace(-1, 1, 101), torch.tensor([float("-inf"), float("inf")])])
    assert torch.equal(weighted_mean(frozen.expand(7, -1), torch.tensor([3, 1, 4, 1, 5, 9, 2])), frozen)


def test_scaling_all_sample_counts_changes_nothing() -> None:
    assert torch.equal(shares(torch.tensor([1, 3])), shares(torch.tensor([1_000_000_007, 3_000_000_021])))


def test_momentum_two_rounds_by_hand() -> None:
    rule, start = Momentum(momentum=0.5, learning_rate=1.0), {"w": torch.tensor([8.0])}
    one = rule.merge(start, cohort(w=[[4.0], [4.0]]), rule.init(start))
    assert one.state["w"].tolist() == [4.0]  # Delta = 8 - 4
    assert one.weights["w"].tolist() == [4.0]  # 8 - 4
    two = rule.merge(one.weights, cohort(w=[[3.0], [3.0]]), one.state)
    assert two.state["w"].tolist() == [3.0]  # 0.5 * 4 + (4 - 3)
    assert two.weights["w"].tolist() == [1.0]  # 4 - 3


def test_momentum_zero_is_the_mean() -> None:
    start, sent = {"w": torch.tensor([1.0, 2.0])}, cohort(w=[[4.0, 0.5], [0.25, 8.0]])
    rule = Momentum(momentum=0.0)
    assert torch.allclose(
        rule.merge(start, sent, rule.init(start)).weights["w"], Mean().merge(start, sent, {}).weights["w"]
    )


@pytest.mark.parametrize(("momentum", "rate"), [(1.0, 1.0), (-0.1, 1.0), (0.9, 0.0), (0.9, float("inf"))])
def test_momentum_refuses_values_out_of_range(momentum: float, rate: float) -> None:
    with pytest.raises(TurboSVMError, match="must be"):
        Momentum(momentum, rate)


def test_float_buffers_are_averaged_and_counters_take_the_largest() -> None:
    stacked = {"mean": torch.tensor([[0.0], [4.0]]), "steps": torch.tensor([3, 5])}
    merged = weighted_means(stacked, torch.tensor([1, 3]))
    assert merged["mean"].tolist() == [3.0]
    assert merged["steps"].item() == 5


@dataclass(frozen=True)
class Largest:
    """A head rule for the test: the largest embedding; it counts its rounds."""

    def init(self, embeddings: Tensor) -> Weights:
        return {"rounds": torch.zeros(())}

    def merge(self, embeddings: Tensor, clients: Tensor, samples: Tensor, state: Weights, moment: Moment) -> MergedHead:
        return MergedHead(clients.amax(dim=0), {"rounds": state["rounds"] + 1}, {"largest": float(clients.max())})


@pytest.mark.parametrize("bias", [True, False])
def test_head_rule_gets_the_head_alone_and_the_body_rule_the_rest(bias: bool) -> None:
    head = Head("head.weight", "head.bias" if bias else None)
    weights: dict[str, list[Any]] = {"body": [[4.0], [0.0]], "head.weight": [[[1.0], [2.0]], [[3.0], [0.0]]]}
    if bias:
        weights["head.bias"] = [[0.0, 1.0], [-1.0, 5.0]]
    sent = cohort(**weights)
    model = ModelState({name: value[0] for name, value in sent.parameters.items()}, {})
    algorithm = Algorithm("test", Plain(), SGD(), Mean(), Largest())
    step = merge(algorithm, model, sent, init_server(algorithm, model, head), head, Moment(1, 10, 0), 5)
    assert step.model.parameters["body"].tolist() == [1.0]
    assert step.model.parameters["head.weight"].tolist() == [[3.0], [2.0]]
    if bias:
        assert step.model.parameters["head.bias"].tolist() == [0.0, 5.0]
    assert step.state.head["rounds"] == 1
    assert step.diagnostics == {"largest": 5.0 if bias else 3.0}


def test_without_a_head_rule_the_body_rule_merges_all() -> None:
    algorithm, head = Algorithm("test", Plain(), SGD(), Mean()), Head("head.weight", None)
    sent = cohort(**{"body": [[4.0], [0.0]], "head.weight": [[8.0], [0.0]]})
    model = ModelState({name: value[0] for name, value in sent.parameters.items()}, {})
    step = merge(algorithm, model, sent, init_server(algorithm, model, head), head, Moment(1, 10, 0), 5)
    assert {name: value.tolist() for name, value in step.model.parameters.items()} == {
        "body": [1.0],
        "head.weight": [2.0],
    }


def test_complex_buffers_are_averaged_too() -> None:
    merged = weighted_means({"angles": torch.tensor([[1 + 1j], [1 + 5j]])}, torch.tensor([1, 3]))
    assert merged["angles"].tolist() == [1 + 4j]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 5), (3, 4, 7), (40, 3000), (2, 0)])
def test_means_on_cuda_are_those_of_the_cpu(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(0)
    stacked = torch.randn(shape, generator=draw, dtype=dtype)
    samples = torch.randint(1, 100, (shape[0],), generator=draw)
    if stacked.numel():
        stacked[..., 0] = float("inf")  # a mask on which all agree
        stacked[..., 1] = stacked[0, ..., 1]
        stacked[0, ..., 2] = float("nan")
    mean = weighted_mean(stacked.cuda(), samples).cpu()
    torch.testing.assert_close(mean, weighted_mean(stacked, samples), equal_nan=True)
    if stacked.numel():
        assert torch.equal(mean[..., :2], stacked[0, ..., :2])
        assert mean[..., 2].isnan().all()


def test_parameters_come_in_the_models_own_order_wherever_its_head_is() -> None:
    head = Head("head.weight", "head.bias")
    weights: dict[str, list[Any]] = {
        "head.weight": [[[1.0]], [[3.0]]],
        "first": [[1.0], [2.0]],
        "head.bias": [[0.0], [1.0]],
    }
    sent = cohort(**weights)
    model = ModelState({name: value[0] for name, value in sent.parameters.items()}, {})
    algorithm = Algorithm("test", Plain(), SGD(), Mean(), Largest())
    step = merge(algorithm, model, sent, init_server(algorithm, model, head), head, Moment(1, 10, 0), 5)
    assert list(step.model.parameters) == ["head.weight", "first", "head.bias"]
