"""Time, memory and work: what a part costs, how it grows, and what is computed for nothing."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
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
REAL, PADDED = PALE[0], MARK


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
        drawn = ax.barh(list(named), values, color=REAL, edgecolor="black", linewidth=0.6)
        ax.bar_label(drawn, [number(value, 2) for value in values], padding=3)
        ax.invert_yaxis()
        ax.set(title=quantity, xlabel=xlabel, xlim=(0, values.max() * 1.2))
        ax.tick_params(labelleft=ax is axes[0] or list(named) != names[0])  # the same names stand once
    return finished(figure, title, "A bar for each name, with its number.")


def padding(batches: Mapping[str, Sequence[Sequence[int]]], *, title: str) -> Figure:
    """Draw texts as bars, one panel per way to batch them: real tokens, and what is padded behind them.

    A way is a list of batches, a batch the lengths of its texts; all in a batch are as long as the longest.
    """
    lengths = {name: [given.numbers_of(batch, 1) for batch in way] for name, way in batches.items()}
    figure, panels = canvas(
        len(batches), (min(3.6, WIDEST / len(batches)), 0), (0, 4.0), sharex=True, sharey=True
    )
    for ax, (name, way) in zip(panels, lengths.items(), strict=True):
        _draw_bars(ax, way)
        real, computed = sum(batch.sum() for batch in way), sum(len(batch) * batch.max() for batch in way)
        ax.set(title=f"{name}: {1 - real / computed:.0%} is padding", xlabel="tokens")
    panels[0].set_ylabel("texts")
    panels[0].invert_yaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    see = "A row for each text of a batch: real tokens, then padding up to the longest."
    return finished(figure, title, see)


def _draw_bars(ax: Axes, batches: Sequence[np.ndarray]) -> None:
    """One bar for each text, a gap of one bar between batches, if they have more than one text."""
    gap = int(max(map(len, batches)) > 1)
    tops = np.cumsum([0] + [len(each) + gap for each in batches[:-1]])
    rows = np.concatenate([top + np.arange(len(each)) for top, each in zip(tops, batches, strict=True)])
    longest = np.concatenate([np.full(len(each), each.max()) for each in batches])
    ax.barh(rows, longest, height=1.0, color=PADDED, label="padding")
    ax.barh(rows, np.concatenate(batches), height=1.0, color=REAL, label="real tokens")
    ax.set_yticks([])
