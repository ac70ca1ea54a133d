"""`turbosvm reproduce`: run a table of the paper, and print it beside the paper's figures."""

from pathlib import Path
from typing import Annotated

import typer

from turbosvm.cli import options, sweep
from turbosvm.errors import TurboSVMError
from turbosvm.visible import visible


def reproduce(
    table: Annotated[str | None, typer.Argument(help="Which table; without one, they are listed.")] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", "-d", metavar="TASK=DATA", help="A task's data; without any, all that is prepared."),
    ] = None,
    seeds: sweep.Seeds = None,
    lists: sweep.Lists = None,
    rounds: options.Rounds = None,
    at: Annotated[int | None, typer.Option("--at", help="Round that metrics are at.")] = None,
    jobs: sweep.Jobs = None,
    engine: sweep.Where = "local",
    assign: options.Assignments = None,
    dry_run: sweep.DryRun = False,
    out: options.Out = Path("runs"),
) -> None:
    """Run one of the paper's tables on your data, and print it beside the paper's figures."""
    from turbosvm.cli.sweeping import asked_for, carry_out
    from turbosvm.experiment.grid import read_sweep
    from turbosvm.experiment.layers import parse_lists
    from turbosvm.experiment.ready import about, find_ready, ready_sweeps, tasks_of

    if table is None:
        for name, each in ready_sweeps().items():
            typer.echo(visible(f"{name:10} {about(each)}"))
        return
    file, places = find_ready(table), _parse_data(data or [])
    tasks = tasks_of(file)
    if others := [task for task in places if task not in tasks]:
        raise TurboSVMError(f"The table '{table}' is of {', '.join(tasks)}; it has nothing of {', '.join(others)}.")
    grid = parse_lists(lists or ())
    if "preset" in grid:
        raise TurboSVMError("Which tasks are run is said with --data, not with --grid.")
    if len(tasks) > 1:
        grid["preset"] = list(places) or _prepared(tasks)
    made = read_sweep(file, asked_for(rounds, seeds, assign, jobs, grid, places))
    carry_out(made, out, jobs, engine, dry_run, at)


def _parse_data(words: list[str]) -> dict[str, str]:
    """Tasks and the data that stand in for theirs."""
    from turbosvm.errors import unknown

    places = {}
    for word in words:
        task, sign, place = word.partition("=")
        if task not in _tasks():
            if "/" in task:
                raise TurboSVMError(f"'{word}' is to stand in for which task? Say so: --data femnist={word}")
            raise unknown("task", task, _tasks(), where="of the paper")
        if task in places:
            raise TurboSVMError(f"There are two --data for {task}; give one.")
        places[task] = place if sign else task
    return places


def _tasks() -> list[str]:
    """The paper's."""
    from turbosvm.experiment.presets import PRESETS

    return [task for task in PRESETS if task != "glyphs"]


def _prepared(tasks: list[str]) -> list[str]:
    """Those of the tasks whose data is there."""
    from turbosvm.data.store import find_folder

    there = [task for task in tasks if find_folder(task)]
    if not there:
        raise TurboSVMError(
            f"No data of {', '.join(tasks)} is prepared: turbosvm data prepare {tasks[0]} --from PLACE; "
            f"or give it, --data {tasks[0]}=FOLDER."
        )
    return there
