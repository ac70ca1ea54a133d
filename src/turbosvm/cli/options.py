"""Options that several commands share, and how they become a config."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from turbosvm.experiment.config import Config

Preset = Annotated[
    str, typer.Option("--preset", "-p", help="Settings to start from: glyphs, femnist, celeba or shakespeare.")
]
ConfigFile = Annotated[Path | None, typer.Option("--config", "-c", help="A YAML file of settings, over the preset.")]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="KEY=VALUE", help="Set any key, e.g. client.epochs=2; may be repeated."),
]
Data = Annotated[
    str | None, typer.Option("--data", "-d", help="'glyphs' (built in), a prepared set, or the path of a data folder.")
]
Model = Annotated[str | None, typer.Option("--model", "-m", help="A built-in model, or your own as module:Class.")]
Head = Annotated[str | None, typer.Option("--head", help="Name of the model's last linear layer.")]
Rounds = Annotated[int | None, typer.Option("--rounds", "-r", help="Number of rounds.")]
Engine = Annotated[
    str | None,
    typer.Option("--engine", help="How clients are trained: auto, sequential, threads (CPU) or graphs (CUDA)."),
]
AsPublished = Annotated[
    bool,
    typer.Option("--as-published", help="Behave like the paper's published code where that differs from the paper."),
]
Track = Annotated[
    list[str] | None,
    typer.Option(
        "--track", "-t", metavar="NAME", help="Follow runs with tensorboard, mlflow or wandb; may be repeated."
    ),
]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder to put the results in.")]


def config_from(
    algorithm: str,
    preset: str,
    file: Path | None,
    assignments: Iterable[str] | None,
    as_published: bool,
    **given: Any,
) -> "Config":
    """Put a config together from the command line; named options win over --set."""
    from turbosvm.experiment.layers import merge_layers, parse_assignments
    from turbosvm.experiment.resolve import refuse_another, resolve_config

    options = {
        "algorithm": {"name": algorithm},
        "data": {"name": given.get("data")},
        "model": {"name": given.get("model"), "head": given.get("head")},
        "rounds": given.get("rounds"),
        "seed": given.get("seed"),
        "engine": given.get("engine"),
        "trackers": given.get("track") or None,
    }
    assigned = parse_assignments(assignments or ())
    refuse_another(assigned, algorithm, "What --set says")
    overrides = merge_layers([assigned, _given(options)])
    return resolve_config(preset, file, overrides, as_published)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Leave out the options that were not given."""
    nested = {key: _given(value) if isinstance(value, dict) else value for key, value in options.items()}
    return {key: value for key, value in nested.items() if value is not None and value != {}}
