"""Carry out one run: build what the config names, go through the rounds, record each before the next begins."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from turbosvm.data.federated import FederatedData
from turbosvm.experiment.build import (
    build_algorithm,
    build_data,
    build_federation,
    build_module,
    build_plan,
)
from turbosvm.experiment.config import Config
from turbosvm.experiment.environment import describe_environment
from turbosvm.experiment.folder import Record, RunFolder, record_of
from turbosvm.models.contract import load_state
from turbosvm.simulation import simulate
from turbosvm.types import ModelState


@dataclass(frozen=True)
class Outcome:
    """What a run leaves: its records, the trained model, and whether the person stopped it early."""

    config: Config
    records: list[Record]
    module: nn.Module
    folder: Path | None
    interrupted: bool


def run_experiment(
    config: Config,
    data: FederatedData | None = None,
    module: nn.Module | None = None,
    root: Path | None = None,
    on_record: Callable[[Record], None] | None = None,
) -> Outcome:
    """Run a config and save the run in a new folder under `root`, if there is one.

    `data` and `module` stand in for the ones that the config names; the module is copied. Everything is built and
    checked before the folder is made, so that a mistake leaves nothing behind.
    """
    algorithm, plan = build_algorithm(config.algorithm), build_plan(config)
    data = data or build_data(config.data)
    federation = build_federation(config, data, deepcopy(module) or build_module(config, len(data.classes)))
    device = next(federation.module.parameters()).device
    folder = RunFolder(root, f"{config.algorithm.name}-seed{config.seed}") if root else None
    if folder:
        folder.write("config.yaml", config.to_yaml())
        folder.write("environment.json", json.dumps(describe_environment(device), indent=2) + "\n")
    records: list[Record] = []
    model: ModelState | None = None
    interrupted = False
    try:
        with repeatable(device):
            for finished in simulate(federation, algorithm, plan):
                model = finished.model
                records.append(record_of(finished))
                if folder:
                    folder.append(records[-1])
                if on_record:
                    on_record(records[-1])
    except KeyboardInterrupt:
        interrupted = True
    finally:
        if folder:
            folder.close(model)
    if model:
        load_state(federation.module, model)  # an interrupted round leaves one client's weights in it
    return Outcome(config, records, federation.module, folder.path if folder else None, interrupted)


def repeatable(device: torch.device) -> AbstractContextManager[None]:
    """Have cuDNN choose kernels that give the same numbers each time."""
    if device.type != "cuda":
        return nullcontext()
    return torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True)
