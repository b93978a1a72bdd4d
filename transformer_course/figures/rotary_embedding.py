"""Drawings of lesson 02: queries and keys rotated by their positions."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from transformer_course.figures.colours import EDGE, GREY, MARK, ROLES, SILVER, pale
from transformer_course.figures.heatmaps import GROUND, lay_tables, mark_distance
from transformer_course.figures.inputs import Matrix, Tables
from transformer_course.figures.label_placement import place_names
from transformer_course.figures.layout import finished, number, outline_cells, two_decimals
from transformer_course.figures.lines import line_plot
from transformer_course.figures.shapes import arrow
from transformer_course.figures.vectors import arc_points, draw_angle, draw_start, named_arrow

DIAL = 0.5  # inches, the unit of everything around it
STAGES = {
    -0.31: "① project",
    -1.2: "② split into\npairs",
    -2.1: "③ rotate by\nposition × ω\n(dashed: before;\ncircle: tip's path;\narc: the angle)",
    -3.4: "④ dot\nproduct",
}
BOLD = {"ha": "center", "va": "center", "size": 8.5, "weight": "bold"}


def draw_rotary(ax: Axes, x: Tables, maps: Sequence[Matrix], places: Sequence[int]) -> None:
    """Draw how positions enter a score: project, split into pairs, rotate each pair, multiply and add.

    `x` contains the features of two tokens, whose query and key are compared. `maps` are the projections to d
    features; features i and i + d/2 form pair i, which is rotated by 10000^(−2i/d) radians per position.
    """
    vectors = [np.asarray(matrix) @ np.asarray(one) for matrix, one in zip(x.values(), maps, strict=True)]
    start = np.array([np.reshape(matrix, (2, -1)).T for matrix in vectors])  # (query or key, pair, 2)
    count = start.shape[1]
    speeds = 10_000.0 ** (-np.arange(count) / count)
    whole = ax.get_subplotspec().is_first_row()  # in other rows, the first two stages would be the same
    angles = np.outer(places, speeds)
    (a, b), cos, sin = np.moveaxis(start, -1, 0), np.cos(angles), np.sin(angles)
    turned = np.stack([a * cos - b * sin, a * sin + b * cos], axis=-1)
    lanes = zip(x.items(), vectors, places, strict=True)
    for lane, ((token, row), vector, place) in enumerate(lanes if whole else ()):
        role = ("query", "key")[lane]
        _draw_lane(ax, lane, f"{role} of “{token}”, at position {place}", row, vector)
    reach = np.hypot(*np.moveaxis(start, -1, 0)).max() / DIAL
    asks, seen = (f"“{token}” at position {place}" for token, place in zip(x, places, strict=True))
    said = [f"query of {asks}, key of {seen}"]
    for pair in range(count):
        middle = 1.8 + 1.98 * pair
        rim = np.hypot(*np.transpose(turned[:, pair])).max() / reach
        ax.text(middle, -0.92 if whole else -1.2, f"pair {pair}: features {pair}, {pair + count}", **BOLD)
        apart = draw_angle(ax, (middle, -2.1), DIAL / 2, *turned[:, pair])
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
            }  # keep both visible
            ax.add_patch(Circle((middle, -2.1), np.hypot(*tip), fill=False, **style))
            named_arrow(ax, (middle, -2.1), tip, name, colour, turned[1 - lane, pair], rim)
            draw_start(ax, (middle, -2.1), tip, angles[lane, pair], colour)
            words = f"{name}: {places[lane]} × {number(speeds[pair])} = {angle} rad"
            ax.text(middle, -2.8 - 0.17 * lane, words, color=colour, **BOLD)
        product = two_decimals(turned[0, pair] @ turned[1, pair])
        ax.text(middle, -3.68, product, **BOLD)
        said.append(f"pair {pair}, {np.degrees(abs(apart)):.0f}° apart, adds {product}")
        ax.text(middle - 0.99, -3.68, "+" * (pair > 0), **BOLD)
    ax.text(8.95, -3.4, "score", **BOLD)
    style = BOLD | {"size": 13, "bbox": {"facecolor": "white", "pad": 3}}
    score = f"≈ {two_decimals((turned[0] * turned[1]).sum())}"
    ax.text(8.95, -3.68, score, **style)
    ax.set_label(f"{'; '.join(said)}; score {score}")
    _write_stages(ax, list(STAGES.items())[0 if whole else 2 :])
    ax.set(xlim=(0, 9.4), ylim=(-3.95, 0.15 if whole else -1.08), aspect="equal")
    ax.set_axis_off()


def _write_stages(ax: Axes, stages: Sequence[tuple[float, str]]) -> None:
    """Write the stages on the left, each at its height, with arrows between them."""
    for height, words in stages:
        ax.text(0, height, words, va="center", size=9)
    for (above, words), (below, others) in pairwise(stages):
        ends = above - 0.18 - 0.08 * words.count("\n"), below + 0.18 + 0.08 * others.count("\n")
        arrow(ax, (0.3, ends[0]), (0.3, ends[1]))


def _draw_lane(ax: Axes, lane: int, words: str, row: Sequence[float], vector: np.ndarray) -> None:
    """Draw the features of a token, and the query or key that its matrix computes from them."""
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


def position_scores(
    named: Tables, distance: int, highest: tuple[int, int], *, bar: str, title: str
) -> Figure:
    """Draw the score of one query and one key at all positions (query position, key position).

    Cells at one distance are connected. In the first map, the row and column of the highest mean have frames.
    """
    labels = "position of the key", "position of the query"
    figure, panels, tables = lay_tables(named, labels, bar)
    for ax, table in zip(panels, tables.values(), strict=True):
        mark_distance(ax, table, distance)
    rows, columns = next(iter(tables.values())).shape
    column, row = highest
    outline_cells(panels[0], [(0, column, 1, rows), (row, 0, columns, 1)])
    style = {"size": 8, "bbox": GROUND, "zorder": 5}
    panels[0].text(column + 1.7, 1.5, f"key {column}: highest mean", va="center", **style)
    panels[0].text(columns - 0.5, row - 0.9, f"query {row}: highest mean", ha="right", **style)
    alt = f"A row for each {labels[1]}, a column for each {labels[0]}; one scale, zero in its middle."
    return finished(figure, title, alt)


def score_curves(distances: Sequence[float], scores: Mapping[str, Sequence[float]], *, title: str) -> Figure:
    """Draw scores over the distance m − n of query and key, a panel for each pair, and mark the maximum."""
    across = "← key before     distance m − n     key after →"
    style = {"xlabel": across, "ylabel": "score", "kind": "smooth", "below": True}
    figure = line_plot(distances, scores, title=title, **style)
    for ax in figure.axes:
        x, y = ax.lines[0].get_data()
        highest = int(np.argmax(y))
        side = "before" if x[highest] > 0 else "after"
        where = f"key {abs(x[highest]):.0f} {side}" if x[highest] else "same position"
        ax.plot(x[highest], y[highest], "o", color=MARK, markersize=5)
        place_names(ax, {f"highest: {where}": (x[highest], y[highest])})
    return figure
