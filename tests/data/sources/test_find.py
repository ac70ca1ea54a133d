"""Only the libraries that a form of files needs are imported, and one that is missing is named."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.data.sources import makers, test_gutenberg

CODE = """
import sys
for name in sys.argv[3].split(","):
    sys.modules[name] = None
from turbosvm.cli.main import main
sys.argv = ["turbosvm", "data", "prepare", sys.argv[1], "--from", sys.argv[2], "--out", "./out"]
main()
"""


def prepare_without(libraries: str, task: str, place: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CODE, task, str(place), libraries]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_text_and_images_need_no_library_of_the_extra(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(test_gutenberg.TEXT.replace("He.", "x" * 90))
    done = prepare_without("ijson,pyarrow,huggingface_hub", "shakespeare", tmp_path / "a.txt")
    assert done.returncode == 0, done.stderr
    assert "1 users" in done.stdout


@pytest.mark.slow
def test_a_library_that_is_missing_is_named(tmp_path: Path) -> None:
    makers.write_leaf(tmp_path / "a.json", makers.writers(1))
    done = prepare_without("ijson", "femnist", tmp_path / "a.json")
    assert done.returncode == 2
    assert done.stderr == (
        "Error: Reading these files needs the package ijson, which is not installed: pip install 'turbosvm[data]'.\n"
    )
