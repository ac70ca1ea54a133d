"""Curves over rounds: a line for each algorithm, shaded from the lowest to the highest seed."""

import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from turbosvm.errors import unknown
from turbosvm.files import write_atomically
from turbosvm.report.records import RunRecords

# Okabe and Ito's colours, which people with any kind of colour vision can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
PANELS = {"accuracy": "accuracy on held-out users", "loss": "loss on held-out users"}


def draw_curves(runs: Iterable[RunRecords]) -> Figure:
    """Draw accuracy and loss over rounds."""
    groups: dict[str, list[pd.DataFrame]] = {}
    targets, data = [], []
    for run in runs:
        groups.setdefault(run.algorithm, []).append(run.evaluated)
        targets.append(run.target)
        data.append(run.data)
    figure = Figure(figsize=(10, 4.2), layout="constrained", dpi=150)
    axes = figure.subplots(1, len(PANELS))
    for panel, (metric, title) in zip(axes, PANELS.items(), strict=True):
        for place, (algorithm, frames) in enumerate(groups.items()):
            _draw_line(panel, metric, algorithm, frames, COLOURS[place % len(COLOURS)])
        panel.set(xlabel="round", title=title)
        panel.set_xlim(left=0)
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    _dress_accuracy(axes[0], targets)
    axes[1].set_ylim(bottom=0)
    figure.suptitle(", ".join(dict.fromkeys(data)), fontsize=11)
    return figure


def _draw_line(panel: Axes, metric: str, algorithm: str, frames: Sequence[pd.DataFrame], colour: str) -> None:
    columns = [frame.set_index("round")[metric] for frame in frames if not frame.empty]
    if not columns:
        return
    wide = pd.concat(columns, axis=1)
    rounds, mean = wide.index.to_numpy(), wide.mean(axis=1).to_numpy()
    panel.plot(rounds, mean, color=colour, linewidth=1.8, label=algorithm)
    if len(columns) > 1:
        panel.fill_between(
            rounds, wide.min(axis=1).to_numpy(), wide.max(axis=1).to_numpy(), color=colour, alpha=0.18, linewidth=0
        )


def _dress_accuracy(panel: Axes, targets: Sequence[float]) -> None:
    panel.set_ylim(0, 1)
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    mark_targets(panel, targets)
    panel.legend(frameon=False, loc="lower right")


def mark_targets(panel: Axes, targets: Iterable[float]) -> None:
    """Draw a line at each accuracy that rounds are counted to."""
    for target in dict.fromkeys(targets):
        panel.axhline(target, color="0.45", linewidth=1, linestyle="--")
        panel.annotate(
            f"target {100 * target:g}%", (0, target), (4, 3), textcoords="offset points", color="0.35", fontsize=8
        )


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format that the file's ending names."""
    content = io.BytesIO()
    kind = path.suffix.removeprefix(".") or "png"
    kinds = figure.canvas.get_supported_filetypes()
    if kind not in kinds:
        raise unknown("picture format", kind, kinds)
    figure.savefig(content, format=kind)
    write_atomically(path, content.getvalue())


def save_both(figure: Figure, path: Path) -> list[Path]:
    """Write and return PATH.png and PATH.svg, each drawn once (`savefig` draws twice); text in the SVG stays text."""
    png, svg = io.BytesIO(), io.StringIO()
    FigureCanvasAgg(figure).print_png(png)  # type: ignore[no-untyped-call]
    figure.set_layout_engine("none")  # everything has its place by now
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": path.name}):
        FigureCanvasSVG(figure).print_svg(svg, metadata={"Date": None})  # type: ignore[no-untyped-call]
    contents: dict[str, str | bytes] = {"png": png.getvalue(), "svg": svg.getvalue()}
    paths = [path.with_name(f"{path.name}.{kind}") for kind in contents]
    for place, content in zip(paths, contents.values(), strict=True):
        write_atomically(place, content)
    return paths
