"""`turbosvm algorithms`: what there is, and what it costs a client."""

from typing import Annotated

import typer


def algorithms(
    traffic: Annotated[
        bool, typer.Option("--traffic", help="Count, in a real round, what each sends and has a client keep.")
    ] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown.")] = False,
) -> None:
    """List the algorithms; join several by '+' to combine them, e.g. fedavgm+turbosvm."""
    import pandas as pd
    from rich.console import Console

    from turbosvm.algorithms.catalogue import CATALOGUE, parts_of
    from turbosvm.algorithms.rules import PARTS
    from turbosvm.cli.terminal import print_table
    from turbosvm.experiment.traffic import traffic_table
    from turbosvm.report.tables import markdown

    rows = [
        {
            "algorithm": row.name,
            "chooses the": ", ".join(PARTS[part] for part in parts_of(row)) or "-",
            "what it does": row.about,
        }
        for row in CATALOGUE.values()
    ]
    table = traffic_table(list(CATALOGUE)) if traffic else pd.DataFrame(rows)
    if as_markdown:
        typer.echo(markdown(table), nl=False)
        return
    console = Console()
    if traffic:
        console.print("Megabytes that a client receives / sends in a round / keeps until its next one:")
    print_table(table, console)
