"""An algorithm with hyperparameters of one's own: the catalogue's row, with some fields of its three parts changed."""

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from turbosvm.algorithms.catalogue import find_algorithm
from turbosvm.algorithms.rules import Algorithm
from turbosvm.errors import TurboSVMError, unknown

PARTS = {"objective": "objective", "body": "body rule", "head": "head rule"}


def build_algorithm(name: str, options: Mapping[str, Mapping[str, Any]]) -> Algorithm:
    """Take the catalogue's row and change the hyperparameters that `options` gives for each part."""
    algorithm = find_algorithm(name)
    changed = {
        part: _with_options(getattr(algorithm, part), options.get(part, {}), f"{words} of {name}")
        for part, words in PARTS.items()
    }
    return replace(algorithm, **changed)


def all_options(algorithm: Algorithm) -> dict[str, dict[str, Any]]:
    """Every hyperparameter of every part, by name."""
    parts = {part: getattr(algorithm, part) for part in PARTS}
    return {part: {} if rule is None else asdict(rule) for part, rule in parts.items()}


def _with_options(rule: Any, options: Mapping[str, Any], what: str) -> Any:
    """Change fields of one frozen part, refusing names that it does not have."""
    if not options:
        return rule
    names = [field.name for field in fields(rule)] if rule is not None else []
    for name in options:
        if name not in names:
            if not names:
                raise TurboSVMError(f"The {what} has no options, so '{name}' cannot be set.")
            raise unknown(f"option in the {what}", name, names)
    try:
        return TypeAdapter(type(rule)).validate_python({**asdict(rule), **options})
    except ValidationError as error:
        first = error.errors()[0]
        raise TurboSVMError(
            f"Option '{first['loc'][0]}' of the {what} is {first['input']!r}: {first['msg']}."
        ) from error
