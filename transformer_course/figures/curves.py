"""Curves: how one quantity changes with another, with depth, position, the input, or while a model trains."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, ScalarFormatter
from torch import Tensor

from transformer_course.figures import given
from transformer_course.figures.given import Curves
from transformer_course.figures.layout import (
    LINES,
    WIDEST,
    Size,
    canvas,
    component_colours,
    finished,
    name_lines,
    write_level,
)
from transformer_lab.training.loop import History

DASHES = ("-", "--", "-.", ":")
MARKERS = tuple("osD^vP*X")
STYLES = {  # how lines are told apart besides by colour; inches across; more
    "marked": ("marker", MARKERS, 5.4, {}),
    "smooth": ("linestyle", "-", 6.0, {"linewidth": 1.6}),
    "stepped": ("linestyle", DASHES, 5.8, {"linewidth": 2}),
}
LABEL = 0.075  # inches of a letter in a line's name


def looks_of(
    names: Iterable[str], kinds: Sequence[str], *, by: str = "linestyle"
) -> dict[str, dict[str, str]]:
    """Return for each name a kind of line or marker and a colour, as options of `plot`.

    The first has the strong colour: the claim is about it.
    """
    looks = zip(names, cycle(kinds), cycle(LINES), strict=False)
    return {name: {by: kind, "color": colour} for name, kind, colour in looks}


def _plot(ax: Axes, x: Sequence[float], named: Mapping[str, np.ndarray], looks: dict, **more: object) -> None:
    """Draw curves over the same x, each with its own look."""
    for name, y in named.items():
        ax.plot(x, y, label=name, **looks[name], **more)
    ax.grid(alpha=0.3)


def _name(ax: Axes, ends: Mapping[str, tuple[float, float]], looks: dict) -> None:
    """Write the names of several lines at their ends; a single one is named by the title and the axis."""
    if len(ends) > 1:
        name_lines(ax, ends, {name: looks[name]["color"] for name in ends})


def _ends(x: Sequence[float], curves: Mapping[str, np.ndarray]) -> dict[str, tuple[float, float]]:
    """Return the last point of each curve that is there."""
    last = {name: int(np.flatnonzero(~np.isnan(y))[-1]) for name, y in curves.items()}
    return {name: (x[place], curves[name][place]) for name, place in last.items()}


def _panel(width: float, height: float, names: Iterable[str]) -> Size:
    """Return the size of a panel with the names of its lines beside it."""
    names = list(names)
    return width + (LABEL * max(map(len, names)) if len(names) > 1 else 0.0), height


def log_ticks(ax: Axes, ticks: np.ndarray, rotation: float = 0) -> None:
    """Let the x axis be logarithmic, with these ticks and no others."""
    ax.set_xscale("log")
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks], rotation=rotation)
    ax.minorticks_off()


# One panel


def lines(
    x: Sequence[float],
    named: Curves,
    *,
    xlabel: str,
    ylabel: str,
    title: str = "",
    style: str = "marked",
    logarithmic: str = "",
    levels: Mapping[str, float] | None = None,
) -> Figure:
    """Draw one line per name over the same x; where it is nan it has a gap.

    Args:
        x: where the points are.
        named: the lines.
        style: "marked" marks each point, "smooth" is for many points, "stepped" counts layers or steps.
        logarithmic: the axes that are: "x", "y" or "xy".
        levels: what the lines are compared with, such as chance: dashed, with their names on them.
    """
    x, curves = given.numbers_of(x, 1, name="x"), given.curves_of(named)
    by, kinds, width, more = STYLES[style]
    looks = looks_of(curves, kinds, by=by)
    figure, (ax,) = canvas(1, _panel(width, 3.4, curves))
    _plot(ax, x, curves, looks, **more)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    if "y" in logarithmic:
        ax.set_yscale("log")
    if "x" in logarithmic:
        log_ticks(ax, x)
    if style == "stepped":
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    for name, height in (levels or {}).items():
        write_level(ax, height, name)
    _name(ax, _ends(x, curves), looks)
    return finished(figure, title, "Each line bears its name where it ends.")


def slopes(named: Curves, places: Sequence[str], *, ylabel: str, title: str) -> Figure:
    """Draw one line per name from place to place, such as from task to task, on a logarithmic axis."""
    curves, x = given.curves_of(named), range(len(places))
    looks = looks_of(curves, MARKERS, by="marker")
    figure, (ax,) = canvas(1, _panel(2.2 + 1.3 * len(places), 3.8, curves))
    _plot(ax, x, curves, looks, linewidth=1.8)
    ax.set(yscale="log", ylabel=ylabel, xlim=(-0.15, len(places) - 0.95))
    ax.set_xticks(x, list(places))
    ax.yaxis.set_major_formatter(ScalarFormatter())
    ax.yaxis.set_minor_formatter(NullFormatter())
    _name(ax, _ends(x, curves), looks)
    return finished(figure, title, "A line for each name, from place to place.")


def cost_shares(lengths: Sequence[int], parts: Curves, marks: Mapping[str, float], *, title: str) -> Figure:
    """Draw which share of the work each part does, over the length of a text; `marks` names some lengths.

    A part that is called like a component of the encoder has its colour; each name stands where its area is
    highest.
    """
    lengths = given.numbers_of(lengths, 1, name="lengths")
    work = np.array(list(given.curves_of(parts).values()))
    figure, (ax,) = canvas(1, (7.6, 3.6))
    shares, colours = work / work.sum(axis=0), component_colours(parts)
    ax.stackplot(lengths, shares, labels=list(parts), colors=colours.values(), edgecolor="white", lw=1.5)
    for name, share, top in zip(parts, shares, np.cumsum(shares, axis=0), strict=True):
        _name_area(ax, name, lengths, share, top)
    for name, length in marks.items():
        ax.axvline(length, color="black", linestyle="--", lw=1.2)
        ax.text(length, 1.01, name, ha="center", va="bottom", size=9)
    log_ticks(ax, lengths)
    ax.set(xlim=(lengths[0], lengths[-1]), ylim=(0, 1), xlabel="tokens", ylabel="share of the operations")
    see = "Areas one above the other share out the whole; a mark stands where a model's texts end."
    return finished(figure, title, see)


def _name_area(ax: Axes, name: str, x: np.ndarray, share: np.ndarray, top: np.ndarray) -> None:
    """Write a name into an area where it is highest; near an edge it stands beside it."""
    place = int(share.argmax())
    side = "left" if place == 0 else "right" if place == len(x) - 1 else "center"
    offset = {"left": 6, "right": -6, "center": 0}[side]
    middle = top[place] - share[place] / 2
    look = {"ha": side, "va": "center", "size": 9}
    ax.annotate(name, (x[place], middle), (offset, 0), textcoords="offset points", **look)


# Several panels


def growth(x: Sequence[float], panels: Mapping[str, Curves], *, xlabel: str, title: str) -> Figure:
    """Draw how quantities grow with x, all axes logarithmic: a panel for each, a line for each name.

    Each line has its name at its end. Where it is nan it has a gap.
    """
    x = given.numbers_of(x, 1, name="x")
    figure, axes = canvas(len(panels), (min(5.2, WIDEST / len(panels)), 0), (0, 3.7))
    for ax, (ylabel, named) in zip(axes, panels.items(), strict=True):
        curves = given.curves_of(named)
        looks = looks_of(curves, MARKERS, by="marker")
        for name, y in curves.items():
            ax.plot(x, y, markersize=5, **looks[name])
        ax.set(yscale="log", xlabel=xlabel, ylabel=ylabel)
        log_ticks(ax, x, rotation=45 if len(x) > 7 else 0)
        ax.grid(alpha=0.3)
        name_lines(ax, _ends(x, curves), {name: look["color"] for name, look in looks.items()})
    return finished(figure, title, "A panel for each measure; each line bears its name where it ends.")


def activation_curves(functions: Mapping[str, Callable[[Tensor], Tensor]], *, title: str) -> Figure:
    """Draw functions of one number side by side with their slopes, which `torch.autograd` finds."""
    looks = looks_of(functions, (*DASHES, "-"))
    x = torch.linspace(-4, 4, 401, dtype=torch.float64, requires_grad=True)
    values = {name: function(x) for name, function in functions.items()}
    slopes = {name: torch.autograd.grad(y.sum(), x)[0] for name, y in values.items()}
    figure, (left, right) = canvas(2, (4.0, 3.5), (LABEL * max(map(len, functions)), 0))
    across, values, slopes = given.numbers_of(x), given.curves_of(values), given.curves_of(slopes)
    _plot(left, across, values, looks)
    _plot(right, across, slopes, looks)
    left.set(title="the function", xlabel="before the activation", ylabel="after it")
    right.set(title="its slope", xlabel="before the activation", ylabel="factor for the gradient")
    _name(right, _ends(across, slopes), looks)
    see = "Left the functions, right their slopes: the factor that a gradient is multiplied by."
    return finished(figure, title, see)


def _mean_ends(ax: Axes) -> dict[str, tuple[float, float]]:
    """Return for each name of a panel the mean of the last points of its runs, if it has any there."""
    ends: dict[str, list[np.ndarray]] = {}
    for line in ax.lines:
        if len(line.get_xydata()):
            ends.setdefault(line.get_label(), []).append(line.get_xydata()[-1])
    return {name: tuple(np.mean(points, axis=0)) for name, points in ends.items()}


def training_curves(
    histories: Mapping[str, History],
    *,
    title: str = "",
    chance: float | None = None,
    steps: int | None = None,
) -> Figure:
    """Draw each run's loss, and beside it its accuracy where it was taken.

    Args:
        histories: named runs.
        chance: the accuracy of guessing, drawn as a named line if given.
        steps: where the step axis ends, for a run that still goes on; with the longest run if None.
    """
    looks = looks_of(histories, "-")
    scored = any(history.scores for history in histories.values())
    figure, axes = canvas(1 + scored, (3.9, 0), _panel(0.2, 3.2, histories))
    for name, history in histories.items():
        _plot(axes[0], range(1, history.steps + 1), {name: history.loss}, looks, linewidth=1.2)
        if scored:
            scores = {name: list(history.scores.values())}
            _plot(axes[1], list(history.scores), scores, looks, marker="o", markersize=4)
    ends = _mean_ends(axes[-1])
    axes[0].set(xlabel="step", ylabel="training loss (nats)", ylim=(min(0, axes[0].dataLim.y0), None))
    if scored:
        _lay_scores(axes[1], chance)
    for ax in axes:
        ax.set_xlim(0, steps)
    _name(axes[-1], ends, looks)
    see = "Left the loss in training, right the score on held-out data, both over the steps."
    return finished(figure, title, see)


def _lay_scores(ax: Axes, chance: float | None) -> None:
    if chance is not None:
        write_level(ax, chance, "chance", style=":")
    ax.set(xlabel="step", ylabel="accuracy")
    if ax.dataLim.y0 >= 0 and ax.dataLim.y1 <= 1:
        ax.set_ylim(0, 1.03)
