"""Models that cannot train on one sample: found out by trying, and no client is shut out by its last batch."""

import warnings
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import turbosvm
from tests.conftest import tiny_net
from turbosvm.clients.alone import cannot_train_alone, settle
from turbosvm.clients.training import LastBatch, LocalTraining
from turbosvm.clients.workbench import Workbench
from turbosvm.data.federated import FederatedData
from turbosvm.experiment.config import Config
from turbosvm.models.contract import find_head, state_of

ROOT = Path(__file__).parents[2]
FAST: dict[str, Any] = {"rounds": 6, "clients_per_round": 8, "threads": 2, "device": "cpu"}
SIZES = (1, 2, 17, 33, 40, 49)


def last(choice: LastBatch | None, rounds: int = 6) -> dict[str, Any]:
    return {**FAST, "rounds": rounds, "client.last_batch": choice}


def users_of(sizes: tuple[int, ...], users: int = 60) -> FederatedData:
    """Users with so many samples each, in turn."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 4)) * 3
    samples = {}
    for user in range(users):
        labels = rng.integers(0, 3, size=sizes[user % len(sizes)])
        samples[f"u{user}"] = ((centres[labels] + rng.normal(size=(len(labels), 4))).astype(np.float32), labels)
    return FederatedData.from_users(samples, classes=3, name="uneven")


class Normed(nn.Module):
    """BatchNorm behind a linear layer."""

    head_name = "head"

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.body = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU())
            self.head = nn.Linear(8, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.body(inputs))  # type: ignore[no-any-return]


class Spread(Normed):
    """Divides by the standard deviation over the batch, which one sample does not have: NaN, and no error."""

    def forward(self, inputs: Tensor) -> Tensor:
        features = self.body[0](inputs)
        return self.head(features / (1 + inputs.std(dim=0).mean()) if self.training else features)  # type: ignore[no-any-return]


class Pairs(Normed):
    """Wants two samples for a reason of its own."""

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training and len(inputs) < 2:
            raise RuntimeError("no pair")
        return self.head(self.body[0](inputs))  # type: ignore[no-any-return]


class Broken(Normed):
    """Cannot train at all."""

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            raise RuntimeError("never")
        return self.head(self.body[0](inputs))  # type: ignore[no-any-return]


def why_not(module: nn.Module, data: FederatedData) -> str | None:
    return cannot_train_alone(Workbench(module, find_head(module)), data, range(len(data.users)), seed=0)


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (Normed(), "ValueError: Expected more than 1 value per channel"),
        (Spread(), "its numbers are not finite then"),
        (Pairs(), "RuntimeError: no pair"),
    ],
)
def test_models_that_cannot_are_found_by_trying(module: nn.Module, why: str) -> None:
    got = why_not(module, users_of(SIZES))
    assert got is not None
    assert got.startswith(why)


def test_what_has_nothing_to_do_with_one_sample_is_not_taken_for_that() -> None:
    data = users_of(SIZES)
    assert why_not(tiny_net(), data) is None
    assert why_not(Broken(), data) is None
    spoilt = users_of(SIZES)
    np.asarray(spoilt.inputs)[:] = np.nan
    assert why_not(tiny_net(), spoilt) is None


@pytest.mark.parametrize("copies", [True, False])
def test_trying_changes_neither_numbers_nor_mode_nor_random_numbers(copies: bool) -> None:
    module, state = Normed(), torch.get_rng_state()
    if not copies:
        module.__deepcopy__ = lambda memo: 1 / 0  # type: ignore[assignment]
    module.eval()
    before = state_of(module)
    assert why_not(module, users_of(SIZES))
    assert not module.training
    after = state_of(module)
    assert all(torch.equal(value, after.parameters[name]) for name, value in before.parameters.items())
    assert all(torch.equal(value, after.buffers[name]) for name, value in before.buffers.items())
    assert all(value.grad is None for value in module.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_a_model_is_tried_only_where_one_sample_would_be_a_batch() -> None:
    bench, calls = Workbench(Normed(), find_head(Normed())), []
    bench.module.register_forward_hook(lambda *_: calls.append(1))
    data = users_of((16, 18))
    choices: list[LastBatch | None] = [*get_args(LastBatch), None]
    for last_batch in choices:
        settled = settle(LocalTraining(1, 16, 0.1, last_batch=last_batch), bench, data, [0, 1], 0, False, pytest.fail)
        assert settled.last_batch == (last_batch or "keep")
        assert settled.not_alone is None
    assert not calls


@pytest.mark.parametrize("engine", ["sequential", "threads"])
@pytest.mark.parametrize("model", [Normed, Spread, Pairs])
def test_no_client_is_shut_out_by_its_last_batch(model: type[nn.Module], engine: str) -> None:
    data = users_of(SIZES)
    with pytest.warns(UserWarning, match="cannot train on one sample alone") as told:
        result = turbosvm.run("fedavg", data=data, model=model(), engine=engine, **FAST)
    sentences = [str(one.message) for one in told]
    assert len(sentences) == 2
    name = f"model {model.__name__} cannot train on one sample alone"
    assert "A last batch of one sample joins the one before it (client.last_batch)" in sentences[0]
    assert name in sentences[0]
    bad = [failure for failures in result.records["failures"] for failure in failures]
    assert "it has one sample, and the model cannot train on one sample alone (" in bad[0]["why"]
    merged = {client for cohort in result.records["cohort"] for client in cohort}
    assert {int(data.counts[client]) for client in merged} == set(SIZES) - {1}
    assert {int(data.counts[failure["client"]]) for failure in bad} == {1}


def test_kept_last_batches_shut_clients_out_as_before() -> None:
    """What `auto` does away with: 1, 17, 33 and 49 samples leave a batch of one behind those of 16."""
    data = users_of(SIZES)
    with pytest.warns(UserWarning, match="Expected more than 1 value per channel"):
        result = turbosvm.run("fedavg", data=data, model=Normed(), **last("keep"))
    merged = {client for cohort in result.records["cohort"] for client in cohort}
    assert {int(data.counts[client]) for client in merged} == {2, 40}


@pytest.mark.parametrize("model", [tiny_net, Normed])
def test_models_and_data_that_need_nothing_keep_their_bits(model: Any) -> None:
    data = users_of(SIZES if model is tiny_net else (16, 18, 40))
    one, two = (turbosvm.run("fedavg", data=data, model=model(), **last(last_batch)) for last_batch in (None, "keep"))
    assert one.records.filter(regex="^(?!seconds_)").equals(two.records.filter(regex="^(?!seconds_)"))
    assert all(torch.equal(value, two.model.state_dict()[name]) for name, value in one.model.state_dict().items())


def test_how_many_replies_are_bad_with_and_without_merging() -> None:
    """The figures of docs/failing-clients.md."""
    bad: dict[LastBatch | None, int] = {}
    choices: list[LastBatch | None] = ["keep", None]
    for choice in choices:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # told of in other tests
            result = turbosvm.run("fedavg", data=users_of(SIZES), model=Normed(), **last(choice, rounds=30))
        bad[choice] = int(result.records["failures"].map(len).sum())
    page = " ".join((ROOT / "docs" / "failing-clients.md").read_text().split())
    assert f"{bad['keep']} of 240 replies were bad before; now {bad[None]} are" in page, bad


def test_dropping_leaves_the_single_sample_out() -> None:
    data = users_of((2, 17, 33))
    result = turbosvm.run("fedavg", data=data, model=Normed(), **last("drop"))
    assert not result.records["failures"].map(len).sum()


def test_batches_of_one_sample_throughout_are_told_of() -> None:
    with pytest.warns(UserWarning, match=r"client\.batch_size is 1, and the model cannot train on one sample alone"):
        turbosvm.run("fedavg", data=users_of((3, 5)), model=Normed(), client={"batch_size": 1}, **FAST)


def test_the_pool_too_has_no_batch_of_one() -> None:
    with pytest.warns(UserWarning, match="A last batch of one sample joins") as told:
        result = turbosvm.run(
            "centralised",
            data=users_of((5, 9)),
            model=Normed(),
            **{**FAST, "clients_per_round": 1},
            client={"batch_size": 4},
        )
    assert len(told) == 1
    assert result.stopped is None
    assert not result.records["failures"].map(len).sum()


def test_older_configs_keep_their_digest() -> None:
    plain = Config()
    content = plain.model_dump()
    del content["client"]["last_batch"]
    assert Config.model_validate(content).digest == plain.digest
    assert Config.model_validate({"client": {"last_batch": "merge"}}).digest != plain.digest
