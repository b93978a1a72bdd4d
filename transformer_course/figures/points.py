"""Points and bars: one mark for each head, seed, word or position, one bar for each model."""

import itertools
from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.patheffects import withStroke

from transformer_course.figures import given
from transformer_course.figures.given import Curves, Matrix, Tables
from transformer_course.figures.layout import (
    ATTENTION,
    GREY,
    HERO,
    LINES,
    MARK,
    SILVER,
    WIDEST,
    canvas,
    component_colours,
    finished,
    literal,
    place_names,
)

STEP = 0.15  # from one seed's dot down to the next, if a band is 1 high
SHARE_SHOWN = 0.04  # a smaller part of a bar has no room for its number
SEEN = 0.01  # a smaller share is a sliver that nobody sees
GIB = 2**30

Place = tuple[int, int]


# Points


def position_circles(named: Tables, *, title: str, first: int = 0, walk: Sequence[int] = ()) -> Figure:
    """Draw points (position, 2) in the plane, one panel per name, coloured by their position from `first`.

    A circle has their mean radius. Arrows lead through the positions of `walk`. All panels have one scale.
    """
    points, walk = given.tables_of(named), np.array(walk, dtype=int) - first
    reach = 1.08 * max(np.abs(each).max() for each in points.values()) or 1.0
    figure, panels = canvas(len(named), (3.6, 0), (1.2, 3.9), sharey=True)
    for ax, (name, each) in zip(panels, points.items(), strict=True):
        dots = ax.scatter(*each.T, c=first + np.arange(len(each)), s=11, edgecolors="none")
        _walk(ax, each[walk])
        radius = np.hypot(*each.T)
        mean, varies = radius.mean(), radius.std() / (radius.mean() or 1.0)
        ax.add_patch(Circle((0, 0), mean, fill=False, edgecolor=HERO, linewidth=1.5, linestyle="--"))
        name = f"{name}\nradius {mean:.2f}, varies by {varies:.0%}".replace(" 0.", " .")
        ax.set(title=name, aspect="equal", xlabel="first coordinate", xlim=(-reach, reach))
    panels[0].set(ylabel="second coordinate", ylim=(-reach, reach))
    figure.colorbar(dots, ax=figure.axes, label="position", shrink=0.8)
    see = "A dot for each position, at two coordinates of its vector; a dashed circle has their mean radius."
    return finished(figure, title, see)


def _walk(ax: Axes, points: np.ndarray) -> None:
    """Draw an arrow from each point to the next, black with a white edge."""
    for start, end in itertools.pairwise(points):
        style = {"arrowstyle": "-|>", "color": "black", "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0}
        arrow = ax.annotate("", end, start, arrowprops=style)
        arrow.arrow_patch.set_path_effects([withStroke(linewidth=3.0, foreground="white")])


def seed_spread(named: Curves, *, xlabel: str, title: str) -> Figure:
    """Draw one dot for each seed, one band of dots for each name, and a stroke at the mean.

    The dots of a band stand one below the other, so that equal ones are seen as two.
    """
    figure, (ax,) = canvas(1, (6.4, 0.9 + 0.8 * len(named)))
    for row, (name, values) in enumerate(named.items()):
        numbers = given.numbers_of(values, 1, name=name)
        down = row + STEP * (np.arange(len(numbers)) - (len(numbers) - 1) / 2)
        ax.scatter(numbers, down, s=34, color=LINES[row % len(LINES)], alpha=0.85)
        ax.plot([numbers.mean()] * 2, [row - 0.38, row + 0.38], color="black", linewidth=1.5)
    ax.set_yticks(range(len(named)), list(named))
    ax.set(xlabel=xlabel, ylim=(len(named) - 0.5, -0.5))
    ax.grid(alpha=0.3, axis="x")
    return finished(figure, title, "A row for each name, a dot for each seed.")


def word_strips(
    named: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    legend: tuple[str, str],
    title: str,
    xlabel: str = "activation",
) -> Figure:
    """Draw one row per name, a neuron or a question: its number for its own kind, and for all the others."""
    figure, (ax,) = canvas(1, (7.4, 0.9 + 0.34 * len(named)))
    for kind, colour, marker in ((1, GREY, "|"), (0, MARK, "o")):
        rows = [given.numbers_of(words[kind], 1, name=name) for name, words in named.items()]
        y = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        ax.scatter(np.concatenate(rows), y, s=26, color=colour, marker=marker, label=legend[kind], zorder=2)
    ax.set_yticks(range(len(named)), list(named))
    ax.invert_yaxis()
    ax.set(xlabel=xlabel)
    ax.grid(alpha=0.3, axis="x")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    see = "A row for each neuron, a dot for each word, at how much the neuron fires."
    return finished(figure, title, see)


# Every head of a model as a point


def head_scatter(
    named: Mapping[str, tuple[Matrix, Matrix]],
    *,
    ylabel: str,
    marked: Mapping[Place, str] | None = None,
    title: str = "",
) -> Figure:
    """Draw every head as a point, coloured by its layer: one number across, another up on a log scale.

    The pairs of matrices (layers, heads), across and up, go by the name of what goes across; `ylabel` is what
    goes up. `marked` names some heads, by (layer, head).
    """
    pairs = {name: [given.numbers_of(each, 2, name=name) for each in pair] for name, pair in named.items()}
    figure, panels = canvas(len(named), (min(4.6, (WIDEST - 0.8) / len(named)), 0), (0.8, 3.8), sharey=True)
    for ax, (name, (across, up)) in zip(panels, pairs.items(), strict=True):
        colours = matplotlib.colormaps[ATTENTION](np.arange(len(across)) / max(1, len(across) - 1))
        for layer, colour in enumerate(colours):
            look = {"color": colour, "edgecolor": "black", "linewidth": 0.4, "label": str(layer)}
            ax.scatter(across[layer], up[layer], s=42, **look)
        ax.grid(alpha=0.3)
        ax.set(xlabel=name, yscale="log")
    panels[0].set_ylabel(ylabel)
    panels[-1].legend(title="layer", bbox_to_anchor=(1.0, 1.0), loc="upper left", frameon=False)
    finished(figure, title, "A dot for each head; the shade is its layer.")
    for ax, (across, up) in zip(panels, pairs.values(), strict=True):
        named_heads = {name: (across[place], up[place]) for place, name in (marked or {}).items()}
        place_names(ax, named_heads, size=8, arrowprops={"arrowstyle": "-", "linewidth": 0.6})
    return figure


# Bars


def parameter_bars(models: Mapping[str, Mapping[str, int]], *, title: str) -> Figure:
    """Draw for each model which share of its parameters each part has; all have the same parts.

    A part that is called like a component of the encoder has its colour. The legend leaves out what is too
    small to be seen.
    """
    parts = list(next(iter(models.values())))
    counts = np.array([[model[part] for part in parts] for model in models.values()])
    shares = counts / counts.sum(axis=1, keepdims=True)
    starts = np.cumsum(shares, axis=1) - shares
    figure, (ax,) = canvas(1, (8.4, 1.5 + 0.5 * len(models)))
    colours = component_colours(parts)
    for part, share, start in zip(parts, shares.T, starts.T, strict=True):
        label = part if share.max() >= SEEN else None
        bars = ax.barh(list(models), share, left=start, color=colours[part], edgecolor="white", label=label)
        written = [f"{each:.0%}" if each >= SHARE_SHOWN else "" for each in share]
        ax.bar_label(bars, labels=written, label_type="center", color="black")
    ax.invert_yaxis()
    ax.set(xlim=(0, 1), xlabel="share of the parameters")
    figure.legend(loc="outside lower center", ncols=len(parts), frameon=False)
    return finished(figure, title, "A bar for each model, cut into the shares of its parts.")


def draw_memory(
    ax: Axes, models: Mapping[str, tuple[float, float]], tokens: float, *, room: float, limit: float
) -> None:
    """Draw a bar for each model, in GiB: its weights, and the cache of `tokens` tokens behind them.

    A model is given by the bytes of its weights, and of one token in the cache. A line stands at `room` GiB,
    the axis ends at `limit`.
    """
    weights, per_token = np.array(list(models.values())).T / GIB
    cache = per_token * tokens
    ax.barh(list(models), weights, color=SILVER, label="weights")
    ax.barh(list(models), cache, left=weights, color=MARK, label="cache")
    ax.axvline(room, color="black", linestyle="--", lw=1.2, label=f"{room:g} GiB")
    ax.invert_yaxis()
    ax.set(xlim=(0, limit), xlabel="GiB")
    ax.legend(loc="upper right", fontsize=8)
    literal(ax)
