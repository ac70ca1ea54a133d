"""Find and read the runs in folders, and say what could not be used."""

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from turbosvm.errors import TurboSVMError
from turbosvm.report.records import RunRecords, read_run
from turbosvm.run_files import CONFIG, ENVIRONMENT, RECORDS

BASELINE = "fedavg"
"""The algorithm that comes first, and that others are paired with unless another is asked for."""


@dataclass(frozen=True)
class Gathered:
    """The runs that a report is made of, and what the person should know of those and of the others."""

    runs: tuple[RunRecords, ...]
    notes: tuple[str, ...]


def gather(places: Sequence[Path]) -> Gathered:
    """Read all runs in the folders, at any depth, FedAvg's first; broken ones are left out, as long as one is whole."""
    runs: list[RunRecords] = []
    errors: list[TurboSVMError] = []
    early = []
    with _collector_off():
        for folder in find_runs(places, lambda error: errors.append(_unreadable(error))):
            try:
                runs.append(read_run(folder))
            except TurboSVMError as error:
                errors.append(error)
            else:
                if not runs[-1].points:
                    early.append(f"'{folder}' did not come as far as an evaluation and is left out.")
    if not runs and errors:
        raise errors[0]
    if not runs:
        raise TurboSVMError(
            f"There are no runs in {_listed(places)}; a run's folder has a {CONFIG} and a {RECORDS} in it."
        )
    evaluated = [run for run in runs if run.points]
    if not evaluated:
        raise TurboSVMError(f"None of the {len(runs)} runs in {_listed(places)} came as far as an evaluation.")
    evaluated.sort(key=lambda run: (run.algorithm != BASELINE, run.algorithm))
    return Gathered(tuple(evaluated), (*(f"Left out: {error}" for error in errors), *early))


@contextmanager
def _collector_off() -> Iterator[None]:
    """Spare Python the search for cycles, of which records have none: it takes a fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _unreadable(error: OSError) -> TurboSVMError:
    return TurboSVMError(f"Cannot look into '{error.filename}': {error.strerror}.")


def find_runs(places: Iterable[Path], on_error: Callable[[OSError], None] | None = None) -> list[Path]:
    """The run folders among the given ones and inside them, each once, in the order of their names.

    `on_error` is told of folders that cannot be looked into.
    """
    found: dict[Path, Path] = {}
    for place in places:
        if not place.is_dir():
            raise TurboSVMError(f"'{place}' is not a folder." if place.exists() else f"There is no folder '{place}'.")
        for folder in _inside(place, on_error):
            found.setdefault(folder.resolve(), folder)
    return list(found.values())


def _inside(place: Path, on_error: Callable[[OSError], None] | None) -> Iterator[Path]:
    for folder, below, files in os.walk(place, onerror=on_error):
        names = {*files, *below}  # whatever they are
        if RECORDS in names or {CONFIG, ENVIRONMENT} <= names:
            below.clear()
            yield Path(folder)
        below.sort()


def _listed(places: Sequence[Path]) -> str:
    return ", ".join(f"'{place}'" for place in places)
