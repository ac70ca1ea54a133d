"""Folders that anyone may have written: each is named with its reason, and none of them is the end of a report."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Note
from tests.report.makers import ENVIRONMENT, config_of, end_run, record_of, write_run
from tests.test_yaml_text import BOMBS
from turbosvm.identity import identity_of
from turbosvm.record_lines import line_of
from turbosvm.report.folder import TABLES, work_out, write_report
from turbosvm.report.reading import gather
from turbosvm.seals import sealed

Spoil = Callable[[Path], Any]
FILES = ("config.yaml", "records.jsonl", "environment.json")


def text_of(**changes: Any) -> str:
    """A config's text with some values changed."""
    return yaml.safe_dump(config_of(**changes), sort_keys=False)


def config_with(*lines: str) -> Spoil:
    """Add lines to a config."""
    return lambda folder: (folder / "config.yaml").write_text(
        "\n".join([text_of(seed=1), *lines]), errors="surrogatepass"
    )


def config_where(old: str, new: str) -> Spoil:
    """Replace some text of a config."""
    assert old in text_of(seed=1)
    return lambda folder: (folder / "config.yaml").write_text(text_of(seed=1).replace(old, new))


def record_with(**changes: Any) -> Spoil:
    """Change what a record holds, before it is written."""
    return lambda folder: (folder / "records.jsonl").write_text(line_of({**record_of(1, 0.5), **changes}))


def environment_with(**changes: Any) -> Spoil:
    """Change what is noted of what a run ran on, before it is written."""
    return lambda folder: (folder / "environment.json").write_text(sealed({**ENVIRONMENT, **changes}))


def content(name: str, written: bytes) -> Spoil:
    """Write something else in the place of a file."""
    return lambda folder: (folder / name).write_bytes(written)


def instead(name: str, make: Spoil) -> Spoil:
    """Put something else in the place of a file."""

    def spoil(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        make(folder / name)

    return spoil


def huge(path: Path) -> None:
    """A file that says it is a terabyte."""
    path.touch()
    os.truncate(path, 2**40)


def looped(path: Path) -> None:
    """A link to itself."""
    path.symlink_to(path)


WHOLE = line_of(record_of(1, 0.5)).encode()
ODD_FILES: dict[str, Spoil] = {
    "a pipe": os.mkfifo,
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "random": lambda path: path.symlink_to("/dev/urandom"),
    "a terminal": lambda path: path.symlink_to("/dev/tty"),
    "a folder": Path.mkdir,
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "a link to itself": looped,
    "huge": huge,
    "not text": lambda path: path.write_bytes(b"\xff\xfe\x00a\n"),
}
ODD_ACCURACIES: tuple[Any, ...] = (True, "0.5", [0.5], {}, 10**400, 1.5, -0.5)
ODD_NOTES: list[tuple[str, Any]] = [
    *(("data", value) for value in (5, [1], {"digest": 5}, {"task": ["femnist"]}, {"users_train": "many"})),
    *(("command", value) for value in (5, "turbosvm", [["x"]])),
    *[("commit", 5), ("commit", {}), ("turbosvm", []), ("device", True)],
]
HOSTILE: dict[str, Spoil] = {
    **{f"{name} is {what}": instead(name, make) for name in (*FILES, "ended.json") for what, make in ODD_FILES.items()},
    **{f"{name} is empty": content(name, b"") for name in ("config.yaml", "environment.json")},
    **{f"{name} is missing": instead(name, lambda path: None) for name in FILES},
    **{f"config of {what}": content("config.yaml", text.encode()) for what, (text, _) in BOMBS.items()},
    "infinity": config_with("extra: .inf"),
    "400 digits": config_with(f"extra: {'9' * 400}"),
    "too large a real number": config_with("extra: 1e999"),
    "a lone surrogate": config_with("extra: \udc80"),
    "a lone surrogate by its number": config_with('extra: "\\ud800"'),
    "an escape": config_with('extra: "\\e[2J"'),
    "a control character": config_with("extra: \x07"),
    "a tag": config_with("extra: !!python/name:os.system"),
    "a date": config_with("extra: 2020-01-01"),
    "two documents": config_with("---", "a: 1"),
    "a key twice": config_with("seed: 3"),
    "a list as a key": config_with("? [1]", ": 2"),
    "very many settings": config_with(f"extra: {{{', '.join(f'k{place}: 1' for place in range(2000))}}}"),
    "no mapping": content("config.yaml", b"- 1\n"),
    "data is null": config_where("data:\n  name: glyphs", "data: null\nother:\n  name: glyphs"),
    "data is a list": config_where("data:\n  name: glyphs", "data: [1]\nother:\n  name: glyphs"),
    "data has no name": config_where("  name: glyphs", "  name: null"),
    "data has a number for its name": config_where("  name: glyphs", "  name: 5"),
    "data has a long name": config_where("  name: glyphs", f"  name: {'x' * 300}"),
    "algorithm has no name": config_where("  name: fedavg", "  name: null"),
    "algorithm has an empty name": config_where("  name: fedavg", "  name: ''"),
    **{
        f"seed {seed}": config_where("\nseed: 1", f"\nseed: {seed}")
        for seed in ("true", "-1", "1.5", "'1'", "[]", "010")
    },
    **{f"target {target}": config_where("target: 0.7", f"target: {target}") for target in ("true", "null", "7", "x")},
    **{f"rounds {rounds}": config_where("rounds: 100", f"rounds: {rounds}") for rounds in ("null", "true", "0", "[1]")},
    **{f"round {number!r}": record_with(round=number) for number in (0, 2, None, "1", [1], 10**400, -1)},
    **{f"accuracy {value!r}": record_with(accuracy=value) for value in ODD_ACCURACIES},
    "loss 1e300": record_with(loss=1e300),
    "bytes_up -1": record_with(bytes_up=-1),
    "a line without a checksum": content("records.jsonl", b'{"round": 1, "accuracy": 0.5}\n'),
    "a line with another checksum": content("records.jsonl", WHOLE.replace(b"0.5", b"0.6", 1)),
    "a line of something else": content("records.jsonl", WHOLE + b"<html>\n"),
    "a line twice": content("records.jsonl", WHOLE + WHOLE),
    "an empty line": content("records.jsonl", b"\n" + WHOLE),
    "nested records": content("records.jsonl", b'{"round": ' + b"[" * 100_000 + b"\n"),
    "nested environment": content("environment.json", b"[" * 100_000),
    "an ending without a seal": content("ended.json", b'{"stopped": null}'),
    "an ending of something else": content("ended.json", sealed({"stopped": 5, "records": "x"}).encode()),
    "an ending that says nothing": content("ended.json", sealed({}).encode()),
    "an ending of other records": content("ended.json", sealed({"stopped": None, "records": "0" * 64}).encode()),
    "an environment without a seal": content("environment.json", b'{"device": "cpu"}'),
    "an environment of a list": content("environment.json", b"[1]"),
    **{f"environment with {key} {value!r}": environment_with(**{key: value}) for key, value in ODD_NOTES},
}


def report(place: Path, out: Path) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """The tables of a report, and what was noted of folders."""
    gathered = gather([place])
    write_report(work_out(gathered), gathered.notes, out)
    return {
        name: (out / name).read_bytes() for name in (TABLES, "tables.tex", "tables.csv", "runs.csv")
    }, gathered.notes


def test_no_folder_is_the_end_of_a_report_on_others(tmp_path: Path, record_property: Note) -> None:
    record_property("tried", len(HOSTILE))
    write_run(tmp_path / "alone" / "whole", config_of(), [0.1, 0.5])
    wanted, _ = report(tmp_path / "alone", tmp_path / "one")
    write_run(tmp_path / "all" / "whole", config_of(), [0.1, 0.5])
    for place, spoil in enumerate(HOSTILE.values()):
        spoil(write_run(tmp_path / "all" / f"{place:03}-end", config_of(seed=1), [0.5]))
    began = time.perf_counter()
    tables, notes = report(tmp_path / "all", tmp_path / "two")
    assert time.perf_counter() - began < 60
    assert tables == wanted
    for place, what in enumerate(HOSTILE):
        told = [note for note in notes if f"/{place:03}-end' cannot be reported on: " in note]
        assert len(told) == 1, what
        assert told[0].startswith("Left out: '")
        assert told[0].isprintable()
        assert len(told[0]) < 800, what
    assert len(notes) == len(HOSTILE) > 75


@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_named(tmp_path: Path) -> None:
    write_run(tmp_path / "whole", config_of(), [0.5])
    (write_run(tmp_path / "shut", config_of(seed=1), [0.5]) / "records.jsonl").chmod(0)
    (tmp_path / "locked").mkdir(mode=0)
    notes = gather([tmp_path]).notes
    assert [("shut" in note, "locked" in note) for note in notes] == [(False, True), (True, False)]


def test_what_cannot_be_looked_into_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "whole", config_of(), [0.5])
    (tmp_path / "locked").mkdir()
    scan = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert gather([tmp_path]).notes == (f"Left out: Cannot look into '{tmp_path}/locked': Permission denied.",)


def test_whatever_else_befalls_a_folder_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "a", config_of(), [0.5])
    write_run(tmp_path / "b", config_of(seed=1), [0.5])

    def fail(config: Any) -> None:
        if config["seed"] == 1:
            raise RecursionError("too deep\nfor us")

    monkeypatch.setattr("turbosvm.report.records.check_config", fail)
    gathered = gather([tmp_path])
    assert [run.seed for run in gathered.runs] == [0]
    assert gathered.notes == (f"Left out: '{tmp_path}/b' cannot be reported on: RecursionError: too deep.",)


def test_odd_but_harmless_runs_are_reported_on(tmp_path: Path) -> None:
    odd: dict[str, Any] = {
        "algorithm__name": "=cmd|' /C calc'!A0",
        "data__name": "/data/\u202egnp.x<script>|$x$[y](z)",
        "model__options": {"a": [[[1, {"b": None}]]], "c": "x" * 9000, "\u2067": 1e300},
        "trackers": None,
        "client": [1, 2],
        "clients_per_round": {"a": 1},
    }
    for place in range(2):
        folder = write_run(tmp_path / "runs" / str(place), config_of(seed=place, **odd), [0.5, 0.6])
        (folder / "environment.json").write_text(
            sealed(
                {
                    **ENVIRONMENT,
                    "settings": identity_of(config_of(seed=place, **odd)),
                    "data": {},
                    "commit": "@\x1b[2J",
                    "x": [1e300],
                }
            )
        )
        end_run(folder, "\x1b]0;title\x07 \u202e why\nelse")
    tables, notes = report(tmp_path / "runs", tmp_path / "out")
    assert notes == ()
    page = (tmp_path / "out" / "index.html").read_text()
    for text in (page, *(table.decode() for table in tables.values())):
        assert all(letter.isprintable() or letter in "\n\u00a0" for letter in text)
    assert page.count("<script") == 2
    assert "\\x1b]0;title\\x07 \\u202e why" in page
