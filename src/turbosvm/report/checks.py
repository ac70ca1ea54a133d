"""What reports take from configs and environments, checked where it is read, so that nothing behind need fear it."""

from collections.abc import Mapping
from typing import Any

MOST_SETTINGS = 1_000
MOST_LETTERS = 255
"""Of a name."""
TEXT, NUMBER, COUNT = (str,), (int, float), (int,)
ABOUT = {"turbosvm": TEXT, "commit": TEXT, "device": TEXT}
ABOUT_DATA = {"name": TEXT, "digest": TEXT, "task": TEXT, "users_train": COUNT, "users_held_out": COUNT}


def check_config(config: Any) -> None:
    """Refuse a config without what every report needs, or with more than one can have.

    Raises:
        ValueError: what is wrong with it.
    """
    _refuse_other("config.yaml", config)
    for part in ("algorithm", "data"):
        section = config.get(part)
        if not isinstance(section, dict) or not isinstance(section.get("name"), str):
            raise ValueError(f"config.yaml does not say its {part}")  # noqa: TRY004 (the file is wrong, not the call)
        if not 0 < len(section["name"].rsplit("/", 1)[-1]) <= MOST_LETTERS:
            raise ValueError(f"config.yaml has a name for its {part} that is empty, or too long")
    for key, kinds in {"seed": COUNT, "target": NUMBER}.items():
        if type(config.get(key)) not in kinds:
            raise ValueError(f"config.yaml does not say its {key}")
    if not 0 <= config["seed"] < 2**63:
        raise ValueError(f"config.yaml has {config['seed']} for its seed")
    if not 0 <= config["target"] <= 1:
        raise ValueError(f"config.yaml has {config['target']} for its target")
    if "rounds" in config and (type(config["rounds"]) is not int or config["rounds"] < 1):
        raise ValueError("config.yaml does not say a number of rounds")
    if (count := _count(config)) > MOST_SETTINGS:
        raise ValueError(f"config.yaml has {count:,} settings; at most {MOST_SETTINGS:,} can be reported on")


def check_environment(about: Any) -> None:
    """Refuse what a run cannot have noted of what it ran on.

    Raises:
        ValueError: what is wrong with it.
    """
    _refuse_other("it", about)
    data = {} if about.get("data") is None else about["data"]
    _refuse_other("its data", data)
    _check_kinds(about, ABOUT)
    _check_kinds(data, ABOUT_DATA)
    _refuse_other("its settings", about.get("settings"))
    command = about.get("command", [])
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        raise ValueError("its command is not a list of words")


def check_ending(ending: Mapping[str, Any]) -> None:
    """Refuse what a run cannot have said of its end.

    Raises:
        ValueError: what is wrong with it.
    """
    kinds = {"round": COUNT, "records": TEXT, "stopped": (str, type(None))}
    if any(type(ending.get(key, ())) not in kind for key, kind in kinds.items()):
        raise ValueError("it does not say how the run ended")


def _check_kinds(about: Mapping[str, Any], kinds: Mapping[str, tuple[type, ...]]) -> None:
    for key, kind in kinds.items():
        value = about.get(key)
        if value is not None and type(value) not in kind:
            raise ValueError(f"its {key} is not {'text' if kind is TEXT else 'a number'}")


def _refuse_other(what: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{what} does not hold keys and values")  # noqa: TRY004


def _count(value: Any) -> int:
    """How many values there are in one."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count, parts))
