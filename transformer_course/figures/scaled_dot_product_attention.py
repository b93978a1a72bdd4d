"""Figures of lesson 03: a query and the keys, the weighted sum of the values, one head step by step."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke

from transformer_course.figures import inputs
from transformer_course.figures.bars import draw_bars
from transformer_course.figures.colours import DARK, EDGE, GREY, HERO, LIT, ROLES, SILVER, pale
from transformer_course.figures.inputs import Labels, Matrix, Tables
from transformer_course.figures.layout import canvas, finished, number, outline_cells, two_decimals
from transformer_course.figures.shapes import arrow
from transformer_course.figures.vectors import named_arrow

# A query and keys in a plane


def query_and_keys(queries: Tables, keys: Tables, token: str, *, title: str) -> Figure:
    """Draw a query and keys in the plane of features 0 and 1, their scaled scores, and the weights."""
    query, table = np.asarray(queries[token], dtype=float), np.asarray(list(keys.values()), dtype=float)
    length, scores = np.hypot(*query[:2]), table @ query / np.sqrt(len(query))
    weights = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    figure, (plane, *both) = canvas(3, (2.9, 3.4), (0.3, 0), width_ratios=[1.5, 1, 1])
    _draw_plane(plane, query[:2], dict(zip(keys, table[:, :2], strict=True)), f"{token}'s query")
    plane.set(xlabel=f"feature 0 of {len(query)}", ylabel=f"feature 1 of {len(query)}")
    for ax, lengths in zip(both, (scores, weights), strict=True):
        draw_bars(ax, list(keys), lengths, [SILVER], "→")
    names = "reach along the query, {0} long", "scaled scores: reach × {0} ÷ √{1}", "weights: their softmax"
    for ax, name in zip(figure.axes, names, strict=True):
        ax.set_title(name.format(two_decimals(length), len(query)), size=9.5)
    alt = "Each key is projected onto the line of the query; the further along it, the larger the weight."
    return finished(figure, title, alt)


def _draw_plane(ax: Axes, query: np.ndarray, keys: Mapping[str, np.ndarray], asked: str) -> None:
    length = np.hypot(*query)
    reaches = np.array([0, length, *(key @ query / length for key in keys.values())])
    line = np.outer(query / length, [reaches.min() - 0.4, reaches.max() + 0.4])
    ax.plot(*line, color=ROLES["query"], linewidth=0.9, linestyle="--")
    named_arrow(ax, (0, 0), query, asked, ROLES["query"], beside=query * (1, 1.2))
    colour = ROLES["key"]
    style = {"size": 9.5, "va": "center", "zorder": 5, "path_effects": EDGE, "color": colour}
    for (name, key), reach in zip(keys.items(), reaches[2:], strict=True):
        foot = reach * query / length
        ax.plot(*foot, "o", color=colour, markersize=6, zorder=4)
        if not key.any():
            ax.text(1.05, -0.3, f"key of “{name}”: out of the page, 0.00", ha="center", **style)
            continue
        named_arrow(ax, (0, 0), key, f"key of “{name}”", colour)
        ax.plot(*np.transpose([key, foot]), color=colour, linewidth=1.2, linestyle=":")
        side, back = 0.13 * (key - foot) / (np.hypot(*(key - foot)) or 1), -0.13 * query / length
        ax.plot(*np.transpose([foot + side, foot + side + back, foot + back]), color=colour, linewidth=0.9)
        ax.text(foot[0] + 0.12, foot[1] + 0.06, f"{name} {two_decimals(reach)}", **style)
    corners = np.array([0 * query, query, *keys.values()])
    xlim, ylim = zip(corners.min(axis=0) - (0.7, 0.5), corners.max(axis=0) + 0.5, strict=True)
    ax.set(xlim=xlim, ylim=ylim, aspect="equal")
    ax.grid(alpha=0.3)


# From x to the output, one cell at a time

TOP = 4.4  # y coordinate of the lower row

# The upper left corner of each matrix, in cells. Matrices in the lower row have one row for each token.
PLACES = {
    "x": (0, TOP),
    "W_Q": (4.1, 0),
    "W_K": (9.2, 0),
    "W_V": (14.3, 0),
    "query": (4.1, TOP),
    "key": (9.2, TOP),
    "value": (14.3, TOP),
    "scores": (17.6, TOP),
    "weights": (21.8, TOP),
    "output": (26, TOP),
}
MIDDLE, FOOT = TOP + 1.5, TOP + 3

# The inputs of each matrix. Lines from x run above the matrices; in the lower row, query and key lead to the
# scores, and the value to the output.
WAYS = [
    [(3.55, MIDDLE), (3.55, 3.4), (8.65, 3.4), (8.65, MIDDLE), (9.2, MIDDLE)],
    [(8.65, 3.4), (13.75, 3.4), (13.75, MIDDLE), (14.3, MIDDLE)],
    [(3, MIDDLE), (4.1, MIDDLE)],
    [(6.1, FOOT), (6.1, FOOT + 0.6), (16.95, FOOT + 0.6), (16.95, MIDDLE), (17.6, MIDDLE)],
    [(11.2, FOOT), (11.2, FOOT + 0.6)],
    [(20.6, MIDDLE), (21.8, MIDDLE)],
    [(24.8, MIDDLE), (26, MIDDLE)],
    [(15.3, FOOT), (15.3, FOOT + 1.3), (25.4, FOOT + 1.3), (25.4, MIDDLE), (26, MIDDLE)],
]

# Each step: the matrix that it computes, and the rows and columns on which one cell of it depends
STEPS = {
    "query = x @ W_Q": ("query", {"x": "row", "W_Q": "column"}),
    "key = x @ W_K": ("key", {"x": "row", "W_K": "column"}),
    "value = x @ W_V": ("value", {"x": "row", "W_V": "column"}),
    "scores = query @ keyᵀ": ("scores", {"query": "row", "key": "match"}),
    "weights = softmax(scores ÷ √4)": ("weights", {"scores": "row"}),
    "output = weights @ value": ("output", {"weights": "row", "value": "column"}),
}
IN_SHORT = [step for step, (made, _) in STEPS.items() if made not in ("key", "value")]  # all but key, value
ROW, COLUMN = 1, 1  # the cell that is traced; for scores, the column is the row of the key
KEY = 0
COMES_OUT = {"facecolor": LIT, "edgecolor": "black"}
HUES = {name: colour for role, colour in ROLES.items() for name in (role, f"W_{role[0].upper()}")}
BRIDGE = [withStroke(linewidth=6, foreground="white")]
TINT, LIGHT = 0.1, 0.35  # the strength of the colour of a matrix: everywhere, and in its inputs


def draw_attention_steps(
    ax: Axes, step: str, x: Matrix, maps: Mapping[str, Matrix], tokens: Sequence[str]
) -> None:
    """Draw the matrices of one head that are known at one of `STEPS`, and highlight the inputs of one cell.

    There are three tokens: x is (3, 3 features), W_Q and W_K project it to 4 features, W_V to 2. Any other
        step draws everything.
    """
    tables = _worked_out(
        np.asarray(x, dtype=float), {name: np.asarray(stage) for name, stage in maps.items()}
    )
    highlight = [step] if step in STEPS else IN_SHORT
    order = {
        STEPS[stage][0]: f"{sign} "
        for stage, sign in zip(highlight, "①②③④", strict=False)
        if len(highlight) > 1
    }
    known = ["x", *maps, *(made for made, _ in list(STEPS.values())[: list(STEPS).index(highlight[-1]) + 1])]
    how = {made: f"= {step.split(' = ')[1]}".replace("(", "\n(") for step, (made, _) in STEPS.items()}
    for name, (left, top) in PLACES.items():
        table = tables[name]
        _draw_grid(ax, left, top, table, is_known=name in known)
        middle, hue = left + table.shape[1] / 2, HUES.get(name, "black")
        style = {"ha": "center", "size": 9, "weight": "bold", "color": hue}
        ax.text(middle, top - 0.25, order.get(name, "") + name, **style)
        if name in HUES:
            ax.add_patch(Rectangle((left, top), *table.T.shape, facecolor=pale(hue, TINT), zorder=0))
        ax.text(middle, TOP + 4.75, how.get(name, ""), ha="center", va="top", size=8.5)
        if order and top:  # the traced token needs the keys and values of all tokens
            rows = (top, left, table.shape[1], 3) if name in ("x", "key", "value") else None
            outline_cells(ax, [rows or (top + ROW, left, table.shape[1], 1)])
    for way in WAYS:
        bridge = BRIDGE if way is WAYS[-1] else []  # bridge the line of the query
        style = {"linewidth": 1.2, "zorder": 0, "path_effects": bridge, "solid_capstyle": "butt"}
        ax.plot(*np.transpose(way[:-1]), color=DARK, **style)
        arrow(ax, *way[-2:], colour=DARK, gap=0)
    lines = [
        f"{order.get(STEPS[stage][0], '')}{_light_step(ax, tables, stage, highlight=not order)}"
        for stage in highlight
    ]
    ax.text(17.2, 1.3, "\n".join(lines), va="center", size=9, linespacing=1.8)
    ax.set_label(f"Filled in: {', '.join(known)}. For “{tokens[ROW]}”, {'; '.join(lines)}".replace("  ", " "))
    for place, token in enumerate(tokens):
        ax.text(-0.2, PLACES["x"][1] + place + 0.5, token, ha="right", va="center", size=9)
        for name in ("scores", "weights"):
            left, top = PLACES[name]
            ax.text(left + place + 0.5, top + 3.2, token, ha="center", va="top", size=8.5)
    patches = [Patch(label="computed →" if order else "result", **COMES_OUT)]
    if not order:
        patches.insert(0, Patch(label="inputs", facecolor=pale(GREY, LIGHT)))
    ax.legend(handles=patches, loc="upper left", frameon=False, borderpad=0, borderaxespad=0)
    ax.set(xlim=(-1.5, 28.6), ylim=(10.2, -1.2), aspect="equal")
    ax.set_axis_off()


def _light_step(ax: Axes, tables: Mapping[str, np.ndarray], step: str, *, highlight: bool) -> str:
    """Mark the cell that a step computes, with its inputs if `highlight`, and return its arithmetic."""
    made, made_of = STEPS[step]
    parts = []
    for name, part in made_of.items():  # a row, a column, or the row of the key
        (left, top), (rows, columns) = PLACES[name], tables[name].shape
        is_column, row = part == "column", KEY if part == "match" else ROW
        parts.append(tables[name][:, COLUMN] if is_column else tables[name][row])
        place = (left + COLUMN, top, 1, rows) if is_column else (left, top + row, columns, 1)
        if highlight:
            colour = pale(HUES.get(name, GREY), LIGHT)
            ax.add_patch(Rectangle(place[:2], *place[2:], facecolor=colour, zorder=1))
    cell = (ROW, KEY if made in ("scores", "weights") else COLUMN)
    left, top = PLACES[made]
    ax.add_patch(Rectangle((left + cell[1], top + cell[0]), 1, 1, zorder=2, **COMES_OUT))
    equals = "≈" if made in ("weights", "output") else "="  # computed from rounded numbers
    if made == "weights":  # one weight from the scores of a row
        grown = [number(score) for score in np.exp(parts[0] / np.sqrt(4))]
        arithmetic = (
            f"exp({number(parts[0][KEY])} ÷ √4) ≈ {grown[KEY]},  {grown[KEY]} ÷ ({' + '.join(grown)})"
        )
    else:
        arithmetic = " + ".join(
            f"{one} × {two}"
            for one, two in zip(*(_texts(part, 3 if part.max() < 1 else 2) for part in parts), strict=True)
        )
    return f"{made}:  {arithmetic} {equals} {_texts(tables[made])[cell]}"


def _worked_out(x: np.ndarray, maps: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    query, key, value = (x @ matrix for matrix in maps.values())
    scores = query @ key.T
    grown = np.exp(scores / np.sqrt(query.shape[1]))
    weights = grown / grown.sum(axis=1, keepdims=True)
    made = {"query": query, "key": key, "value": value, "scores": scores, "weights": weights}
    return {"x": x, **maps, **made, "output": weights @ value}


def _texts(table: np.ndarray, digits: int = 2) -> np.ndarray:
    """The values of a table as texts: all without decimals, or all with them."""
    is_whole = (table == table.round()).all()
    return np.vectorize(lambda value: number(value) if is_whole else two_decimals(value, digits))(table)


def _draw_grid(ax: Axes, left: float, top: float, table: np.ndarray, *, is_known: bool) -> None:
    rows, columns = table.shape
    edges = np.arange(columns + 1) + left, np.arange(rows + 1) + top
    ax.pcolormesh(*edges, np.ma.masked_all(table.shape), edgecolor=SILVER, linewidth=0.8)
    for (row, column), word in np.ndenumerate(_texts(table) if is_known else []):
        style = {"ha": "center", "va": "center", "size": 8 if len(word) < 4 else 7, "zorder": 4}
        ax.text(left + column + 0.5, top + row + 0.5, word, **style)


def weighted_sum(
    weights: Sequence[float], values: Matrix, tokens: Labels, *, query: str, title: str = ""
) -> Figure:
    """Draw values (token, 2) as arrows; next to them, the weighted values end to end, and their sum."""
    weights = inputs.numbers_of(weights, 1, name="weights")
    values = inputs.numbers_of(values, 2, name="values")
    steps = np.concatenate([np.zeros((1, 2)), np.cumsum(weights[:, None] * values, axis=0)])
    drawn = np.concatenate([values, steps])  # the first step begins at 0
    low, high = drawn.min(axis=0), drawn.max(axis=0)
    room = 0.14 * ((high - low).max() or 1.0)
    figure, (left, right) = canvas(2, (4.1, 4.1))
    colour, style = ROLES["value"], {"width": 1.8, "zorder": 3, "gap": 0}
    bold = {"textcoords": "offset points", "size": 9, "weight": "bold"}
    for token, weight, value, start in zip(tokens, weights, values, steps[:-1], strict=True):
        named_arrow(left, (0, 0), value, token, colour)
        arrow(right, start, start + weight * value, **style, colour=colour)
        aside = np.array([value[1], -value[0]]) / (np.hypot(*value) or 1.0)  # to the right of its centre
        sides = {"ha": "left" if aside[0] > 0.1 else "center", "va": "top" if aside[1] < -0.1 else "center"}
        words = f"{two_decimals(weight, 3)} × {token}"
        right.annotate(words, start + weight * value / 2, 6 * aside, **bold, **sides, color=colour)
    arrow(right, (0, 0), steps[-1], **style | {"zorder": 2}, colour=HERO)  # drawn below the last value
    words = f"output ({', '.join(map(two_decimals, steps[-1]))})"
    right.annotate(words, steps[-1], (0, 6), **bold, ha="center", color=HERO)
    for ax, name in ((left, "the values"), (right, f"output of “{query}”: values × weights")):
        ax.set(aspect="equal", title=name, xlabel="feature 0 of the value")
        ax.set(xlim=(low[0] - room, high[0] + 2 * room), ylim=(low[1] - room, high[1] + room))
        ax.grid(alpha=0.3)
    left.set_ylabel("feature 1 of the value")
    alt = "Left: the value of each token. Right: each value times its weight, end to end up to the output."
    return finished(figure, title, alt)
