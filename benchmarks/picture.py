"""The results as a picture: a panel for each axis, in it a row for each encoder, dots for its two ratios."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from benchmarks.cases import AXES, Measured
from benchmarks.timing import LEVEL, middle_half

FORWARD, TRAINING, GREY = "#1b6ca8", "#b3541e", "#555555"
LIMITS = 0.7, 3.3  # a ratio beyond is drawn at the edge
WIDTH, ROW, DENSITY = 9.0, 0.2, 200  # inches, inches, dots an inch: 900 px wide, stored at twice that


def draw(found: list[Measured], title: str, file: Path) -> None:
    """Draw all axes, the first on the left, the others below each other on the right, into a PNG."""
    rows = {axis: rows_of([one for one in found if one.case.axis == axis]) for axis in AXES}
    first, *others = AXES
    tallest = max(len(rows[first]), sum(len(rows[axis]) + 4 for axis in others) - 4)
    with plt.rc_context({"font.size": 8, "axes.edgecolor": GREY}):
        figure = plt.figure(figsize=(WIDTH, ROW * tallest + 1.5), layout="constrained")
        left, right = figure.subfigures(1, 2)
        panel(left.subplots(), first, rows[first])
        panels = right.subplots(len(others), height_ratios=[len(rows[axis]) + 2 for axis in others])
        for axes, axis in zip(panels, others, strict=True):
            panel(axes, axis, rows[axis])
        look = {"marker": "o", "markersize": 4, "linestyle": "none"}
        kinds = {"forward": FORWARD, "forward + backward": TRAINING}
        dots = [Line2D([], [], color=colour, label=kind, **look) for kind, colour in kinds.items()]
        figure.legend(handles=dots, loc="outside lower center", ncols=2, frameon=False)
        figure.suptitle(f"Time of other encoders ÷ ours\n{title}", fontsize=9)
        figure.savefig(file, dpi=DENSITY, pil_kwargs={"optimize": True})
        plt.close(figure)


def rows_of(found: list[Measured]) -> list[tuple[str, dict[bool, Measured]]]:
    """Return (what stands beside the row, its two measurements); a case begins with a row of its own."""
    rows = []
    for label in dict.fromkeys(one.case.label for one in found):
        both = {one.train: one for one in found if one.case.label == label}
        name, base = both[False].times.base()
        rows.append((f"{label}: {name} {1000 * base:.0f} ms", {}))
        others = dict.fromkeys(name for one in both.values() for name in list(one.times.seconds)[1:])
        rows += [(name, both) for name in others]
    return rows


def panel(axes: Axes, axis: str, rows: list[tuple[str, dict[bool, Measured]]]) -> None:
    """Draw one axis: right of the line at 1 ours is faster, within the grey band it is level."""
    axes.set(xscale="log", xlim=LIMITS, ylim=(len(rows) - 0.3, -0.7))
    axes.axvspan(1 / LEVEL, LEVEL, color="#e8e8e8", zorder=0)
    axes.axvline(1, color=GREY, linewidth=0.8, zorder=1)
    for place, (name, both) in enumerate(rows):
        for train, one in both.items():
            if name in one.times.seconds:
                dot(axes, place + (0.17 if train else -0.17), one.times.ratios(name), train=train)
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    for tick, (_, both) in zip(axes.get_yticklabels(), rows, strict=True):
        tick.set_fontweight("normal" if both else "bold")
    axes.tick_params(axis="y", length=0)
    ticks = (0.75, 1, 1.5, 2, 3)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_title(axis, loc="left", fontweight="bold", fontsize=9)
    for x, text, side in ((LIMITS[0], " ours slower", "left"), (LIMITS[1], "ours faster ", "right")):
        axes.text(x, -0.25, text, color=GREY, ha=side, fontsize=7)


def dot(axes: Axes, y: float, ratios: list[float], *, train: bool) -> None:
    """Draw the median, and a line from the first to the third quartile."""
    low, middle, high = (min(max(ratio, LIMITS[0]), LIMITS[1]) for ratio in middle_half(ratios))
    colour = TRAINING if train else FORWARD
    axes.plot([low, high], [y, y], color=colour, linewidth=2.2, alpha=0.5, solid_capstyle="butt")
    axes.plot([middle], [y], "o", color=colour, markersize=3.6)
