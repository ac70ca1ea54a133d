"""A run that is ready for its next round: built from a config, planned in a folder, or reopened there after a stop."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from turbosvm.algorithms.rules import Algorithm
from turbosvm.clients.engine import choose_engine
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError, in_one_line
from turbosvm.experiment.algorithm import build_algorithm
from turbosvm.experiment.build import build_data, build_federation, build_module, build_plan
from turbosvm.experiment.checkpoints import Checkpoints
from turbosvm.experiment.config import Config
from turbosvm.experiment.environment import describe_environment
from turbosvm.experiment.folder import Record, RunFolder, recorded
from turbosvm.experiment.resolve import read_config
from turbosvm.files import cannot_read
from turbosvm.models.copies import copy_of
from turbosvm.precision import choose_precision
from turbosvm.simulation import Federation, Standing, empty_memory
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
    finished: bool = False
    """Whether nothing is left to do."""
    stopped: str | None = None
    """Why it could not go on, if it is finished before its last round, in a sentence."""

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
    about: dict[str, Any]


def plan_of(prepared: Prepared) -> RunPlan:
    """Say all there is to say of a run that has not begun."""
    config = prepared.config
    about = {**_surroundings(prepared), "data": describe_data(prepared.federation), "config": config.digest}
    if config.trackers and prepared.store:
        about["tracked_in"] = str(prepared.store.resolve())
    return RunPlan(config, about)


def write_plan(plan: RunPlan, folder: RunFolder) -> None:
    """Fill a folder, from which any process can then begin the run."""
    folder.write("config.yaml", plan.config.to_yaml())
    folder.write("environment.json", json.dumps(plan.about, indent=2) + "\n")


def plan_run(plan: RunPlan, root: Path) -> Path:
    """Make a run's folder under `root`, and let go of it."""
    folder = RunFolder.new(root, name_of(plan.config))
    try:
        write_plan(plan, folder)
    finally:
        folder.close(None)
    return folder.path


def reopen_run(
    path: Path,
    data: FederatedData | None = None,
    module: nn.Module | None = None,
    trackers: Sequence[Tracker] = (),
    retry: bool = False,
) -> Prepared:
    """Open a run's folder to go on after its newest checkpoint; records of later rounds are forgotten.

    A run whose bad rounds were too many stays as it is; to `retry` it is to begin again with its first round.
    """
    folder = RunFolder.reopen(path)
    try:
        config = read_config(path / "config.yaml")
        about = _read_environment(path / "environment.json")
        prepared = prepare_run(config, data, module, trackers, Path(about.get("tracked_in", path.parent)))
        _refuse_other_data(path, about, prepared.federation)
        if folder.begun and about.get("config", config.digest) != config.digest:
            raise TurboSVMError(
                f"'{path / 'config.yaml'}' has been changed since the run began: it would be another run."
            )
        records, checkpoints = recorded(path), Checkpoints(folder.checkpoints, config.checkpoint_every)
        stopped = why_it_stopped(path) if is_spent(records, config) else None
        if is_finished(path) or (stopped and not retry):
            return replace(prepared, folder=folder, records=tuple(records), finished=True, stopped=stopped)
        if stopped:
            checkpoints.forget()
            records = []
        memory = empty_memory(prepared.federation, build_plan(config))
        standing, notes = checkpoints.latest(len(records), memory, prepared.device)
        if standing is None and (records or notes):
            notes.append("There is no checkpoint to go on from; it began again with its first round.")
        records = records[: standing.round if standing else 0]
        if folder.begun and len(records) < config.rounds:
            again = {"after_round": len(records), **describe_environment(prepared.device)}
            about = {**about, "resumed": [*about.get("resumed", []), again]}
        elif not folder.begun:
            about = {**about, **_surroundings(prepared)}  # it may have been planned on another machine
        folder.write("environment.json", json.dumps(about, indent=2) + "\n")
    except BaseException:
        folder.close(None)
        raise
    return replace(
        prepared,
        folder=folder,
        records=tuple(records),
        standing=standing,
        checkpoints=checkpoints,
        notes=tuple(notes),
    )


def is_spent(records: Sequence[Record], config: Config) -> bool:
    """Whether nothing is left that could be done better: no bad round more is allowed, or all rounds are over."""
    bad = sum(record.get("failed") is not None for record in records)
    return bad > config.max_failed_rounds or len(records) == config.rounds


def why_it_stopped(path: Path) -> str | None:
    """Why a run could not go on, as its folder says; None if it was not so."""
    file = path / "stopped.txt"
    if not file.exists():
        return None
    with cannot_read(file):
        text = file.read_text(errors="replace").strip()
    return text.partition(": ")[2] or text or "It stopped."


def adopt(path: Path, config: Config) -> None:
    """Let an unfinished run go on as a config of the same meaning says: with data elsewhere, and what changes no bit.

    Threads, engine and device stay, since they change the last bits of sums.
    """
    folder = RunFolder.reopen(path)
    try:
        if not is_finished(path):
            own = read_config(path / "config.yaml")
            data = own.data.model_copy(update={"name": config.data.name})
            changes = {key: getattr(config, key) for key in ("client_memory_mb", "checkpoint_every", "trackers")}
            folder.write("config.yaml", own.model_copy(update={"data": data, **changes}).to_yaml())
    finally:
        folder.close(None)


def is_finished(path: Path) -> bool:
    """Whether a run's folder holds all of its rounds, and its model; what failed or is broken is not finished."""
    if (path / "stopped.txt").exists() or not (path / "model.safetensors").exists():
        return False
    try:
        records, rounds = recorded(path), read_config(path / "config.yaml").rounds
    except TurboSVMError:
        return False
    return any(record.get("failed") is None for record in records) and len(records) == rounds


def describe_data(federation: Federation) -> dict[str, Any]:
    """Say how many users train and how many are held out."""
    split, counts = federation.split, federation.data.counts
    return {
        "name": federation.data.name,
        "task": federation.data.task,
        "digest": federation.data.digest,
        "split": "hash" if federation.data.held_out is None else "own",
        "users_train": len(split.train),
        "samples_train": int(counts[list(split.train)].sum()),
        "users_held_out": len(split.held_out),
        "samples_held_out": int(counts[list(split.held_out)].sum()),
    }


def _surroundings(prepared: Prepared) -> dict[str, Any]:
    """What a run computes with."""
    config, device = prepared.config, prepared.device
    engine, precision = choose_engine(config.engine, device), choose_precision(config.precision, device)
    return {**describe_environment(device), "engine": engine, "precision": precision}


def _read_environment(file: Path) -> dict[str, Any]:
    try:
        about = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise TurboSVMError(f"Cannot read '{file}': {in_one_line(error)}.") from error
    return about if isinstance(about, dict) else {}


def _refuse_other_data(path: Path, about: dict[str, Any], federation: Federation) -> None:
    """Refuse to go on with data that is not what the run began with; what is the same may be called differently."""
    before, now = about.get("data", {}), describe_data(federation)
    differing = [key for key in now if key in before and before[key] != now[key]]
    if differing and not (differing == ["name"] and now["digest"]):
        raise TurboSVMError(
            f"'{path}' was run on other data than '{federation.data.name}' is now: {', '.join(differing)} differ."
        )
