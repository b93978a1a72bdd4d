"""Draw vectors as arrows: with their names, their angles, and relative to a reference vector."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from transformer_course.figures import inputs
from transformer_course.figures.colours import DARK, GREY, LINES, ROLES, SILVER, pale
from transformer_course.figures.inputs import Labels, Matrix, Tables
from transformer_course.figures.label_placement import place_names
from transformer_course.figures.layout import WIDEST, canvas, finished, number, two_decimals
from transformer_course.figures.shapes import Point, arrow

PITCH = 3.8  # distance between the centres of two dials
ARC, WAY_AT = 0.34, (0.68, 0.5)  # radii of the arc between two arrows, and of the arcs of their rotations
NEAR = 1.0  # radians; names of arrows at a smaller angle are moved apart


def angle_of(vector: np.ndarray) -> float:
    """Return the angle of a vector in the plane, in radians."""
    return float(np.arctan2(vector[1], vector[0]))


def _degrees(vector: np.ndarray) -> int:
    return round(np.degrees(angle_of(vector))) % 360  # for machines that differ in the sign of a zero


def angle_between(one: np.ndarray, two: np.ndarray) -> float:
    """The angle from arrow two to arrow one, the shorter way round."""
    return (angle_of(one) - angle_of(two) + np.pi) % (2 * np.pi) - np.pi


def arc_points(middle: Point, radius: float | np.ndarray, start: np.ndarray, turn: float) -> np.ndarray:
    """Points (2, 30) on a circle, or at 30 radii, from the direction of an arrow, rotated up to `turn`."""
    angles = angle_of(start) + turn * np.linspace(0, 1, 30)
    return np.add(middle, (radius * np.array([np.cos(angles), np.sin(angles)])).T).T


def named_arrow(
    ax: Axes,
    start: Point,
    tip: np.ndarray,
    name: str,
    colour: str,
    beside: np.ndarray | None = None,
    rim: float = 0.0,
) -> None:
    """Draw an arrow, with its name after its tip or the rim, shifted away from the neighbouring arrow."""
    arrow(ax, start, np.add(start, tip), width=1.8, colour=colour, zorder=3, gap=0)
    angle, length = angle_of(tip), np.hypot(*tip)
    if beside is not None:
        apart = angle_between(tip, beside)
        angle += np.sign(apart) * max(0.0, NEAR - abs(apart))
    along = np.array([np.cos(angle), np.sin(angle)])
    offset = along * (5 + np.abs(along) @ [2.8 * len(name), 5])  # half the width of the name, and its height
    end = np.add(start, tip * max(1.0, rim / length) if length else tip)
    style = {"color": colour, "ha": "center", "va": "center", "size": 9, "weight": "bold", "zorder": 5}
    text = ax.annotate(name, end, tuple(offset), textcoords="offset points", **style)
    text.set_path_effects([withStroke(linewidth=2.5, foreground="white")])


def seen_from_reference(
    panels: Mapping[str, tuple[Sequence[float], Matrix]],
    names: Labels,
    *,
    reference: str,
    product: str,
    length: str,
    title: str,
) -> Figure:
    """Draw vectors (n, features) relative to a horizontal reference: their components along and across it.

    Each panel has its reference and its vectors. Angles to the reference are true; the side to which a vector
    points is not shown. Its length is multiplied by the length of the reference, as `length` says, so its
    horizontal coordinate is the dot product, the `product` written next to its name. Vectors without a name
    are thin.
    """
    seen = {panel: _beside(*vectors) for panel, vectors in panels.items()}
    tips = np.concatenate([*seen.values()])
    low, high = np.minimum(0, tips.min(axis=0)), tips.max(axis=0)
    columns = 2 if len(panels) == 4 else len(panels)
    room, wide = 0.12 * high.max(), min(3.2, WIDEST / columns)
    across = max(high[0] - low[0] + 4 * room, (high[1] + 2 * room) * (wide - 0.3) / 1.7)  # room for names
    ticks = MaxNLocator(2, steps=[1, 2, 5, 10]).tick_values(0, high[0])
    figure, axes = canvas(len(panels), (wide, 2.4), (0, 0.6), columns=columns, sharey=True)
    colours, near = dict(zip(filter(None, names), LINES, strict=False)), 0.035 * high.max()
    for ax, (panel, points) in zip(axes, seen.items(), strict=True):
        for place, (name, tip) in reversed([*enumerate(zip(names, points, strict=True))]):  # first on top
            colour, width, zorder = (colours[name], 1.8, 3) if name else (GREY, 0.6, 1)
            if name and any(np.allclose(tip, other) for other in points[:place]):  # keep it visible
                ax.plot((0, tip[0]), (0, tip[1]), color=colour, linewidth=5, solid_capstyle="butt")
            arrow(ax, (0, 0), tip, colour=colour, width=width, zorder=zorder, gap=0)
            if name:
                ax.plot((tip[0], tip[0]), (0, tip[1]), ":", color=colour)
        ax.set_title(panel, loc="left")
        ax.set_xlabel(f"along {reference} → the {product}", loc="left")
        ax.set(yticks=[], aspect="equal", xticks=ticks[ticks <= high[0] + 0.01])
        ax.set(xlim=(low[0] - room, low[0] - room + across), ylim=(-1.7 * room, high[1] + 2 * room))
        ax.spines[:].set_visible(False)
        ax.spines.bottom.set_position(("data", 0))  # moves the ticks too
        ax.plot((0, 1.04 * high[0]), (0, 0), color=SILVER, linewidth=6, zorder=0, solid_capstyle="butt")
    words = f"grey: the direction of {reference}; only the angles to it are drawn to scale\n"
    figure.supxlabel(f"{words}{length}; dotted: down to the {product}", size=9)
    alt = "Each arrow is at its angle to a horizontal reference; further along it, the product is larger."
    finished(figure, title, alt)
    for ax, points in zip(axes, seen.values(), strict=True):
        _name_tips(ax, names, points, colours, near)
    return figure


def _beside(reference: Sequence[float], vectors: Matrix) -> np.ndarray:
    """The components of vectors along the reference, times its length, and perpendicular to it: (n, 2)."""
    asked, table = inputs.numbers_of(reference, 1), inputs.numbers_of(vectors, 2)
    along, most = table @ asked, (table**2).sum(axis=1) * (asked @ asked)
    aside = most - along**2
    aside[aside < 1e-9 * most] = 0  # horizontal up to rounding
    return np.stack([along, np.sqrt(aside)], axis=1).round(9)


def _name_tips(ax: Axes, names: Labels, tips: np.ndarray, colours: Mapping[str, str], near: float) -> None:
    """Write names and values at tips, from the lowest up; for tips close to each other, in a column."""
    lowest = sorted(zip(names, tips, strict=True), key=lambda pair: pair[1][1])
    labels = {f"{name}: {two_decimals(tip[0])}": (tip, colours[name]) for name, tip in lowest if name}
    style, alone = {"textcoords": "offset points", "size": 9, "weight": "bold"}, {}
    for words, (tip, colour) in labels.items():
        crowd = [other for other, (end, _) in labels.items() if np.hypot(*(end - tip)) < near]
        if len(crowd) == 1:
            alone[words] = tip
        else:
            ax.annotate(words, labels[crowd[0]][0], (12, 12 * crowd.index(words) - 3), color=colour, **style)
    place_names(ax, alone, {words: colour for words, (_, colour) in labels.items()}, weight="bold")


def draw_turns(
    ax: Axes,
    arrows: Tables,
    names: Labels = ("",),
    *,
    turns: Mapping[str, Sequence[float]] | None = None,
    behind: Matrix | None = None,
) -> None:
    """Draw a dial for each pair of features, with an arrow for each vector and its name at the tip.

    A vector is given as pairs (pair, 2); all dials share a scale. For two vectors, a query and a key, an arc
    shows the angle between them, and their score is below. `turns` has the rotation of each arrow in degrees
    (pair,): the original arrow is dashed, and its rotation dotted. Other vectors `behind` (vector, pair, 2)
    are drawn as dots, instead of the circle at the length of the longest arrow.
    """
    pairs = inputs.tables_of(arrows)
    dots = np.zeros((0, len(names), 2)) if behind is None else inputs.numbers_of(behind, 3)
    reach = max(np.hypot(*tips.T).max() for tips in (*pairs.values(), *dots)) or 1.0
    both = list(pairs.values()) if len(pairs) == 2 else []
    rim, said = 1.5, []  # leave space for names of arrows
    for dial, name in enumerate(names):
        by = ", ".join(f"{tips} {number(turn[dial])}°" for tips, turn in (turns or {}).items())
        lines = [f"rotated: {by}"] * bool(turns)
        if both:
            first, second = (tips[dial] for tips in both)
            angle = draw_angle(ax, (PITCH * dial, 0), ARC, first, second)
            lines.append(
                f"{np.degrees(abs(angle)):.0f}° apart (arc): score {number(round(first @ second, 2))}"
            )
        radii = [np.hypot(*tips[dial]) / reach for tips in both] or [1] * (behind is None)
        if len(dots):
            ax.scatter(*(dots[:, dial] / reach + (PITCH * dial, 0)).T, s=3, color=SILVER, linewidths=0)
        for radius, colour in zip(radii, ROLES.values() if both else [GREY], strict=False):
            ax.add_patch(Circle((PITCH * dial, 0), radius, fill=False, edgecolor=pale(colour, 0.5)))
        ax.text(PITCH * dial, -rim, "\n".join(lines), ha="center", va="top", size=9)
        points = [f"{arrow} at {_degrees(tips[dial])}°" for arrow, tips in pairs.items()]
        said.append("; ".join([f"{name}: {', '.join(points)}".strip(": "), *lines]))
        ax.text(PITCH * dial, rim, name, ha="center", va="bottom", size=10, weight="bold")
    colours = ROLES.values() if both else LINES
    for place, ((name, tips), colour) in enumerate(zip(pairs.items(), colours, strict=False)):
        for dial, tip in enumerate(tips / reach):
            beside = both[1 - place][dial] if both else None
            named_arrow(ax, (PITCH * dial, 0), tip, name, colour, beside)
            if turns and turns[name][dial]:
                turn = np.radians(turns[name][dial])
                draw_start(ax, (PITCH * dial, 0), tip, turn, colour)
                radius = WAY_AT[place] * np.linspace(1.05, 0.95, 30)  # a spiral: shows both ends
                way = arc_points((PITCH * dial, 0), radius, tip, -turn)
                ax.plot(*way, color=colour, linewidth=1.6, linestyle=":")
                arrow(ax, way[:, 1], way[:, 0], colour=colour, gap=0)
    ax.set_label("; ".join(said))
    right = PITCH * (len(names) - 1) + rim
    below, above = bool(both) + bool(turns), 1 + max(name.count("\n") if name else -1 for name in names)
    ax.set(xlim=(-rim, right), ylim=(-rim - 0.37 * below, rim + 0.37 * above), aspect="equal")
    ax.set_axis_off()


def draw_angle(ax: Axes, middle: Point, radius: float, one: np.ndarray, two: np.ndarray) -> float:
    """Draw an arc between two arrows, and return its angle."""
    angle = angle_between(one, two)
    ax.plot(*arc_points(middle, radius, two, angle), color=DARK, linewidth=1.5)
    return angle


def draw_start(ax: Axes, middle: Point, tip: np.ndarray, turn: float, colour: str) -> None:
    """Draw the dashed arrow before its rotation."""
    start = arc_points(middle, np.hypot(*tip), tip, -turn)[:, -1]
    ax.plot(*np.transpose([middle, start]), color=colour, linewidth=1.4, linestyle="--")
