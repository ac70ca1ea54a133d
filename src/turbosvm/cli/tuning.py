"""Carry out a search for learning rates for a person at a terminal."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from rich.console import Console

from turbosvm.algorithms.catalogue import find_algorithm
from turbosvm.cli.seeds import parse_seeds
from turbosvm.cli.sweeping import carry_out as carry_out_sweep
from turbosvm.cli.terminal import print_table, say
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.grid import Changes, Sweep, make_sweep
from turbosvm.experiment.layers import Layer, merge_layers, parse_assignments
from turbosvm.experiment.sweep import Planned, threads_for
from turbosvm.experiment.tune import (
    CLIENT,
    RATES,
    accuracies,
    as_settings,
    best_of,
    client_search,
    server_rates,
    server_search,
)
from turbosvm.files import write_atomically


def carry_out(
    algorithms: Sequence[str],
    preset: str,
    given: Mapping[str, Any],
    seeds: str,
    rates: str | None,
    jobs: int | None,
    engine: str,
    assign: Sequence[str],
    out: Path,
    dry_run: bool = False,
) -> None:
    """Search, show each step, and write what was found to tuned.yaml."""
    console = Console()
    names = list(dict.fromkeys(find_algorithm(name).name for name in algorithms))
    plain = {key: value for key, value in given.items() if value is not None}
    assigned = parse_assignments(assign)
    if "learning_rate" in assigned.get("client", {}):
        raise TurboSVMError("client.learning_rate is what is searched; say which to try with --rates.")
    changes = Changes(merge_layers([assigned, plain]), threads=threads_for(jobs))
    tried, wanted = _parse_rates(rates) if rates else RATES, parse_seeds(seeds)

    servers = [name for name in names if server_rates(name)]

    def sweep(content: Layer, name: str) -> Sweep:
        return make_sweep(content, changes, "the search", f"tune-{preset}/{name}")

    def search(content: Layer, name: str) -> list[Planned]:
        return carry_out_sweep(sweep(content, name), out, jobs, engine, dry_run, search=True)

    if dry_run and servers:
        later = sweep(server_search(preset, wanted, tried, servers, tried[0]), "server").configs
        rounds = sum(run.rounds for run in later)
        say(
            f"First the clients' rate, as below; then, with the best, {len(later):,} runs with {rounds:,} rounds.",
            console,
        )
    scores = accuracies(search(client_search(preset, wanted, tried), "client"), [CLIENT])
    (client_rate,) = best_of(scores)
    _show("fedavg, the clients' learning rate", [CLIENT], scores, console)
    found: dict[str, tuple[float, ...]] = {}
    if servers:
        runs = search(server_search(preset, wanted, tried, servers, client_rate), "server")
        for name in servers:
            keys = [f"algorithm.{part}" for part in server_rates(name)]
            scores = accuracies([run for run in runs if run.config.algorithm.name == name], keys)
            found[name] = best_of(scores)
            _show(f"{name}, the server's learning rate", server_rates(name), scores, console)
    for name in names:
        if name not in servers:
            say(f"{name} has no learning rate on the server; it takes the clients'.", console)
    place, best = (
        out / f"tune-{preset}" / "tuned.yaml",
        yaml.safe_dump(as_settings(client_rate, found), sort_keys=False),
    )
    changed = place.exists() and place.read_text() != best
    write_atomically(place, best)
    say(f"The best rates{' (others than before)' if changed else ''}: {place}; use it with --config", console)


def _show(title: str, keys: Sequence[str], scores: Mapping[tuple[float, ...], float], console: Console) -> None:
    best = best_of(scores)
    rows = [
        {**dict(zip(keys, (f"{rate:g}" for rate in rates), strict=True)), "accuracy %": f"{100 * score:.1f}"}
        | {"": "best" if rates == best else ""}
        for rates, score in scores.items()
    ]
    say(title, console)
    print_table(pd.DataFrame(rows), console)
    alike = sum(score == scores[best] for score in scores.values())
    if alike > 1:
        say(f"{alike} are equally good; the smallest was taken. More rounds or seeds may tell.", console)
    if len(scores) > 1 and any(
        rate in (min(all_of), max(all_of)) for rate, all_of in zip(best, zip(*scores, strict=True), strict=True)
    ):
        say("The best is at the end of those that were tried; better ones may lie beyond.", console)


def _parse_rates(text: str) -> list[float]:
    try:
        rates = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise TurboSVMError(f"Rates '{text}' are not numbers with commas between them, e.g. 0.01,0.1,1.") from error
    if not all(0 < rate < float("inf") for rate in rates):
        raise TurboSVMError(f"Rates '{text}' must be larger than 0.")
    return list(dict.fromkeys(rates))
