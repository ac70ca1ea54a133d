"""Settings as nested keys and values: read from YAML or from `key=value`, and merged, later layers winning."""

from collections import Counter
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
    except (yaml.YAMLError, UnicodeDecodeError) as error:
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
    except yaml.YAMLError as error:
        raise TurboSVMError(f"The value in '{assignment}' is not YAML.") from error
    except RecursionError as error:
        raise TurboSVMError(f"The value in '{assignment}' refers to itself.") from error
    return key, value


def _from_yaml(text: str) -> Any:
    """Read YAML; of two equal keys, PyYAML would take the last without a word."""
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        _refuse_twins(node, set())
        return None if node is None else loader.construct_document(node)
    except yaml.YAMLError:
        raise
    except Exception as error:  # of many kinds, where a value is not what it is said to be
        raise yaml.YAMLError(str(error) or type(error).__name__) from error
    finally:
        loader.dispose()


def _refuse_twins(node: yaml.Node | None, seen: set[int]) -> None:
    """Refuse mappings that have a key twice."""
    if not isinstance(node, yaml.CollectionNode) or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        counts = Counter((key.tag, key.value) for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        if twice := [value for (_, value), count in counts.items() if count > 1]:
            raise yaml.constructor.ConstructorError(None, None, f"the key '{twice[0]}' is there twice", node.start_mark)
    for part in node.value:
        for inner in part if isinstance(part, tuple) else (part,):
            _refuse_twins(inner, seen)


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
