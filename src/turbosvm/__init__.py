"""Federated learning with SVM aggregation.

`turbosvm.run` and `turbosvm.compare` do whole experiments, `turbosvm.resume` goes on with one; `turbosvm.prepare` reads
LEAF's data sets and tables of your own; `FederatedData` holds data that you have in memory. They are imported when
first used, so that `import turbosvm` (and the reports, which need no PyTorch) start at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from turbosvm.errors import TurboSVMError
from turbosvm.version import __version__

if TYPE_CHECKING:
    from turbosvm import svm
    from turbosvm.api import Comparison, Result, Swept, compare, open_data, prepare, resume, run, sweep
    from turbosvm.data.federated import FederatedData
    from turbosvm.data.partition import Partition
    from turbosvm.data.sources.request import Columns
    from turbosvm.data.torch_data import from_dataset
    from turbosvm.heads.merge import HeadState, merge_heads

__all__ = [
    "Columns",
    "Comparison",
    "FederatedData",
    "HeadState",
    "Partition",
    "Result",
    "Swept",
    "TurboSVMError",
    "__version__",
    "compare",
    "from_dataset",
    "merge_heads",
    "open_data",
    "prepare",
    "resume",
    "run",
    "svm",
    "sweep",
]

_HOMES = {
    "Columns": "turbosvm.data.sources.request",
    "Comparison": "turbosvm.api",
    "FederatedData": "turbosvm.data.federated",
    "HeadState": "turbosvm.heads.merge",
    "Partition": "turbosvm.data.partition",
    "Result": "turbosvm.api",
    "Swept": "turbosvm.api",
    "compare": "turbosvm.api",
    "from_dataset": "turbosvm.data.torch_data",
    "merge_heads": "turbosvm.heads.merge",
    "open_data": "turbosvm.api",
    "prepare": "turbosvm.api",
    "resume": "turbosvm.api",
    "run": "turbosvm.api",
    "sweep": "turbosvm.api",
}


def __getattr__(name: str) -> Any:
    if name == "svm":
        return import_module("turbosvm.svm")
    if name not in _HOMES:
        raise AttributeError(f"module 'turbosvm' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
