from typing import Any

import pytest

from turbosvm.algorithms.body.momentum import Momentum
from turbosvm.algorithms.catalogue import CATALOGUE
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.algorithm import all_options, build_algorithm


def test_hyperparameters_replace_the_catalogues_and_are_converted() -> None:
    algorithm = build_algorithm("fedavgm", {"body": {"momentum": "5e-1"}})
    assert algorithm.body == Momentum(momentum=0.5, learning_rate=1.0)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (
            ("fedavgm", {"body": {"momentun": 1}}),
            "Unknown option in the body rule of fedavgm 'momentun'",
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
