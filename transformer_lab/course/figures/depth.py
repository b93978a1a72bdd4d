"""Depth: the two orders of a layer, and what becomes of the tokens from layer to layer."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from transformer_lab.course.figures.base import (
    Matrix,
    canvas,
    check_curves,
    check_labels,
    check_named,
    check_scale,
    finished,
    line_styles,
    numbers_of,
)
from transformer_lab.course.figures.boxes import arrow, box, plus
from transformer_lab.course.figures.heatmaps import draw_matrix, draw_within
from transformer_lab.validation import check_integer

# What stands on the road and beside it, in order: (kind, place along the road, label)
POST_NORM = (
    ("read", 0.8, ""),
    ("sublayer", 2.0, "attention"),
    ("add", 3.2, ""),
    ("norm", 4.3, "norm"),
    ("read", 5.6, ""),
    ("sublayer", 6.8, "feed-\nforward"),
    ("add", 8.0, ""),
    ("norm", 9.1, "norm"),
)
PRE_NORM = (
    ("read", 0.8, ""),
    ("before", 1.5, "norm"),
    ("sublayer", 3.0, "attention"),
    ("add", 4.4, ""),
    ("read", 5.6, ""),
    ("before", 6.3, "norm"),
    ("sublayer", 7.8, "feed-\nforward"),
    ("add", 9.2, ""),
)
ROAD, SIDE = 1.6, 0.45  # heights
ROAD_COLOUR, NORM_COLOUR = "#d95f02", "#ffc425"


def norm_orders(*, title: str = "") -> Figure:
    """Draw both orders of a layer: the road through it, what reads from it, and where the norms stand."""
    figure, axes = canvas(2, 1, (8.6, 4.4))
    for ax, name, parts in zip(
        axes.flat,
        ("Post-norm: the norms stand on the road", "Pre-norm: the norms stand beside the road"),
        (POST_NORM, PRE_NORM),
        strict=True,
    ):
        _draw_road(ax, parts)
        ax.set_title(name, loc="left")
    figure.suptitle(title)
    return finished(figure)


def _draw_road(ax: Axes, parts: Sequence[tuple[str, float, str]]) -> None:
    arrow(ax, (0, ROAD), (10.6, ROAD), width=4, colour=ROAD_COLOUR)
    ax.text(-0.1, ROAD, "x", ha="right", va="center", size=11)
    start = 0.0
    for kind, place, label in parts:
        if kind == "read":
            start = place
            ax.plot([place, place], [ROAD, SIDE], color="black", lw=1.4, zorder=2)
        elif kind == "add":
            ax.plot([start, place], [SIDE, SIDE], color="black", lw=1.4, zorder=2)
            arrow(ax, (place, SIDE), (place, ROAD - 0.2), width=1.4, zorder=2)
            plus(ax, (place, ROAD))
        else:
            _draw_part(ax, kind, place, label)
    ax.set(xlim=(-0.5, 10.8), ylim=(-0.15, 2.1), aspect="equal")
    ax.set_axis_off()


def _draw_part(ax: Axes, kind: str, place: float, label: str) -> None:
    size, colour = ((1.3, 0.75), "white") if kind == "sublayer" else ((0.8, 0.6), NORM_COLOUR)
    box(ax, (place, ROAD if kind == "norm" else SIDE), label, size, colour)


def likeness_grid(
    named: Mapping[str, Matrix],
    tokens: Sequence[str],
    *,
    title: str = "",
    bar: str = "cosine of two tokens",
) -> Figure:
    """Draw the cosine of every two tokens, one panel per name, on one scale: from 0, or the lowest, to 1."""
    check_named(named)
    check_labels("tokens", tokens)
    for name, cosines in named.items():
        check_scale(numbers_of(cosines, 2, name=name), (-1, 1))
    lowest = min(numbers_of(cosines, 2).min() for cosines in named.values())
    low = min(0, math.floor(10 * lowest) / 10)
    side = 0.7 + 0.19 * max(len(tokens), 7)
    figure, axes = canvas(1, len(named), (side * len(named) + 1.0, side + 0.6))
    for ax, (name, cosines) in zip(axes.flat, named.items(), strict=True):
        draw_matrix(ax, cosines, tokens, tokens, title=name, limits=(low, 1), colours="magma", numbers=False)
    figure.colorbar(axes[0, 0].collections[0], ax=axes, label=bar, shrink=0.7)
    figure.suptitle(title)
    return finished(figure)


def token_depth(
    values: Matrix, rows: Sequence[str], tokens: Sequence[str], *, title: str, bar: str
) -> Figure:
    """Draw one number from 0 to 1 for each token at each place of a model: places down, tokens across."""
    check_labels("tokens", tokens)
    check_labels("rows", rows)
    figure, ((ax,),) = canvas(1, 1, (1.9 + 0.52 * len(tokens), 1.0 + 0.42 * len(rows)))
    draw_within(ax, values, rows, tokens, title=title, numbers=True, bar=bar)
    ax.set_xlabel("token")
    return finished(figure)


def depth_curves(
    named: Mapping[str, Sequence[float]],
    *,
    xlabel: str,
    ylabel: str,
    title: str,
    start: int = 0,
    logarithmic: bool = False,
) -> Figure:
    """Draw one curve per name over layers or steps, counted from `start`; the legend covers none of them."""
    check_integer(start=start)
    if not isinstance(logarithmic, bool):
        raise TypeError(f"logarithmic must be True or False, got {logarithmic!r}; choose one")
    curves = check_curves(named, logarithmic=logarithmic)
    styles = line_styles(curves, "-", "--", "-.", ":")
    figure, ((ax,),) = canvas(1, 1, (7.4, 3.4))
    for name, values in curves.items():
        style, colour = styles[name]
        places = range(start, start + len(values))
        ax.plot(places, values, linestyle=style, color=colour, linewidth=2, label=name)
    ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
    if logarithmic:
        ax.set_yscale("log")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.grid(alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False)
    return finished(figure)
