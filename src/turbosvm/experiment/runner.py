"""Carry out one run: go through its rounds, and record each before the next begins."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as from_safetensors
from torch import nn

from turbosvm.algorithms.catalogue import find_algorithm
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.build import build_plan
from turbosvm.experiment.checkpoints import Checkpoints
from turbosvm.experiment.config import Config
from turbosvm.experiment.folder import Record, RunFolder, record_of
from turbosvm.experiment.prepared import Prepared, name_of, plan_of, prepare_run, write_plan
from turbosvm.files import cannot_read
from turbosvm.models.contract import load_state
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
        folder, plan = RunFolder.new(root, name_of(config)), plan_of(prepared)
        write_plan(plan, folder)
        checkpoints = Checkpoints(folder.checkpoints, config.checkpoint_every)
        prepared = replace(prepared, folder=folder, checkpoints=checkpoints)
    return run_on(prepared, on_record)


def run_on(prepared: Prepared, on_record: OnRecord | None = None) -> Outcome:
    """Go through the rounds that are left."""
    if prepared.finished:
        return _as_it_is(prepared)
    config, federation, folder = prepared.config, prepared.federation, prepared.folder
    module, checkpoints, standing = federation.module, prepared.checkpoints, prepared.standing
    records, notes = list(prepared.records), list(prepared.notes)
    tracking, path = Tracking(prepared.trackers), folder.path if folder else None
    interrupted, stopped, newest = False, None, len(records)
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
                    stopped = _nothing_merged(records)
                    break
                notes += finished.notes
                record, newest = record_of(finished, federation.data.users), finished.number
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
                # An interrupt can come between a record and its standing: then the model is that of the round before.
                _close(folder, module if standing and standing.round == newest else None, notes)
    status: Status = "interrupted" if interrupted else "stopped" if stopped else "finished"
    try:
        tracking.end(status, summarise(records, stopped))
    except KeyboardInterrupt:
        interrupted = True
    return Outcome(config, records, module, path, interrupted, stopped, notes + tracking.notes)


def _as_it_is(prepared: Prepared) -> Outcome:
    """What a finished run has left, also one that could not go on."""
    folder, module = prepared.folder, prepared.federation.module
    assert folder is not None  # noqa: S101 (such a run has one)
    try:
        module.load_state_dict(_read_model(folder.path / "model.safetensors"))
    finally:
        folder.close(None)
    return Outcome(prepared.config, list(prepared.records), module, folder.path, False, prepared.stopped, [])


def _read_model(path: Path) -> Weights:
    """The model that a run has ended with."""
    with cannot_read(path):
        content = path.read_bytes()
    try:
        return from_safetensors(content)
    except SafetensorError as error:
        raise TurboSVMError(f"'{path}' is damaged ({error}); without that file, the run makes it again.") from error


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
