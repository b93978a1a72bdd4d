"""Of positions: the digits of a number, waves in their place, clocks, circles, and dials with arrows."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from matplotlib.patheffects import withStroke

from transformer_course.figures import given
from transformer_course.figures.colours import (
    COMPONENTS,
    DARK,
    GREY,
    HERO,
    LINES,
    LIT,
    ROLES,
    SIGNED,
    SILVER,
    pale,
)
from transformer_course.figures.drawings import Point, arrow
from transformer_course.figures.given import Labels, Matrix, Tables
from transformer_course.figures.layout import canvas, finished, number, two_decimals
from transformer_course.figures.maps import draw_matrix

PITCH = 3.8  # from the middle of one dial with arrows to that of the next
ARC = 0.5  # radius of the arc between two arrows
NEAR = 1.0  # radians: the names of arrows that are nearer move apart
UNIT, WIDE, RADIUS = 0.68, 1.9, 0.46  # inches of a row; a dial with its angle and its radius, in rows
DIAL = 0.5  # inches, and those are the units of what is around it
ASKS = ("asks", "is asked")
STAGES = {
    -0.31: "① project",
    -1.2: "② cut into\npairs",
    -2.1: "③ turn by\nposition × ω",
    -3.4: "④ dot\nproduct",
}
BOLD = {"ha": "center", "va": "center", "size": 8.5, "weight": "bold"}
SINE, COSINE = LINES[3], LINES[4]  # the hand's way up, and its way to the right


def digits_and_waves(count: int, lit: tuple[int, int], *, title: str) -> Figure:
    """Draw the last `count` binary digits of each position, and waves that go alike; two `lit` are told."""
    positions = np.arange(2**count)
    figure, panels = canvas(count, (9.2, 0.95), (0, 0.9), columns=1, sharex=True)
    for row, ax in enumerate(panels):
        period = 2 ** (count - row)
        digits = positions // (period // 2) % 2
        ax.bar(positions, digits, width=1, color=COMPONENTS["positions"], edgecolor="none")
        fine = np.linspace(-0.5, positions[-1] + 0.5, 400)
        wave, heights = (0.5 - 0.5 * np.sin(2 * np.pi * (x + 0.5) / period) for x in (fine, np.array(lit)))
        ax.plot(fine, wave, color=HERO, linewidth=2)
        ax.axvspan(lit[0] - 0.5, lit[1] + 0.5, color=LIT, zorder=0)
        ax.plot(lit, heights, "o", color="black", markersize=6)
        for position, digit in zip(positions, digits, strict=True):
            ax.text(position, 1.22, digit, ha="center", size=9, weight="bold" if position in lit else None)
        for place, told in ((17.2, map(str, digits[list(lit)])), (19.5, map(two_decimals, heights))):
            ax.text(place, 0.5, " → ".join(told), ha="center", va="center", size=11)
        ax.set(ylim=(-0.1, 1.75), yticks=[], xlim=(-0.6, 20.6))
        ax.set_ylabel(f"worth {period // 2}", rotation=0, ha="right", va="center")
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
    for place, told in ((np.mean(lit), f"{lit[0]} → {lit[1]}"), (17.2, "digit"), (19.5, "wave")):
        panels[0].text(place, 1.9, told, ha="center", va="bottom", size=10)
    panels[-1].set(xticks=positions, xlabel="position")
    return finished(
        figure, title, "A row for each binary digit: filled where it is 1, there its wave is high."
    )


def clock_table(positions: Sequence[int], speeds: Sequence[float], *, title: str) -> Figure:
    """Draw each clock's hand at each position, and beside them the table of their tips."""
    angles = np.outer(positions, speeds)
    length, count = angles.shape
    tips = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    size = UNIT * (WIDE + 2) * count + 1.6, UNIT * length + 1.5
    figure, (dials, cells) = canvas(2, (0, 0), size, width_ratios=(WIDE, 2))
    for (row, clock), angle in np.ndenumerate(angles):
        x, y = WIDE * (clock + 0.62), row + 0.5
        up, across = y - RADIUS * tips[row, clock, 0], x + RADIUS * tips[row, clock, 1]
        rim = dials.add_patch(Circle((x, y), RADIUS, facecolor="white", edgecolor=GREY))
        for ends, colour in (((x, across), (y, y)), COSINE), (((across, across), (y, up)), SINE):
            dials.plot(*ends, color=colour, linewidth=4, solid_capstyle="butt")[0].set_clip_path(rim)
        arrow(dials, (x, y), (across, up), width=1.5, zorder=3, gap=0)
        dials.text(x - 0.6, y, number(angle), ha="right", va="center")
    dials.set_yticks(np.arange(length) + 0.5, [f"pos {position}" for position in positions])
    told = [f"clock {clock} turns\n{number(speed)} a position" for clock, speed in enumerate(speeds)]
    dials.set_xticks(WIDE * (np.arange(count) + 0.55), told)
    dials.set(xlim=(0, WIDE * count), ylim=(length, 0), aspect="equal", title="angle (in radians), and hand")
    dials.spines[:].set_visible(False)
    names = [f"clock {i}\n{way}" for i in range(count) for way in ("sin", "cos")]
    look = {"title": "the table", "limits": (-1, 1), "colours": SIGNED}
    draw_matrix(cells, tips.reshape(length, -1), [""] * length, names, **look)
    for ax in (dials, cells):
        ax.tick_params(length=0, labeltop=True, labelbottom=False, rotation=0)
    for label in cells.get_xticklabels():
        label.set(color=SINE if "sin" in label.get_text() else COSINE, weight="bold")
    return finished(figure, title, "Dials; beside them in numbers how high and how far right the hands are.")


def position_circles(named: Tables, *, title: str, first: int = 0) -> Figure:
    """Draw points (position, 2) in the plane, one panel per name, coloured by their position from `first`."""
    points = given.tables_of(named)
    reach = 1.08 * max(np.abs(each).max() for each in points.values()) or 1.0
    figure, panels = canvas(len(named), (3.6, 0), (1.2, 3.9), sharey=True)
    for ax, (name, each) in zip(panels, points.items(), strict=True):
        dots = ax.scatter(*each.T, c=first + np.arange(len(each)), s=11, edgecolors="none")
        radius = np.hypot(*each.T)
        mean, varies = radius.mean(), radius.std() / (radius.mean() or 1.0)
        ax.add_patch(Circle((0, 0), mean, fill=False, edgecolor=HERO, linewidth=1.5, linestyle="--"))
        name = f"{name}\nradius {mean:.2f}, varies by {varies:.0%}".replace(" 0.", " .")
        ax.set(title=name, aspect="equal", xlabel="first coordinate", xlim=(-reach, reach))
    panels[0].set(ylabel="second coordinate", ylim=(-reach, reach))
    figure.colorbar(dots, ax=figure.axes, label="position", shrink=0.8)
    see = "A dot for each position, at two coordinates of its vector; a dashed circle has their mean radius."
    return finished(figure, title, see)


def draw_turns(
    ax: Axes, arrows: Tables, names: Labels = ("",), *, turns: Mapping[str, Sequence[float]] | None = None
) -> None:
    """Draw one dial for each pair of features, and in it one arrow for each vector, with its name at the tip.

    A vector is given as pairs (pair, 2); all dials have one scale, and the longest arrow reaches the rim.
    Where there are two, a query and a key, an arc shows the angle between them, and their score stands below.
    `turns` says by how many degrees each arrow has been turned (pair,): dashed is where it was, dotted the
    way of its tip. Of rows of dials the first alone has the names.
    """
    pairs = given.tables_of(arrows)
    reach = max(np.hypot(*each.T).max() for each in pairs.values()) or 1.0
    both = list(pairs.values()) if len(pairs) == 2 else []
    rim = 1.5 if any(pairs) else 1.2  # there is room for names of arrows
    for dial, name in enumerate(names):
        by = ", ".join(f"{each} {number(turn[dial])}°" for each, turn in (turns or {}).items())
        told = [f"turned: {by}"] * bool(turns)
        if both:
            first, second = (each[dial] for each in both)
            angle = _draw_angle(ax, (PITCH * dial, 0), ARC, first, second)
            told.append(f"{np.degrees(abs(angle)):.0f}° apart: score {number(round(first @ second, 2))}")
        ax.add_patch(Circle((PITCH * dial, 0), 1, facecolor="white", edgecolor=GREY))
        ax.text(PITCH * dial, -rim, "\n".join(told), ha="center", va="top", size=9)
        if ax.get_subplotspec().is_first_row():
            ax.text(PITCH * dial, rim, name, ha="center", va="bottom", size=10, weight="bold")
    colours = ROLES.values() if both else LINES
    for place, ((name, each), colour) in enumerate(zip(pairs.items(), colours, strict=False)):
        for dial, tip in enumerate(each / reach):
            beside = both[1 - place][dial] if both else None
            named_arrow(ax, (PITCH * dial, 0), tip, name, colour, beside)
            if turns and turns[name][dial]:
                way = _draw_way(ax, (PITCH * dial, 0), tip, np.radians(turns[name][dial]), colour)
                ax.plot(*way, color=colour, linewidth=1.8, linestyle=":")
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
    known = not ax.get_subplotspec().is_first_row()  # the first two stages are as above, so they are grey
    angles = np.outer(places, speeds)
    (a, b), cos, sin = np.moveaxis(start, -1, 0), np.cos(angles), np.sin(angles)
    turned = np.stack([a * cos - b * sin, a * sin + b * cos], axis=-1)
    for lane, ((token, row), vector, place) in enumerate(zip(x.items(), vectors, places, strict=True)):
        _draw_lane(ax, lane, f"“{token}” {ASKS[lane]}, at position {place}", row, vector, known)
    reach = np.hypot(*np.moveaxis(start, -1, 0)).max() / DIAL
    for pair in range(count):
        middle = 1.8 + 1.95 * pair
        ax.text(middle, -0.92, f"pair {pair}: features {pair}, {pair + count}", **BOLD)
        _draw_angle(ax, (middle, -2.1), DIAL / 2, *turned[:, pair])
        for lane, (name, colour) in enumerate(zip("qk", ROLES.values(), strict=False)):
            left, angle = middle + (-0.9, 0.06)[lane], number(round(angles[lane, pair], 3))
            _draw_numbers(ax, left, -1.05, map(number, start[lane, pair]), colour, 0.42, known)
            _draw_numbers(ax, left, -3.16, map(two_decimals, turned[lane, pair]), colour, 0.42)
            tip = turned[lane, pair] / reach
            ax.add_patch(Circle((middle, -2.1), np.hypot(*tip), fill=False, edgecolor=colour, linewidth=0.7))
            named_arrow(ax, (middle, -2.1), tip, name, colour, turned[1 - lane, pair])
            _draw_way(ax, (middle, -2.1), tip, angles[lane, pair], colour)
            words = f"{name}: {places[lane]} × {number(speeds[pair])} = {angle} rad"
            ax.text(middle, -2.8 - 0.17 * lane, words, color=colour, **BOLD)
        ax.text(middle, -3.68, two_decimals(turned[0, pair] @ turned[1, pair]), **BOLD)
        ax.text(middle - 0.97, -3.68, "+" * (pair > 0), **BOLD)
    ax.text(8.85, -3.3, "score", **BOLD)
    total = f"= {two_decimals((turned[0] * turned[1]).sum())}"
    ax.text(8.85, -3.68, total, **BOLD | {"size": 13}, bbox={"facecolor": "white", "pad": 3})
    for height, words in STAGES.items():
        ax.text(0, height, words, va="center", size=9)
    for above, below in pairwise(STAGES):
        arrow(ax, (0.3, above - 0.22), (0.3, below + 0.22))
    ax.set(xlim=(0, 9.3), ylim=(-3.95, 0.15), aspect="equal")
    ax.set_axis_off()


def _draw_lane(
    ax: Axes, lane: int, words: str, row: Sequence[float], vector: np.ndarray, known: bool
) -> None:
    """A token's features, and what its matrix makes of them: a query, or a key."""
    (name, colour), left = list(ROLES.items())[lane], 0.95 + 4.25 * lane
    ax.text(left, 0, words, color=colour, **BOLD | {"ha": "left"})
    _draw_numbers(ax, left, -0.16, map(number, row), SILVER, 0.3, known)
    end = left + 0.3 * len(row)
    arrow(ax, (end, -0.31), (end + 0.72, -0.31))
    ax.text(end + 0.36, -0.24, f"W_{name[0].upper()}", ha="center", size=8.5)
    _draw_numbers(ax, end + 0.72, -0.16, map(number, vector), colour, 0.3, known)
    ax.text((left + end) / 2, -0.56, "x", **BOLD)
    for feature in range(len(vector)):
        ax.text(end + 0.87 + 0.3 * feature, -0.56, feature, ha="center", va="center", size=7.5, color=GREY)


def _draw_numbers(
    ax: Axes, left: float, top: float, row: Iterable[str], colour: str, wide: float, known: bool = False
) -> None:
    """A row of cells, pale, each with its number; grey if they are known."""
    for place, value in enumerate(row):
        corner = left + wide * place, top - 0.3
        ax.add_patch(
            Rectangle(
                corner, wide, 0.3, facecolor="white" if known else pale(colour), edgecolor=GREY, linewidth=0.6
            )
        )
        look = {"ha": "center", "va": "center", "size": 8.5, "color": GREY if known else "black"}
        ax.text(corner[0] + wide / 2, top - 0.15, value, **look)


def _draw_angle(ax: Axes, middle: Point, radius: float, one: np.ndarray, two: np.ndarray) -> float:
    """Draw an arc between two arrows, and return its angle."""
    angle = _apart(one, two)
    ax.plot(*_arc(middle, radius, two, angle), color=DARK, linewidth=1.5)
    return angle


def _draw_way(ax: Axes, middle: Point, tip: np.ndarray, turn: float, colour: str) -> np.ndarray:
    """Draw where an arrow was before it was turned, dashed, and return the way back of its tip."""
    way = _arc(middle, np.hypot(*tip), tip, -turn)
    ax.plot(*np.transpose([middle, way[:, -1]]), color=colour, linewidth=1.4, linestyle="--")
    return way


def _angle(vector: np.ndarray) -> float:
    return float(np.arctan2(vector[1], vector[0]))


def _apart(one: np.ndarray, two: np.ndarray) -> float:
    """The angle from arrow two to arrow one, the short way round."""
    return (_angle(one) - _angle(two) + np.pi) % (2 * np.pi) - np.pi


def _arc(middle: Point, radius: float, start: np.ndarray, turn: float) -> np.ndarray:
    """Points (2, 30) on a circle, from where an arrow points, as far as it turns."""
    angles = _angle(start) + turn * np.linspace(0, 1, 30)
    return np.add(middle, radius * np.transpose([np.cos(angles), np.sin(angles)])).T


def named_arrow(
    ax: Axes, start: Point, tip: np.ndarray, name: str, colour: str, beside: np.ndarray | None = None
) -> None:
    """An arrow, and its name beyond the tip, a little away from the arrow beside it."""
    end = np.add(start, tip)
    arrow(ax, start, end, width=1.8, colour=colour, zorder=3, gap=0)
    angle = _angle(tip)
    if beside is not None:
        apart = _apart(tip, beside)
        angle += np.sign(apart) * max(0.0, NEAR - abs(apart))
    along = np.array([np.cos(angle), np.sin(angle)])
    offset = along * (5 + np.abs(along) @ [2.8 * len(name), 5])  # half the name's width, and its height
    look = {"color": colour, "ha": "center", "va": "center", "size": 9, "weight": "bold", "zorder": 5}
    text = ax.annotate(name, end, tuple(offset), textcoords="offset points", **look)
    text.set_path_effects([withStroke(linewidth=2.5, foreground="white")])
