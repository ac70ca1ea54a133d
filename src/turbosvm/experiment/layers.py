"""Settings as nested keys and values: read from YAML or from `key=value`, and merged, later layers winning."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from turbosvm.errors import TurboSVMError

Layer = dict[str, Any]


def read_yaml(file: Path, kind: str = "Config file") -> Layer:
    """Read a YAML file that holds keys and values; errors call it by its kind."""
    try:
        content = _from_yaml(file.read_text())
    except OSError as error:
        raise TurboSVMError(f"{kind} '{file}' cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError of dates and numbers that are none, and of odd bytes
        what = " ".join(str(error).split())
        raise TurboSVMError(f"{kind} '{file}' is not YAML: {what}.") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise TurboSVMError(f"{kind} '{file}' must hold keys and values, not a {type(content).__name__}.")
    try:
        return merge_layers([content])
    except RecursionError as error:
        raise TurboSVMError(f"{kind} '{file}' refers to itself.") from error


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
    try:
        value = _from_yaml(form.format(text))
        merge_layers([{key: value}])
    except (yaml.YAMLError, ValueError) as error:
        raise TurboSVMError(f"The value in '{assignment}' is not YAML.") from error
    except RecursionError as error:
        raise TurboSVMError(f"The value in '{assignment}' refers to itself.") from error
    return key, value


class _OneOfEachKey(yaml.SafeLoader):
    """PyYAML's reader, which takes the last of two equal keys without a word, made to refuse them."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE]
        twice = [key for key in keys if keys.count(key) > 1]
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"the key '{twice[0]}' is there twice", node.start_mark)
        return super().construct_mapping(node, deep)


_MERGE = "tag:yaml.org,2002:merge"


def _from_yaml(text: str) -> Any:
    return yaml.load(text, Loader=_OneOfEachKey)  # noqa: S506 - it is the safe loader


def nest(key: str, value: Any) -> Layer:
    """Turn `("client.epochs", 2)` into `{"client": {"epochs": 2}}`."""
    for part in reversed(key.split(".")):
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
                raise TurboSVMError(f"Config key '{key}' is {old!r}; it must be a name, or keys and values.")
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
