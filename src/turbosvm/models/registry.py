"""Models by name: the built-in ones, or anyone's own as 'module:Class'."""

import importlib
import sys
from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

from torch import nn

from turbosvm.errors import TurboSVMError, in_one_line, unknown
from turbosvm.models.celeba import CelebaCNN
from turbosvm.models.femnist import FemnistCNN
from turbosvm.models.initialise import build_from_stream
from turbosvm.models.shakespeare import ShakespeareLSTM
from turbosvm.models.small import SmallCNN
from turbosvm.names import refuse_own
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
            raise unknown("option", option, _parameters(name), where=f"of model {name}")
    try:
        if name in MODELS:
            return build_from_stream(lambda: factory(**options), generator(seed, "init"))
        with lend_to_global(seed, "init"):
            module = factory(**options)
    except Exception as error:  # the person's own code may raise anything
        given = f" with {dict(options)}" if options else ""
        raise TurboSVMError(f"Model '{name}' cannot be built{given}: {in_one_line(error)}") from error
    if not isinstance(module, nn.Module):
        raise TurboSVMError(f"Model '{name}' gave a {type(module).__name__}, not an nn.Module.")
    return module


def find_factory(name: str) -> Callable[..., Any]:
    """Return what builds the model of that name."""
    if name in MODELS:
        return MODELS[name]
    if ":" in name:
        return _import(name)
    refuse_own(name, "model")
    raise unknown("model", name, [*MODELS, "module:Class"])


def takes_option(name: str, option: str) -> bool:
    """Tell whether the model of that name has a keyword argument `option`."""
    parameters = _parameters(name)
    return option in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def _parameters(name: str) -> Mapping[str, Parameter]:
    try:
        return signature(find_factory(name)).parameters
    except ValueError:  # classes of the interpreter itself do not tell
        return {}


def _import(name: str) -> Callable[..., Any]:
    module_name, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module_name), attribute, None)
    except Exception as error:  # the person's own code may raise anything
        raise TurboSVMError(f"Model '{name}' cannot be imported: {in_one_line(error)}") from error
    if not callable(found):
        raise TurboSVMError(f"Model '{name}': module '{module_name}' has no class or function '{attribute}'.")
    factory: Callable[..., Any] = found
    return factory
