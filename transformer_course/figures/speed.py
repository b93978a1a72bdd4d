"""Time, memory and work: what a part costs."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from transformer_course.figures import given
from transformer_course.figures.layout import (
    DARK,
    GREY,
    MARK,
    PALE,
    WIDEST,
    canvas,
    finished,
    number,
    place_names,
)

GIGA = 1e9


def roofline(
    speed: float, bandwidth: float, parts: Mapping[str, tuple[float, float]], *, title: str
) -> Figure:
    """Draw the roof of a machine, and below it the parts of a model.

    Args:
        speed: operations a second, at best.
        bandwidth: bytes a second that can be moved from and to memory.
        parts: for each its operations per byte, and its operations a second.
    """
    x, y = given.numbers_of(list(parts.values()), 2, name="parts").T
    ridge = speed / bandwidth
    ends = np.array([min(x.min(), ridge) / 6, max(x.max(), ridge) * 8])
    figure, (ax,) = canvas(1, (7.4, 4.2))
    over = np.array([ends[0], ridge, ends[1]])
    ax.plot(over, np.minimum(speed, bandwidth * over) / GIGA, color=DARK, linewidth=2)
    ax.scatter(x, y / GIGA, s=45, color=MARK, edgecolor="black", linewidth=0.6, zorder=3)
    ax.axvline(ridge, color=GREY, linestyle=":", linewidth=1.2)
    ax.set(xscale="log", yscale="log", xlim=tuple(ends))
    ax.set(xlabel="operations for each byte moved", ylabel="billion operations a second")
    ax.set_ylim(y.min() / GIGA / 4, speed / GIGA * 4)
    for text, side, share in (("memory", "left", 0.02), ("arithmetic", "right", 0.98)):
        where = {"transform": ax.transAxes, "ha": side, "va": "top"}
        ax.text(share, 0.97, f"{text} sets the limit", color=GREY, **where)
    see = (
        "Over the work done for each byte, the most that the machine can do: first a slope, then a flat roof."
    )
    finished(figure, title, see)
    place_names(ax, dict(zip(parts, zip(x, y / GIGA, strict=True), strict=True)))
    return figure


def bars(panels: Mapping[str, Mapping[str, float]], *, xlabel: str, title: str) -> Figure:
    """Draw a panel of bars for each quantity, one bar for each name, its number written at its end."""
    height = max(map(len, panels.values()))
    letters = max(len(name) for named in panels.values() for name in named)
    width = min(max(2.4 + 0.08 * letters, 6.4 / len(panels)), WIDEST / len(panels))
    figure, axes = canvas(len(panels), (width, 0), (0, 1.3 + 0.34 * height))
    names = [list(named) for named in panels.values()]
    for ax, (quantity, named) in zip(axes, panels.items(), strict=True):
        values = given.numbers_of(list(named.values()), 1, name=quantity)
        drawn = ax.barh(list(named), values, color=PALE[0], edgecolor="black", linewidth=0.6)
        ax.bar_label(drawn, [number(value, 2) for value in values], padding=3)
        ax.invert_yaxis()
        ax.set(title=quantity, xlabel=xlabel, xlim=(0, values.max() * 1.2))
        ax.tick_params(labelleft=ax is axes[0] or list(named) != names[0])  # the same names stand once
    return finished(figure, title, "A bar for each name, with its number.")
