"""The README's commands and Python, and those on bringing one's own model and data, are all run."""

import doctest
import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import turbosvm
from turbosvm.heads import merge
from turbosvm.svm import machine

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


COMMANDS = [line for block in blocks("bash", README) for line in block.splitlines()]


def test_every_command_is_of_a_kind_that_is_tested() -> None:
    assert {command.split()[0] for command in COMMANDS} == {"make", "source", "turbosvm"}


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("make ")])
def test_make_has_the_targets(command: str) -> None:
    target = command.split()[1]
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("turbosvm ")])
def test_the_readmes_commands_work(command: str) -> None:
    assert turbosvm(*command.split()[1:]) == 0


PYTHON = [
    pytest.param(block, id=f"{path.name}-{place}")
    for path in (
        ROOT / "README.md",
        *(ROOT / "docs" / name for name in ("own-model-and-data.md", "algorithms/turbosvm.md")),
    )
    for place, block in enumerate(blocks("python", path.read_text()))
    if "store" not in block
]


@pytest.mark.slow
@pytest.mark.parametrize("block", PYTHON)
def test_the_documents_python_works(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block, "document", "exec"), {})
    assert capsys.readouterr().out.strip()


@pytest.mark.slow
def test_the_example_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile((ROOT / "examples" / "own_model_and_data.py").read_text(), "example", "exec"), {})
    assert "fedavgm" in capsys.readouterr().out
    assert (tmp_path / "own_model_and_data.png").is_file()


def test_pictures_and_pages_that_the_readme_names_are_there() -> None:
    names = [name for name in re.findall(r"\]\(([^)]+)\)", README) if not name.startswith("http")]
    assert len(names) > 5
    assert [name for name in names if not (ROOT / name.partition("#")[0]).is_file()] == []


def test_the_versions_agree() -> None:
    from turbosvm import __version__

    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.slow
def test_the_worked_example_prints_the_documents_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = (ROOT / "examples" / "worked_example.py").read_text()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["worked_example.py", "picture.png"])
        exec(compile(code, "example", "exec"), {})
    printed, page = capsys.readouterr().out, (ROOT / "docs" / "algorithms" / "turbosvm.md").read_text()
    assert (tmp_path / "picture.png").is_file()
    for number in ("2.3073", "-0.0366", "-0.2707", "0.0762"):
        assert number in printed
        assert number in page


@pytest.mark.parametrize("module", [merge, machine])
def test_the_docstrings_examples_print_what_they_say(module: ModuleType) -> None:
    failed, attempted = doctest.testmod(module)
    assert (failed, attempted > 2) == (0, True)
