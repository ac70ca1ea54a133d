import subprocess
from pathlib import Path

import pytest

from turbosvm.experiment import environment


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def test_the_commit_of_a_checkout_and_whether_it_was_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "environment.py"
    file.write_text("")
    monkeypatch.setattr(environment, "__file__", str(file))
    assert environment.commit() is None  # no repository
    git(tmp_path, "init", "-q")
    assert environment.commit() is None  # not tracked: an installed package inside somebody's repository
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    clean = environment.commit()
    assert clean is not None
    assert len(clean) == 40
    file.write_text("changed")
    assert environment.commit() == f"{clean}+changes"


def test_a_machine_without_git_has_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert environment.commit() is None
