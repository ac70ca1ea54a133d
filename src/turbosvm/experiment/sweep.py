"""Carry out a sweep: plan what is new, skip what is done, go on with the rest, retry what failed.

A run's folder is `ALGORITHM-seedN-KEY`, its key a hash of what it computes. So a sweep that is run again finds its
runs, whatever was added to it, and two sweeps into one folder share them.
"""

import shutil
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from turbosvm.cores import usable_cores
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError, in_one_line
from turbosvm.experiment.build import Progress, build_data, split_for
from turbosvm.experiment.config import Config, DataConfig
from turbosvm.experiment.folder import InUseError, RunFolder, is_in_use, last_record, recorded
from turbosvm.experiment.grid import Sweep, key_of
from turbosvm.experiment.prepared import (
    RunPlan,
    adopt,
    is_finished,
    is_spent,
    name_of,
    plan_of,
    prepare_run,
    reopen_run,
    why_it_stopped,
    write_plan,
)
from turbosvm.experiment.resolve import read_config
from turbosvm.experiment.runner import OnRecord, run_on
from turbosvm.files import cannot_write


@dataclass(frozen=True)
class Planned:
    """A run of a sweep, and the folder that it has or will have."""

    path: Path
    config: Config

    @property
    def begun(self) -> bool:
        """Whether any of its rounds has been worked at."""
        return (self.path / "records.jsonl").exists()

    @property
    def rounds_left(self) -> int:
        """How many rounds have no record; all, if it is to begin again."""
        if why_it_stopped(self.path) and is_spent(recorded(self.path), self.config):
            return self.config.rounds
        record = last_record(self.path)
        return self.config.rounds - (min(int(record["round"]), self.config.rounds) if record else 0)

    @property
    def state(self) -> str:
        """How far it is, in words."""
        if self.done:
            return "done"
        if is_in_use(self.path):
            return "at work"
        if (self.path / "stopped.txt").exists() or (self.path / "error.txt").exists():
            return "failed"
        done = self.config.rounds - self.rounds_left
        return f"stopped after round {done}" if done else "to do"

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do."""
        return is_finished(self.path)


class Ended(NamedTuple):
    """How the work on a run ended."""

    path: Path
    failed: str | None = None
    """Why it is not done, in a sentence."""
    interrupted: bool = False
    remarks: tuple[str, ...] = ()
    """What the person should know of it beside that."""


def plan_sweep(sweep: Sweep, root: Path, on_progress: Progress | None = None) -> list[Planned]:
    """Find out which folders the runs of a sweep have, and whether there are clients enough; nothing is written yet."""
    _opened.clear()  # what lies there may be new
    planned: dict[Path, Planned] = {}
    enough: set[tuple[str, int]] = set()
    for config in sweep.configs:
        data = data_of(config.data, on_progress)
        asked = (config.data.model_dump_json(), config.clients_per_round)
        if asked not in enough:
            split_for(config, data)
            enough.add(asked)
        key = key_of(config, data)
        path = root / f"{name_of(config)}-{key}"
        planned.setdefault(path, Planned(path, config))
    return list(planned.values())


def make_ready(planned: Sequence[Planned]) -> list[Path]:
    """Make the folders of the runs that are left, from which any process can carry them out; return these.

    All runs that have not begun are built before the first folder is made, so that mistakes are found early.
    """
    left = [run for run in planned if not run.done]
    plans = {run.path: _plan(run) for run in left if not run.begun}
    for run in left:
        if run.path in plans:
            _make_folder(run.path, plans[run.path])
        else:
            with suppress(TurboSVMError):  # another process is at it, or it is broken: whoever goes on is told
                adopt(run.path, run.config)
    return [run.path for run in left]


def _plan(run: Planned) -> RunPlan:
    return plan_of(prepare_run(run.config, data_of(run.config.data), store=run.path.parent))


def _make_folder(path: Path, plan: RunPlan) -> None:
    with cannot_write("folder", path):
        path.mkdir(parents=True, exist_ok=True)
    try:
        folder = RunFolder(path)
    except InUseError:  # another sweep has come to it first
        return
    try:
        if not folder.begun:
            write_plan(plan, folder)
    finally:
        folder.close(None)


def do_run(path: Path, on_record: OnRecord | None = None) -> Ended:
    """Go on with a run until it ends; whatever goes wrong is told, so that the others go on."""
    try:
        prepared = reopen_run(path, data_of(read_config(path / "config.yaml").data), retry=True)
        outcome = run_on(prepared, on_record)
    except KeyboardInterrupt:
        return Ended(path, interrupted=True)
    except TurboSVMError as error:
        return Ended(path, str(error))
    except Exception as error:  # a mistake of ours, or a person's own model: the sweep goes on without this run
        with suppress(OSError):
            (path / "error.txt").write_text(traceback.format_exc())
        return Ended(path, f"{in_one_line(error)} (see {path / 'error.txt'})")
    if outcome.interrupted:
        return Ended(path, interrupted=True)
    failed = outcome.stopped
    if not failed and not is_finished(path):
        failed = "it could not be saved"
    if not failed:
        shutil.rmtree(path / "checkpoints", ignore_errors=True)  # what clients keep can be large
        (path / "error.txt").unlink(missing_ok=True)
    return Ended(path, failed, remarks=tuple(outcome.remarks))


def threads_for(jobs: int | None) -> int | None:
    """How many threads a run may have where several share the cores; None leaves it open."""
    return max(1, usable_cores() // jobs) if jobs and jobs > 1 else None


def data_of(config: DataConfig, on_progress: Progress | None = None) -> FederatedData:
    """Open or make data, once a process."""
    capped = {"max_samples", "split_seed"} if config.max_samples else set()
    key = config.model_dump_json(include={"name", "glyphs", *capped})
    if key not in _opened:
        _opened[key] = build_data(config, on_progress)
    return _opened[key]


_opened: dict[str, FederatedData] = {}
