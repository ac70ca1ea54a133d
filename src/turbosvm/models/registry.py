"""Models by name: the built-in ones, or anyone's own as 'module:Class'."""

import importlib
import sys
from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path
from typing import Any

from torch import nn

from turbosvm.errors import TurboSVMError, unknown
from turbosvm.models.celeba import CelebaCNN
from turbosvm.models.femnist import FemnistCNN
from turbosvm.models.initialise import build_from_stream
from turbosvm.models.shakespeare import ShakespeareLSTM
from turbosvm.models.small import SmallCNN
from turbosvm.randomness import generator, lend_to_global

MODELS: dict[str, type[nn.Module]] = {
    "celeba": CelebaCNN,
    "femnist": FemnistCNN,
    "shakespeare": ShakespeareLSTM,
    "small": SmallCNN,
}


def build_model(name: str, options: Mapping[str, Any], seed: int) -> nn.Module:
    """Build a model with first weights that depend on `seed` alone.

    Args:
        name: one of MODELS, or 'module:attribute' of an importable (also: in the working folder) class or function that
            returns an `nn.Module`.
        options: keyword arguments of the model; those that it does not take are refused.
        seed: chooses the first weights.
    """
    factory = find_factory(name)
    for option in options:
        if not takes_option(name, option):
            raise unknown(f"option of model {name}", option, signature(factory).parameters)
    if name in MODELS:
        return build_from_stream(lambda: factory(**options), generator(seed, "init"))
    with lend_to_global(seed, "init"):
        module = factory(**options)
    if not isinstance(module, nn.Module):
        raise TurboSVMError(f"Model '{name}' gave a {type(module).__name__}, not an nn.Module.")
    return module


def find_factory(name: str) -> Callable[..., Any]:
    """Return what builds the model of that name."""
    if name in MODELS:
        return MODELS[name]
    if ":" in name:
        return _import(name)
    raise unknown("model", name, [*MODELS, "module:Class"])


def takes_option(name: str, option: str) -> bool:
    """Tell whether the model of that name has a keyword argument `option`."""
    parameters = signature(find_factory(name)).parameters
    return option in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def _import(name: str) -> Callable[..., Any]:
    module_name, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module_name), attribute, None)
    except ImportError as error:
        raise TurboSVMError(f"Model '{name}' cannot be imported: {error}.") from error
    if not callable(found):
        raise TurboSVMError(f"Model '{name}': module '{module_name}' has no class or function '{attribute}'.")
    factory: Callable[..., Any] = found
    return factory
