"""A run that is ready for its next round: built from a config, planned in a folder, or reopened there after a stop."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from turbosvm.algorithms.rules import Algorithm
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.about import About, about_of, read_about, refuse_other_data, surroundings
from turbosvm.experiment.algorithm import build_algorithm
from turbosvm.experiment.build import build_data, build_federation, build_module, build_plan
from turbosvm.experiment.checkpoints import Checkpoints
from turbosvm.experiment.config import Config
from turbosvm.experiment.ending import Ending, find_ending, is_finished
from turbosvm.experiment.environment import describe_environment
from turbosvm.experiment.folder import RunFolder
from turbosvm.experiment.recorded import Record, recorded
from turbosvm.experiment.resolve import read_config
from turbosvm.models.copies import copy_of
from turbosvm.models.registry import code_digest, module_of, refuse_untrusted
from turbosvm.names import CHANGES_NO_BIT
from turbosvm.run_files import CONFIG, ENVIRONMENT, RECORDS
from turbosvm.simulation import Federation, Standing, begin
from turbosvm.trackers.catalogue import build_trackers, check_own
from turbosvm.trackers.tracker import Tracker


@dataclass(frozen=True)
class Prepared:
    """A run with all that it needs, ready for its first round, or for the one after those that it has done."""

    config: Config
    algorithm: Algorithm
    federation: Federation
    trackers: tuple[tuple[str, Tracker], ...] = ()
    """By their names."""
    store: Path | None = None
    """Where trackers keep what several runs share."""
    folder: RunFolder | None = None
    records: tuple[Record, ...] = ()
    """Of the rounds that it has done."""
    standing: Standing | None = None
    """Where it stands after them; None before the first."""
    checkpoints: Checkpoints | None = None
    notes: tuple[str, ...] = ()
    ending: Ending | None = None
    """How it ended, where nothing is left to do."""

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.federation.module.parameters()).device


def prepare_run(
    config: Config,
    data: FederatedData | None = None,
    module: nn.Module | None = None,
    trackers: Sequence[Tracker] = (),
    store: Path | None = None,
) -> Prepared:
    """Build and check all that a config names, or what stands in for it."""
    algorithm = build_algorithm(config.algorithm.name, config.algorithm.model_dump())
    data = data or build_data(config.data)
    own_module = build_module(config, len(data.classes)) if module is None else copy_of(module)
    followers = (*build_trackers(config.trackers, store), *check_own(trackers))
    return Prepared(config, algorithm, build_federation(config, data, own_module), followers, store)


def name_of(config: Config) -> str:
    """What a run is called."""
    return f"{config.algorithm.name}-seed{config.seed}"


class RunPlan(NamedTuple):
    """A run that can be carried out: its config, and what else its folder says of it."""

    config: Config
    about: About


def plan_of(prepared: Prepared) -> RunPlan:
    """Say all there is to say of a run that has not begun."""
    tracked_in = prepared.store if prepared.config.trackers else None
    return RunPlan(prepared.config, about_of(prepared.config, prepared.federation, tracked_in))


def write_plan(plan: RunPlan, folder: RunFolder) -> None:
    """Fill a folder, from which any process can then begin the run."""
    folder.write(CONFIG, plan.config.to_yaml())
    folder.write(ENVIRONMENT, plan.about.to_text())


def checkpoints_of(prepared: Prepared, folder: RunFolder) -> Checkpoints:
    """The checkpoints in a run's folder."""
    return Checkpoints(folder.checkpoints, prepared.config, prepared.federation.data.digest)


def reopen_run(
    path: Path,
    data: FederatedData | None = None,
    module: nn.Module | None = None,
    trackers: Sequence[Tracker] = (),
    retry: bool = False,
    trusted: Collection[str] = (),
) -> Prepared:
    """Open a run's folder to go on after its newest checkpoint; records of later rounds are forgotten.

    A run whose bad rounds were too many stays as it is; to `retry` it is to begin again with its first round. Only
    modules that are `trusted` are imported for a model that the folder names.
    """
    folder = RunFolder.reopen(path)
    try:
        config, about = read_config(path / CONFIG), read_about(path)
        if what := config.difference(about.settings):
            raise TurboSVMError(f"'{path / CONFIG}' has been changed since the run was planned: {what}.")
        if module is None:
            refuse_untrusted(config.model.name, config.model.options, trusted, f"'{path}'")
        prepared = prepare_run(config, data, module, trackers, _store(path, about))
        refuse_other_data(path, about.data, prepared.federation)
        return _reopened(replace(prepared, folder=folder), folder, about, retry)
    except BaseException:
        folder.release()
        raise


def _reopened(prepared: Prepared, folder: RunFolder, about: About, retry: bool) -> Prepared:
    """Find out where a run stands, and write down that it goes on."""
    config, path = prepared.config, folder.path
    records, checkpoints = recorded(path), checkpoints_of(prepared, folder)
    ending, damage = find_ending(path)
    stays = ending is not None and (ending.stopped is None or (is_spent(records, config) and not retry))
    if stays:
        return replace(prepared, records=tuple(records), ending=ending)
    if ending and is_spent(records, config):
        checkpoints.forget()
        records = []
    standing, notes = checkpoints.latest(path / RECORDS, len(records), begin_at(prepared))
    if damage:
        notes.insert(0, damage)
    if standing is None and (records or notes):
        notes.append("No checkpoint is left to go on from; it began again with its first round.")
    done = standing.round if standing else 0
    notes += [*_elsewhere(prepared, about), *_changed_code(config, about)] if done else []
    if folder.begun and done < config.rounds:
        again = {"after_round": done, **describe_environment(prepared.device)}
        about = about.model_copy(update={"resumed": [*about.resumed, again]})
    elif not folder.begun:  # it may have been planned on another machine
        about = about.model_copy(update=surroundings(config, prepared.federation))
    folder.write(ENVIRONMENT, about.to_text())
    records = records[:done]
    return replace(prepared, records=tuple(records), standing=standing, checkpoints=checkpoints, notes=tuple(notes))


def begin_at(prepared: Prepared) -> Standing:
    """Where the run stood before its first round."""
    return begin(prepared.federation, prepared.algorithm, build_plan(prepared.config))


def _elsewhere(prepared: Prepared, about: About) -> list[str]:
    """What to say where a run goes on with other means than it began with."""
    now = surroundings(prepared.config, prepared.federation)
    before = about.model_dump()
    keys = [key for key in ("engine", "precision", "device") if before.get(key, now[key]) != now[key]]
    told = ", ".join(f"{key} {now[key]}, not {before[key]}" for key in keys)
    return [f"It goes on with {told}; the last bits of its numbers may be others."] if keys else []


def _changed_code(config: Config, about: About) -> list[str]:
    """What to say where the code of a model of one's own is not what the run began with."""
    now = code_digest(config.model.name)
    told = (
        f"The code of module '{module_of(config.model.name)}' has changed since the run began: rounds before and after "
    )
    return [f"{told}this one may be of two models."] if about.code and now != about.code else []


def _store(path: Path, about: About) -> Path:
    """Where trackers keep what several runs share: one of the two folders around the run's, whatever its files say."""
    own = path.resolve()
    named = Path(about.tracked_in) if about.tracked_in else own.parent
    return named if named in own.parents[:2] else own.parent


def is_done(path: Path) -> bool:
    """Whether a run is finished, and its folder says the same of it as when it was planned."""
    try:
        return is_finished(path) and read_config(path / CONFIG).difference(read_about(path).settings) is None
    except TurboSVMError:
        return False


def is_spent(records: Sequence[Record], config: Config) -> bool:
    """Whether nothing is left that could be done better: no bad round more is allowed, or all rounds are over."""
    bad = sum(record["failed"] is not None for record in records)
    return bad > config.max_failed_rounds or len(records) == config.rounds


def adopt(path: Path, config: Config) -> None:
    """Let an unfinished run go on as a config of the same meaning says: with data elsewhere, and what changes no bit.

    Threads, engine and device stay, since they change the last bits of sums.
    """
    folder = RunFolder.reopen(path)
    try:
        if not is_finished(path):
            own = read_config(path / CONFIG)
            data = own.data.model_copy(update={"name": config.data.name})
            changes = {key: getattr(config, key) for key in CHANGES_NO_BIT}
            folder.write(CONFIG, own.model_copy(update={"data": data, **changes}).to_yaml())
    finally:
        folder.release()
