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
from transformer_course.figures.given import Curves, Limits
from transformer_course.figures.layout import (
    LINES,
    Size,
    canvas,
    component_colours,
    finished,
    name_lines,
    write_level,
)
from transformer_lab.training.loop import History
from transformer_lab.validation import check_integer, check_number, check_positive

MOST_AREAS = 4
DASHES = ("-", "--", "-.", ":")
MARKERS = tuple("osD^vP*X")
LABEL = 0.075  # inches of a letter in a line's name


def looks_of(
    names: Iterable[str], *kinds: str, of: str = "lines", by: str = "linestyle"
) -> dict[str, dict[str, str]]:
    """Return for each name a kind of line or marker and a colour, as options of `plot`, no two names alike.

    The first has the strong colour: the claim is about it.

    Raises:
        ValueError: more names than there are pairs of both.
    """
    names = list(names)
    pairs = list(dict.fromkeys(zip(cycle(kinds), LINES * len(kinds), strict=False)))
    given.check_few(len(names), len(pairs), of)
    return {name: {by: kind, "color": colour} for name, (kind, colour) in zip(names, pairs, strict=False)}


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


def _log_ticks(ax: Axes, ticks: np.ndarray, base: int) -> None:
    """Let the x axis be logarithmic, with these ticks and no others."""
    ax.set_xscale("log", base=base)
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()


# One panel


def lines(
    x: Sequence[float],
    named: Curves,
    *,
    xlabel: str,
    ylabel: str,
    title: str = "",
    logarithmic: str = "",
    levels: Mapping[str, float] | None = None,
) -> Figure:
    """Draw one line per name over the same x; `logarithmic` names the axes that are: "x", "y" or "xy".

    `levels` are what the lines are compared with, such as chance: dashed, with their names on them.
    """
    if logarithmic not in ("", "x", "y", "xy", "yx"):
        raise ValueError(f"logarithmic must name axes, got {logarithmic!r}; try x, y or xy")
    x = given.numbers_of(x, 1, name="x")
    if "x" in logarithmic:
        given.check_above_zero("x", x)
    curves = given.curves_of(named, len(x), logarithmic="y" in logarithmic)
    figure, (ax,) = canvas(1, _panel(5.4, 3.4, curves))
    looks = looks_of(curves, *MARKERS, by="marker")
    _plot(ax, x, curves, looks)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    if "y" in logarithmic:
        ax.set_yscale("log")
    if "x" in logarithmic:
        _log_ticks(ax, x, base=2)
    levels = {} if levels is None else levels
    given.check_named(levels, empty=True)
    for name, height in levels.items():
        check_number(level=height)
        write_level(ax, height, name)
    _name(ax, _ends(x, curves), looks)
    return finished(figure, title)


def position_curves(
    x: Sequence[float], named: Curves, *, xlabel: str, ylabel: str, title: str, octaves: Sequence[float] = ()
) -> Figure:
    """Draw curves of many points, without marks; `octaves` are the ticks of a logarithmic x axis.

    Where a curve is nan it has a gap.
    """
    x = given.numbers_of(x, 1, name="x")
    octaves = given.numbers_of(octaves, name="octaves")
    if octaves.size:
        given.check_above_zero("octaves", given.numbers_of(octaves, 1, name="octaves"))
        given.check_above_zero("x", x)
    curves = given.curves_of(named, len(x), gaps=True)
    figure, (ax,) = canvas(1, _panel(6.0, 3.4, curves))
    looks = looks_of(curves, "-")
    _plot(ax, x, curves, looks, linewidth=1.6)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    if octaves.size:
        _log_ticks(ax, octaves, base=10)
    _name(ax, _ends(x, curves), looks)
    return finished(figure, title)


def slopes(named: Curves, places: Sequence[str], *, ylabel: str, title: str) -> Figure:
    """Draw one line per name from place to place, such as from task to task, on a logarithmic axis."""
    given.check_labels("places", places)
    curves = given.curves_of(named, len(places), logarithmic=True)
    looks = looks_of(curves, *MARKERS, by="marker")
    figure, (ax,) = canvas(1, _panel(2.2 + 1.3 * len(places), 3.8, curves))
    _plot(ax, range(len(places)), curves, looks, linewidth=1.8)
    ax.set(yscale="log", ylabel=ylabel, xlim=(-0.15, len(places) - 0.95))
    ax.set_xticks(range(len(places)), list(places))
    ax.yaxis.set_major_formatter(ScalarFormatter())
    ax.yaxis.set_minor_formatter(NullFormatter())
    _name(ax, _ends(range(len(places)), curves), looks)
    return finished(figure, title)


def depth_curves(
    named: Curves, *, xlabel: str, ylabel: str, title: str, start: int = 0, logarithmic: bool = False
) -> Figure:
    """Draw one curve per name over layers or steps, counted from `start`."""
    check_integer(start=start)
    if not isinstance(logarithmic, bool):
        raise TypeError(f"logarithmic must be True or False, got {logarithmic!r}; choose one")
    curves = given.curves_of(named, logarithmic=logarithmic)
    looks = looks_of(curves, *DASHES)
    figure, (ax,) = canvas(1, _panel(5.8, 3.4, curves))
    for name, y in curves.items():
        _plot(ax, range(start, start + len(y)), {name: y}, looks, linewidth=2)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    if logarithmic:
        ax.set_yscale("log")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    _name(ax, {name: (start + len(y) - 1, y[-1]) for name, y in curves.items()}, looks)
    return finished(figure, title)


def cost_shares(lengths: Sequence[int], parts: Curves, marks: Mapping[str, float], *, title: str) -> Figure:
    """Draw which share of the work each part does, over the length of a text; `marks` names some lengths.

    A part that is called like a component of the encoder has its colour; each name stands where its area is
    highest.
    """
    lengths = given.numbers_of(lengths, 1, name="lengths")
    given.check_above_zero("lengths", lengths)
    work = np.array(list(given.curves_of(parts, len(lengths), logarithmic=True).values()))
    given.check_few(len(parts), MOST_AREAS, "parts")
    given.check_named(marks, empty=True)
    for name, length in marks.items():
        check_number(mark=length)
        if not lengths[0] <= length <= lengths[-1]:
            raise ValueError(f"the mark {name!r} at {length} lies outside the lengths; leave it out")
    figure, (ax,) = canvas(1, (7.6, 3.6))
    shares, colours = work / work.sum(axis=0), component_colours(parts)
    ax.stackplot(lengths, shares, labels=list(parts), colors=colours.values(), edgecolor="white", lw=1.5)
    for name, share, top in zip(parts, shares, np.cumsum(shares, axis=0), strict=True):
        _name_area(ax, name, lengths, share, top)
    for name, length in marks.items():
        ax.axvline(length, color="black", linestyle="--", lw=1.2)
        ax.text(length, 1.01, name, ha="center", va="bottom", size=9)
    _log_ticks(ax, lengths, base=2)
    ax.set(xlim=(lengths[0], lengths[-1]), ylim=(0, 1), xlabel="tokens", ylabel="share of the operations")
    return finished(figure, title)


def _name_area(ax: Axes, name: str, x: np.ndarray, share: np.ndarray, top: np.ndarray) -> None:
    """Write a name into an area where it is highest; near an edge it stands beside it."""
    place = int(share.argmax())
    side = "left" if place == 0 else "right" if place == len(x) - 1 else "center"
    offset = {"left": 6, "right": -6, "center": 0}[side]
    middle = top[place] - share[place] / 2
    look = {"ha": side, "va": "center", "size": 9}
    ax.annotate(name, (x[place], middle), (offset, 0), textcoords="offset points", **look)


# Several panels


def activation_curves(
    functions: Mapping[str, Callable[[Tensor], Tensor]], *, title: str, limits: Limits = (-4.0, 4.0)
) -> Figure:
    """Draw functions of one number side by side with their slopes, which `torch.autograd` finds."""
    given.check_functions(functions)
    given.check_limits(limits)
    looks = looks_of(functions, *DASHES, "-")
    x = torch.linspace(*limits, 401, dtype=torch.float64, requires_grad=True)
    values, slopes = {}, {}
    for name, function in functions.items():
        y = function(x)
        if not isinstance(y, Tensor) or y.shape != x.shape or not y.requires_grad:
            raise TypeError(f"{name} must be a function of a tensor that autograd can follow, got {y!r:.60}")
        (slope,) = torch.autograd.grad(y.sum(), x)
        values[name], slopes[name] = given.numbers_of(y), given.numbers_of(slope)
    figure, (left, right) = canvas(2, (4.0, 3.5), (LABEL * max(map(len, functions)), 0))
    _plot(left, given.numbers_of(x), values, looks)
    _plot(right, given.numbers_of(x), slopes, looks)
    left.set(title="the function", xlabel="before the activation", ylabel="after it")
    right.set(title="its slope", xlabel="before the activation", ylabel="factor for the gradient")
    _name(right, _ends(given.numbers_of(x), slopes), looks)
    return finished(figure, title)


def error_curves(
    panels: Mapping[str, Mapping[str, Sequence[Sequence[float]]]], *, title: str, smooth: int = 10
) -> Figure:
    """Draw the errors of several runs for each name, one panel per task; each point is a mean over steps.

    The last point of a run is the mean over the steps that are left.
    """
    given.check_named(panels)
    check_positive(smooth=smooth)
    for named in panels.values():
        given.check_named(named, in_legend=True)
    looks = looks_of(dict.fromkeys(name for named in panels.values() for name in named), "--", "-.", ":", "-")
    figure, axes = canvas(len(panels), (3.6, 0), (LABEL * max(map(len, looks)), 3.4), sharey=True)
    for ax, (task, named) in zip(axes, panels.items(), strict=True):
        for name, runs in named.items():
            for run in runs:
                errors = given.numbers_of(run, 1, name=name)
                starts = range(0, len(errors), smooth)
                means = [errors[start : start + smooth].mean() for start in starts]
                steps = [min(start + smooth, len(errors)) for start in starts]
                _plot(ax, steps, {name: means}, looks, linewidth=1.6)
        ax.set(title=task, xlabel="step")
    axes[0].set_ylim(min(0, *(ax.dataLim.y0 for ax in axes)), None)
    axes[0].set_ylabel(f"error, mean of {smooth} steps" if smooth > 1 else "error")
    _name(axes[-1], _mean_ends(axes[-1]), looks)
    return finished(figure, title)


def _mean_ends(ax: Axes) -> dict[str, tuple[float, float]]:
    """Return for each name of a panel the mean of the last points of its runs."""
    names = list(dict.fromkeys(line.get_label() for line in ax.lines))
    ends = {name: [line.get_xydata()[-1] for line in ax.lines if line.get_label() == name] for name in names}
    return {name: tuple(np.mean(points, axis=0)) for name, points in ends.items()}


def training_curves(
    histories: Mapping[str, History],
    *,
    title: str = "",
    score: str = "accuracy",
    chance: float | None = None,
    best_loss: float | None = None,
    steps: int | None = None,
) -> Figure:
    """Draw each run's loss, and beside it its score where one was taken.

    Args:
        histories: named runs.
        title: of the figure.
        score: what `evaluate` returned.
        chance: the score of guessing, drawn as a named line if given.
        best_loss: the loss that no model can go below, drawn as a named line if given.
        steps: where the step axis ends, for a run that still goes on; with the longest run if None.
    """
    _check_histories(histories, steps)
    levels = {"chance": chance, "best_loss": best_loss}
    levels = {name: level for name, level in levels.items() if level is not None}
    check_number(**levels)
    looks = looks_of(histories, "-", of="runs")
    scored = any(history.scores for history in histories.values())
    figure, axes = canvas(1 + scored, (3.9, 0), _panel(0.2, 3.2, histories))
    for name, history in histories.items():
        _plot(axes[0], range(1, history.steps + 1), {name: history.loss}, looks, linewidth=1.2)
    if best_loss is not None:
        write_level(axes[0], best_loss, "best possible loss")
    axes[0].set(xlabel="step", ylabel="training loss (nats)", ylim=(min(0, axes[0].dataLim.y0), None))
    if scored:
        _draw_scores(axes[1], histories, looks, score, chance)
    for ax in axes:
        ax.set_xlim(0, steps)
    ends = {name: _last(history, scored) for name, history in histories.items()}
    _name(axes[-1], {name: end for name, end in ends.items() if end}, looks)
    return finished(figure, title)


def _last(history: History, scored: bool) -> tuple[float, float] | None:
    """Return the last point of a run's curve in the last panel, if it has one there."""
    if not scored:
        return history.steps, history.loss[-1]
    return next(reversed(history.scores.items()), None)


def _check_histories(histories: Mapping[str, History], steps: int | None) -> None:
    given.check_named(histories, in_legend=True)
    for name, history in histories.items():
        if not isinstance(history, History):
            raise TypeError(f"{name} must be a History, got {type(history).__name__}; train returns one")
        given.numbers_of([*history.loss, *history.scores.values()], name=name)
    if steps is not None:
        check_positive(steps=steps)
        if steps < max(history.steps for history in histories.values()):
            raise ValueError(f"steps must be at least those of the longest run, got {steps}; leave it out")


def _draw_scores(
    ax: Axes, histories: Mapping[str, History], looks: dict, score: str, chance: float | None
) -> None:
    for name, history in histories.items():
        scores = list(history.scores.values())
        _plot(ax, list(history.scores), {name: scores}, looks, marker="o", markersize=4)
    if chance is not None:
        write_level(ax, chance, "chance", style=":")
    ax.set(xlabel="step", ylabel=score)
    if ax.dataLim.y0 >= 0 and ax.dataLim.y1 <= 1:
        ax.set_ylim(0, 1.03)
