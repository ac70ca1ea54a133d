"""From a config's words to the things themselves: data, model, algorithm, plan."""

from collections.abc import Callable

import torch
from torch import nn

from turbosvm.clients.engine import choose_engine
from turbosvm.clients.training import LocalTraining
from turbosvm.data import glyphs, store
from turbosvm.data.cap import cap_samples
from turbosvm.data.federated import FederatedData
from turbosvm.data.split import Split, split_users
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.config import Config, DataConfig
from turbosvm.experiment.presets import PRESETS
from turbosvm.inputs import as_model_input
from turbosvm.models.contract import check_fit, find_head, placed
from turbosvm.models.registry import build_model, takes_option
from turbosvm.names import refuse_own
from turbosvm.precision import check_precision, choose_precision
from turbosvm.randomness import lend_to_global
from turbosvm.simulation import Federation, Plan

Progress = Callable[[int, int], None]


def build_data(config: DataConfig, on_progress: Progress | None = None) -> FederatedData:
    """Open (or make) the data that a config names, with as many samples a user as it allows."""
    return cap_samples(_whole_data(config, on_progress), config.max_samples, config.split_seed)


def _whole_data(config: DataConfig, on_progress: Progress | None) -> FederatedData:
    if config.name == "glyphs" and config.glyphs is not None:
        return glyphs.load(glyphs.GlyphOptions(**config.glyphs.model_dump()), on_progress)
    if config.name == "glyphs":
        raise TurboSVMError("The run was begun on other data than the built-in glyphs.")
    if folder := store.find_folder(config.name):
        return store.load(folder)
    if config.name in PRESETS:
        raise TurboSVMError(
            f"The task '{config.name}' needs its data: prepare it (turbosvm data prepare {config.name} --from PLACE), "
            f"or give the path of a data folder (--data FOLDER; in reproduce, --data {config.name}=FOLDER)."
        )
    refuse_own(config.name, "data")
    raise store.no_such_set(config.name)


def build_device(name: str) -> torch.device:
    """Choose where to compute; 'auto' takes a CUDA device if there is one."""
    if name == "cuda" and not torch.cuda.is_available():
        raise TurboSVMError("Device 'cuda' is not available on this machine; allowed: auto, cpu.")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def build_module(config: Config, classes: int) -> nn.Module:
    """Build the config's model, telling it the number of classes if it asks for it."""
    options = dict(config.model.options)
    if "classes" not in options and takes_option(config.model.name, "classes"):
        options["classes"] = classes
    return build_model(config.model.name, options, config.seed)


def split_for(config: Config, data: FederatedData) -> Split:
    """Split the users into those who train, who must be enough for a round, and those who are held out."""
    split = split_users(data, config.data.held_out, config.data.min_samples, config.data.split_seed)
    if config.clients_per_round > len(split.train):
        raise TurboSVMError(
            f"Config key 'clients_per_round' is {config.clients_per_round}; "
            f"it must be from 1 to {len(split.train)}, the number of training users in '{data.name}'."
        )
    return split


def build_federation(config: Config, data: FederatedData, module: nn.Module) -> Federation:
    """Split the users, find the head and put the model where it computes."""
    data = cap_samples(data, config.data.max_samples, config.data.split_seed)  # what was handed over in Python
    split = split_for(config, data)
    head, device = find_head(module, config.model.head), build_device(config.device)
    module = placed(module, device)
    choose_engine(config.engine, device)
    check_precision(choose_precision(config.precision, device), module)
    some_inputs, _ = data.user_tensors(split.train[0], device)
    with lend_to_global(config.seed, "layers"):
        check_fit(module, head, as_model_input(some_inputs[:2]), len(data.classes))
    return Federation(data, split, module, head)


def build_plan(config: Config) -> Plan:
    """Say how long and how wide."""
    training = LocalTraining(**config.client.model_dump())
    return Plan(
        config.rounds,
        config.clients_per_round,
        training,
        config.evaluate_every,
        config.seed,
        paired_cohorts=config.cohorts == "paired",
        on_bad_client=config.on_bad_client,
        min_clients=config.min_clients,
        max_failed_rounds=config.max_failed_rounds,
        client_memory=config.client_memory_mb * 2**20,
        engine=config.engine,
        precision=config.precision,
    )
