"""Carry out one run: go through its rounds, and record each before the next begins."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load as from_safetensors
from torch import nn

from turbosvm.algorithms.catalogue import find_algorithm
from turbosvm.bounded import read_bounded
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.build import build_plan
from turbosvm.experiment.checkpoints import MOST_BYTES, Checkpoints
from turbosvm.experiment.config import Config
from turbosvm.experiment.ending import Ending
from turbosvm.experiment.folder import RunFolder
from turbosvm.experiment.prepared import Prepared, checkpoints_of, name_of, plan_of, prepare_run, write_plan
from turbosvm.experiment.recorded import Record, record_of
from turbosvm.models.contract import load_state
from turbosvm.run_files import MODEL
from turbosvm.simulation import Standing, simulate
from turbosvm.trackers.scalars import summarise
from turbosvm.trackers.tracker import Status, TrackedRun, Tracker
from turbosvm.trackers.tracking import Tracking
from turbosvm.types import Weights


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
        folder = RunFolder.new(root, name_of(config))
        try:
            write_plan(plan_of(prepared), folder)
        except BaseException:
            folder.discard()
            raise
        prepared = replace(prepared, folder=folder, checkpoints=checkpoints_of(prepared, folder))
    return run_on(prepared, on_record)


class Reached(NamedTuple):
    """Where a run stands, and the digest of the lines that were recorded up to there."""

    standing: Standing
    lines: str


def run_on(prepared: Prepared, on_record: OnRecord | None = None) -> Outcome:
    """Go through the rounds that are left."""
    if prepared.ending:
        return _as_it_is(prepared, prepared.ending)
    config, federation, folder = prepared.config, prepared.federation, prepared.folder
    module, checkpoints, standing = federation.module, prepared.checkpoints, prepared.standing
    records, notes = list(prepared.records), list(prepared.notes)
    tracking, path = Tracking(prepared.trackers), folder.path if folder else None
    interrupted, ended, stopped, newest = False, False, None, len(records)
    reached: Reached | None = None
    try:
        if folder:
            folder.begin(len(records))
        reached = Reached(standing, folder.records_digest if folder else "") if standing else None
        with repeatable(prepared.device, config.threads):
            name, data = path.name if path else name_of(config), federation.data.name
            tracking.begin(TrackedRun(name, data, config.model_dump(), path, len(records)))
            rounds = simulate(federation, prepared.algorithm, build_plan(config), standing)
            while True:
                try:
                    finished = next(rounds, None)
                except TurboSVMError as error:
                    stopped, ended = str(error), True
                    break
                if finished is None:
                    stopped, ended = _nothing_merged(records), True
                    break
                notes += finished.notes
                record, newest = record_of(finished, federation.data.users), finished.number
                if folder:
                    folder.append(record)
                records.append(record)
                # After its record: a checkpoint ahead of the records is of no use.
                reached = Reached(finished.standing, folder.records_digest if folder else "")
                tracking.record(record)
                if on_record:
                    on_record(dict(record))
                if folder and checkpoints and checkpoints.due(finished.number):
                    _checkpoint(folder, checkpoints, reached, notes)
    except KeyboardInterrupt:
        interrupted = True
    except Exception:
        tracking.end("failed", summarise(records, None))
        raise
    finally:
        if reached:
            load_state(module, reached.standing.model)  # a round leaves anything in it
        if folder:
            try:
                if reached and checkpoints:
                    _checkpoint(folder, checkpoints, reached, notes)
                # After an interrupt between a record and where it stands, the model is that of the round before.
                current = reached is not None and reached.standing.round == newest
                _save(folder, module if current else None, len(records) if ended else None, stopped, notes)
            finally:
                folder.release()
    status: Status = "interrupted" if interrupted else "stopped" if stopped else "finished"
    try:
        tracking.end(status, summarise(records, stopped))
    except KeyboardInterrupt:
        interrupted = True
    return Outcome(config, records, module, path, interrupted, stopped, notes + tracking.notes)


def _as_it_is(prepared: Prepared, ending: Ending) -> Outcome:
    """What a run that has ended has left."""
    folder, module = prepared.folder, prepared.federation.module
    assert folder is not None  # noqa: S101 (such a run has one)
    try:
        if ending.model is not None:
            _load_model(module, folder.path / MODEL, ending.model)
    finally:
        folder.release()
    records = list(prepared.records)
    return Outcome(prepared.config, records, module, folder.path, False, ending.stopped, list(prepared.notes))


def read_model(path: Path, digest: str) -> Weights:
    """The model that a run has ended with, which must have this digest."""
    content = read_bounded(path, MOST_BYTES)
    if sha256(content).hexdigest() != digest:
        raise TurboSVMError(f"'{path}' is damaged: it is not what was written.")
    return from_safetensors(content)


def _load_model(module: nn.Module, path: Path, digest: str) -> None:
    """Load the model that a run has ended with, if the one that was handed over, or its code, is not another by now."""
    try:
        module.load_state_dict(read_model(path, digest))
    except (SafetensorError, RuntimeError) as error:
        raise TurboSVMError(f"'{path}' does not fit the model {type(module).__name__} as it is now.") from error


def _save(
    folder: RunFolder, module: nn.Module | None, after_round: int | None, stopped: str | None, notes: list[str]
) -> None:
    """Save the model, and say that the run has ended, if it has; a run is what it is where that is not possible."""
    try:
        if module is not None:
            folder.save_model(module)
        if after_round is not None:
            folder.end(after_round, stopped)
    except TurboSVMError as error:
        notes.append(f"The model is not saved: {error}")


def _checkpoint(folder: RunFolder, checkpoints: Checkpoints, reached: Reached, notes: list[str]) -> None:
    """Write a checkpoint, after the records before it; a run goes on where that is not possible."""
    try:
        folder.sync()
        checkpoints.write(reached.standing, reached.lines)
    except TurboSVMError as error:
        beginning = "There is no checkpoint of some rounds: "
        if not any(note.startswith(beginning) for note in notes):
            notes.append(f"{beginning}{error}")


def _nothing_merged(records: Sequence[Record]) -> str | None:
    """What is wrong with a run that went through all of its rounds, if nothing was merged in any."""
    reasons = Counter(record["failed"] for record in records)
    if None in reasons:
        return None
    rounds = "its only round" if len(records) == 1 else f"any of its {len(records)} rounds"
    bad = Counter(failure["why"] for record in records for failure in record["failures"])
    return f"Nothing was merged in {rounds} ({_mostly(reasons)}{f'; clients: {_mostly(bad)}' if bad else ''})."


def _mostly(reasons: Counter[str]) -> str:
    (reason, times), *others = reasons.most_common()
    return f"mostly {reason}" if others and times > 1 else reason


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
