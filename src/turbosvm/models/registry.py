"""Models by name: the built-in ones, or anyone's own as 'module:Class'."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from inspect import Parameter, isfunction, signature
from pathlib import Path
from typing import Any

from torch import nn

from turbosvm.errors import TurboSVMError, in_one_line, unknown
from turbosvm.files import sha256_of
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


def module_of(name: str) -> str | None:
    """The module that a model's name has imported; None where it imports nothing."""
    return name.partition(":")[0] if ":" in name and name not in MODELS else None


def module_meant(name: str) -> str:
    """The module that a person means who trusts `my_models`, or says it as models are named: `my_models:Net`."""
    return name.partition(":")[0]


def modules_of(names: Iterable[str]) -> frozenset[str]:
    """The modules that these models come from."""
    return frozenset(filter(None, map(module_of, names)))


def call_of(name: str, options: Mapping[str, Any]) -> str:
    """What building a model calls, and with what, for a person to judge: `yaml:unsafe_load` runs what it is given."""
    return f"'{name}' with {dict(options)}" if options else f"'{name}'"


def refuse_untrusted(name: str, options: Mapping[str, Any], trusted: Collection[str], where: str) -> None:
    """Refuse a model whose module nobody here has named: importing it, and building the model, runs its code."""
    module = module_of(name)
    if module is not None and module not in trusted:
        raise TurboSVMError(
            f"{where} has the model {call_of(name, options)}, whose code would be run; if you know that code, resume "
            f"this very folder with --trust-code {module} (in Python: trust_code='{module}', or model=...)."
        )


def code_digest(name: str) -> str | None:
    """The SHA-256 of the file that a model of one's own was imported from; None where there is no such."""
    module = module_of(name)
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    return sha256_of(Path(file)) if file and Path(file).is_file() else None


def place_of(module: str) -> str | None:
    """Where a module would be imported from, for a person to judge; nothing of it, nor beside it, is run."""
    before = list(sys.path)
    try:
        _look_here()
        found = importlib.util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        found = None
    finally:
        sys.path[:] = before
    if found is None:
        return None
    places = list(found.submodule_search_locations or [])
    return str(places[0] if places else found.origin)


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
    if module_name.partition(".")[0] in sys.stdlib_module_names:
        raise TurboSVMError(f"Model '{name}': Python's own module '{module_name}' has no models.")
    _look_here()
    try:
        found: Any = getattr(importlib.import_module(module_name), attribute, None)
    except Exception as error:  # the person's own code may raise anything
        raise TurboSVMError(f"Model '{name}' cannot be imported: {in_one_line(error)}") from error
    if not _makes_models(found, module_name):
        raise TurboSVMError(
            f"Model '{name}': module '{module_name}' has no nn.Module class '{attribute}', nor a function of its own "
            "of that name."
        )
    factory: Callable[..., Any] = found
    return factory


def _makes_models(found: Any, module_name: str) -> bool:
    """Whether this is a class of models, or a function of the module's own package: `os:system` is neither."""
    if isinstance(found, type):
        return issubclass(found, nn.Module)
    home = str(getattr(found, "__module__", "")).partition(".")[0]
    return isfunction(found) and home == module_name.partition(".")[0]


def _look_here() -> None:
    """Let modules in the working folder be found."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
