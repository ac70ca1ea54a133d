"""What the processes of the tests do that are killed."""

import os
import signal
from pathlib import Path
from time import sleep
from typing import Any

from turbosvm.experiment.planning import plan_runs
from turbosvm.experiment.prepared import plan_of, prepare_run, reopen_run
from turbosvm.experiment.resolve import resolve_config
from turbosvm.experiment.runner import run_on

SETTINGS: dict[str, Any] = {
    "rounds": 10,
    "clients_per_round": 3,
    "checkpoint_every": 1,
    "threads": 1,
    "data": {"glyphs": {"users": 12, "samples_per_user": 12}},
}


def plan(root: Path, algorithm: str) -> Path:
    """Make the folder of a small run."""
    config = resolve_config(overrides={**SETTINGS, "algorithm": algorithm})
    (path,) = plan_runs(root, [plan_of(prepare_run(config))])
    return path


def go_on(folder: Path, ready: Any, call: str | None = None, times: int = 0) -> None:
    """Go on with a run; die at that call of `os.fsync` or `Path.replace`, which every file that is written makes."""
    owner: Any = os if call == "fsync" else Path
    if call:
        ordinary, left = getattr(owner, call), times

        def deadly(*arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return ordinary(*arguments)

        setattr(owner, call, deadly)
    prepared = reopen_run(folder)
    ready.set()
    run_on(prepared)


def hold(folder: Path, ready: Any) -> None:
    """Have a run's folder until the end."""
    prepared = reopen_run(folder)
    ready.set()
    sleep(600)
    assert prepared
