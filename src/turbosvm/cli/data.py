"""`turbosvm data`: make the built-in data, look at data."""

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

app = typer.Typer(help="Make the built-in data, and look at data.", no_args_is_help=True)


@app.command("make")
def make(
    users: Annotated[int, typer.Option(help="Number of writers; FEMNIST has 3550.")] = 200,
    samples_per_user: Annotated[float, typer.Option(help="Mean samples of a writer; FEMNIST has 226.8.")] = 100.0,
    heterogeneity: Annotated[float, typer.Option(help="How much writers differ, 0 to 1.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Another seed gives other writers.")] = 0,
) -> None:
    """Make the built-in glyphs ahead of a run, and say where they are."""
    from rich.console import Console

    from turbosvm.cli.progress import making
    from turbosvm.data import glyphs

    console = Console()
    options = glyphs.GlyphOptions(users, samples_per_user, heterogeneity, seed)
    began = perf_counter()
    with making("glyphs", console) as on_progress:
        data = glyphs.load(options, on_progress)
    console.print(
        f"{len(data.users)} writers, {len(data.labels):,} images, ready after {perf_counter() - began:.1f} s: "
        f"{glyphs.cached_at(options)}",
        highlight=False,
        soft_wrap=True,
    )


@app.command("sheet")
def sheet(
    out: Annotated[Path, typer.Argument(help="The picture to write (PNG).")],
    data: Annotated[str, typer.Option("--data", "-d", help="'glyphs' or the path of a data folder.")] = "glyphs",
) -> None:
    """Draw a contact sheet: what the classes look like, and how users differ."""
    from turbosvm.data import contact_sheet
    from turbosvm.experiment.build import build_data
    from turbosvm.experiment.config import DataConfig

    contact_sheet.save(out, build_data(DataConfig(name=data)))
    typer.echo(f"Contact sheet: {out}")
