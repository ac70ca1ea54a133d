"""TurboSVM's head step on three classes in the plane: `python examples/worked_example.py [picture.png]`.

Two clients, so six class embeddings. Small enough to check by hand: docs/algorithms/turbosvm.md does.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

import turbosvm

COLOURS, MARKERS = ("#3366cc", "#c75000", "#2a8a4a"), ("o", "s")
heads = np.array(  # client, class, numbers
    [
        [[2.0, 0.0], [0.0, 0.0], [0.0, 2.0]],
        [[4.0, 1.0], [-1.0, -1.0], [1.0, 4.0]],
    ]
)
samples = [10, 30]

machine = turbosvm.svm.fit(heads)
plain = turbosvm.merge_heads(heads, samples, selection=False, spread_out=False)
selected = turbosvm.merge_heads(heads, samples, spread_out=False)
spread = turbosvm.merge_heads(heads, samples, optimiser="sgd", learning_rate=1.0)


def line(axes: Axes, normal: np.ndarray, intercept: float, **style: object) -> None:
    """Draw where normal·x + intercept = 0."""
    point = -intercept * normal / (normal @ normal)
    axes.axline(point, point + np.array([-normal[1], normal[0]]), zorder=1, **style)  # type: ignore[arg-type]


figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.9), layout="constrained", sharex=True, sharey=True)
left.set_title("Six embeddings and their SVMs\ncircles and squares: two clients; ringed: support vectors", fontsize=10)
right.set_title("Merged\ncrosses: plain mean; rings: support vectors' mean; dots: spread out", fontsize=10)
planes = zip(machine.pairs_, machine.hyperplanes(), machine.intercept_, machine.margin_, strict=True)
for (k, m), normal, intercept, width in planes:
    print(f"classes {k} and {m}: normal {normal.round(3) + 0.0}, intercept {intercept:.3f}, margin {width:.3f}")
    for axes in (left, right):
        line(axes, normal, intercept, color="0.35", linewidth=1.2)
    for side in (-1, 1):
        line(left, normal, intercept + side, color="0.75", linewidth=0.8, linestyle=(0, (4, 3)))
for client, marker in enumerate(MARKERS):
    for label, colour in enumerate(COLOURS):
        left.scatter(*heads[client, label], color=colour, marker=marker, s=45, zorder=3)
        if machine.support_[label, client]:
            left.scatter(*heads[client, label], facecolor="none", edgecolor="black", s=190, linewidth=1.3, zorder=2)
for label, colour in enumerate(COLOURS):
    before, after = selected.head[label], spread.head[label]
    print(f"class {label}: plain mean {plain.head[label]}, support vectors' mean {before}, spread out {after.round(4)}")
    right.scatter(*plain.head[label], color=colour, marker="x", s=45, zorder=2)
    right.scatter(*before, facecolor="white", edgecolor=colour, s=60, zorder=2)
    right.scatter(*after, color=colour, s=60, zorder=3)
    right.annotate(f"class {label}", xy=after, xytext=(10, -14), textcoords="offset points", color=colour)
print("l_sp before and after:", *(round(spread.diagnostics[f"spread_loss_{when}"], 4) for when in ("before", "after")))
for axes in (left, right):
    axes.set(xlim=(-2, 5), ylim=(-2, 5), aspect="equal")
    axes.spines[["top", "right"]].set_visible(False)
picture = Path(sys.argv[1] if len(sys.argv) > 1 else "worked_example.png")
figure.savefig(picture, dpi=150)
print(f"Picture: {picture}")
