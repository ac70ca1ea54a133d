"""Draw what benchmarks/round.py and benchmarks/scale.py have measured.

    python benchmarks/pictures.py round-*.json scale-*.json --out docs/images

Files of round.py become `rounds-cpu.svg` and `rounds-cuda.svg`: bars, one panel a task. Each file of scale.py becomes
three pictures that end in its device: `scale-clients`, `scale-population` and `scale-head`.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

from turbosvm.report.curves import COLOURS, save_figure

BLUE, RED, GREEN, *_ = COLOURS
ALGORITHMS = {"fedavg": ("FedAvg", BLUE), "turbosvm": ("TurboSVM", RED)}
TASKS = {"femnist": "FEMNIST", "celeba": "CelebA", "shakespeare": "Shakespeare", "glyphs": "glyphs"}
KINDS = ("svg", "png")

Measured = dict[str, Any]
Row = dict[str, Any]


def draw_rounds(files: Sequence[Measured]) -> Figure:
    """Bars: milliseconds a round by contestant, one panel a task; ours are in colour."""
    names = list(dict.fromkeys(one["name"] for measured in files for one in measured["contestants"]))
    figure = Figure(figsize=(2.9 * len(files) + 1.6, 0.4 * len(names) + 1.3), layout="constrained", dpi=150)
    panels = figure.subplots(1, len(files), sharey=True, squeeze=False)[0]
    for panel, measured in zip(panels, files, strict=True):
        _draw_bars(panel, names, {one["name"]: 1e3 * one["seconds"] for one in measured["contestants"]})
        panel.set_title(f"{TASKS[measured['task']]}, C = {measured['clients']}", fontsize=10)
        panel.set_xlabel("ms a round", fontsize=9)
    panels[0].invert_yaxis()
    _say_where(figure, files[0])
    return figure


def _draw_bars(panel: Axes, names: Sequence[str], values: dict[str, float]) -> None:
    places = [place for place, name in enumerate(names) if name in values]
    here = [values[names[place]] for place in places]
    bars = panel.barh(places, here, color=[_colour(names[place]) for place in places], height=0.66)
    panel.bar_label(bars, [_figure(value) for value in here], padding=3, fontsize=8)
    panel.set_yticks(range(len(names)), names, fontsize=9)
    panel.set_xlim(0, 1.22 * max(here))
    panel.tick_params(axis="x", labelsize=8)
    panel.xaxis.set_major_locator(MaxNLocator(5))
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    panel.grid(axis="x", alpha=0.25)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def _colour(contestant: str) -> str:
    ours = {"turbosvm, FedAvg": BLUE, "turbosvm, TurboSVM": RED, "turbosvm, sequential": "#8FBEDB"}
    return ours.get(contestant, "0.62")


def draw_clients(measured: Measured) -> Figure:
    """A round's time over its clients, and the server's part of it; beside each, what linear growth would be."""
    figure = Figure(figsize=(9, 3.8), layout="constrained", dpi=150)
    panels = figure.subplots(1, 2, sharey=False)
    for panel, (name, title) in zip(
        panels, {"seconds": "a whole round", "merge": "the server's step"}.items(), strict=True
    ):
        for algorithm, (label, colour) in ALGORITHMS.items():
            rows = [row for row in measured["clients"] if row["algorithm"] == algorithm and "failed" not in row]
            _draw_growth(panel, [row["clients"] for row in rows], [row[name] for row in rows], label, colour)
        rows = [row for row in measured["clients"] if row["algorithm"] == "fedavg" and "failed" not in row]
        _draw_linear(panel, [row["clients"] for row in rows], [row[name] for row in rows])
        _dress(panel, title, "clients a round, C", base=2)
    work = measured["work"]
    _say_where(figure, measured, f"{work['model']} model, K = {work['classes']}, {work['samples']} images a client")
    return figure


def draw_population(measured: Measured) -> Figure:
    """What a population costs once, and at each round."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained", dpi=150)
    panel, rows = figure.subplots(), measured["population"]
    users = [row["users"] for row in rows]
    _draw_growth(panel, users, [row["seconds"] for row in rows], "a round (C = 8)", BLUE)
    _draw_growth(panel, users, [row["cohort"] for row in rows], "of it, drawing the cohort", "#56B4E9")
    once = [row["open"] + row["split"] for row in rows]
    _draw_growth(panel, users, once, "once: open and split", GREEN)
    _dress(panel, "a round of eight clients, out of more and more users", "users", base=10)
    _say_where(figure, measured)
    return figure


def draw_head(measured: Measured) -> Figure:
    """The head step over classes and over the size of an embedding."""
    figure = Figure(figsize=(9, 3.8), layout="constrained", dpi=150)
    panels, axes = figure.subplots(1, 2), measured["axes"]
    about = {
        "classes": ("classes, K", f"d = {axes['usual_embedding']}, C = 8", 10),
        "embedding": ("size of an embedding, d", f"K = {axes['usual_classes']}, C = 8", 2),
    }
    for panel, (name, (label, title, base)) in zip(panels, about.items(), strict=True):
        rows = measured[name]
        sizes = [row[name] for row in rows]
        _draw_growth(panel, sizes, [row["turbosvm"] for row in rows], "TurboSVM's head step", RED)
        _draw_growth(panel, sizes, [row["mean"] for row in rows], "FedAvg's mean of the heads", BLUE)
        _dress(panel, title, label, base)
        panel.set_xticks(sizes, [f"{size:,}" for size in sizes])
    _say_where(figure, measured)
    return figure


def _draw_growth(panel: Axes, sizes: Sequence[float], seconds: Sequence[float], label: str, colour: str) -> None:
    panel.plot(sizes, [1e3 * value for value in seconds], "o-", color=colour, linewidth=1.8, markersize=4, label=label)


def _draw_linear(panel: Axes, sizes: Sequence[float], seconds: Sequence[float]) -> None:
    """A straight line from the first point: twice the clients, twice the time."""
    line = [1e3 * seconds[0] * size / sizes[0] for size in sizes]
    panel.plot(sizes, line, "--", color="0.55", linewidth=1, label="linear, from FedAvg's first", zorder=1)


def _dress(panel: Axes, title: str, label: str, base: int) -> None:
    panel.set_xscale("log", base=base)
    panel.set_yscale("log")
    panel.set(xlabel=label, ylabel="ms")
    panel.set_title(title, fontsize=10)
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    panel.yaxis.set_major_formatter(lambda value, _: _figure(value))
    low, high = panel.get_ylim()
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 500 * low else (1,), numticks=12))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, fontsize=9)


def _figure(value: float) -> str:
    """A number as people write it: 12,345, 123, 12.3, 1.23."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _say_where(figure: Figure, measured: Measured, *more: str) -> None:
    about = measured["hardware"]
    version = about["packages"]["torch"].partition("+")[0]
    figure.suptitle(", ".join((about["device"], f"PyTorch {version}", *more)), fontsize=10)


def pictures_of(files: Sequence[Measured]) -> dict[str, Figure]:
    """All pictures, by name."""
    pictures = {}
    for device in ("cpu", "cuda"):
        here = [one for one in files if one["hardware"]["kind"] == device]
        rounds = sorted(
            (one for one in here if one["benchmark"] == "round"), key=lambda one: list(TASKS).index(one["task"])
        )
        if rounds:
            pictures[f"rounds-{device}"] = draw_rounds(rounds)
        for scale in (one for one in here if one["benchmark"] == "scale"):
            pictures[f"scale-clients-{device}"] = draw_clients(scale)
            pictures[f"scale-population-{device}"] = draw_population(scale)
            pictures[f"scale-head-{device}"] = draw_head(scale)
    return pictures


def read(path: Path) -> Measured:
    """What a benchmark has written."""
    try:
        measured: Measured = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SystemExit(f"Cannot read '{path}' as a benchmark's figures: {error}") from None
    return measured


def main() -> None:
    """Read, draw and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.json")
    parser.add_argument("--out", type=Path, default=Path(), metavar="FOLDER", help="by default, here")
    parser.add_argument("--kind", choices=KINDS, default="svg")
    chosen = parser.parse_args()
    mpl.rcParams["svg.hashsalt"] = "turbosvm"  # so that ids do not differ from one drawing to the next
    pictures = pictures_of([read(path) for path in chosen.files])
    if not pictures:
        raise SystemExit("There is nothing to draw in these files; round.py and scale.py write such.")
    for name, figure in pictures.items():
        path = chosen.out / f"{name}.{chosen.kind}"
        save_figure(figure, path)
        print(f"{path}: {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
