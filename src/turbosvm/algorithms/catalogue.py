"""Every algorithm by name. Adding one means adding a file with its rule, and a row here.

A combination is called by the names of its rows, `fedprox+fedadam+turbosvm`: each brings the parts in which it differs
from FedAvg, and no two may bring the same.
"""

from dataclasses import replace
from typing import Any

from turbosvm.algorithms.body.adaptive import Adaptive
from turbosvm.algorithms.body.mean import Mean
from turbosvm.algorithms.body.momentum import Momentum
from turbosvm.algorithms.head.fedaws import FedAwS
from turbosvm.algorithms.head.turbosvm import TurboSVM
from turbosvm.algorithms.local.amsgrad import LocalAMSGrad
from turbosvm.algorithms.local.fafed import Fafed
from turbosvm.algorithms.local.scaffold import Scaffold
from turbosvm.algorithms.local.sgd import SGD
from turbosvm.algorithms.objective.moon import ModelContrastive
from turbosvm.algorithms.objective.plain import Plain
from turbosvm.algorithms.objective.prototypes import Prototypes
from turbosvm.algorithms.objective.proximal import Proximal
from turbosvm.algorithms.rules import PARTS, Algorithm
from turbosvm.errors import TurboSVMError, unknown

_REDDI: dict[str, Any] = {"beta2": 0.99, "eps": 1e-3, "bias_correction": False, "initial": 1e-6}  # v begins as eps^2
_FROZEN = {"buffers": "frozen"}

CATALOGUE: dict[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm("fedavg", Plain(), SGD(), Mean(), about="the mean of the clients' weights"),
        Algorithm("fedprox", Proximal(), SGD(), Mean(), about="a spring holds clients near the global model"),
        Algorithm(
            "moon",
            ModelContrastive(),
            SGD(),
            Mean(),
            about="features like the global model's, not its last",
            as_published={"objective": {"contrast": False}},
        ),
        Algorithm("fedproc", Prototypes(), SGD(), Mean(), about="features near the global prototype of their class"),
        Algorithm("scaffold", Plain(), Scaffold(), Mean("equal"), about="control variates correct each local step"),
        Algorithm("localamsgrad", Plain(), LocalAMSGrad(), Mean(), about="AMSGrad on clients, moments averaged"),
        Algorithm("fafed", Plain(), Fafed(), Mean(), about="variance-reduced adaptive steps, moments averaged"),
        Algorithm("fedavgm", Plain(), SGD(), Momentum(), about="momentum on the server"),
        Algorithm("fedadam", Plain(), SGD(), Adaptive("adam"), about="Adam on the server", as_published=_FROZEN),
        Algorithm("fedams", Plain(), SGD(), Adaptive("amsgrad"), about="AMSGrad on the server", as_published=_FROZEN),
        Algorithm(
            "fedyogi", Plain(), SGD(), Adaptive("yogi", learning_rate=0.01, **_REDDI), about="Yogi on the server"
        ),
        Algorithm(
            "fedadagrad",
            Plain(),
            SGD(),
            Adaptive("adagrad", learning_rate=0.01, **_REDDI),
            about="Adagrad on the server",
        ),
        Algorithm("fedaws", Plain(), SGD(), Mean(), FedAwS(), about="pushes apart class embeddings that are close"),
        Algorithm(
            "turbosvm",
            Plain(),
            SGD(),
            Mean(),
            TurboSVM(),
            about="averages support vectors, spreads classes apart",
            as_published={"head": {"max_iter": 50}},
        ),
        Algorithm("centralised", Plain(), SGD(), Mean(), pooled=True, about="no federation: all samples in one pool"),
    )
}

PLAIN = CATALOGUE["fedavg"]


def parts_of(row: Algorithm) -> list[str]:
    """The parts for which a row has a rule of its own; one of FedAvg's rules with other options does not count."""
    return [part for part in PARTS if type(getattr(row, part)) is not type(getattr(PLAIN, part))]


def rows_of(name: str) -> list[Algorithm]:
    """The rows that a name is made of, in the order of their parts."""
    if not isinstance(name, str):
        raise TurboSVMError(f"An algorithm's name is {name!r}; it must be text.")
    if "," in name:
        raise TurboSVMError(f"'{name}': algorithms to compare are separated by spaces, those to combine by '+'.")
    names = name.split("+")
    for one in names:
        if _plain(one) not in CATALOGUE:
            raise unknown("algorithm", one, CATALOGUE, where=f"in '{name}'" if len(names) > 1 else "")
    rows = [CATALOGUE[one] for one in dict.fromkeys(map(_plain, names))]
    if len(rows) > 1 and any(row.pooled for row in rows):
        raise TurboSVMError(f"'{name}': centralised training has no clients and no server, so nothing joins it.")
    order = list(PARTS)
    return sorted(rows, key=lambda row: [order.index(part) for part in parts_of(row)])


def _plain(name: str) -> str:
    return name.strip().lower()


def find_algorithm(name: str) -> Algorithm:
    """Return the algorithm of that name, a row or a combination of rows, with its default hyperparameters.

    Example:
        >>> find_algorithm("turbosvm+fedavgm").name
        'fedavgm+turbosvm'
    """
    rows = rows_of(name)
    if len(rows) == 1:
        return rows[0]
    chosen: dict[str, Algorithm] = {}
    for row in rows:
        for part in parts_of(row):
            if part in chosen:
                raise TurboSVMError(f"'{name}': {chosen[part].name} and {row.name} both choose the {PARTS[part]}.")
            chosen[part] = row
    for row in rows:  # options that differ from FedAvg's, where nobody has chosen another rule
        for part in PARTS:
            if getattr(row, part) != getattr(PLAIN, part):
                chosen.setdefault(part, row)
    whole = replace(PLAIN, **{part: getattr(row, part) for part, row in chosen.items()})
    return replace(whole, name="+".join(row.name for row in rows if row is not PLAIN))
