from dataclasses import FrozenInstanceError, fields

import pytest

from turbosvm.algorithms.catalogue import CATALOGUE, find_algorithm
from turbosvm.errors import TurboSVMError


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(
        TurboSVMError, match=r"Unknown algorithm 'FedAvgg'; allowed: .*fedavg.* Did you mean 'fedavg'\?"
    ):
        find_algorithm("FedAvgg")


@pytest.mark.parametrize("name", CATALOGUE)
def test_rows_are_frozen_and_named_by_their_key(name: str) -> None:
    algorithm = find_algorithm(name)
    assert algorithm.name == name == name.lower()
    with pytest.raises(FrozenInstanceError):
        algorithm.body.anything = 1  # type: ignore[attr-defined]
    assert all(field.default is not None for field in fields(algorithm.body))  # type: ignore[arg-type]
