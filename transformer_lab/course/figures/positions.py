"""Positions: tables too large for a label in every cell, curves along the positions, clocks and circles."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from transformer_lab.course.figures.base import (
    Matrix,
    canvas,
    check_above_zero,
    check_axes,
    check_curves,
    check_labels,
    check_named,
    check_pairs,
    check_scale,
    finished,
    line_styles,
    literal,
    numbers_of,
)
from transformer_lab.validation import check_integer


def position_tables(
    named: Mapping[str, Matrix], *, xlabel: str, title: str, bar: str, limits: tuple[float, float] = (-1, 1)
) -> Figure:
    """Draw large signed tables side by side on one scale: positions down, `xlabel` across."""
    check_named(named)
    look = {"aspect": "auto", "interpolation": "nearest"}
    figure, axes = canvas(1, len(named), (1.4 + 4.2 * len(named), 4.2))
    for ax, (name, table) in zip(axes.flat, named.items(), strict=True):
        values = numbers_of(table, 2, name=name)
        check_scale(values, limits)
        image = ax.imshow(values, cmap="RdBu_r", vmin=limits[0], vmax=limits[1], **look)
        ax.set(xlabel=xlabel, ylabel="position", title=name)
    figure.colorbar(image, ax=axes, label=bar)
    figure.suptitle(title)
    return finished(figure)


def position_curves(
    x: Sequence[float],
    named: Mapping[str, Sequence[float]],
    *,
    xlabel: str,
    ylabel: str,
    title: str,
    octaves: Sequence[float] = (),
) -> Figure:
    """Draw curves of many points, without marks; `octaves` are the ticks of a logarithmic x axis.

    Where a curve is nan it has a gap.
    """
    x = numbers_of(x, 1, name="x")
    octaves = numbers_of(octaves, name="octaves")
    if octaves.size:
        check_above_zero("octaves", numbers_of(octaves, 1, name="octaves"))
        check_above_zero("x", x)
    curves = check_curves(named, len(x), gaps=True)
    styles = line_styles(curves, "-")
    figure, ((ax,),) = canvas(1, 1, (6.4, 3.4))
    for name, y in curves.items():
        ax.plot(x, y, color=styles[name][1], label=name)
    ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
    if octaves.size:
        ax.set_xscale("log")
        ax.set_xticks(octaves, [f"{tick:g}" for tick in octaves])
        ax.minorticks_off()
    if len(named) > 1:
        ax.legend()
    ax.grid(alpha=0.3)
    return finished(figure)


def position_circles(named: Mapping[str, Matrix], *, title: str, first: int = 0) -> Figure:
    """Draw points (position, 2) in the plane, one panel per name, coloured by their position from `first`."""
    check_named(named)
    check_integer(first=first)
    figure, axes = canvas(1, len(named), (1.2 + 3.4 * len(named), 3.7))
    for ax, (name, points) in zip(axes.flat, named.items(), strict=True):
        x, y = check_pairs(name, points).T
        dots = ax.scatter(x, y, c=first + np.arange(len(x)), s=9)
        ax.set(title=name, aspect="equal", xlabel="first coordinate", ylabel="second coordinate")
    figure.colorbar(dots, ax=axes, label="position")
    figure.suptitle(title)
    return finished(figure)


def draw_clocks(ax: Axes, angles: Sequence[float], names: Sequence[str]) -> None:
    """Draw one dial per angle, in radians from the right, counter-clockwise; its hand ends at (cos, sin)."""
    check_axes(ax)
    angles = numbers_of(angles, 1, name="the angles")
    check_labels("names", names, len(angles))
    for number, (angle, name) in enumerate(zip(angles, names, strict=True)):
        left = 2.5 * number
        ax.add_patch(Circle((left, 0), 1, facecolor="white", edgecolor="#6b6b6b"))
        tip = (left + np.cos(angle), np.sin(angle))
        ax.plot([left, tip[0]], [0, tip[1]], color="black", linewidth=2)
        ax.plot(*tip, "o", color="black", markersize=4)
        ax.text(left, -1.25, name, ha="center", va="top", size=9)
    ax.set(xlim=(-2.2, 2.5 * len(names) - 0.3), ylim=(-1.9, 1.2), aspect="equal")
    ax.set_axis_off()
    literal(ax)
