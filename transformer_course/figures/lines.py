"""Line plots: how one quantity depends on another, such as depth, position, an input, or the step."""

from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_course.figures import inputs
from transformer_course.figures.colours import EDGE, LINES
from transformer_course.figures.inputs import Matrix
from transformer_course.figures.label_placement import name_lines, write_level, write_place
from transformer_course.figures.layout import WIDEST, canvas, finished, number, two_decimals

KINDS = {  # markers, which distinguish lines in addition to colour; width in inches; options
    "marked": ("osD^vP*X", 5.4, {"markersize": 5}),
    "smooth": (["None"], 6.0, {"linewidth": 1.6}),
    "area": (["None"], 6.4, {"linewidth": 1.0}),
}
QUIET = LINES[4], LINES[6], LINES[2], LINES[5]  # colours of no component
MANY = 12  # with more points, not each one has a tick
CROWDED = 0.031  # the width of a letter of a tick label, relative to the panel
LABEL = 0.075  # the width of a letter of a line label, in inches
Named = Mapping[str, Sequence[float] | Matrix]


def line_plot(
    x: Sequence[float] | Sequence[str],
    named: Named | Mapping[str, Named],
    *,
    xlabel: str,
    ylabel: str = "",
    title: str = "",
    alt: str = "",
    kind: str = "marked",
    logarithmic: str | Sequence[str] = "",
    levels: Mapping[str, float] | Mapping[str, Mapping[str, float]] | None = None,
    places: Mapping[str, float] | None = None,
    dots: bool = False,
    below: bool = False,
    highlight_first: bool = True,
) -> Figure:
    """Draw one line per name over the same x, labelled at its end; nan leaves a gap.

    Args:
        x: the positions of the points, or categories. A decreasing x gives a decreasing axis.
        named: the lines: values over x, or (run, x), with thin lines for the runs and a thick one for their
            mean. Or a panel of lines for each quantity, whose name is the y label; with a `ylabel`, all
            panels share this label and the scale.
        kind: "marked" marks each point, "smooth" is for many points, "area" fills the area below the line,
            without y ticks.
        logarithmic: the logarithmic axes, "x", "y" or "xy"; or the panels whose y axes are logarithmic.
        levels: values for comparison, such as chance, drawn as labelled dashed lines; or for each panel its
            own.
        places: positions on x, drawn as vertical lines; with `dots`, also the points where they cross the
            lines. Without places, `dots` labels the points with values: the first line (or mean) above, all
            others below.
        below: draw panels below each other: the panels of `named`, or one for each line, on one scale.
        highlight_first: draw the first line in the strong colour because the title is about it; otherwise no
            line has the colour of a component.
    """
    nested = isinstance(next(iter(named.values())), Mapping)
    shared, levels = ylabel != "" if nested else below, levels or {}
    panels = named if nested else {name: {"": y} for name, y in named.items()} if below else {ylabel: named}
    tables = {
        panel: {
            name: np.atleast_2d(inputs.numbers_of(runs, name=name, gaps=True))  # (run, x)
            for name, runs in curves.items()
        }
        for panel, curves in panels.items()
    }
    markers, width, more = KINDS[kind]
    names = list(dict.fromkeys(name for curves in tables.values() for name in curves))
    marks = zip(names, cycle(markers), cycle(LINES if highlight_first else QUIET), strict=False)
    styles = {name: {"marker": marker, "color": colour} for name, marker, colour in marks}
    figure, axes = _lay(list(tables), width, names, below=below, shared=shared)
    for ax, (panel, curves) in zip(axes, tables.items(), strict=True):
        across = _lay_across(ax, x, logarithmic)
        ax.set_yscale("log" if {"y", panel} & {*logarithmic} else "linear")
        for name, runs in curves.items():
            _plot(ax, across, name, runs, more | styles[name], kind=kind)
        ax.set(xlabel=xlabel, ylabel="" if shared else panel)
        ax.set_title(panel if shared else "", loc="left", size=10)
        if shared or below:
            ax.label_outer()
        if below and not shared:
            ax.margins(y=0.12)  # keep labels off the axis
    if shared:
        figure.supylabel(ylabel, size=10)
    finished(figure, title, alt or _what_to_see(len(tables), below=below, shared=shared))
    for ax, (panel, curves) in zip(axes, tables.items(), strict=True):  # last: it needs the final layout
        means = {n: (runs.mean(0), styles[n]["color"]) for n, runs in curves.items()}
        _mark(ax, across, means, levels.get(panel, levels), places or {}, named=ax is axes[0], dots=dots)
    return figure


def _mark(
    ax: Axes, x: np.ndarray, means: dict, levels: Mapping, places: Mapping, *, named: bool, dots: bool
) -> None:
    """Label the ends of lines, if there are several, the levels, and the places if `named`.

    With `dots`, mark the points of all lines at the places; without places, label all points with their
    values.
    """
    if len(means) > 1:
        ends = {name: (x[~np.isnan(y)][-1], y[~np.isnan(y)][-1]) for name, (y, _) in means.items()}
        name_lines(ax, ends, {name: colour for name, (_, colour) in means.items()})
    for name, place in places.items():
        write_place(ax, place, name if named else "")
        for y, colour in means.values() if dots else ():
            ax.plot(place, np.interp(place, x, y), "o", color=colour, markersize=6)
    if places:
        ax.figure.get_layout_engine().execute(ax.figure)  # reserve space for their labels
    for name, height in levels.items():
        write_level(ax, height, name)
    for line, (y, colour) in enumerate(means.values() if dots and not places else ()):
        ax.margins(y=0.1)
        style = {"ha": "center", "va": "top" if line else "bottom", "weight": "bold", "path_effects": EDGE}
        for point in zip(x, y, strict=True):
            words, offset = two_decimals(point[1]), (0, -6 if line else 6)
            ax.annotate(words, point, offset, textcoords="offset points", color=colour, size=9, **style)


def _what_to_see(panels: int, *, below: bool, shared: bool) -> str:
    if panels == 1 and not below:
        return "Each line is labelled at its end."
    where = "one below the other" if below else "side by side"
    what = f"Panels {where} share both scales" if shared else "A panel for each measure"
    return f"{what}; each line is labelled at its end."


def _lay(
    panels: Sequence[str], width: float, names: Sequence[str], *, below: bool, shared: bool
) -> tuple[Figure, np.ndarray]:
    """Return the figure and its panels, next to or below each other, with space for labels."""
    if below:
        size = (6.6, 1.35) if shared else (8.6, 1.55)
        return canvas(len(panels), size, (0, 0.7), columns=1, sharex=True, sharey=shared)
    names = LABEL * max(map(len, names)) if len(names) > 1 else 0.0
    if len(panels) == 1:
        return canvas(1, (width + names, 3.4))
    return canvas(len(panels), (min(4.2 + names, WIDEST / len(panels)), 3.6), sharex=shared, sharey=shared)


def _lay_across(ax: Axes, x: Sequence, logarithmic: str) -> np.ndarray:
    """Set up the x axis; return the positions of the points on it."""
    ax.grid(alpha=0.3)
    if isinstance(x[0], str):
        ax.set_xticks(range(len(x)), list(x))
        ax.margins(x=0.3 / len(x))
        return np.arange(len(x))
    x = inputs.numbers_of(x, 1, name="x")
    ax.xaxis.set_inverted(bool(x[0] > x[-1]))
    if "x" in logarithmic:
        ax.set_xscale("log")
        if len(x) <= MANY:
            gap = np.diff(np.log(x)).min() / np.log(x[-1] / x[0])
            names = [number(tick) for tick in x]
            ax.set_xticks(x, names, rotation=45 if gap < CROWDED * max(map(len, names)) else 0)
        ax.minorticks_off()
    return x


def _plot(ax: Axes, x: np.ndarray, name: str, runs: np.ndarray, style: dict, *, kind: str) -> None:
    """Draw one line, or several runs as thin lines and their mean as a thick one."""
    if kind == "area":
        ax.fill_between(x, runs[0], color=style["color"], alpha=0.5)
        ax.set_yticks([])
    if len(runs) == 1:
        ax.plot(x, runs[0], label=name, **style)
        return
    import seaborn

    over = {"x": np.tile(x, len(runs)), "y": runs.ravel(), "ax": ax, "legend": False}
    run = np.repeat(np.arange(len(runs)), len(x))
    seaborn.lineplot(**over, units=run, estimator=None, linewidth=0.9, alpha=0.5, color=style["color"])
    style = style | {"linewidth": 2.4, "markeredgecolor": style["color"]}
    seaborn.lineplot(**over, errorbar=None, label=name, **style)
