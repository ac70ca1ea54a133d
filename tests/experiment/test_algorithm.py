from typing import Any

import pytest

from turbosvm.algorithms.body.mean import Mean
from turbosvm.algorithms.body.momentum import Momentum
from turbosvm.algorithms.catalogue import CATALOGUE, parts_of
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.algorithm import all_options, build_algorithm


def test_hyperparameters_replace_the_catalogues_and_are_converted() -> None:
    algorithm = build_algorithm("fedavgm", {"body": {"momentum": 0}})
    assert algorithm.body == Momentum(momentum=0.0, learning_rate=1.0)
    assert isinstance(algorithm.body.momentum, float)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (
            ("fedavgm", {"body": {"momentun": 1}}),
            "Unknown option 'momentun' of the body rule of fedavgm;",
        ),
        (
            ("fedavgm", {"body": {"momentum": 2}}),
            "momentum is 2.0; it must be at least 0 and less than 1",
        ),
        (
            ("fedavgm", {"body": {"momentum": "x"}}),
            "Option 'momentum' of the body rule of fedavgm is 'x'",
        ),
        (
            ("fedavg", {"head": {"cost": 2}}),
            "The head rule of fedavg has no options, so 'cost' cannot be set",
        ),
    ],
)
def test_wrong_hyperparameters_are_explained(config: tuple[str, dict[str, Any]], sentence: str) -> None:
    with pytest.raises(TurboSVMError, match=sentence):
        build_algorithm(*config)


@pytest.mark.parametrize("name", CATALOGUE)
def test_all_options_build_the_same_algorithm(name: str) -> None:
    assert build_algorithm(name, all_options(CATALOGUE[name])) == CATALOGUE[name]


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("fedavgm+turbosvm", "fedavgm+turbosvm"),
        ("turbosvm+fedadam+fedprox", "fedprox+fedadam+turbosvm"),
        ("fedavg+turbosvm", "turbosvm"),
        ("moon+moon", "moon"),
        ("scaffold+fedavgm", "scaffold+fedavgm"),
    ],
)
def test_combinations_take_each_rows_parts_and_have_one_name(name: str, whole: str) -> None:
    algorithm = build_algorithm(name, {})
    assert algorithm.name == whole
    for row in whole.split("+"):
        for part in parts_of(CATALOGUE[row]):
            assert getattr(algorithm, part) == getattr(CATALOGUE[row], part)


def test_a_rows_options_of_a_plain_rule_come_along_where_no_other_rule_is_chosen() -> None:
    assert build_algorithm("scaffold+turbosvm", {}).body == Mean("equal")
    assert build_algorithm("scaffold+fedavgm", {}).body == Momentum()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("fedavgm+fedadam", "fedavgm and fedadam both choose the body rule"),
        ("moon+fedprox+turbosvm", "moon and fedprox both choose the objective|fedprox and moon both choose"),
        ("fedavgm+turbosvn", r"Unknown algorithm 'turbosvn' in 'fedavgm\+turbosvn'; .*Did you mean 'turbosvm'"),
        ("centralised+turbosvm", "centralised training has no clients and no server"),
        ("fedavg+", "Unknown algorithm"),
        ("fedavg,turbosvm", "algorithms to compare are separated by spaces, those to combine by"),
    ],
)
def test_combinations_that_make_no_sense_are_refused(name: str, sentence: str) -> None:
    with pytest.raises(TurboSVMError, match=sentence):
        build_algorithm(name, {})


def test_rules_can_be_chosen_part_by_part_and_the_name_says_so() -> None:
    options = {"objective": {"rule": "fedprox", "mu": 0.5}, "body": {"rule": "fedadam"}, "head": {"rule": "turbosvm"}}
    algorithm = build_algorithm("fedavg", options)
    assert algorithm.name == "fedprox+fedadam+turbosvm"
    assert algorithm == build_algorithm("fedprox+fedadam+turbosvm", {"objective": {"mu": 0.5}})
    assert build_algorithm("fedavgm+turbosvm", {"body": {"rule": "fedavg"}}) == CATALOGUE["turbosvm"]
    assert build_algorithm(algorithm.name, all_options(algorithm)) == algorithm


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"body": {"rule": "turbosvm"}},
            "Unknown body rule 'turbosvm'; allowed: fedadagrad",
        ),
        (
            {"head": {"rule": "svm"}},
            "Unknown head rule 'svm'; allowed: fedavg, fedaws, turbosvm",
        ),
    ],
)
def test_rules_that_are_not_there_are_answered_with_those_that_are(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TurboSVMError, match=sentence):
        build_algorithm("fedavg", options)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_rows_spelt_out_options_give_it_back(name: str) -> None:
    assert build_algorithm(name, all_options(CATALOGUE[name])) == CATALOGUE[name]


@pytest.mark.parametrize(
    ("name", "part", "option", "value"),
    [
        ("fedavgm", "body", "momentum", True),
        ("fedavgm", "body", "momentum", "0.5"),
        ("fedadam", "body", "bias_correction", 1),
        ("fedadam", "body", "bias_correction", "no"),
        ("moon", "objective", "contrast", "off"),
        ("turbosvm", "head", "steps", True),
        ("turbosvm", "head", "degree", 2.5),
        ("turbosvm", "head", "cost", True),
        ("turbosvm", "head", "cost", [1, "2"]),
        ("turbosvm", "head", "classes", True),
        ("turbosvm", "head", "selection", 0),
    ],
)
def test_flags_and_text_are_no_numbers_and_numbers_are_no_flags(
    name: str, part: str, option: str, value: object
) -> None:
    with pytest.raises(TurboSVMError, match=f"Option '{option}' of the .* is "):
        build_algorithm(name, {part: {option: value}})


def test_a_list_of_costs_may_have_whole_numbers() -> None:
    assert all_options(build_algorithm("turbosvm", {"head": {"cost": [1, 0.5]}}))["head"]["cost"] == (1.0, 0.5)
