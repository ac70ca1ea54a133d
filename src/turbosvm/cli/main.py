"""The `turbosvm` command. A mistake ends with status 2 and one sentence, Ctrl-C with status 130; no tracebacks."""

import signal
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from turbosvm.cli import algorithms, compare, data, prepare, report, reproduce, resume, run, sweep, tune
from turbosvm.errors import TurboSVMError
from turbosvm.version import __version__
from turbosvm.visible import visible

app = typer.Typer(
    name="turbosvm",
    help="Federated learning with SVM aggregation: run algorithms, compare them honestly, see the results.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run.run)
app.command("resume")(resume.resume)
app.command("compare")(compare.compare)
app.command("sweep")(sweep.sweep)
app.command("reproduce")(reproduce.reproduce)
app.command("tune")(tune.tune)
app.command("report")(report.report)
app.command("algorithms")(algorithms.algorithms)
data.app.command("prepare")(prepare.prepare)
app.add_typer(data.app, name="data")


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"turbosvm {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    pass


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def _format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Show the package's own warnings as sentences; those of others say where they come from."""
    if Path(__file__).parents[1] in Path(filename).parents:
        return f"Warning: {visible(str(message))}\n"
    return _format_others_warning(message, category, filename, lineno, line)


_format_others_warning = warnings.formatwarning


def main() -> None:
    """Run the command line; SIGTERM, by which clusters and containers end processes, does what Ctrl-C does."""
    signal.signal(signal.SIGTERM, _interrupt)
    warnings.formatwarning = _format_warning
    try:
        app()
    except TurboSVMError as error:
        typer.echo(f"Error: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
