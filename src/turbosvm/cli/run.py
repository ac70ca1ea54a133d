"""`turbosvm run`: one algorithm, one data set."""

from pathlib import Path
from typing import Annotated

import typer

from turbosvm.cli import options


def run(
    algorithm: Annotated[
        str, typer.Argument(help="Name of the algorithm, e.g. turbosvm, or of several together: fedavgm+turbosvm.")
    ],
    data: options.Data = None,
    model: options.Model = None,
    head: options.Head = None,
    rounds: options.Rounds = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    engine: options.Engine = None,
    preset: options.Preset = "glyphs",
    config: options.ConfigFile = None,
    assign: options.Assignments = None,
    as_published: options.AsPublished = False,
    track: options.Track = None,
    out: options.Out = Path("runs"),
) -> None:
    """Run one algorithm on one data set, and save its records, table and curves."""
    from turbosvm.cli.session import carry_out

    given = {
        "data": data,
        "model": model,
        "head": head,
        "rounds": rounds,
        "seed": seed,
        "engine": engine,
        "track": track,
    }
    resolved = options.config_from(algorithm, preset, config, assign, as_published, **given)
    carry_out([resolved], out, resolved.algorithm.name)
