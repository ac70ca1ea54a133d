"""Carry out a sweep: plan what is new, skip what is done, go on with the rest, retry what failed.

A run's folder is `ALGORITHM-seedN-KEY`, its key a hash of what it computes. So a sweep that is run again finds its
runs, whatever was added to it, and two sweeps into one folder share them.
"""

import traceback
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from turbosvm.cores import usable_cores
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError, in_one_line
from turbosvm.experiment.about import read_about
from turbosvm.experiment.build import Progress, build_data, split_for
from turbosvm.experiment.checkpoints import forget
from turbosvm.experiment.config import Config, DataConfig
from turbosvm.experiment.ending import find_ending, is_finished
from turbosvm.experiment.folder import RunFolder, is_in_use
from turbosvm.experiment.grid import Sweep, key_of
from turbosvm.experiment.planning import make_folders
from turbosvm.experiment.prepared import (
    RunPlan,
    adopt,
    is_done,
    is_spent,
    name_of,
    plan_of,
    prepare_run,
    reopen_run,
)
from turbosvm.experiment.recorded import last_record, recorded
from turbosvm.experiment.resolve import read_config
from turbosvm.experiment.runner import OnRecord, run_on
from turbosvm.files import write_atomically
from turbosvm.models.registry import modules_of
from turbosvm.run_files import CHECKPOINTS, CONFIG, ENVIRONMENT, ERROR, RECORDS


@dataclass(frozen=True)
class Planned:
    """A run of a sweep, and the folder that it has or will have."""

    path: Path
    config: Config

    @property
    def begun(self) -> bool:
        """Whether any of its rounds has been worked at."""
        return (self.path / RECORDS).exists()

    @property
    def rounds_left(self) -> int:
        """How many rounds have no record; all, if it is to begin again."""
        ending, damage = find_ending(self.path)
        if damage or (ending and ending.stopped and is_spent(recorded(self.path), self.config)):
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
        ending, damage = find_ending(self.path)
        if damage:
            return "damaged"
        if (ending and ending.stopped) or (self.path / ERROR).exists():
            return "failed"
        done = self.config.rounds - self.rounds_left
        return f"stopped after round {done}" if done else "to do"

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do."""
        return is_done(self.path)


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
        if path not in planned:
            _refuse_another(path, config, data)
            planned[path] = Planned(path, config)
    return list(planned.values())


def _refuse_another(path: Path, config: Config, data: FederatedData) -> None:
    """Refuse a folder that holds another run than its name says; a broken one is told of when it is gone on with."""
    if not (path / ENVIRONMENT).exists():
        return
    try:
        own, about = read_config(path / CONFIG), read_about(path)
    except TurboSVMError:
        return
    what = config.difference(own.identity) if own.digest != config.digest else None
    if what is None and about.data.get("digest") != data.digest:
        what = f"the digest of its data is {about.data.get('digest')}, not {data.digest}"
    if what:
        raise TurboSVMError(f"'{path}' holds another run than its name says ({what}); move it away.")


def make_ready(planned: Sequence[Planned]) -> list[Path]:
    """Make the folders of the runs that are left, from which any process can carry them out; return these.

    All runs that have not begun are built before the first folder is made, so that mistakes are found early.
    """
    left = [run for run in planned if not run.done]
    for run in planned:
        if run.done:
            _clear(run.path)
    plans = {run.path: _plan(run) for run in left if not run.begun}
    if plans:
        make_folders(next(iter(plans)).parent, plans)
    for run in left:
        if run.path not in plans:
            with suppress(TurboSVMError):  # another process is at it, or it is broken: whoever goes on is told
                adopt(run.path, run.config)
    return [run.path for run in left]


def code_of(planned: Sequence[Planned]) -> frozenset[str]:
    """The modules that the models of a sweep come from: whoever asks for the sweep trusts them."""
    return modules_of(run.config.model.name for run in planned)


def _plan(run: Planned) -> RunPlan:
    return plan_of(prepare_run(run.config, data_of(run.config.data), store=run.path.parent))


def do_run(path: Path, on_record: OnRecord | None = None, trusted: Collection[str] = ()) -> Ended:
    """Go on with a run until it ends; whatever goes wrong is told, so that the others go on."""
    try:
        data = data_of(read_config(path / CONFIG).data)
        outcome = run_on(reopen_run(path, data, retry=True, trusted=trusted), on_record)
    except KeyboardInterrupt:
        return Ended(path, interrupted=True)
    except TurboSVMError as error:
        return Ended(path, str(error))
    except Exception as error:  # a mistake of ours, or a person's own model: the sweep goes on without this run
        with suppress(TurboSVMError):
            write_atomically(path / ERROR, traceback.format_exc())
        return Ended(path, f"{in_one_line(error)} (see {path / ERROR})")
    if outcome.interrupted:
        return Ended(path, interrupted=True)
    failed = outcome.stopped
    if not failed and not is_finished(path):
        failed = "it could not be saved"
    if not failed:
        _clear(path)
    return Ended(path, failed, remarks=tuple(outcome.remarks))


def _clear(path: Path) -> None:
    """Remove what a run needs no more that is done: what clients keep can be large."""
    if not ((path / CHECKPOINTS).exists() or (path / ERROR).exists()):
        return
    with suppress(TurboSVMError, OSError):  # it stays, and does no harm
        folder = RunFolder.reopen(path)
        try:
            forget(folder.checkpoints)
            (path / ERROR).unlink(missing_ok=True)
        finally:
            folder.release()


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
