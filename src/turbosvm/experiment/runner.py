"""Carry out one run: build what the config names, go through the rounds, record each before the next begins."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from turbosvm.algorithms.catalogue import find_algorithm
from turbosvm.clients.engine import choose_engine
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.algorithm import build_algorithm
from turbosvm.experiment.build import build_data, build_federation, build_module, build_plan
from turbosvm.experiment.config import Config
from turbosvm.experiment.environment import describe_environment
from turbosvm.experiment.folder import Record, RunFolder, record_of
from turbosvm.models.contract import load_state
from turbosvm.precision import choose_precision
from turbosvm.simulation import Federation, simulate
from turbosvm.trackers.catalogue import build_trackers, check_own
from turbosvm.trackers.scalars import summarise
from turbosvm.trackers.tracker import Status, TrackedRun, Tracker
from turbosvm.trackers.tracking import Tracking
from turbosvm.types import ModelState


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
        notes = [f"{label}: {note}" for note in self.notes]
        if self.stopped:
            return [*notes, f"{label} stopped: {self.stopped}"]
        failures = self._failures()
        return [*notes, f"{label}: {failures}"] if failures else notes

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


def run_experiment(
    config: Config,
    data: FederatedData | None = None,
    module: nn.Module | None = None,
    root: Path | None = None,
    on_record: Callable[[Record], None] | None = None,
    trackers: Sequence[Tracker] = (),
    store: Path | None = None,
) -> Outcome:
    """Run a config and save the run in a new folder under `root`, if there is one.

    `data` and `module` stand in for the ones that the config names; the module is copied. `trackers` follow the run
    beside those that the config names, which keep in `store`, or else in `root`, what several runs share. Everything is
    built and checked before the folder is made, so that a mistake leaves nothing behind.
    """
    algorithm = build_algorithm(config.algorithm.name, config.algorithm.model_dump())
    data = data or build_data(config.data)
    own_module = build_module(config, len(data.classes)) if module is None else deepcopy(module)
    federation = build_federation(config, data, own_module)
    device = next(own_module.parameters()).device
    tracking = Tracking([*build_trackers(config.trackers, store or root), *check_own(trackers)])
    name = f"{config.algorithm.name}-seed{config.seed}"
    folder = RunFolder(root, name) if root else None
    if folder:
        folder.write("config.yaml", config.to_yaml())
        how = {"engine": choose_engine(config.engine, device), "precision": choose_precision(config.precision, device)}
        about = {**describe_environment(device), **how, "data": describe_data(federation)}
        folder.write("environment.json", json.dumps(about, indent=2) + "\n")
    records: list[Record] = []
    notes: list[str] = []
    model: ModelState | None = None
    interrupted, stopped = False, None
    try:
        with repeatable(device, config.threads):
            path = folder.path if folder else None
            tracking.begin(TrackedRun(path.name if path else name, data.name, config.model_dump(), path))
            rounds = simulate(federation, algorithm, build_plan(config))
            while True:
                try:
                    finished = next(rounds, None)
                except TurboSVMError as error:
                    stopped = str(error)
                    break
                if finished is None:
                    break
                model = finished.model
                notes += finished.notes
                records.append(record_of(finished, data.users))
                if folder:
                    folder.append(records[-1])
                tracking.record(records[-1])
                if on_record:
                    on_record(dict(records[-1]))
    except KeyboardInterrupt:
        interrupted = True
    except Exception:
        tracking.end("failed", summarise(records, None))
        raise
    finally:
        if model:
            load_state(own_module, model)  # an interrupted round leaves one client's weights in it
        if folder:
            folder.close(own_module if model else None)
    if folder and stopped:
        folder.write("stopped.txt", f"After round {len(records)}: {stopped}\n")
    status: Status = "interrupted" if interrupted else "stopped" if stopped else "finished"
    try:
        tracking.end(status, summarise(records, stopped))
    except KeyboardInterrupt:
        interrupted = True
    notes += tracking.notes
    return Outcome(config, records, own_module, folder.path if folder else None, interrupted, stopped, notes)


def _mostly(reasons: Counter[str]) -> str:
    (reason, times), *others = reasons.most_common()
    return f"mostly {reason}" if others and times > 1 else reason


def describe_data(federation: Federation) -> dict[str, Any]:
    """Say how many users train and how many are held out."""
    split, counts = federation.split, federation.data.counts
    return {
        "name": federation.data.name,
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
