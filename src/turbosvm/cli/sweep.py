"""`turbosvm sweep`: all runs of a file, side by side, those that are done skipped."""

from pathlib import Path
from typing import Annotated

import typer

from turbosvm.cli import options

Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, help="Runs at a time, in processes of their own; else one after another."),
]
Seeds = Annotated[str | None, typer.Option(help="Seeds, with commas between them.")]
Where = Annotated[str, typer.Option("--engine", help="Who carries runs out: local, or ray (a cluster).")]
Lists = Annotated[
    list[str] | None,
    typer.Option(
        "--grid",
        metavar="KEY=A,B",
        help="Other values for a list in the grid: clients_per_round=8,64; may be repeated.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List the runs and what is done of them, and end.")]


def sweep(
    file: Annotated[Path, typer.Argument(help="A YAML file with 'set' and 'grid'.")],
    jobs: Jobs = None,
    engine: Where = "local",
    rounds: options.Rounds = None,
    seeds: Seeds = None,
    lists: Lists = None,
    assign: options.Assignments = None,
    dry_run: DryRun = False,
    out: options.Out = Path("runs"),
) -> None:
    """Run every combination of a grid; what is done is skipped, what was stopped goes on, what failed is retried."""
    from turbosvm.cli.sweeping import asked_for, carry_out
    from turbosvm.experiment.grid import read_sweep
    from turbosvm.experiment.layers import parse_lists

    made = read_sweep(file, asked_for(rounds, seeds, assign, jobs, parse_lists(lists or ())))
    carry_out(made, out, jobs, engine, dry_run)
