"""Several runs planned together: which these are is written first, so that a kill forgets none of them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turbosvm.bounded import read_bounded
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.config import Config
from turbosvm.experiment.folder import InUseError, RunFolder
from turbosvm.experiment.prepared import RunPlan, name_of, write_plan
from turbosvm.experiment.resolve import parse_config
from turbosvm.files import cannot_read, cannot_write, write_atomically
from turbosvm.run_files import ENVIRONMENT, PLAN
from turbosvm.seals import sealed, unsealed

Name = Annotated[str, Field(pattern=r"^[^./\\\x00][^/\\\x00]*$")]


class Plan(BaseModel):
    """The runs in a folder, by the names of their own folders, with what is in their `config.yaml`."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    format: Literal["turbosvm plan 1"] = "turbosvm plan 1"
    complete: bool
    """Whether the folders of all of them have been made."""
    runs: dict[Name, str]


def plan_runs(root: Path, plans: Sequence[RunPlan]) -> list[Path]:
    """Make the folders of new runs under `root`, and let go of them."""
    paths = _free_paths(root, [name_of(plan.config) for plan in plans])
    make_folders(root, dict(zip(paths, plans, strict=True)))
    return paths


def make_folders(root: Path, plans: Mapping[Path, RunPlan]) -> None:
    """Make the folders of runs right under `root`, as far as they have not begun; the plan of all comes first."""
    announced = {path.name: plan.config.to_yaml() for path, plan in plans.items()}
    before = read_plan(root)
    runs = {**(before.runs if before else {}), **announced}
    _write(root, Plan(complete=False, runs=runs))
    for path, plan in plans.items():
        make_folder(path, plan)
    _write(root, Plan(complete=set(_missing(root, before)) <= announced.keys(), runs=runs))


def make_folder(path: Path, plan: RunPlan) -> None:
    """Make the folder of a run, unless another process has come to it first."""
    if path.is_symlink() and not (path / ENVIRONMENT).exists():
        raise TurboSVMError(f"'{path}' is a link to what is no run's folder; nothing is written there.")
    new = not path.exists()
    with cannot_write("folder", path):
        path.mkdir(parents=True, exist_ok=True)
    try:
        folder = RunFolder(path)
    except InUseError:
        return
    try:
        if not folder.begun:
            write_plan(plan, folder)
    except BaseException:
        if new:
            folder.discard()
        raise
    finally:
        folder.release()


def read_plan(root: Path) -> Plan | None:
    """The plan of the runs right under `root`; None where they were not planned together."""
    file = root / PLAN
    if not os.path.lexists(file):
        return None
    try:
        return Plan.model_validate(unsealed(read_bounded(file)))
    except (ValueError, ValidationError) as error:
        raise TurboSVMError(f"Cannot read '{file}': it is damaged ({str(error).splitlines()[0]}).") from error


def missing_runs(root: Path) -> dict[Path, Config]:
    """The runs that were planned, but have no folder yet since the planning was cut short, with their configs."""
    plan = read_plan(root)
    return {
        root / name: parse_config(plan.runs[name], f"The config of '{name}' in '{root / PLAN}'")
        for name in _missing(root, plan)
        if plan
    }


def _missing(root: Path, plan: Plan | None) -> list[str]:
    """The names of these runs."""
    if plan is None or plan.complete:
        return []
    with cannot_read(root):  # there may be names that no folder can have
        return [name for name in plan.runs if not (root / name / ENVIRONMENT).exists()]


def gone_runs(root: Path) -> list[Path]:
    """The runs that had a folder once, and have none any more."""
    plan = read_plan(root)
    return [root / name for name in (plan.runs if plan and plan.complete else ()) if not (root / name).exists()]


def complete(root: Path) -> None:
    """Say that no run of a plan is missing any more."""
    if plan := read_plan(root):
        _write(root, plan.model_copy(update={"complete": True}))


def find_plans(place: Path) -> list[Path]:
    """The folders in a place, at any depth, whose runs were planned together."""
    return [Path(folder) for folder, below, files in os.walk(place) if PLAN in {*files, *below}]  # whatever it is


def _free_paths(root: Path, names: Sequence[str]) -> list[Path]:
    """A folder for each name that is not there yet: `NAME`, or else `NAME-2`, `NAME-3`, ..."""
    paths: list[Path] = []
    for name in names:
        count, path = 1, root / name
        while path in paths or os.path.lexists(path):
            count += 1
            path = root / f"{name}-{count}"
        paths.append(path)
    return paths


def _write(root: Path, plan: Plan) -> None:
    write_atomically(root / PLAN, sealed(plan.model_dump()))
