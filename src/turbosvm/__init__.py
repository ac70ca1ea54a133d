"""Federated learning with SVM aggregation.

`turbosvm.run` and `turbosvm.compare` do whole experiments; `FederatedData` holds your own data. They are imported when
first used, so that `import turbosvm` (and the reports, which need no PyTorch) start at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from turbosvm.errors import TurboSVMError
from turbosvm.version import __version__

if TYPE_CHECKING:
    from turbosvm import svm
    from turbosvm.api import Comparison, Result, compare, run
    from turbosvm.data.federated import FederatedData
    from turbosvm.heads.merge import HeadState, merge_heads

__all__ = [
    "Comparison",
    "FederatedData",
    "HeadState",
    "Result",
    "TurboSVMError",
    "__version__",
    "compare",
    "merge_heads",
    "run",
    "svm",
]

_HOMES = {
    "Comparison": "turbosvm.api",
    "FederatedData": "turbosvm.data.federated",
    "HeadState": "turbosvm.heads.merge",
    "Result": "turbosvm.api",
    "compare": "turbosvm.api",
    "merge_heads": "turbosvm.heads.merge",
    "run": "turbosvm.api",
}


def __getattr__(name: str) -> Any:
    if name == "svm":
        return import_module("turbosvm.svm")
    if name not in _HOMES:
        raise AttributeError(f"module 'turbosvm' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
