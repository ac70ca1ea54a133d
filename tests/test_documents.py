"""The README's commands and Python, and those on bringing one's own model and data, are all run."""

import doctest
import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import turbosvm
from tests.data.sources import makers
from turbosvm.algorithms.catalogue import CATALOGUE, parts_of
from turbosvm.experiment.algorithm import all_options
from turbosvm.experiment.config import Config
from turbosvm.experiment.traffic import traffic_table
from turbosvm.heads import merge
from turbosvm.report.tables import markdown
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
        *(
            ROOT / "docs" / name
            for name in ("data.md", "own-model-and-data.md", "algorithms/turbosvm.md", "trackers.md")
        ),
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


ALGORITHM_PAGES = sorted((ROOT / "docs" / "algorithms").glob("*.md"))
DOCUMENTED = [
    command.partition("#")[0]
    for page in [*ALGORITHM_PAGES, ROOT / "docs" / "failing-clients.md", ROOT / "docs" / "trackers.md"]
    for block in blocks("bash", page.read_text())
    for command in block.splitlines()
    if command.startswith("turbosvm ") and "FOLDER" not in command
]


@pytest.mark.parametrize("command", DOCUMENTED)
def test_the_pages_commands_are_understood(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Config] = []
    monkeypatch.setattr("turbosvm.cli.session.carry_out", lambda configs, *_: seen.extend(configs))
    assert turbosvm(*command.split()[1:]) == 0
    assert [config.algorithm.name for config in seen]


PREPARING = [
    command
    for language, text in (("sh", README), ("bash", (ROOT / "docs" / "data.md").read_text()))
    for block in blocks(language, text)
    for command in block.splitlines()
    if command.startswith("turbosvm ")
]


def test_the_commands_on_data_work_on_small_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURBOSVM_CACHE", str(tmp_path / "cache"))
    makers.write_hub_femnist(tmp_path / "hub" / "a.parquet", makers.hub_rows(makers.writers(12)))
    (tmp_path / "sensors.csv").write_text("person,heart,steps,sleep,mood\nann,60,9,8,good\nbob,70,2,5,bad\n")
    monkeypatch.setattr("turbosvm.data.sources.hub.fetch", lambda place, offline: tmp_path / "hub")
    monkeypatch.setattr("turbosvm.cli.session.carry_out", lambda *_: None)
    assert len(PREPARING) > 5
    for command in PREPARING:
        assert turbosvm(*command.split()[1:]) == 0, command


def test_every_algorithm_has_a_page_of_the_same_form() -> None:
    pages = {page.stem: page.read_text() for page in ALGORITHM_PAGES}
    assert set(pages) == {*CATALOGUE, "index"}
    for name in set(CATALOGUE) - {"turbosvm"}:
        for part in ("```text", "## What it costs a client", "## What differs", "## How to call it", "## Reference"):
            assert part in pages[name], f"{name}: {part}"
        assert f"({name}.md)" in pages["index"]


def test_pages_name_the_defaults_that_the_rules_have() -> None:
    """Every option of every row stands on its page, by name."""
    for name, row in CATALOGUE.items():
        page = (ROOT / "docs" / "algorithms" / f"{name}.md").read_text()
        for part in parts_of(row):
            for option in all_options(row)[part]:
                if option not in ("optimiser", *UNUSED.get(name, ())):
                    assert f"`{part}.{option}`" in page or f"`{option}`" in page, f"{name}: {part}.{option}"


UNUSED = {"fedadagrad": ("beta1", "beta2", "bias_correction")}


@pytest.mark.slow
def test_the_table_of_traffic_is_the_programs() -> None:
    page = (ROOT / "docs" / "algorithms" / "index.md").read_text()
    assert markdown(traffic_table(list(CATALOGUE))) in page


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
