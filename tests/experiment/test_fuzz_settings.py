"""Settings as anyone may write them: read as a person reads them, or refused in one sentence, and soon."""

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Note
from tests.report.makers import config_of, write_run
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.config import Config
from turbosvm.experiment.grid import read_sweep
from turbosvm.experiment.layers import parse_assignments
from turbosvm.experiment.resolve import read_config, resolve_config
from turbosvm.report.records import read_run
from turbosvm.yaml_text import YamlError, dump_yaml, parse_yaml

SECONDS, SECONDS_A_CASE = 2.5, 2.0
"""For each of the tests, and for one text, of which the machine may do others at the time."""

SWEEPS = [path.read_text() for path in sorted((Path(__file__).parents[2] / "experiments").rglob("*.yaml"))]
CONFIGS = [resolve_config(overrides={"algorithm": name}).to_yaml() for name in ("fedavg", "fedavgm+turbosvm", "moon")]
CONFIGS += ["client: &c {epochs: 2}\nalgorithm: turbosvm\nturbosvm: {head: {cost: [1, 0.5]}}\nmodel: {options: {}}\n"]
ASSIGNMENTS = [
    *("client.epochs=2", "client.learning_rate=1e-3", "model.options={embedding: 16}", "turbosvm.head.kernel=rbf"),
    *("data.glyphs.users=20", "trackers=[mlflow]", "algorithm.body.rule=fedadam", "target=0.5", "data=glyphs"),
]
WORDS = [
    *("010", "1:30", "1_000", "0x1F", "0o17", "1e-3", "1E5", ".5", "5.", "+5", "-0", "-0.0", "1.10", "1e999"),
    *("yes", "No", "on", "OFF", "y", "true", "True", "null", "~", "", "=", "<<", ".inf", "-.inf", ".nan", "2001-01-01"),
    *("&a", "*a", "&a [*a]", "{<<: *a}", "!!str 1", "!x y", "!!python/name:os.system", "? [1]", "- ", "- - - ", "..."),
    *(
        "[" * 50,
        "{" * 50,
        "]",
        "}",
        "[]",
        "{}",
        "[1, 2]",
        "{a: 1}",
        "'",
        '"',
        '"\\0"',
        '"\\ud800"',
        '"\\e[2J"',
        "|",
        ">-",
    ),
    *(
        "#",
        "%YAML 1.2",
        "@",
        "`",
        "\t",
        "\n",
        "\n\n",
        "\r",
        "\0",
        "\x1b",
        "\x85",
        "\u2028",
        "\u202e",
        "\ufeff",
        "\udc80",
    ),
    *("9" * 400, "a" * 20_000, "a." * 2_000, "é", "fedavg", "turbosvm", "glyphs", "name", "--- ", "seed: 1\n"),
]


def mutated(text: str, rng: random.Random) -> str:
    """A text with some of it left out, doubled, moved, or replaced."""
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.choice([0, 1, 1, 2, 5, 20]))
        match rng.randrange(6):
            case 0:
                text = text[:start] + text[end:]
            case 1:
                text = text[:end] + text[start:]
            case 2:
                text = text[:start] + chr(rng.choice([*range(128), 0x85, 0xD800, 0x202E, 0x1F600])) + text[end:]
            case 3:
                lines = text.splitlines(keepends=True)
                rng.shuffle(lines)
                text = "".join(lines)
            case _:  # a word in the place of a word
                places = [place for place, letter in enumerate(text) if letter in " :,[]{}=\n"] or [0]
                first = rng.choice(places) + 1
                after = next((place for place in places if place > first), len(text))
                text = text[:first] + rng.choice(WORDS) + text[after:]
    return text


def try_all(texts: Sequence[str], attempt: Callable[[str], Any], seed: int) -> Counter[str]:
    """Try mutations for some seconds: each is refused by our own error, or done, and soon; return how many were."""
    rng, counts, began = random.Random(seed), Counter[str](), time.perf_counter()
    while time.perf_counter() - began < SECONDS:
        text = mutated(rng.choice(texts), rng)
        start = time.perf_counter()
        try:
            attempt(text)
            counts["read"] += 1
        except TurboSVMError as error:
            counts["refused" if str(error).isprintable() else "refused in letters that cannot be seen"] += 1
        except Exception as error:
            raise AssertionError(f"{text!r} ended with {error!r}") from error
        assert time.perf_counter() - start < SECONDS_A_CASE, text
    print(f"tried {counts.total()}: {dict(counts)}")  # noqa: T201 (what a person wants to know)
    assert set(counts) == {"read", "refused"}
    assert min(counts.values()) > 5
    return counts


def same_as_written(value: Any, written: Any) -> bool:
    """Whether a value is what a person reads, given the same with all its words as text."""
    match value:
        case dict():
            return list(value) == list(written) and all(same_as_written(value[key], written[key]) for key in value)
        case list():
            return len(value) == len(written) and all(map(same_as_written, value, written))
        case None:
            return written in ("", "~") or written.lower() == "null"
        case bool():
            return bool(written.lower() == str(value).lower())
        case int():
            return bool(written == str(value))
        case float():
            return float(written) == value and "_" not in written and ":" not in written
        case _:
            return bool(value == written)


def check_meaning(text: str) -> None:
    """See that what is read is what is written, and that it can be written again."""
    try:
        value = parse_yaml(text)
    except YamlError:
        return
    assert repr(parse_yaml(dump_yaml(value))) == repr(value)
    if "<<" in text or value is None:  # merged mappings are written elsewhere
        return
    with suppress(yaml.YAMLError):  # PyYAML's own parser knows fewer texts
        assert same_as_written(value, yaml.load(text, Loader=yaml.BaseLoader)), text


def write(file: Path, text: str) -> Path:
    """Write a text as it is, whatever it is."""
    file.write_bytes(text.encode(errors="surrogatepass"))
    return file


def test_configs(tmp_path: Path, record_property: Note) -> None:
    def attempt(text: str) -> None:
        check_meaning(text)
        config = resolve_config(file=write(tmp_path / "config.yaml", text))
        write(tmp_path / "again.yaml", config.to_yaml())
        assert read_config(tmp_path / "again.yaml").to_yaml() == config.to_yaml()  # where tuples are lists

    counts = try_all(CONFIGS, attempt, seed=0)
    record_property("tried", counts.total())


def test_sweeps(tmp_path: Path, record_property: Note) -> None:
    def attempt(text: str) -> None:
        check_meaning(text)
        assert read_sweep(write(tmp_path / "sweep.yaml", text)).configs

    counts = try_all([*SWEEPS, "set: {rounds: 3}\ngrid: {seed: [0, 1], client.epochs: [1, 2]}\n"], attempt, seed=1)
    record_property("tried", counts.total())


def test_assignments(record_property: Note) -> None:
    def attempt(text: str) -> None:
        check_meaning(text.partition("=")[2])
        config = resolve_config(overrides=parse_assignments([text]))
        assert Config.model_validate(parse_yaml(config.to_yaml())).to_yaml() == config.to_yaml()

    counts = try_all(ASSIGNMENTS, attempt, seed=2)
    record_property("tried", counts.total())


def test_configs_of_runs(tmp_path: Path, record_property: Note) -> None:
    folder = write_run(tmp_path / "run", config_of("turbosvm", seed=3), [0.5])

    def attempt(text: str) -> None:
        config = read_run(write(folder / "config.yaml", text).parent).config
        assert repr(sorted(config.items())) == repr(sorted(parse_yaml(text.encode()).items()))

    counts = try_all([(folder / "config.yaml").read_text()], attempt, seed=4)
    record_property("tried", counts.total())


@pytest.mark.parametrize(("text", "same"), [("a: 8", False), ("a: 010", True), ("a: '8'", False)])
def test_another_meaning_would_be_noticed(text: str, same: bool) -> None:
    assert same_as_written({"a": "010"}, yaml.load(text, Loader=yaml.BaseLoader)) is same
    assert not same_as_written({"a": 8}, {"a": "010"})
