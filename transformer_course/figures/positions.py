"""Of positions: the digits of a number, waves in their place, circles, and dials with arrows."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.patheffects import withStroke

from transformer_course.figures import given
from transformer_course.figures.colours import COMPONENTS, DARK, GREY, HERO, LINES
from transformer_course.figures.drawings import Point, arrow
from transformer_course.figures.given import Labels, Tables
from transformer_course.figures.layout import canvas, finished, number

PITCH = 3.8  # from the middle of one dial with arrows to that of the next
ARC = 0.5  # radius of the arc between two arrows
NEAR = 1.0  # radians: the names of arrows that are nearer move apart


def digits_and_waves(count: int, *, title: str) -> Figure:
    """Draw the last `count` binary digits of each position, and on each a wave that goes the same way."""
    positions = np.arange(2**count)
    figure, panels = canvas(count, (8.4, 0.95), (0, 0.6), columns=1, sharex=True)
    for row, ax in enumerate(panels):
        period = 2 ** (count - row)
        digits = positions // (period // 2) % 2
        ax.bar(positions, digits, width=1, color=COMPONENTS["positions"], edgecolor="none")
        fine = np.linspace(-0.5, positions[-1] + 0.5, 400)
        ax.plot(fine, 0.5 - 0.5 * np.sin(2 * np.pi * (fine + 0.5) / period), color=HERO, linewidth=2)
        for position, digit in zip(positions, digits, strict=True):
            ax.text(position, 1.22, digit, ha="center", size=9)
        ax.set(ylim=(-0.1, 1.75), yticks=[])
        ax.set_ylabel(f"{period // 2}s", rotation=0, ha="right", va="center")
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
    panels[-1].set_xticks(positions)
    panels[-1].set_xlabel("position")
    see = "A row for each binary digit, slowest above: filled where it is 1, and there its wave is high."
    return finished(figure, title, see)


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
        drawn = arrow(ax, start, end, zorder=3, gap=0)
        drawn.arrow_patch.set_path_effects([withStroke(linewidth=3.0, foreground="white")])


# Dials of radius 1


def draw_turns(ax: Axes, arrows: Tables, names: Labels = ("",), *, worth: str = "score") -> None:
    """Draw one dial for each pair of features, and in it one arrow for each vector, with its name at the tip.

    A vector is given as pairs (pair, 2); all dials have one scale, and the longest arrow reaches the rim.
    Where there are two, an arc shows the angle between them, and `worth` with their dot product below.
    """
    pairs = given.tables_of(arrows)
    reach = max(np.hypot(*each.T).max() for each in pairs.values()) or 1.0
    both = list(pairs.values()) if len(pairs) == 2 else []
    rim = 1.65 if any(pairs) else 1.2  # there is room for names of arrows
    for dial, name in enumerate(names):
        told = [name] if name else []
        if both:
            first, second = (each[dial] for each in both)
            _draw_arc(ax, PITCH * dial, second, first)
            told.append(f"{worth} {number(round(first @ second, 2))}")
        ax.add_patch(Circle((PITCH * dial, 0), 1, facecolor="white", edgecolor=GREY))
        ax.text(PITCH * dial, -rim, "\n".join(told), ha="center", va="top", size=9)
    for place, ((name, each), colour) in enumerate(zip(pairs.items(), LINES, strict=False)):
        for dial, tip in enumerate(each / reach):
            beside = both[1 - place][dial] if both else None
            _draw_arrow(ax, (PITCH * dial, 0), tip, name, colour, beside)
    right = PITCH * (len(names) - 1) + 1.9
    if both and len(names) > 1:
        total, in_all = (both[0] * both[1]).sum(), "sum" if worth == "score" else "score"
        ax.text(right, 0, f"{in_all}\n{number(round(total, 2))}", ha="left", va="center", size=10)
        right += 1.6
    rows = bool(both) + max(1 + name.count("\n") if name else 0 for name in names)
    ax.set(xlim=(-1.9, right), ylim=(-rim - 0.5 * rows, rim - 0.05), aspect="equal")
    ax.set_axis_off()


def _angle(vector: np.ndarray) -> float:
    return float(np.arctan2(vector[1], vector[0]))


def _draw_arc(ax: Axes, left: float, start: np.ndarray, end: np.ndarray) -> None:
    """Draw the angle between two arrows, the short way round."""
    turn = (_angle(end) - _angle(start) + np.pi) % (2 * np.pi) - np.pi
    angles = _angle(start) + turn * np.linspace(0, 1, 30)
    ax.plot(left + ARC * np.cos(angles), ARC * np.sin(angles), color=DARK, linewidth=1.5)


def _draw_arrow(
    ax: Axes, start: Point, tip: np.ndarray, name: str, colour: str, beside: np.ndarray | None = None
) -> None:
    """An arrow, and its name beyond the tip, a little away from the arrow beside it."""
    end = np.add(start, tip)
    arrow(ax, start, end, width=1.8, colour=colour, zorder=3, gap=0)
    angle = _angle(tip)
    if beside is not None:
        apart = (angle - _angle(beside) + np.pi) % (2 * np.pi) - np.pi
        angle += np.sign(apart) * max(0.0, NEAR - abs(apart))
    along = np.array([np.cos(angle), np.sin(angle)])
    offset = along * (5 + np.abs(along) @ [2.8 * len(name), 5])  # half the name's width, and its height
    look = {"color": colour, "ha": "center", "va": "center", "size": 9, "weight": "bold", "zorder": 5}
    text = ax.annotate(name, end, tuple(offset), textcoords="offset points", **look)
    text.set_path_effects([withStroke(linewidth=2.5, foreground="white")])


def turns(panels: Mapping[str, Tables], names: Labels = ("",), *, title: str = "") -> Figure:
    """Draw dials with arrows side by side, one panel for each name; what a panel holds: see `draw_turns`."""
    figure, axes = canvas(len(panels), (max(1.9, 1.5 * len(names)), 2.6))
    for ax, (name, arrows) in zip(axes, panels.items(), strict=True):
        draw_turns(ax, arrows, names)
        ax.set_title(name, size=10)
    see = "A dial for each pair of features: an arrow is one vector's pair, the arc the angle between two."
    return finished(figure, title, see)
