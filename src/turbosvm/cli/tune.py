"""`turbosvm tune`: the paper's search for learning rates."""

from pathlib import Path
from typing import Annotated

import typer

from turbosvm.cli import options, sweep

Rates = Annotated[str | None, typer.Option(help="Rates to try, with commas; else 1e-5, 1e-4, ... 1.")]


def tune(
    algorithms: Annotated[list[str] | None, typer.Argument(help="Algorithms whose server's rate is searched.")] = None,
    preset: options.Preset = "glyphs",
    data: options.Data = None,
    rounds: options.Rounds = None,
    seeds: Annotated[str, typer.Option(help="Seeds, with commas between them.")] = "0",
    rates: Rates = None,
    jobs: sweep.Jobs = None,
    engine: sweep.Where = "local",
    assign: options.Assignments = None,
    dry_run: sweep.DryRun = False,
    out: options.Out = Path("runs"),
) -> None:
    """Search the clients' learning rate for FedAvg, then the servers' with that one; ends with a file for --config."""
    from turbosvm.cli.tuning import carry_out

    given = {"data": {"name": data} if data else None, "rounds": rounds}
    carry_out(algorithms or [], preset, given, seeds, rates, jobs, engine, assign or [], out, dry_run)
