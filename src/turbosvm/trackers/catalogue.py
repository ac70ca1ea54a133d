"""The trackers that have names, and how they are made ready before a run."""

from collections.abc import Callable, Iterable
from pathlib import Path

from turbosvm.errors import TurboSVMError, in_one_line, unknown
from turbosvm.trackers.background import Background
from turbosvm.trackers.mlflow import MLflow
from turbosvm.trackers.tensorboard import TensorBoard
from turbosvm.trackers.tracker import Tracker
from turbosvm.trackers.wandb import WandB

TRACKERS: dict[str, Callable[[Path | None], Tracker]] = {"mlflow": MLflow, "tensorboard": TensorBoard, "wandb": WandB}


def check_names(names: Iterable[str]) -> None:
    """Refuse a name that no tracker has."""
    for name in names:
        if name not in TRACKERS:
            raise unknown("tracker", name, TRACKERS)


def build_trackers(names: Iterable[str], store: Path | None) -> list[tuple[str, Tracker]]:
    """Import the named trackers' libraries; `store` is the folder for what several runs share."""
    names = list(dict.fromkeys(names))
    check_names(names)
    built, missing = list[tuple[str, Tracker]](), dict[str, str]()
    for name in names:
        try:
            built.append((name, _build(name, store)))
        except ModuleNotFoundError as error:
            missing[name] = f"tracker '{name}' needs the package {error.name}, which is not installed"
    if missing:
        raise TurboSVMError(f'The {"; the ".join(missing.values())}: pip install "turbosvm[{",".join(missing)}]".')
    return built


def _build(name: str, store: Path | None) -> Tracker:
    try:
        return Background(TRACKERS[name](store))
    except (TurboSVMError, ModuleNotFoundError):
        raise
    except Exception as error:
        raise TurboSVMError(f"The tracker '{name}' cannot be imported: {in_one_line(error)}.") from error


def check_own(trackers: Iterable[object]) -> list[tuple[str, Tracker]]:
    """Refuse objects that are no trackers; return the others with the names of their types."""
    own = []
    for tracker in trackers:
        if isinstance(tracker, type):
            raise TurboSVMError(
                f"The tracker is the class {tracker.__name__}; hand over an object, {tracker.__name__}()."
            )
        if not isinstance(tracker, Tracker):
            raise TurboSVMError(
                f"The tracker is a {type(tracker).__name__}; hand over a name ({', '.join(TRACKERS)}), "
                "or an object with begin, record and end."
            )
        own.append((type(tracker).__name__, tracker))
    return own
