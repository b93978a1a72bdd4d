"""Rotations: arrows that turn with the position, which features form a pair, scores by two positions."""

from collections.abc import Mapping, Sequence

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from transformer_lab.course.figures.base import (
    Matrix,
    canvas,
    check_axes,
    check_few,
    check_labels,
    check_named,
    check_pairs,
    check_scale,
    finished,
    literal,
    numbers_of,
)

ARROW_COLOURS = ("#b34700", "#1f5fa8", "#4d4d4d", "#6a3d9a")
PAIR_COLOURS = ("#a6cee3", "#fdbf6f", "#cccccc", "#f4b6d2")  # pale: black text reads well on each
PITCH = 2.7  # from the middle of one dial to that of the next; a dial's radius is 1


def draw_turns(ax: Axes, arrows: Mapping[str, Matrix], names: Sequence[str] = ("",)) -> None:
    """Draw one dial for each pair of features, and in it one arrow for each vector, with its name at the tip.

    Args:
        ax: where to draw.
        arrows: vectors by name, each as pairs (pair, 2); the longest arrow of a dial reaches its rim.
        names: one for each dial.

    Raises:
        ValueError: more vectors than colours.
    """
    check_axes(ax)
    check_named(arrows)
    check_labels("names of dials", names)
    check_few(len(arrows), len(ARROW_COLOURS), "arrows in a dial")
    pairs = {name: check_pairs(name, each, len(names)) for name, each in arrows.items()}
    lengths = np.array([np.hypot(*each.T) for each in pairs.values()])  # (vector, pair)
    reach = np.where(lengths.any(axis=0), lengths.max(axis=0), 1.0)
    for number, name in enumerate(names):
        ax.add_patch(Circle((PITCH * number, 0), 1, facecolor="white", edgecolor="#9a9a9a"))
        ax.text(PITCH * number, -1.4, name, ha="center", va="top", size=9)
    for (name, each), colour in zip(pairs.items(), ARROW_COLOURS, strict=False):
        for number, tip in enumerate(each / reach[:, None]):
            _draw_arrow(ax, (PITCH * number, 0), tip, name, colour)
    ax.set(xlim=(-1.5, PITCH * len(names) - 1.2), ylim=(-2.2 if any(names) else -1.5, 1.5), aspect="equal")
    ax.set_axis_off()
    literal(ax)


def _draw_arrow(ax: Axes, start: tuple[float, float], tip: np.ndarray, name: str, colour: str) -> None:
    """An arrow, and its name a little beyond the tip."""
    end = np.add(start, tip)
    style = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.8, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", end, start, arrowprops=style)
    beyond = end + 0.22 * tip / (np.hypot(*tip) or 1)
    ax.text(*beyond, name, color=colour, ha="center", va="center", size=9, weight="bold")


def turns(
    panels: Mapping[str, Mapping[str, Matrix]], names: Sequence[str] = ("",), *, title: str = ""
) -> Figure:
    """Draw dials with arrows side by side, one panel for each name; what a panel holds: see `draw_turns`."""
    check_named(panels)
    check_labels("names of dials", names)
    figure, axes = canvas(1, len(panels), (max(1.8, 1.4 * len(names)) * len(panels), 2.4))
    for ax, (name, arrows) in zip(axes.flat, panels.items(), strict=True):
        draw_turns(ax, arrows, names)
        ax.set_title(name, size=10)
    figure.suptitle(title)
    return finished(figure)


def pairings(named: Mapping[str, Sequence[Sequence[int]]], *, title: str = "") -> Figure:
    """Draw which features form a pair, one row for each pairing: a pair is a colour and a number.

    Raises:
        ValueError: more pairs than colours, or pairs that leave a feature out, or name one twice.
    """
    check_named(named)
    rows = [_pair_of_each_feature(name, pairs) for name, pairs in named.items()]
    width = len(rows[0])
    if any(len(row) != width for row in rows):
        raise ValueError(f"the pairings have {[len(row) for row in rows]} features, wanted as many in each")
    check_few(width, 2 * len(PAIR_COLOURS), "features")
    figure, ((ax,),) = canvas(1, 1, (1.8 + 0.75 * width, 1.1 + 0.55 * len(rows)))
    sns.heatmap(
        np.array(rows),
        ax=ax,
        vmin=0,
        vmax=width // 2,
        cmap=ListedColormap(PAIR_COLOURS[: width // 2]),
        annot=np.array([[f"pair {pair}" for pair in row] for row in rows]),
        fmt="",
        annot_kws={"size": 9, "color": "black"},
        linewidths=2,
        linecolor="white",
        cbar=False,
        xticklabels=[str(feature) for feature in range(width)],
        yticklabels=list(named),
    )
    ax.tick_params(length=0)
    ax.set_yticklabels(ax.get_yticklabels(), rotation=0)
    ax.set_xlabel("feature")
    figure.suptitle(title)
    return finished(figure)


def _pair_of_each_feature(name: str, pairs: Sequence[Sequence[int]]) -> list[int]:
    features = check_pairs(name, pairs)
    if sorted(features.ravel()) != list(range(features.size)):
        raise ValueError(f"{name} must name each feature from 0 to {features.size - 1} once, got {pairs}")
    return list(np.argsort(features.ravel()) // 2)


def score_maps(
    named: Mapping[str, Matrix], *, title: str, bar: str = "score", limits: tuple[float, float] | None = None
) -> Figure:
    """Draw scores (position of the query, position of the key) side by side, all on one scale around zero."""
    check_named(named)
    values = {name: numbers_of(scores, 2, name=name) for name, scores in named.items()}
    reach = max(np.abs(scores).max() for scores in values.values()) or 1.0
    limits = (-reach, reach) if limits is None else limits
    figure, axes = canvas(1, len(values), (1.2 + 3.5 * len(values), 4.1))
    for ax, (name, scores) in zip(axes.flat, values.items(), strict=True):
        check_scale(scores, limits)
        image = ax.imshow(scores, cmap="RdBu_r", vmin=limits[0], vmax=limits[1], interpolation="nearest")
        ax.set(xlabel="position of the key", ylabel="position of the query", title=name)
    figure.colorbar(image, ax=axes, label=bar, shrink=0.8)
    figure.suptitle(title)
    return finished(figure)
