"""`turbosvm resume`: go on with what was stopped or killed."""

from pathlib import Path
from typing import Annotated

import typer

from turbosvm.cli import options


def resume(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, or of several.")],
    data: options.Data = None,
) -> None:
    """Go on with a run from its newest checkpoint, or finish all runs of a comparison."""
    from turbosvm.cli.session import go_on

    go_on(folder, data)
