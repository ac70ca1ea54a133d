"""What holds on a CUDA device; run with `pytest -m gpu` on a machine that has one."""

import gc
import math
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import turbosvm
from tests.conftest import tiny_net
from turbosvm.algorithms.catalogue import CATALOGUE
from turbosvm.clients.lanes import Lanes
from turbosvm.data.federated import FederatedData
from turbosvm.heads import graphs
from turbosvm.svm import gram
from turbosvm.types import Moment

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

INPUTS: dict[str, tuple[type[np.generic], int, tuple[int, ...], int]] = {
    "celeba": (np.uint8, 256, (3, 84, 84), 2),
    "femnist": (np.uint8, 256, (1, 28, 28), 62),
    "shakespeare": (np.uint8, 80, (80,), 80),
    "small": (np.uint8, 256, (1, 28, 28), 62),
}
FAST: dict[str, Any] = {"rounds": 4, "clients_per_round": 3, "client": {"batch_size": 8}}


def noise(model: str) -> FederatedData:
    """Six users with twenty random samples each."""
    dtype, high, shape, classes = INPUTS[model]
    rng = np.random.default_rng(0)
    samples = {
        str(user): (rng.integers(0, high, (20, *shape)).astype(dtype), rng.integers(0, classes, 20))
        for user in range(6)
    }
    return FederatedData.from_users(samples, classes, tokens=model == "shakespeare")


@pytest.mark.parametrize("model", INPUTS)
def test_the_same_seed_gives_the_same_numbers_bit_for_bit(model: str) -> None:
    one, two = (turbosvm.run(data=noise(model), model=model, device="cuda", **FAST) for _ in range(2))
    for name, value in one.model.state_dict().items():
        assert value.device.type == "cuda"
        assert torch.equal(value, two.model.state_dict()[name]), name
    same = one.records.filter(regex="^(?!seconds_)").equals(two.records.filter(regex="^(?!seconds_)"))
    assert same


@pytest.mark.parametrize("algorithm", CATALOGUE)
def test_cuda_agrees_with_the_cpu(algorithm: str, tiny_data: FederatedData) -> None:
    here, there = (
        turbosvm.run(algorithm, data=tiny_data, model=tiny_net(), device=device, **FAST) for device in ("cpu", "cuda")
    )
    assert here.records["cohort"].tolist() == there.records["cohort"].tolist()
    for name, value in here.model.state_dict().items():
        assert torch.allclose(there.model.state_dict()[name].cpu(), value, rtol=1e-3, atol=1e-4), name


def test_dropout_draws_from_the_runs_own_streams_on_the_device(tiny_data: FederatedData) -> None:
    model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(4, 3))
    before = torch.cuda.get_rng_state()
    one = turbosvm.run(data=tiny_data, model=model, head="1", device="cuda", **FAST)
    assert torch.equal(torch.cuda.get_rng_state(), before)
    torch.rand(3, device="cuda")
    two = turbosvm.run(data=tiny_data, model=model, head="1", device="cuda", **FAST)
    assert torch.equal(one.model.state_dict()["1.weight"], two.model.state_dict()["1.weight"])


def heads(classes: int, clients: int, size: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(0)
    centres = torch.randn(classes, size, generator=draw)
    rows: torch.Tensor = centres + 0.5 * torch.randn(clients, classes, size, generator=draw)
    return rows / math.sqrt(size)


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("classes", "clients", "size"), [(2, 1, 3), (7, 5, 9), (12, 33, 40), (4, 300, 20)])
def test_svms_agree_with_the_cpu(scheme: Any, dtype: torch.dtype, classes: int, clients: int, size: int) -> None:
    embeddings = heads(classes, clients, size).to(dtype)
    here, there = (turbosvm.svm.fit(embeddings.to(device), scheme=scheme, tol=1e-5) for device in ("cpu", "cuda"))
    assert there.dual_coef_.is_cuda
    assert there.converged_.all()
    torch.testing.assert_close(there.dual_coef_.cpu(), here.dual_coef_, atol=2e-3, rtol=0)
    torch.testing.assert_close(there.intercept_.cpu(), here.intercept_, atol=1e-4, rtol=0)
    torch.testing.assert_close(there.slack_.cpu(), here.slack_, atol=1e-4, rtol=0)
    torch.testing.assert_close(there.margin_.cpu(), here.margin_, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid"])
def test_head_steps_agree_with_the_cpu(kernel: str) -> None:
    embeddings, samples = heads(20, 8, 100).double(), torch.arange(1, 9)
    options: dict[str, Any] = {"kernel": kernel, "a": 0.5, "optimiser": "sgd", "tol": 1e-8}
    here = turbosvm.merge_heads(embeddings, samples, **options)
    there = turbosvm.merge_heads(embeddings.cuda(), samples.cuda(), **options)
    torch.testing.assert_close(there.head.cpu(), here.head, atol=1e-6, rtol=0)
    assert there.diagnostics["spread_loss_after"] == pytest.approx(here.diagnostics["spread_loss_after"], rel=1e-5)
    again = turbosvm.merge_heads(embeddings.cuda(), samples.cuda(), **options)
    assert torch.equal(again.head, there.head)


@pytest.mark.parametrize("options", [{}, {"spread_out": False}, {"kernel": "rbf"}, {"classes": 9}], ids=str)
def test_recorded_steps_are_the_same_steps(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Round after round with other heads, costs and moments; steps are recorded from the second on."""
    rounds = [heads(20, 8, 100).cuda() * (1 + 0.1 * number) for number in range(5)]

    def run_all() -> list[Any]:
        merged, state = [], None
        for clients in rounds:
            merged.append(turbosvm.merge_heads(clients, torch.arange(1, 9), state, rounds=5, **options))
            state = merged[-1].state
        return merged

    recorded = run_all()
    monkeypatch.setattr(graphs, "MOST_EMBEDDINGS", 0)
    for one, other in zip(recorded, run_all(), strict=True):
        torch.testing.assert_close(one.head, other.head, atol=1e-6, rtol=1e-6)
        for name, value in other.state.moments.items():
            torch.testing.assert_close(one.state.moments[name], value, atol=1e-6, rtol=1e-5)
        for name, value in other.diagnostics.items():
            if not name.startswith("seconds"):
                assert one.diagnostics[name] == pytest.approx(value, rel=1e-5)
    assert recorded[0].diagnostics.keys() == recorded[4].diagnostics.keys()


def test_recorded_steps_refuse_what_is_not_finite_and_go_on_after_it() -> None:
    good = heads(20, 8, 100).cuda()
    bad = good.clone()
    bad[3, 7, 5] = torch.nan
    results = [turbosvm.merge_heads(good, torch.ones(8)).head for _ in range(3)]
    with pytest.raises(turbosvm.TurboSVMError, match="class 7 from client 3"):
        turbosvm.merge_heads(bad, torch.ones(8))
    torch.testing.assert_close(turbosvm.merge_heads(good, torch.ones(8)).head, results[0])


def test_float32_is_left_for_float64_on_the_gpu_too() -> None:
    hard = heads(5, 6, 4).cuda() * 1e3
    for _ in range(3):
        merged = turbosvm.merge_heads(hard, torch.ones(6), spread_out=False)
    here = turbosvm.merge_heads(hard.cpu(), torch.ones(6), spread_out=False)
    torch.testing.assert_close(merged.head.cpu(), here.head)


def test_strips_on_the_gpu_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    embeddings = heads(30, 16, 50).double().cuda()
    whole = turbosvm.svm.fit(embeddings, tol=1e-8)
    monkeypatch.setitem(gram.STRIP_BYTES, "cuda", 4 * 16 * 30 * 16 * 8)
    monkeypatch.setitem(gram.LEAST_STAIR, "cuda", 32)
    strips = turbosvm.svm.fit(embeddings, tol=1e-8)
    assert len(strips.samples.strips()) == 8
    torch.testing.assert_close(strips.dual_coef_, whole.dual_coef_, atol=1e-6, rtol=0)


def test_products_are_not_rounded_to_tf32() -> None:
    embeddings = heads(30, 16, 500).cuda()
    expected = turbosvm.svm.fit(embeddings).dual_coef_
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        assert torch.equal(turbosvm.svm.fit(embeddings).dual_coef_, expected)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(
    ("size", "most_seconds", "most_gib"),
    [((62, 8, 2049), 2e-3, 1), ((62, 512, 1025), 0.15, 8), ((1000, 100, 2049), 5, 16)],
)
def test_the_head_step_is_fast_on_an_h200(size: tuple[int, int, int], most_seconds: float, most_gib: float) -> None:
    if "H200" not in torch.cuda.get_device_name():
        pytest.skip("the times are those of an H200")
    embeddings, samples = heads(*size).cuda(), torch.ones(size[1])
    state = turbosvm.merge_heads(embeddings, samples).state
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated() - embeddings.nbytes
    laps = []
    for _ in range(5):
        torch.cuda.synchronize()
        start = perf_counter()
        turbosvm.merge_heads(embeddings, samples, state)
        torch.cuda.synchronize()
        laps.append(perf_counter() - start)
    assert sorted(laps)[2] <= most_seconds
    assert torch.cuda.max_memory_allocated() - before <= most_gib * 2**30


def test_a_run_leaves_nothing_on_the_gpu_but_its_model() -> None:
    def run() -> int:
        result = turbosvm.run(data=noise("femnist"), model="femnist", device="cuda", **FAST)
        gc.collect()
        own: int = sum(value.nbytes for value in result.model.state_dict().values())
        return torch.cuda.memory_allocated() - own

    first, second = run(), run()
    assert abs(second - first) < 2**24


class Asks(nn.Module):
    """Its layers ask the GPU for a number, which a recorded step cannot."""

    head_name = "head"

    def __init__(self) -> None:
        super().__init__()
        self.body, self.scale, self.head = nn.Linear(4, 5), Scale(), nn.Linear(5, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.scale(self.body(inputs)).relu())  # type: ignore[no-any-return]


class Scale(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return inputs / max(1.0, float(inputs.detach().abs().max()))


def test_a_model_that_cannot_be_recorded_is_trained_one_client_after_another(tiny_data: FederatedData) -> None:
    with pytest.warns(UserWarning, match="one after another.*layer 'scale' \\(Scale\\) cannot be recorded") as told:
        fast = turbosvm.run(data=tiny_data, model=Asks(), device="cuda", **FAST)
    assert len(told) == 1, [str(warning.message) for warning in told]
    assert all(value.isfinite().all() for value in fast.model.parameters())
    assert torch.tensor([1.0], device="cuda").item() == 1.0  # the GPU still works


def test_too_little_memory_makes_smaller_groups_and_is_told(
    tiny_data: FederatedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, asked = Lanes.train, []

    def train(self: Lanes, *arguments: Any) -> Any:
        asked.append(len(self._lanes))
        if len(self._lanes) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return original(self, *arguments)

    expected = turbosvm.run(data=tiny_data, model=tiny_net(), device="cuda", **FAST)
    monkeypatch.setattr(Lanes, "train", train)
    with pytest.warns(UserWarning, match="too small for 3 clients at a time; going on with 1"):
        got = turbosvm.run(data=tiny_data, model=tiny_net(), device="cuda", **FAST)
    assert asked == [3, 1, 1, 1, 1]
    torch.testing.assert_close(got.model.state_dict(), expected.model.state_dict())


def test_data_that_does_not_fit_visits_the_gpu_round_by_round(
    tiny_data: FederatedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = turbosvm.run(data=tiny_data, model=tiny_net(), device="cuda", **FAST)
    monkeypatch.setattr("turbosvm.data.samples.SHARE", 0.0)
    got = turbosvm.run(data=tiny_data, model=tiny_net(), device="cuda", **FAST)
    assert got.records.filter(regex="^(?!seconds_)").equals(expected.records.filter(regex="^(?!seconds_)"))


@pytest.mark.parametrize("other", ["a later round", "other clients"])
def test_what_was_prepared_for_another_round_is_not_used(
    other: str, tiny_data: FederatedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = turbosvm.run(data=tiny_data, model=tiny_net(), device="cuda", **FAST)
    original = Lanes.expect

    def expect(self: Lanes, moment: Moment, ids: Sequence[int]) -> None:
        later = moment._replace(round=moment.round + 1) if other == "a later round" else moment
        original(self, later, ids if other == "a later round" else ids[1:])

    monkeypatch.setattr(Lanes, "expect", expect)
    got = turbosvm.run(data=tiny_data, model=tiny_net(), device="cuda", **FAST)
    assert got.records.filter(regex="^(?!seconds_)").equals(expected.records.filter(regex="^(?!seconds_)"))


def test_clients_that_diverge_are_found_although_the_server_goes_ahead(tiny_data: FederatedData) -> None:
    settings = {**FAST, "client": {"batch_size": 2, "learning_rate": 1e30}, "max_failed_rounds": 0}
    for algorithm in ("fedavg", "turbosvm"):
        result = turbosvm.run(algorithm, data=tiny_data, model=tiny_net(), device="cuda", **settings)
        assert result.stopped is not None
        assert "is not finite" in str(result.records["failures"].iloc[0])


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
def test_every_precision_trains(precision: str) -> None:
    result = turbosvm.run(data=noise("small"), model="small", device="cuda", precision=precision, **FAST)
    assert result.records["train_loss"].iloc[-1] < result.records["train_loss"].iloc[0] + 0.5
    assert next(result.model.parameters()).dtype == torch.float32
