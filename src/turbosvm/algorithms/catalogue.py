"""Every algorithm by name. Adding one means adding a file with its rule, and a row here."""

from turbosvm.algorithms.body.mean import Mean
from turbosvm.algorithms.body.momentum import Momentum
from turbosvm.algorithms.head.turbosvm import TurboSVM
from turbosvm.algorithms.objective.plain import Plain
from turbosvm.algorithms.rules import Algorithm
from turbosvm.errors import unknown

CATALOGUE: dict[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm("fedavg", Plain(), Mean()),
        Algorithm("fedavgm", Plain(), Momentum()),
        Algorithm("turbosvm", Plain(), Mean(), TurboSVM()),
    )
}


def find_algorithm(name: str) -> Algorithm:
    """Return the algorithm of that name, with its default hyperparameters."""
    if name not in CATALOGUE:
        raise unknown("algorithm", name, CATALOGUE)
    return CATALOGUE[name]
