"""Curves: how one quantity changes with another."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from transformer_lab.course.figures.base import (
    canvas,
    check_above_zero,
    check_curves,
    finished,
    line_styles,
    numbers_of,
)


def lines(
    x: Sequence[float],
    named: Mapping[str, Sequence[float]],
    *,
    xlabel: str,
    ylabel: str,
    title: str = "",
    logarithmic: str = "",
) -> Figure:
    """Draw one line per name over the same x; `logarithmic` names the axes that are: "x", "y" or "xy"."""
    if logarithmic not in ("", "x", "y", "xy", "yx"):
        raise ValueError(f"logarithmic must name axes, got {logarithmic!r}; try x, y or xy")
    x = numbers_of(x, 1, name="x")
    if "x" in logarithmic:
        check_above_zero("x", x)
    curves = check_curves(named, len(x), logarithmic="y" in logarithmic)
    styles = line_styles(curves, *"osD^vP*X")
    figure, ((ax,),) = canvas(1, 1, (5.6, 3.4))
    for name, y in curves.items():
        marker, colour = styles[name]
        ax.plot(x, y, marker=marker, color=colour, label=name)
    ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
    for axis in logarithmic:
        getattr(ax, f"set_{axis}scale")("log", base=2 if axis == "x" else 10)
    if "x" in logarithmic:
        ax.set_xticks(x, [f"{value:g}" for value in x])
        ax.minorticks_off()
    if len(named) > 1:
        ax.legend()
    ax.grid(alpha=0.3)
    return finished(figure)
