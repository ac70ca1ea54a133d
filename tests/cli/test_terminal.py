"""What a person sees, whatever the names are that are shown."""

import warnings
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console
from rich.text import Text

from tests.conftest import turbosvm
from tests.report.makers import ENVIRONMENT, config_of, end_run, write_run
from turbosvm import visible
from turbosvm.cli.progress import RoundsDisplay, making, share_of
from turbosvm.cli.terminal import print_cells, print_table, say

STEERING = "\x1b[31mx\x1b]0;t\x07\x9b2J\u202e\r[bold]{y}"
SHOWN = "\\x1b[31mx\\x1b]0;t\\x07\\x9b2J\\u202e\\r[bold]{y}"


def printed(write: Callable[[Console], None], terminal: bool = False) -> str:
    """What comes to a terminal, or to a log."""
    text = StringIO()
    write(Console(file=text, width=200, force_terminal=terminal, color_system=None, legacy_windows=False))
    return text.getvalue()


def test_sentences_and_tables_show_what_would_steer() -> None:
    for shown in (
        printed(lambda console: say(STEERING, console)),
        printed(lambda console: print_table(pd.DataFrame({STEERING: [STEERING]}), console)),
        printed(lambda console: print_cells([STEERING], [[Text(STEERING, style="bold")]], console)),
    ):
        assert SHOWN in shown
        assert all(letter.isprintable() or letter == "\n" for letter in shown)


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_shows_what_would_steer(terminal: bool) -> None:
    def rounds(console: Console) -> None:
        with RoundsDisplay({STEERING: 1}, console) as display:
            display.watch(STEERING)({"round": 1, "accuracy": 0.5})

    def data(console: Console) -> None:
        with making(STEERING, console) as on_progress:
            on_progress(1, 2)

    def share(console: Console) -> None:
        with share_of(STEERING, console) as on_progress:
            on_progress(1.0)

    for write in (rounds, data, share):
        shown = printed(write, terminal)
        assert SHOWN in shown
        assert not any(part in shown for part in ("\x1b[31m", "\x1b]", "\x07", "\x9b", "\u202e"))


def test_an_accuracy_stands_with_its_own_round() -> None:
    def rounds(console: Console) -> None:
        with RoundsDisplay({"run": 4}, console) as display:
            watch = display.watch("run")
            for number, accuracy in enumerate((None, 0.25, None, 0.75), 1):
                watch({"round": number, "accuracy": accuracy})

    lines = printed(rounds).splitlines()
    assert [line.split("  ", 2)[1:][1].rsplit("  ", 2)[0].strip() for line in lines] == [
        "accuracy    -",
        "accuracy  25.0%",
        "accuracy  25.0% (round 2)",
        "accuracy  75.0%",
    ]


def test_own_warnings_are_sentences_and_those_of_others_say_where_they_are_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    assert turbosvm("--version") == 0
    assert warnings.formatwarning(STEERING, UserWarning, visible.__file__, 3) == f"Warning: {SHOWN}\n"
    assert warnings.formatwarning("x", UserWarning, "their/own.py", 3) == "their/own.py:3: UserWarning: x\n"


def test_a_report_shows_names_and_folders_so_that_they_do_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(2):
        config = config_of("=1+1\u202e", data="(own) \u2066[bold]x", seed=seed)
        about = {**ENVIRONMENT, "commit": "-\x1b", "device": "@x"}
        folder = write_run(tmp_path / "runs" / f"{seed}\x1b[2J\udc80", config, [0.5], about)
        end_run(folder, "\x1b]0;title\x07")
    write_run(tmp_path / "runs" / "bad\x1b\n\udcff", config_of(), [0.5]).joinpath("records.jsonl").write_text("\x1b\n")
    assert turbosvm("report", "runs") == 0
    shown = capsys.readouterr().out
    assert "Left out: 'runs/bad\\x1b\\n\\udcff' cannot be reported on" in shown
    assert "=1+1\\u202e" in shown
    assert all(letter.isprintable() or letter == "\n" for letter in shown)
    for name in ("tables.md", "tables.tex", "tables.csv", "runs.csv", "index.html"):
        text = (Path("report") / name).read_text()
        assert all(letter.isprintable() or letter in "\n\u00a0" for letter in text), name
    row = pd.read_csv("report/runs.csv").iloc[0]
    assert (row["algorithm"], row["commit"], row["device"]) == ("'=1+1\\u202e", "'-\\x1b", "'@x")
    assert turbosvm("report", "runs/bad\x1b\n\udcff") == 2
    assert capsys.readouterr().err.startswith("Error: 'runs/bad\\x1b\\n\\udcff' cannot be reported on")
