import math
from pathlib import Path
from typing import Any

import pytest
import torch

import turbosvm
from tests.conftest import TinyNet, tiny_net
from turbosvm.data.federated import FederatedData

FAST: dict[str, Any] = {"rounds": 5, "evaluate_every": 1, "clients_per_round": 3, "client": {"batch_size": 4}}


def test_ones_own_data_and_model(tiny_data: FederatedData, tmp_path: Path) -> None:
    result = turbosvm.run("fedavg", data=tiny_data, model=tiny_net(), out=tmp_path / "runs", **FAST)
    assert len(result.records) == 5
    assert result.final["accuracy"] == result.records["accuracy"].iloc[-1]
    assert str(result.rounds_to(1.01)) == ">5"
    assert result.rounds_to(0.0).rounds == 1
    assert isinstance(result.model, TinyNet)
    assert result.folder is not None
    assert (result.folder / "records.jsonl").is_file()
    result.plot(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_nothing_is_written_without_out(tiny_data: FederatedData, tmp_path: Path) -> None:
    result = turbosvm.run(data=tiny_data, model=tiny_net(), **FAST)
    assert result.folder is None
    assert list(tmp_path.iterdir()) == []


def test_a_head_can_be_named(tiny_data: FederatedData) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    assert len(turbosvm.run(data=tiny_data, model=model, head="2", **FAST).records) == 5
    with pytest.raises(turbosvm.TurboSVMError, match="does not say which layer is its head"):
        turbosvm.run(data=tiny_data, model=model, **FAST)


def test_nested_settings_as_dictionaries_or_with_dots(tiny_data: FederatedData) -> None:
    dotted: dict[str, Any] = {"data.held_out": 0.5, "algorithm.body.momentum": 0.5}
    result = turbosvm.run("fedavgm", data=tiny_data, model=tiny_net(), **FAST, **dotted)
    assert result.config.client.batch_size == 4
    assert result.config.data.held_out == 0.5
    assert result.config.data.name == "(own) blobs"
    assert result.config.algorithm.body["momentum"] == 0.5


def test_compare_pairs_cohorts(tiny_data: FederatedData) -> None:
    comparison = turbosvm.compare(["fedavg", "fedavgm"], seeds=[0, 1], data=tiny_data, model=tiny_net(), **FAST)
    cohorts = [result.records["cohort"].tolist() for result in comparison.results]
    assert cohorts[0] == cohorts[2]
    assert cohorts[1] == cohorts[3]
    assert cohorts[0] != cohorts[1]
    assert comparison.table["algorithm"].tolist() == ["fedavg", "fedavgm"]
    assert comparison.table["seeds"].tolist() == ["2", "2"]
    assert len(comparison.plot().axes) == 2


def test_a_mistake_in_the_last_name_is_found_first(tiny_data: FederatedData, tmp_path: Path) -> None:
    with pytest.raises(turbosvm.TurboSVMError, match="Unknown algorithm 'fedvag'"):
        turbosvm.compare(["fedavg", "fedvag"], data=tiny_data, model=tiny_net(), out=tmp_path / "runs", **FAST)
    assert not (tmp_path / "runs").exists()


def test_compare_takes_the_configs_seed_and_each_once(tiny_data: FederatedData, tmp_path: Path) -> None:
    arguments = {"data": tiny_data, "model": tiny_net(), **FAST}
    assert [result.config.seed for result in turbosvm.compare("fedavg", seed=5, **arguments).results] == [5]
    twice = turbosvm.compare(["fedavg", "fedavg"], seeds=[0, 0], out=tmp_path / "out", **arguments)
    assert len(twice.results) == 1
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "curves.png",
        "fedavg-seed0",
        "index.html",
        "plan.json",
        "table.csv",
        "table.md",
    }
    with pytest.raises(turbosvm.TurboSVMError, match="at least one algorithm and one seed"):
        turbosvm.compare([], **arguments)


def test_each_record_can_be_watched(tiny_data: FederatedData) -> None:
    seen: list[int] = []
    turbosvm.run(data=tiny_data, model=tiny_net(), on_record=lambda record: seen.append(record["round"]), **FAST)
    assert seen == [1, 2, 3, 4, 5]


def test_a_diverged_run_still_has_a_result(tiny_data: FederatedData) -> None:
    with pytest.warns(UserWarning, match="seed 0") as warned:
        result = turbosvm.run(data=tiny_data, model=tiny_net(), **{**FAST, "client": {"learning_rate": 1e30}})
    assert any("fedavg seed 0 diverged (its loss is not finite)" in str(one.message) for one in warned)
    assert math.isnan(result.final["loss"])
    assert result.final["accuracy"] == 0
    assert "accuracy 0.0%" in repr(result)


def test_own_things_are_named_as_such_and_classes_are_not_models(tiny_data: FederatedData) -> None:
    result = turbosvm.run(data=tiny_data, model=tiny_net(), **FAST)
    assert (result.config.data.name, result.config.model.name) == ("(own) blobs", "(own) TinyNet")
    with pytest.raises(turbosvm.TurboSVMError, match="was handed over in Python"):
        turbosvm.run(data="(own) blobs", **FAST)
    with pytest.raises(turbosvm.TurboSVMError, match="was handed over in Python"):
        turbosvm.run(data=tiny_data, model="(own) TinyNet", **FAST)
    for wrong, sentence in (
        ({"model": type(tiny_net())}, "the class TinyNet; hand over an object"),
        ({"model": "small"}, "a str; hand over an nn.Module"),
        ({"data": 5}, "a int; hand over a name, a path or FederatedData"),
    ):
        with pytest.raises(turbosvm.TurboSVMError, match=sentence):
            turbosvm.resume("runs", **wrong)
    with pytest.raises(turbosvm.TurboSVMError, match="the class TinyNet; hand over an object"):
        turbosvm.run(data=tiny_data, model=TinyNet, **FAST)  # type: ignore[arg-type]


def test_the_package_says_what_it_has() -> None:
    assert set(turbosvm.__all__) == set(dir(turbosvm))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        turbosvm.nothing  # noqa: B018
