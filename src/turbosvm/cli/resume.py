"""`turbosvm resume`: go on with what was stopped or killed."""

from pathlib import Path
from typing import Annotated

import typer

from turbosvm.cli import options


def resume(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Folders of runs, or folders that hold such, at any depth.")
    ],
    data: options.Data = None,
    trust_code: Annotated[
        list[str] | None,
        typer.Option(
            "--trust-code",
            metavar="MODULE",
            help="Let the models of runs come from this Python module, whose code is then run; may be repeated.",
        ),
    ] = None,
) -> None:
    """Go on with runs from their newest checkpoints; what is finished stays as it is."""
    from turbosvm.cli.session import go_on

    go_on(folders, data, trust_code or ())
