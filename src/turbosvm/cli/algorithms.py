"""`turbosvm algorithms`: what there is, and what it costs a client."""

from typing import Annotated

import typer


def algorithms(
    traffic: Annotated[
        bool, typer.Option("--traffic", help="Count, in a real round, what each sends and has a client keep.")
    ] = False,
) -> None:
    """List the algorithms; join several by '+' to combine them, e.g. fedavgm+turbosvm."""
    import pandas as pd
    from rich.console import Console

    from turbosvm.algorithms.catalogue import CATALOGUE, parts_of
    from turbosvm.algorithms.rules import PARTS
    from turbosvm.cli.session import print_table
    from turbosvm.experiment.traffic import traffic_table

    console = Console()
    if traffic:
        console.print("Megabytes a client receives / sends in a round, and keeps until its next:")
        print_table(traffic_table(list(CATALOGUE)), console)
        return
    rows = [
        {
            "algorithm": row.name,
            "chooses the": ", ".join(PARTS[part] for part in parts_of(row)) or "-",
            "what it does": row.about,
        }
        for row in CATALOGUE.values()
    ]
    print_table(pd.DataFrame(rows), console)
