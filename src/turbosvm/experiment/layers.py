"""Settings as nested keys and values: read from YAML or from `key=value`, and merged, later layers winning."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from turbosvm.bounded import read_bounded
from turbosvm.errors import TurboSVMError
from turbosvm.values import shown
from turbosvm.yaml_text import MOST_BYTES, MOST_DEPTH, YamlError, parse_yaml

Layer = dict[str, Any]


def read_yaml(file: Path, kind: str = "Config file") -> Layer:
    """Read a YAML file that holds keys and values; errors call it by its kind."""
    return parse_settings(read_bounded(file, MOST_BYTES), f"{kind} '{file}'")


def parse_settings(text: str | bytes, what: str) -> Layer:
    """Read YAML that holds keys and values; errors call it so."""
    try:
        content = parse_yaml(text)
    except YamlError as error:
        raise TurboSVMError(f"{what} is not YAML as settings are written: {error}.") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise TurboSVMError(f"{what} must hold keys and values, not {_kind_of(content)}.")
    return merge_layers([content])


def _kind_of(value: Any) -> str:
    """What a value is, in words."""
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "settings"}
    return kinds.get(type(value), "nothing" if value is None else f"a {type(value).__name__}")


def parse_assignments(assignments: Iterable[str]) -> Layer:
    """Turn `["client.epochs=2", ...]` into nested keys; values are read as YAML."""
    return merge_layers(nest(*_parse(assignment, "client.epochs=2")) for assignment in assignments)


def parse_lists(assignments: Iterable[str]) -> dict[str, list[Any]]:
    """Turn `["client.epochs=1,2", ...]` into lists by key; values are read as YAML."""
    lists: dict[str, list[Any]] = {}
    for assignment in assignments:
        key, values = _parse(assignment, "client.epochs=1,2", "[{}]")
        if key in lists:
            raise TurboSVMError(f"There are two lists of '{key}'; give one, with commas between the values.")
        lists[key] = values
    return lists


def _parse(assignment: str, example: str, form: str = "{}") -> tuple[str, Any]:
    """Key and value of an assignment; the value is what YAML makes of it in such a form."""
    key, sign, text = assignment.partition("=")
    if not sign or not key:
        raise TurboSVMError(f"'{assignment}' is not an assignment; write key=value, for instance {example}.")
    if text.lstrip().startswith("#"):  # to YAML, a comment, and so nothing
        raise TurboSVMError(f"The value in '{assignment}' begins with a '#'; put it in quotes if it is text.")
    try:
        return key, parse_yaml(form.format(text))
    except YamlError as error:
        raise TurboSVMError(f"The value in '{assignment}' is not YAML as settings are written: {error}.") from error


def nest(key: str, value: Any) -> Layer:
    """Turn `("client.epochs", 2)` into `{"client": {"epochs": 2}}`."""
    parts = key.split(".")
    if not 1 <= len(parts) <= MOST_DEPTH or "" in parts:
        raise TurboSVMError(f"'{key}' is not a key; write names with a point between them, for instance client.epochs.")
    for part in reversed(parts):
        value = {part: value}
    nested: Layer = value
    return nested


def merge_layers(layers: Iterable[Mapping[str, Any]]) -> Layer:
    """Merge nested mappings, later ones winning; a plain name ('glyphs') keeps company with keys beside it."""
    merged: Layer = {}
    for layer in layers:
        for key, value in layer.items():
            old = merged.get(key)
            if isinstance(value, Mapping) and not isinstance(old, str | dict | None):
                raise TurboSVMError(f"Config key '{key}' is {shown(old)}; it must be a name, or keys and values.")
            if isinstance(old, dict) and isinstance(value, str):
                merged[key] = {**old, "name": value}
            elif isinstance(value, Mapping):
                merged[key] = merge_layers([named(old) if isinstance(old, str | dict) else {}, value])
            else:
                merged[key] = value
    return merged


def named(value: Any) -> Any:
    """Let `data: glyphs` stand for `data: {name: glyphs}`."""
    return {"name": value} if isinstance(value, str) else value


def listed(value: Any) -> Any:
    """Let `trackers: mlflow` stand for `trackers: [mlflow]`."""
    return [value] if isinstance(value, str) else value
