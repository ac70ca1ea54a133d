"""An algorithm with choices and hyperparameters of one's own, from what a config says under `algorithm`."""

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from turbosvm.algorithms.catalogue import CATALOGUE, PLAIN, find_algorithm, parts_of
from turbosvm.algorithms.rules import PARTS, Algorithm
from turbosvm.errors import TurboSVMError, unknown
from turbosvm.values import shown

RULE = "rule"
"""The key with which a part is taken from another row of the catalogue: `body: {rule: fedadam}`."""


def build_algorithm(name: str, options: Mapping[str, Any]) -> Algorithm:
    """Take the named algorithm, exchange the parts that `options` want from other rows, and set hyperparameters."""
    algorithm = choose_rules(name, options)
    changed = {
        part: _with_options(getattr(algorithm, part), _own(options.get(part)), f"{words} of {algorithm.name}")
        for part, words in PARTS.items()
    }
    return replace(algorithm, **changed, frozen_buffers=options.get("buffers") == "frozen")


def choose_rules(name: str, options: Mapping[str, Any]) -> Algorithm:
    """Return the catalogue's algorithm of that name with the parts exchanged, named for what it then is."""
    algorithm, taken = find_algorithm(name), {}
    for part in PARTS:
        wanted = (options.get(part) or {}).get(RULE)
        if wanted is None:
            continue
        if (
            not isinstance(wanted, str)
            or wanted not in CATALOGUE
            or (wanted != PLAIN.name and part not in parts_of(CATALOGUE[wanted]))
        ):
            having = [row for row in CATALOGUE if row == PLAIN.name or part in parts_of(CATALOGUE[row])]
            raise unknown(PARTS[part], str(wanted), having)
        if algorithm.pooled:
            raise TurboSVMError("Centralised training has no clients and no server, so no rule can be chosen for it.")
        taken[part] = getattr(CATALOGUE[wanted], part)
        algorithm = replace(find_algorithm(_name_of(replace(algorithm, **taken))), **taken)
    return algorithm


def all_options(algorithm: Algorithm) -> dict[str, Any]:
    """Every hyperparameter of every part, by name."""
    parts = {part: getattr(algorithm, part) for part in PARTS}
    options: dict[str, Any] = {part: {} if rule is None else asdict(rule) for part, rule in parts.items()}
    return options | {"buffers": "frozen" if algorithm.frozen_buffers else "mean"}


def _own(options: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (options or {}).items() if name != RULE}


def _name_of(algorithm: Algorithm) -> str:
    """The names of the rows that the parts come from, as a combination is called."""
    names = [
        next(row.name for row in CATALOGUE.values() if getattr(row, part) == getattr(algorithm, part))
        for part in parts_of(algorithm)
    ]
    return "+".join(dict.fromkeys(names)) or PLAIN.name


def _with_options(rule: Any, options: Mapping[str, Any], what: str) -> Any:
    """Change fields of one frozen part, refusing names that it does not have."""
    if not options:
        return rule
    names = [field.name for field in fields(rule)] if rule is not None else []
    for name in options:
        if name not in names:
            if not names:
                raise TurboSVMError(f"The {what} has no options, so '{name}' cannot be set.")
            raise unknown("option", name, names, where=f"of the {what}")
    kinds = get_type_hints(type(rule))
    return replace(rule, **{name: _of_kind(kinds[name], value, name, what) for name, value in options.items()})


def _of_kind(kind: Any, value: Any, name: str, what: str) -> Any:
    """A value as the option needs it; flags and text are no numbers, and numbers are no flags."""
    plain = tuple(value) if isinstance(value, list) else value
    try:
        return TypeAdapter(kind).validate_python(plain, strict=True)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise TurboSVMError(f"Option '{name}' of the {what} is {shown(value)}: {reason}.") from error
