"""`turbosvm data prepare`: make a data set of the files that a person has."""

from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from turbosvm.data.preparation.prepare import Prepared

TABLE, CELEBA = "Tables of your own", "CelebA"


def prepare(
    task: Annotated[str, typer.Argument(help="femnist, celeba, shakespeare, or own for a table of your own.")],
    source: Annotated[
        str,
        typer.Option(
            "--from", "-f", metavar="PATH|hub:", help="A file, folder or archive; or hub:, hub:OWNER/NAME[@REVISION]."
        ),
    ],
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="NAME", help="What to call it, or a path; else as the task.")
    ] = None,
    split: Annotated[
        Literal["hash", "leaf"],
        typer.Option(help="Who is held out: by a hash of the user's name, or as LEAF's folders train and test say."),
    ] = "hash",
    min_samples: Annotated[
        int | None, typer.Option(min=0, help="Leave out users with fewer samples; CelebA has 5, as in LEAF.")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave bad input out, count and report it.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace another set of that name.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Fetch nothing from the hub.")] = False,
    allow_large: Annotated[
        bool, typer.Option("--allow-large", help="Let archives and tables grow to more than 200 times their size.")
    ] = False,
    images: Annotated[
        str | None, typer.Option(help="The folder of the images, if it is not beside.", rich_help_panel=CELEBA)
    ] = None,
    attribute: Annotated[str, typer.Option(help="The attribute to guess.", rich_help_panel=CELEBA)] = "Smiling",
    inputs: Annotated[
        str, typer.Option("--input", help="Column, or columns with commas; else all others.", rich_help_panel=TABLE)
    ] = "",
    label: Annotated[str, typer.Option(help="Column of the label.", rich_help_panel=TABLE)] = "label",
    user: Annotated[str, typer.Option(help="Column of the user.", rich_help_panel=TABLE)] = "user",
    classes: Annotated[int | None, typer.Option(min=1, help="Labels are 0 to this - 1.", rich_help_panel=TABLE)] = None,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Inputs are indices (of words, say).", rich_help_panel=TABLE)
    ] = False,
    partition: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="Make users up: iid, dirichlet:0.5 or shards:2.", rich_help_panel=TABLE),
    ] = None,
    users: Annotated[int, typer.Option(help="How many users a partition makes.", rich_help_panel=TABLE)] = 100,
    seed: Annotated[int, typer.Option(help="Another seed, another partition.", rich_help_panel=TABLE)] = 0,
) -> None:
    """Make a data set of LEAF's files, the hub's, or your own: read once, then opened at once by its name."""
    from rich.console import Console

    from turbosvm.cli.progress import share_of
    from turbosvm.data import partition as partitions
    from turbosvm.data import store
    from turbosvm.data.preparation.prepare import Rules
    from turbosvm.data.preparation.prepare import prepare as prepare_data
    from turbosvm.data.sources.request import Columns, Request

    columns = Columns(tuple(filter(None, inputs.split(","))), label, user)
    request = Request(task, source, split == "leaf", images, attribute, columns, classes, tokens, offline, allow_large)
    made_up = partitions.parse(partition, users, seed=seed) if partition else None
    console, began = Console(), perf_counter()
    try:
        with share_of(f"reading {task}", console) as on_progress:
            done = prepare_data(
                request, store.place_for(out or task), Rules(min_samples, skip_bad, made_up), replace, on_progress
            )
    except KeyboardInterrupt:
        console.print("Stopped; the same command goes on from here.")
        raise typer.Exit(130) from None
    _tell(done, perf_counter() - began, console)


def _tell(done: "Prepared", seconds: float, console: "Console") -> None:
    """Say what came of it."""
    from turbosvm.cli.terminal import say
    from turbosvm.data import store

    data = store.load(done.folder)
    what = "was prepared before" if done.was_there else f"prepared in {seconds:.1f} s"
    lines = [f"{done.folder.name}: {len(data.users):,} users, {len(data.labels):,} samples, {what}: {done.folder}"]
    if done.small_users:
        lines.append(f"Left out for having too few samples: {done.small_users:,} of the users.")
    if bad := done.left_out.count:
        shown = "" if bad == len(done.left_out.first) else f"; the first {len(done.left_out.first)} of them"
        lines.append(f"{bad:,} bad thing{'s were' if bad > 1 else ' was'} left out{shown}:")
        lines += [f"  {sentence}" for sentence in done.left_out.first]
    for line in lines:
        say(line, console)
