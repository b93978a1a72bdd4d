"""Drawings of lesson 02: queries and keys rotated by their positions."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle, Rectangle

from transformer_course.figures import inputs
from transformer_course.figures.colours import DARK, EDGE, GREY, LINES, ROLES, SILVER, pale
from transformer_course.figures.inputs import Labels, Matrix, Tables
from transformer_course.figures.layout import number, two_decimals
from transformer_course.figures.shapes import Point, arrow
from transformer_course.figures.vectors import angle_between, arc_points, named_arrow

PITCH = 3.8  # from the middle of one dial with arrows to that of the next
ARC, WAY_AT = 0.34, (0.68, 0.5)  # radii of the arc between two arrows, and of their turns
DIAL = 0.5  # inches, and those are the units of what is around it
STAGES = {
    -0.31: "① project",
    -1.2: "② cut into\npairs",
    -2.1: "③ turn by\nposition × ω\n(dashed: before;\nring: tip's path;\narc: the angle)",
    -3.4: "④ dot\nproduct",
}
BOLD = {"ha": "center", "va": "center", "size": 8.5, "weight": "bold"}


def draw_turns(
    ax: Axes,
    arrows: Tables,
    names: Labels = ("",),
    *,
    turns: Mapping[str, Sequence[float]] | None = None,
    behind: Matrix | None = None,
) -> None:
    """Draw one dial for each pair of features, and in it one arrow for each vector, with its name at the tip.

    A vector is given as pairs (pair, 2); all dials have one scale. Of two, a query and a key, an arc shows
    the angle between them, and their score stands below. `turns` says by how many degrees each arrow has been
    turned (pair,): dashed is where it was, dotted its turn. Other vectors (vector, pair, 2) may lie `behind`
    as dots, in place of the ring that the longest arrow reaches.
    """
    pairs = inputs.tables_of(arrows)
    dots = np.zeros((0, len(names), 2)) if behind is None else inputs.numbers_of(behind, 3)
    reach = max(np.hypot(*each.T).max() for each in (*pairs.values(), *dots)) or 1.0
    both = list(pairs.values()) if len(pairs) == 2 else []
    rim = 1.5  # there is room for names of arrows
    for dial, name in enumerate(names):
        by = ", ".join(f"{each} {number(turn[dial])}°" for each, turn in (turns or {}).items())
        told = [f"turned: {by}"] * bool(turns)
        if both:
            first, second = (each[dial] for each in both)
            angle = _draw_angle(ax, (PITCH * dial, 0), ARC, first, second)
            told.append(
                f"{np.degrees(abs(angle)):.0f}° apart (arc): score {number(round(first @ second, 2))}"
            )
        radii = [np.hypot(*each[dial]) / reach for each in both] or [1] * (behind is None)
        if len(dots):
            ax.scatter(*(dots[:, dial] / reach + (PITCH * dial, 0)).T, s=3, color=SILVER, linewidths=0)
        for radius, colour in zip(radii, ROLES.values() if both else [GREY], strict=False):
            ax.add_patch(Circle((PITCH * dial, 0), radius, fill=False, edgecolor=pale(colour, 0.5)))
        ax.text(PITCH * dial, -rim, "\n".join(told), ha="center", va="top", size=9)
        ax.text(PITCH * dial, rim, name, ha="center", va="bottom", size=10, weight="bold")
    colours = ROLES.values() if both else LINES
    for place, ((name, each), colour) in enumerate(zip(pairs.items(), colours, strict=False)):
        for dial, tip in enumerate(each / reach):
            beside = both[1 - place][dial] if both else None
            named_arrow(ax, (PITCH * dial, 0), tip, name, colour, beside)
            if turns and turns[name][dial]:
                turn = np.radians(turns[name][dial])
                _draw_start(ax, (PITCH * dial, 0), tip, turn, colour)
                radius = WAY_AT[place] * np.linspace(1.05, 0.95, 30)  # a whole round has an end, too
                way = arc_points((PITCH * dial, 0), radius, tip, -turn)
                ax.plot(*way, color=colour, linewidth=1.6, linestyle=":")
                arrow(ax, way[:, 1], way[:, 0], colour=colour, gap=0)
    right = PITCH * (len(names) - 1) + rim
    below, above = bool(both) + bool(turns), 1 + max(name.count("\n") if name else -1 for name in names)
    ax.set(xlim=(-rim, right), ylim=(-rim - 0.37 * below, rim + 0.37 * above), aspect="equal")
    ax.set_axis_off()


def draw_rotary(ax: Axes, x: Tables, maps: Sequence[Matrix], places: Sequence[int]) -> None:
    """Draw how a score comes to depend on places: project, cut into pairs, turn each, multiply and add.

    `x` are the features of two tokens: of one that asks, and of one that is asked. `maps` make d features of
    them; i and i + d/2 are pair i, which turns by 10000^(−2i/d) radians for each position.
    """
    vectors = [np.asarray(each) @ np.asarray(one) for each, one in zip(x.values(), maps, strict=True)]
    start = np.array([np.reshape(each, (2, -1)).T for each in vectors])  # (query or key, pair, 2)
    count = start.shape[1]
    speeds = 10_000.0 ** (-np.arange(count) / count)
    whole = ax.get_subplotspec().is_first_row()  # in others the first two stages would be the same
    angles = np.outer(places, speeds)
    (a, b), cos, sin = np.moveaxis(start, -1, 0), np.cos(angles), np.sin(angles)
    turned = np.stack([a * cos - b * sin, a * sin + b * cos], axis=-1)
    lanes = zip(x.items(), vectors, places, strict=True)
    for lane, ((token, row), vector, place) in enumerate(lanes if whole else ()):
        asks = ("asks", "is asked")[lane]
        _draw_lane(ax, lane, f"“{token}” {asks}, at position {place}", row, vector)
    reach = np.hypot(*np.moveaxis(start, -1, 0)).max() / DIAL
    for pair in range(count):
        middle = 1.8 + 1.98 * pair
        rim = np.hypot(*np.transpose(turned[:, pair])).max() / reach
        ax.text(middle, -0.92 if whole else -1.2, f"pair {pair}: features {pair}, {pair + count}", **BOLD)
        apart = _draw_angle(ax, (middle, -2.1), DIAL / 2, *turned[:, pair])
        place = arc_points((middle, -2.1), DIAL / 2, turned[1, pair], apart)[:, 15]
        ax.text(*place, f"{np.degrees(abs(apart)):.0f}°", **BOLD | {"size": 7.5}, path_effects=EDGE)
        for lane, (name, colour) in enumerate(zip("qk", ROLES.values(), strict=False)):
            left, angle = middle + (-0.93, 0.03)[lane], number(round(angles[lane, pair], 3))
            if whole:
                _draw_numbers(ax, left, -1.05, map(number, start[lane, pair]), colour, 0.45)
            _draw_numbers(ax, left, -3.16, map(two_decimals, turned[lane, pair]), colour, 0.45)
            tip = turned[lane, pair] / reach
            style = {
                "linewidth": (2.6, 0.8)[lane],
                "edgecolor": pale(colour, (0.5, 1)[lane]),
            }  # both are seen
            ax.add_patch(Circle((middle, -2.1), np.hypot(*tip), fill=False, **style))
            named_arrow(ax, (middle, -2.1), tip, name, colour, turned[1 - lane, pair], rim)
            _draw_start(ax, (middle, -2.1), tip, angles[lane, pair], colour)
            words = f"{name}: {places[lane]} × {number(speeds[pair])} = {angle} rad"
            ax.text(middle, -2.8 - 0.17 * lane, words, color=colour, **BOLD)
        ax.text(middle, -3.68, two_decimals(turned[0, pair] @ turned[1, pair]), **BOLD)
        ax.text(middle - 0.99, -3.68, "+" * (pair > 0), **BOLD)
    ax.text(8.95, -3.4, "score", **BOLD)
    style = BOLD | {"size": 13, "bbox": {"facecolor": "white", "pad": 3}}
    ax.text(8.95, -3.68, f"≈ {two_decimals((turned[0] * turned[1]).sum())}", **style)
    _write_stages(ax, list(STAGES.items())[0 if whole else 2 :])
    ax.set(xlim=(0, 9.4), ylim=(-3.95, 0.15 if whole else -1.08), aspect="equal")
    ax.set_axis_off()


def _write_stages(ax: Axes, stages: Sequence[tuple[float, str]]) -> None:
    """Write the stages at the left, each at its height, and arrows between them."""
    for height, words in stages:
        ax.text(0, height, words, va="center", size=9)
    for (above, words), (below, others) in pairwise(stages):
        ends = above - 0.18 - 0.08 * words.count("\n"), below + 0.18 + 0.08 * others.count("\n")
        arrow(ax, (0.3, ends[0]), (0.3, ends[1]))


def _draw_lane(ax: Axes, lane: int, words: str, row: Sequence[float], vector: np.ndarray) -> None:
    """A token's features, and what its matrix makes of them: a query, or a key."""
    (name, colour), left = list(ROLES.items())[lane], 0.95 + 4.25 * lane
    ax.text(left, 0, words, color=colour, **BOLD | {"ha": "left"})
    _draw_numbers(ax, left, -0.16, map(number, row), SILVER, 0.3)
    end = left + 0.3 * len(row)
    arrow(ax, (end, -0.31), (end + 0.72, -0.31))
    ax.text(end + 0.36, -0.24, f"W_{name[0].upper()}", ha="center", size=8.5)
    _draw_numbers(ax, end + 0.72, -0.16, map(number, vector), colour, 0.3)
    ax.text((left + end) / 2, -0.56, "x", **BOLD)
    for feature in range(len(vector)):
        ax.text(end + 0.87 + 0.3 * feature, -0.56, feature, ha="center", va="center", size=7.5, color=GREY)


def _draw_numbers(ax: Axes, left: float, top: float, row: Iterable[str], colour: str, wide: float) -> None:
    for place, value in enumerate(row):
        corner, style = (left + wide * place, top - 0.3), {"edgecolor": GREY, "linewidth": 0.6}
        ax.add_patch(Rectangle(corner, wide, 0.3, facecolor=pale(colour), **style))
        ax.text(corner[0] + wide / 2, top - 0.15, value, ha="center", va="center", size=8)


def _draw_angle(ax: Axes, middle: Point, radius: float, one: np.ndarray, two: np.ndarray) -> float:
    """Draw an arc between two arrows, and return its angle."""
    angle = angle_between(one, two)
    ax.plot(*arc_points(middle, radius, two, angle), color=DARK, linewidth=1.5)
    return angle


def _draw_start(ax: Axes, middle: Point, tip: np.ndarray, turn: float, colour: str) -> None:
    """Draw where an arrow was before it was turned, dashed."""
    start = arc_points(middle, np.hypot(*tip), tip, -turn)[:, -1]
    ax.plot(*np.transpose([middle, start]), color=colour, linewidth=1.4, linestyle="--")
