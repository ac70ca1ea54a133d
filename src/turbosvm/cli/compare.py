"""`turbosvm compare`: several algorithms on the same data, at the same seeds, with the same cohorts."""

from pathlib import Path
from typing import Annotated

import typer

from turbosvm.cli import options
from turbosvm.cli.seeds import parse_seeds


def compare(
    algorithms: Annotated[list[str], typer.Argument(help="Names of the algorithms, e.g. fedavg fedavgm.")],
    data: options.Data = None,
    model: options.Model = None,
    head: options.Head = None,
    rounds: options.Rounds = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds, with commas between them.")] = None,
    engine: options.Engine = None,
    preset: options.Preset = "glyphs",
    config: options.ConfigFile = None,
    assign: options.Assignments = None,
    as_published: options.AsPublished = False,
    track: options.Track = None,
    out: options.Out = Path("runs"),
) -> None:
    """Compare algorithms: same data, same seeds, same cohorts; ends with a table and curves."""
    from turbosvm.algorithms.catalogue import find_algorithm
    from turbosvm.cli.session import carry_out

    given = {"data": data, "model": model, "head": head, "rounds": rounds, "engine": engine, "track": track}
    configs = [
        options.config_from(name, preset, config, assign, as_published, **given, seed=seed)
        for name in dict.fromkeys(find_algorithm(name).name for name in algorithms)
        for seed in (parse_seeds(seeds) if seeds is not None else [None])
    ]
    carry_out(configs, out, "compare")
