"""Which way clients are trained, and what happens where that way proves impossible."""

import json
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import turbosvm
from tests.conftest import tiny_net
from tests.conftest import turbosvm as command
from turbosvm.clients.engine import choose_engine
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError

CPU = torch.device("cpu")
FAST: dict[str, Any] = {"rounds": 3, "clients_per_round": 4, "client": {"batch_size": 4}, "threads": 2, "device": "cpu"}


def without_seconds(result: turbosvm.Result) -> Any:
    return result.records.filter(regex="^(?!seconds_)")


def test_auto_is_threads_on_the_cpu() -> None:
    assert choose_engine("auto", CPU) == "threads"
    assert choose_engine("auto", torch.device("cuda")) == "graphs"
    assert choose_engine("sequential", CPU) == "sequential"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("graphs", "Engine 'graphs' needs a CUDA device, and this run computes on the CPU"),
        ("ray", "Unknown engine 'ray'; allowed: auto, graphs, sequential, threads"),
    ],
)
def test_engines_that_cannot_be_are_refused(name: str, sentence: str) -> None:
    with pytest.raises(TurboSVMError, match=sentence):
        choose_engine(name, CPU)


def test_a_run_refuses_them_before_its_first_round(tiny_data: FederatedData) -> None:
    with pytest.raises(TurboSVMError, match="Engine 'graphs' needs a CUDA device"):
        turbosvm.run(data=tiny_data, model=tiny_net(), engine="graphs", **FAST)


def test_threads_and_the_reference_agree_through_a_whole_run(tiny_data: FederatedData) -> None:
    slow, fast = (
        turbosvm.run("turbosvm", data=tiny_data, model=tiny_net(), engine=engine, **FAST)
        for engine in ("sequential", "threads")
    )
    assert slow.records["cohort"].tolist() == fast.records["cohort"].tolist()
    torch.testing.assert_close(slow.model.state_dict(), fast.model.state_dict(), rtol=1e-4, atol=1e-5)


class WithDropout(nn.Module):
    head_name = "head"

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Dropout(0.5))
        self.head = nn.Linear(5, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.body(inputs))  # type: ignore[no-any-return]


def test_a_layer_that_draws_is_named_once_and_the_reference_takes_over(tiny_data: FederatedData) -> None:
    torch.manual_seed(0)
    model = WithDropout()
    slow = turbosvm.run(data=tiny_data, model=model, engine="sequential", **FAST)
    with pytest.warns(UserWarning, match=r"one after another.*WithDropout, layer 'body.2' \(Dropout\) draws") as told:
        fast = turbosvm.run(data=tiny_data, model=model, **FAST)
    assert len(told) == 1
    assert without_seconds(slow).equals(without_seconds(fast))


class Draws(nn.Module):
    """Draws in its own forward, in no layer."""

    head_name = "head"

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        noise = torch.randn_like(inputs) if self.training else 0.0
        return self.head(inputs + noise)  # type: ignore[no-any-return]


def test_a_model_that_draws_itself_is_named(tiny_data: FederatedData) -> None:
    with pytest.warns(UserWarning, match=r"the model itself \(Draws\) draws random numbers"):
        turbosvm.run(data=tiny_data, model=Draws(), **FAST)


class Uncopyable(nn.Module):
    head_name = "head"

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)
        self.copies = 0

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(inputs)  # type: ignore[no-any-return]

    def __deepcopy__(self, memo: dict[int, Any]) -> "Uncopyable":
        if self.copies:
            raise TypeError("there is only one of me")
        other = Uncopyable()
        other.load_state_dict(self.state_dict())
        other.copies = 1
        return other


def test_a_model_that_cannot_be_copied_is_trained_by_the_reference(tiny_data: FederatedData) -> None:
    with pytest.warns(UserWarning, match=r"one after another.*there is only one of me"):
        result = turbosvm.run(data=tiny_data, model=Uncopyable(), **FAST)
    assert result.stopped is None


def test_one_bad_client_is_its_own_failure(tiny_data: FederatedData) -> None:
    class Fails(type(tiny_net())):  # type: ignore[misc]
        def forward(self, inputs: Tensor) -> Tensor:
            if self.training and len(inputs) == 1:
                raise ValueError("one sample is not enough")
            return super().forward(inputs)  # type: ignore[no-any-return]

    failing = Fails()
    with pytest.warns(UserWarning, match="one sample is not enough"):
        result = turbosvm.run(data=tiny_data, model=failing, **{**FAST, "client.last_batch": "keep"})
    assert 0 < result.records["failures"].map(len).sum() < 12
    assert result.stopped is None


def test_the_command_has_the_option(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["-s", "data.glyphs.users=12", "-s", "data.glyphs.samples_per_user=5", "-s", "clients_per_round=2"]
    assert command("run", "fedavg", "--rounds", "1", "--engine", "sequential", *few) == 0
    assert "engine: sequential" in next(tmp_path.glob("runs/*/*/config.yaml")).read_text()
    assert command("run", "fedavg", "--rounds", "1", "--engine", "warp", *few) == 2
    assert "engine" in capsys.readouterr().err


def test_a_run_keeps_what_auto_meant(tiny_data: FederatedData, tmp_path: Any) -> None:
    turbosvm.run(data=tiny_data, model=tiny_net(), out=tmp_path, **FAST)
    about = json.loads(next(tmp_path.glob("*/environment.json")).read_text())
    assert (about["engine"], about["precision"]) == ("threads", "float32")


class AlwaysDraws(Draws):
    """Draws when it is evaluated, too."""

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(inputs + torch.randn_like(inputs))  # type: ignore[no-any-return]


def test_a_model_that_draws_in_evaluation_gives_the_same_records_each_time(tiny_data: FederatedData) -> None:
    torch.manual_seed(0)
    model = AlwaysDraws()
    with pytest.warns(UserWarning, match="draws random numbers"):
        one, two = (turbosvm.run(data=tiny_data, model=model, **FAST) for _ in range(2))
    assert without_seconds(one).equals(without_seconds(two))
