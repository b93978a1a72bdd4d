"""Of positions: the digits of a number, waves in their place, clocks, large tables, dials with arrows."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from matplotlib.patheffects import withStroke

from transformer_course.figures import inputs
from transformer_course.figures.colours import (
    COMPONENTS,
    DARK,
    EDGE,
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
from transformer_course.figures.heatmaps import draw_cells, draw_matrix
from transformer_course.figures.inputs import Labels, Limits, Matrix, Tables
from transformer_course.figures.layout import WIDEST, canvas, finished, number, outline_cells, two_decimals

PITCH = 3.8  # from the middle of one dial with arrows to that of the next
ARC, WAY_AT = 0.34, (0.68, 0.5)  # radii of the arc between two arrows, and of their turns
NEAR = 1.0  # radians: the names of arrows that are nearer move apart
UNIT, WIDE, RADIUS = 0.68, 1.9, 0.46  # inches of a row; a dial with its angle and its radius, in rows
DIAL = 0.5  # inches, and those are the units of what is around it
STAGES = {
    -0.31: "① project",
    -1.2: "② cut into\npairs",
    -2.1: "③ turn by\nposition × ω\n(dashed: before;\nring: tip's path;\narc: the angle)",
    -3.4: "④ dot\nproduct",
}
GROUND = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}  # of words on a picture
BOLD = {"ha": "center", "va": "center", "size": 8.5, "weight": "bold"}
SINE, COSINE = LINES[3], LINES[4]  # the hand's way up, and its way to the right


def digits_and_waves(count: int, highlight: tuple[int, int], *, title: str) -> Figure:
    """Draw the last `count` binary digits of each position, and waves that go alike; two are highlighted."""
    positions = np.arange(2**count)
    figure, panels = canvas(count, (9.2, 0.95), (0, 0.9), columns=1, sharex=True)
    for row, ax in enumerate(panels):
        period = 2 ** (count - row)
        digits = positions // (period // 2) % 2
        ax.bar(positions, digits, width=1, color=COMPONENTS["positions"], edgecolor="none")
        fine = np.linspace(-0.5, positions[-1] + 0.5, 400)
        wave, heights = (
            0.5 - 0.5 * np.sin(2 * np.pi * (x + 0.5) / period) for x in (fine, np.array(highlight))
        )
        ax.plot(fine, wave, color=HERO, linewidth=2)
        ax.axvspan(highlight[0] - 0.5, highlight[1] + 0.5, color=LIT, zorder=0)
        ax.plot(highlight, heights, "o", color="black", markersize=6)
        for position, digit in zip(positions, digits, strict=True):
            ax.text(
                position, 1.22, digit, ha="center", size=9, weight="bold" if position in highlight else None
            )
        for place, told in ((17.2, map(str, digits[list(highlight)])), (19.5, map(two_decimals, heights))):
            ax.text(place, 0.5, " → ".join(told), ha="center", va="center", size=11)
        ax.set(ylim=(-0.1, 1.75), yticks=[], xlim=(-0.6, 20.6))
        ax.set_ylabel(f"worth {period // 2}", rotation=0, ha="right", va="center")
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
    for place, told in (
        (np.mean(highlight), f"{highlight[0]} → {highlight[1]}"),
        (17.2, "digit"),
        (19.5, "wave"),
    ):
        panels[0].text(place, 1.9, told, ha="center", va="bottom", size=10)
    panels[-1].set(xticks=positions, xlabel="position")
    alt = "A row for each binary digit: filled where it is 1, there its wave is high."
    return finished(figure, title, alt)


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
    dials.set(
        xlim=(0, WIDE * count), ylim=(length, 0), aspect="equal", title="angle (radians, against the clock)"
    )
    dials.spines[:].set_visible(False)
    names = [f"clock {i}\n{way}" for i in range(count) for way in ("sin", "cos")]
    style = {"title": "the table", "limits": (-1, 1), "colours": SIGNED}
    draw_matrix(cells, tips.reshape(length, -1), [""] * length, names, **style)
    for ax in (dials, cells):
        ax.tick_params(length=0, labeltop=True, labelbottom=False, rotation=0)
    for row in 1 + np.flatnonzero(np.diff(positions) > 1):  # a gap, where positions are left out
        dials.axhline(row, color=GREY, linestyle=":")
        cells.axhline(row, color="white", linewidth=8)
    for label in cells.get_xticklabels():
        label.set(color=SINE if "sin" in label.get_text() else COSINE, weight="bold")
    return finished(figure, title, "Dials; beside them in numbers how high and how far right the hands are.")


def position_tables(
    named: Tables,
    *,
    labels: tuple[str, str],
    title: str,
    bar: str,
    above: Mapping[str, float] | None = None,
    distance: int = 0,
    first: int = 0,
    plane: Limits | None = None,
    points: Mapping[str, tuple[float, float]] | None = None,
    stripes: tuple[int, int] | None = None,
    edge: float | None = None,
) -> Figure:
    """Draw large tables side by side on one scale around zero; `labels` say what goes across, and down.

    Words stand `above` some columns, and an `edge` is dashed; a line joins cells at a `distance` below the
    diagonal, from row and column `first` on; their mean and deviation are told, and three of them. `stripes`
    frame a column and a row of the first. In a `plane` both axes have these ends, and `points` their names.
    The bar goes only down to 0, if no number lies below.
    """
    tables = inputs.tables_of(named)
    reach = max(np.abs(table).max() for table in tables.values())
    wide, room = 6.4 if len(tables) == 1 else 3.9, (1.4, 4.4)
    if plane:
        wide, room = 3.1, (1.2, 3.5)
    figure, panels = canvas(len(tables), (min(wide, (WIDEST - room[0]) / len(tables)), 0), room)
    for ax, (name, table) in zip(panels, tables.items(), strict=True):
        image = _draw_table(ax, table, reach, plane)
        ax.set(xlabel=labels[0], ylabel=labels[1] if ax is panels[0] else "", title=name)
        ax.tick_params(labelleft=ax is panels[0])  # the others' are as in the first
        if distance:
            _mark_distance(ax, table, distance, first)
        if edge is not None:
            ax.axvline(edge + 0.5, color="black", linewidth=1.8, linestyle="--")
        if above:
            ax.secondary_xaxis("top").set_xticks([column + 0.5 for column in above.values()], above)
        for name, point in (points or {}).items():
            ax.plot(*point, "o", color="black", markersize=5)
            ax.annotate(name, point, (0, 7), textcoords="offset points", ha="center", size=8, bbox=GROUND)
        if plane:
            ax.locator_params(nbins=4)
    if stripes:
        _frame_stripes(panels[0], *stripes, *next(iter(tables.values())).shape)
    shown = figure.colorbar(image, ax=figure.axes, label=bar, shrink=0.8 if plane else 1.0)
    if min(table.min() for table in tables.values()) >= 0:
        shown.ax.set_ylim(0, reach)
    alt = f"A row for each {labels[1]}, a column for each {labels[0]}; one scale, zero in its middle."
    in_plane = "Two features span a plane; the shade at each place is what the function gives there."
    return finished(figure, title, in_plane if plane else alt)


def _draw_table(ax: Axes, table: np.ndarray, reach: float, plane: Limits | None) -> ScalarMappable:
    """Draw a table with its indices on the axes, or a function's values over a plane."""
    if plane:
        style = {"vmin": -reach, "vmax": reach, "extent": (*plane, *plane), "origin": "lower"}
        return ax.imshow(table, cmap=SIGNED, **style)
    labels = map(_ticks_every, table.shape)
    return draw_cells(ax, table, *labels, limits=(-reach, reach), colours=SIGNED, gap=0)


def _ticks_every(size: int) -> int:
    """Return the step between labels that leaves at most six of so many rows or columns labelled."""
    return next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, size) if size <= 6 * step)


def _frame_stripes(ax: Axes, column: int, row: int, rows: int, columns: int) -> None:
    """Frame a column and a row, and name them at the ends."""
    outline_cells(ax, [(0, column, 1, rows), (row, 0, columns, 1)])
    style = {"size": 8, "bbox": GROUND, "zorder": 5}
    ax.text(column + 1.7, 1.5, f"key {column}: highest mean", va="center", **style)
    ax.text(columns - 0.5, row - 0.9, f"query {row}: highest mean", ha="right", **style)


def _mark_distance(ax: Axes, table: np.ndarray, distance: int, first: int) -> None:
    along = np.diagonal(table, -distance)[first:]
    rows = distance + first + np.arange(len(along)) + 0.5
    mean, deviation = map(two_decimals, (along.mean(), along.std()))
    ax.set_title(f"{ax.get_title()}\ndashed: distance {distance}; mean {mean}, deviation {deviation}")
    ax.plot(rows - distance, rows, color="black", linewidth=0.8, linestyle="--")
    for place in range(len(rows) // 4, len(rows), len(rows) // 3):
        point = rows[place] - distance, rows[place]
        ax.plot(*point, "o", color="black", markersize=4)
        style = {"ha": "right", "va": "top", "size": 9, "bbox": GROUND, "zorder": 6}
        ax.annotate(two_decimals(along[place]), point, (-5, -4), textcoords="offset points", **style)


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
                way = _arc((PITCH * dial, 0), radius, tip, -turn)
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
        place = _arc((middle, -2.1), DIAL / 2, turned[1, pair], apart)[:, 15]
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
    angle = _apart(one, two)
    ax.plot(*_arc(middle, radius, two, angle), color=DARK, linewidth=1.5)
    return angle


def _draw_start(ax: Axes, middle: Point, tip: np.ndarray, turn: float, colour: str) -> None:
    """Draw where an arrow was before it was turned, dashed."""
    start = _arc(middle, np.hypot(*tip), tip, -turn)[:, -1]
    ax.plot(*np.transpose([middle, start]), color=colour, linewidth=1.4, linestyle="--")


def _angle(vector: np.ndarray) -> float:
    return float(np.arctan2(vector[1], vector[0]))


def _apart(one: np.ndarray, two: np.ndarray) -> float:
    """The angle from arrow two to arrow one, the short way round."""
    return (_angle(one) - _angle(two) + np.pi) % (2 * np.pi) - np.pi


def _arc(middle: Point, radius: float | np.ndarray, start: np.ndarray, turn: float) -> np.ndarray:
    """Points (2, 30) on a circle, or at 30 radii, from where an arrow points, as far as it turns."""
    angles = _angle(start) + turn * np.linspace(0, 1, 30)
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
    """An arrow, and its name beyond the tip, and the rim, a little away from the arrow beside it."""
    arrow(ax, start, np.add(start, tip), width=1.8, colour=colour, zorder=3, gap=0)
    angle, length = _angle(tip), np.hypot(*tip)
    if beside is not None:
        apart = _apart(tip, beside)
        angle += np.sign(apart) * max(0.0, NEAR - abs(apart))
    along = np.array([np.cos(angle), np.sin(angle)])
    offset = along * (5 + np.abs(along) @ [2.8 * len(name), 5])  # half the name's width, and its height
    end = np.add(start, tip * max(1.0, rim / length) if length else tip)
    style = {"color": colour, "ha": "center", "va": "center", "size": 9, "weight": "bold", "zorder": 5}
    text = ax.annotate(name, end, tuple(offset), textcoords="offset points", **style)
    text.set_path_effects([withStroke(linewidth=2.5, foreground="white")])
