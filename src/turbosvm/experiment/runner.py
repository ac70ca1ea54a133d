"""Carry out one run: build what the config names, go through the rounds, record each before the next begins."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load as from_safetensors
from torch import nn

from turbosvm.algorithms.catalogue import find_algorithm
from turbosvm.algorithms.rules import Algorithm
from turbosvm.clients.engine import choose_engine
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError, in_one_line
from turbosvm.experiment.algorithm import build_algorithm
from turbosvm.experiment.build import build_data, build_federation, build_module, build_plan
from turbosvm.experiment.checkpoints import Checkpoints
from turbosvm.experiment.config import Config
from turbosvm.experiment.environment import describe_environment
from turbosvm.experiment.folder import Record, RunFolder, last_record, record_of, recorded
from turbosvm.experiment.resolve import read_config
from turbosvm.models.contract import load_state
from turbosvm.precision import choose_precision
from turbosvm.simulation import Federation, Standing, empty_memory, simulate
from turbosvm.trackers.catalogue import build_trackers, check_own
from turbosvm.trackers.scalars import summarise
from turbosvm.trackers.tracker import Status, TrackedRun, Tracker
from turbosvm.trackers.tracking import Tracking


@dataclass(frozen=True)
class Outcome:
    """What a run leaves: its records, the trained model, and what ended it before its last round."""

    config: Config
    records: list[Record]
    module: nn.Module
    folder: Path | None
    interrupted: bool
    """Whether the person stopped it."""
    stopped: str | None
    """Why it could not go on, in a sentence."""
    notes: list[str]
    """What went differently than asked for, in sentences."""

    @property
    def worked(self) -> bool:
        """Whether anything was merged at all."""
        return any(record["failed"] is None for record in self.records)

    @property
    def told(self) -> list[str]:
        """What the person should know of it: why it stopped, or what failed on the way."""
        label = f"{self.config.algorithm.name} seed {self.config.seed}"
        stopped = [f"{label} stopped: {self.stopped}"] if self.stopped else []
        return [*(f"{label}: {remark}" for remark in self.remarks), *stopped]

    @property
    def remarks(self) -> list[str]:
        """The same without its name, and without why it stopped."""
        failures = "" if self.stopped else self._failures()
        return [*self.notes, failures] if failures else self.notes

    def _failures(self) -> str:
        """How many replies were bad and how many rounds failed, and most often why, in a sentence."""
        bad = Counter(failure["why"] for record in self.records for failure in record["failures"])
        failed = Counter(record["failed"] for record in self.records if record["failed"])
        each = 1 if find_algorithm(self.config.algorithm.name).pooled else self.config.clients_per_round
        parts = []
        if bad:
            parts.append(f"{bad.total()} of {len(self.records) * each} replies were bad ({_mostly(bad)})")
        if failed:
            parts.append(f"{failed.total()} of {len(self.records)} rounds merged nothing ({_mostly(failed)})")
        return f"{', and '.join(parts)}." if parts else ""


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

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.federation.module.parameters()).device


OnRecord = Callable[[Record], None]


def run_experiment(
    config: Config,
    data: FederatedData | None = None,
    module: nn.Module | None = None,
    root: Path | None = None,
    on_record: OnRecord | None = None,
    trackers: Sequence[Tracker] = (),
    store: Path | None = None,
) -> Outcome:
    """Run a config and save the run in a new folder under `root`, if there is one.

    `data` and `module` stand in for the ones that the config names; the module is copied. `trackers` follow the run
    beside those that the config names, which keep in `store`, or else in `root`, what several runs share. Everything is
    built and checked before the folder is made, so that a mistake leaves nothing behind.
    """
    prepared = prepare_run(config, data, module, trackers, store or root)
    if root:
        folder, plan = RunFolder.new(root, name_of(config)), plan_of(prepared)
        write_plan(plan, folder)
        checkpoints = Checkpoints(folder.checkpoints, config.checkpoint_every)
        prepared = replace(prepared, folder=folder, checkpoints=checkpoints)
    return run_on(prepared, on_record)


def name_of(config: Config) -> str:
    """What a run is called."""
    return f"{config.algorithm.name}-seed{config.seed}"


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
    own_module = build_module(config, len(data.classes)) if module is None else deepcopy(module)
    followers = (*build_trackers(config.trackers, store), *check_own(trackers))
    return Prepared(config, algorithm, build_federation(config, data, own_module), followers, store)


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
) -> Prepared:
    """Open a run's folder to go on after its newest checkpoint; records of later rounds are forgotten."""
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
        if is_finished(path):
            return replace(prepared, folder=folder, records=tuple(records), finished=True)
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
    """Whether a run's folder holds all of its rounds, and its model; a run that failed is not."""
    if (path / "stopped.txt").exists() or not (path / "model.safetensors").exists():
        return False
    records = recorded(path)
    merged = any(record.get("failed") is None for record in records)
    return merged and len(records) == read_config(path / "config.yaml").rounds


def run_on(prepared: Prepared, on_record: OnRecord | None = None) -> Outcome:
    """Go through the rounds that are left."""
    if prepared.finished:
        return _as_it_is(prepared)
    config, federation, folder = prepared.config, prepared.federation, prepared.folder
    module, checkpoints, standing = federation.module, prepared.checkpoints, prepared.standing
    records, notes = list(prepared.records), list(prepared.notes)
    tracking, path = Tracking(prepared.trackers), folder.path if folder else None
    interrupted, stopped = False, None
    if folder:
        folder.begin(records)
    try:
        with repeatable(prepared.device, config.threads):
            name, data = path.name if path else name_of(config), federation.data.name
            tracking.begin(TrackedRun(name, data, config.model_dump(), path, len(records)))
            rounds = simulate(federation, prepared.algorithm, build_plan(config), standing)
            while True:
                try:
                    finished = next(rounds, None)
                except TurboSVMError as error:
                    stopped = str(error)
                    break
                if finished is None:
                    break
                notes += finished.notes
                record = record_of(finished, federation.data.users)
                if folder:
                    folder.append(record)
                records.append(record)
                standing = finished.standing  # after its record: a checkpoint ahead of the records is of no use
                tracking.record(record)
                if on_record:
                    on_record(dict(record))
                if folder and checkpoints and checkpoints.due(standing.round):
                    _checkpoint(folder, checkpoints, standing, notes)
    except KeyboardInterrupt:
        interrupted = True
    except Exception:
        tracking.end("failed", summarise(records, None))
        raise
    finally:
        if standing:
            load_state(module, standing.model)  # a round leaves anything in it
        if folder:
            if standing and checkpoints:
                _checkpoint(folder, checkpoints, standing, notes)
            try:
                if stopped:
                    folder.write("stopped.txt", f"After round {len(records)}: {stopped}\n")
            finally:
                _close(folder, module if standing and _is_last(standing, folder.path) else None, notes)
    status: Status = "interrupted" if interrupted else "stopped" if stopped else "finished"
    try:
        tracking.end(status, summarise(records, stopped))
    except KeyboardInterrupt:
        interrupted = True
    return Outcome(config, records, module, path, interrupted, stopped, notes + tracking.notes)


def _as_it_is(prepared: Prepared) -> Outcome:
    """What a finished run has left."""
    folder, module = prepared.folder, prepared.federation.module
    assert folder is not None  # noqa: S101 (a finished run has one)
    try:
        module.load_state_dict(from_safetensors((folder.path / "model.safetensors").read_bytes()))
    finally:
        folder.close(None)
    return Outcome(prepared.config, list(prepared.records), module, folder.path, False, None, [])


def _is_last(standing: Standing, path: Path) -> bool:
    """Whether a standing is that of the newest record; an interrupt can come just between the two."""
    last = last_record(path)
    return last is not None and last["round"] == standing.round


def _close(folder: RunFolder, module: nn.Module | None, notes: list[str]) -> None:
    """Let go of the folder; a run is what it is where its model cannot be saved."""
    try:
        folder.close(module)
    except TurboSVMError as error:
        notes.append(f"The model is not saved: {error}")


def _checkpoint(folder: RunFolder, checkpoints: Checkpoints, standing: Standing, notes: list[str]) -> None:
    """Write a checkpoint, after the records before it; a run goes on where that is not possible."""
    try:
        folder.sync()
        checkpoints.write(standing)
    except TurboSVMError as error:
        note = f"There is no checkpoint of some rounds: {error}"
        if note not in notes:
            notes.append(note)


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


def _mostly(reasons: Counter[str]) -> str:
    (reason, times), *others = reasons.most_common()
    return f"mostly {reason}" if others and times > 1 else reason


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


@contextmanager
def repeatable(device: torch.device, threads: int | None) -> Iterator[None]:
    """Fix what changes the last bits of sums, the number of threads and cuDNN's choice of kernels; restore it after."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    cudnn = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True)
    try:
        with cudnn if device.type == "cuda" else nullcontext():
            yield
    finally:
        torch.set_num_threads(before)
