"""How attention comes to its numbers: keys on the line of a query, a row behind its mask, cell by cell."""

from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Patch, Rectangle
from matplotlib.path import Path
from matplotlib.patheffects import withStroke

from transformer_course.figures import inputs
from transformer_course.figures.colours import (
    COMPONENTS,
    DARK,
    EDGE,
    GREY,
    HERO,
    HIDDEN,
    LIT,
    MARK,
    OPEN,
    OPEN_OR_NOT,
    ROLES,
    SILVER,
    pale,
)
from transformer_course.figures.drawings import Point, arrow
from transformer_course.figures.heatmaps import draw_matrix
from transformer_course.figures.inputs import Labels, Matrix, Tables
from transformer_course.figures.layout import (
    WIDEST,
    canvas,
    cell_texts,
    finished,
    frame_cells,
    legend_of_cells,
    number,
    outline_cells,
    sign_before,
    two_decimals,
)
from transformer_course.figures.positions import named_arrow

# A query and keys in a plane


def query_and_keys(queries: Tables, keys: Tables, token: str, *, title: str) -> Figure:
    """Draw keys in the plane of features 0 and 1, a query's only ones; where each falls on it; weights."""
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
    alt = "Each key falls at a right angle on the line of the query; the further it reaches, the more weight."
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
            ax.text(1.05, -0.3, f"key of “{name}”: out of the page, .00", ha="center", **style)
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


# What a query takes from each key


def bar_plot(
    quantities: Sequence[Tables],
    rows: Labels,
    signs: str = "",
    *,
    title: str,
    alt: str = "",
    highlight: Sequence[Labels] = (),
    legend: Labels = (),
    paired: bool = False,
) -> Figure:
    """Draw columns of bars, a bar with its number for each row; columns of one quantity share their scale.

    If they are `paired`, the first of each quantity stand side by side, then the second of each. The last
    quantity has the strong colour, or in each column the rows to `highlight`, which the `legend` explains,
    and .00 is not written; `signs` stand between the columns.
    """
    columns = [(each, *column) for each, named in enumerate(quantities) for column in named.items()]
    count = len(quantities[0])
    columns = [each for first in range(count) for each in columns[first::count]] if paired else columns
    size = min(2.6, (WIDEST - 0.9) / len(columns)), 0
    figure, panels = canvas(len(columns), size, (0.9, 0.7 + 0.24 * len(rows)), sharey=True)
    for place, (ax, (each, name, lengths)) in enumerate(zip(panels, columns, strict=True)):
        sign = f" {signs}".ljust(len(columns))[place]
        colours = [MARK if each == len(quantities) - 1 else COMPONENTS["attention"]]
        if highlight:
            colours = [MARK if row in highlight[place] else SILVER for row in rows]
        digits = 3 if sign in " ×" and signs and 0 < min(lengths) < 0.005 else 2  # no factor .00 of something
        numbers = inputs.numbers_of(lengths, 1, name=name, gaps=True)
        draw_bars(ax, rows, numbers, colours, sign.strip(), digits)
        ax.spines["left"].set_visible(bool(highlight))
        for text, row in zip(ax.texts, rows, strict=False) if highlight else ():
            is_lit = row in highlight[place]
            text.set_text(text.get_text().replace(".00", "< .01" if legend[1:] else ""))
            text.set(color=HERO if is_lit else GREY, weight="bold" if is_lit else "normal")
        if len(quantities[each]) > 1:
            ax.set_xlim(0, 1.3 * max(map(max, quantities[each].values())))
        ax.set_title(name)
    if legend:
        looks = [{"edgecolor": "black", "facecolor": colour} for colour in (MARK, SILVER)]
        legend_of_cells(figure, dict(zip(legend, looks, strict=False)))
    return finished(figure, title, alt or "A row of bars for each name, a column for each measure.")


def draw_bars(
    ax: Axes, names: Labels, lengths: np.ndarray, colours: Labels, sign: str, digits: int = 2
) -> None:
    """Draw a bar with its number for each name, none for nan, the first on top; before all a sign."""
    import seaborn

    places = np.arange(len(names))  # names may occur twice
    style = {"width": 0.7, "edgecolor": "black", "linewidth": 0.5, "saturation": 1}
    seaborn.barplot(x=lengths, y=places, order=places, orient="h", errorbar=None, ax=ax, **style)
    for bar, colour in zip(ax.containers[0], cycle(colours), strict=False):
        bar.set_facecolor(colour)
    numbers = [two_decimals(length, digits) for length in lengths[~np.isnan(lengths)]]
    ax.bar_label(ax.containers[0], numbers, padding=3, size=9)
    ax.set_yticks(places, names)
    ax.set(xticks=[], xlabel="", ylim=(len(names) - 0.5, -0.5))
    ax.margins(x=0.2)
    ax.spines[["bottom", "left"]].set_visible(False)
    ax.tick_params(length=0)
    sign_before(ax, sign, 2 / 3)  # between the first two of three names


# A row of scores behind its mask

SHORT = "no mask", "mask"
FROM = "no mask: from the\nscaled scores", "mask: from\ntheir sum"
BLANK = ListedColormap(["white", "white"], name="blank")  # a score is no weight
ON_HATCHES = {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1}, "zorder": 5}


def masked_row(scores: Matrix, may_attend: Matrix, tokens: Labels, query: str, *, title: str = "") -> Figure:
    """Draw scores (query_pos, key_pos) behind a mask, as bars what it makes of one row, and all weights."""
    table, mask = (inputs.labelled(each, tokens, tokens) for each in (scores, may_attend))
    row = list(tokens).index(query)
    powers, after = np.exp(table), np.where(mask, np.exp(table), 0)
    weights = after / after.sum(axis=1, keepdims=True)
    figure, panels = canvas(6, (2.9, 2.2), (0.4, 1.0), columns=3)
    figure.get_layout_engine().set(hspace=0.08)
    left, added, summed, grown, shared, last = panels
    style = {"limits": (table.min(), table.max()), "labels": ("key", "query"), "colours": BLANK}
    draw_matrix(left, table, tokens, tokens, title="scaled scores", **style)
    gone = {"hidden": 1 - mask, "labels": ("key", "")}
    draw_matrix(added, 0 * mask, tokens, tokens, title="mask M", **gone, limits=(0, 1), colours=OPEN_OR_NOT)
    draw_matrix(summed, table, tokens, tokens, title="their sum", **style | gone)
    draw_matrix(last, weights, tokens, tokens, title="weights", **gone, limits=(0, 1), whole=False)
    for ax, word in ((added, "−∞"), (summed, "−∞"), (last, "0")):
        for place in np.argwhere(mask == 0):
            ax.text(place[1] + 0.5, place[0] + 0.5, word, ha="center", va="center", size=8, **ON_HATCHES)
    for ax in (left, summed):
        ax.collections[0].set(edgecolor=SILVER, linewidth=0.8)
    for ax in (left, added, summed, last):
        frame_cells(ax, [(row, 0, len(tokens), 1)])
        ax.tick_params(labelleft=ax is left)  # the others' are as in the scores
    for place, (token, each) in enumerate(zip(tokens, weights.sum(axis=1), strict=True)):
        last.text(len(tokens) + 0.2, place + 0.5, f"{token}: sum {each:g}", va="center", size=9)
    both = [powers[row], after[row]]
    told = [f"{words}; total {two_decimals(sum(each))}" for words, each in zip(FROM, both, strict=True)]
    _draw_rows(grown, dict(zip(told, both, strict=True)), tokens, f"row {query}: e to that power")
    told = [f"{words}: ÷ {two_decimals(sum(each))}" for words, each in zip(SHORT, both, strict=True)]
    shares = [each / sum(each) for each in both]
    _draw_rows(shared, dict(zip(told, shares, strict=True)), tokens, f"row {query}: each ÷ the sum")
    for ax, sign in zip(panels[1:], "+= →→", strict=True):
        sign_before(ax, sign)
    legend_of_cells(figure, {"may attend": {"facecolor": OPEN}, "hidden": HIDDEN})
    alt = "Scores plus mask, one row as bars, without it and with it, then all weights."
    return _carried_back(finished(figure, title, alt), summed, (len(tokens), row + 0.5), grown)


def _carried_back(figure: Figure, start: Axes, point: Point, end: Axes) -> Figure:
    """Draw a bent arrow from a point of a panel to the left side of a panel in the row below."""
    for _ in range(2):  # then the layout stands
        figure.draw_without_rendering()
    (x, y), (left, low) = start.transData.transform(point), end.transAxes.transform((-0.04, 0.12))
    step, between = 0.16 * figure.dpi, end.title.get_window_extent().y1 + 0.1 * figure.dpi
    corners = [(x + 0.05 * figure.dpi, y), (x + 2 * step, y), (x + 2 * step, between)]
    corners += [(left - 2 * step, between), (left - 2 * step, low), (left, low)]
    path = Path(figure.transFigure.inverted().transform(corners))
    style = {"arrowstyle": "-|>", "mutation_scale": 11, "linewidth": 1.4, "color": DARK}
    figure.add_artist(FancyArrowPatch(path=path, transform=figure.transFigure, **style))
    return figure


def _draw_rows(ax: Axes, rows: Mapping[str, np.ndarray], tokens: Labels, title: str) -> None:
    """Draw two rows of bars on one scale, each with its name above it; the second has the colour."""
    high, places = max(map(np.max, rows.values())), np.arange(len(tokens))
    colours = SILVER, COMPONENTS["scores"]
    for (name, values), foot, colour in zip(rows.items(), (1.8, 0), colours, strict=True):
        bars = ax.bar(places, values / high, 0.6, foot, color=colour, edgecolor="black", linewidth=0.5)
        ax.bar_label(bars, np.where(values == 0, "0", cell_texts(values)), padding=2, size=9)
        ax.text(-0.5, foot + 1.62, name, size=9, va="top")
        ax.axhline(foot, color=DARK, linewidth=0.8)
    ax.set_xticks(places, tokens, rotation=90)
    ax.set(xlabel="key", yticks=[], title=title, xlim=(-0.5, len(tokens) - 0.5), ylim=(0, 3.5))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


# From x to the output, one cell at a time

TOP = 4.4  # of the lower row

# A matrix: the place of its upper left corner, in cells. Those of the lower row have one row for each token.
PLACES = {
    **{"x": (0, TOP), "W_Q": (4.1, 0), "W_K": (9.2, 0), "W_V": (14.3, 0)},
    **{"query": (4.1, TOP), "key": (9.2, TOP), "value": (14.3, TOP)},
    **{"scores": (17.6, TOP), "weights": (21.8, TOP), "output": (26, TOP)},
}
MIDDLE, FOOT = TOP + 1.5, TOP + 3
# What goes into what: x into all three, by way of the room above; below, query and key into the scores, the
# value into the output
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
# A step: the matrix that it makes, and what of which matrix goes into one cell of it
STEPS = {
    "query = x W_Q": ("query", {"x": "row", "W_Q": "column"}),
    "key = x W_K": ("key", {"x": "row", "W_K": "column"}),
    "value = x W_V": ("value", {"x": "row", "W_V": "column"}),
    "scores = query · keyᵀ": ("scores", {"query": "row", "key": "match"}),
    "weights = softmax(scores ÷ √4)": ("weights", {"scores": "row"}),
    "output = weights · value": ("output", {"weights": "row", "value": "column"}),
}
IN_SHORT = [step for step, (made, _) in STEPS.items() if made not in ("key", "value")]  # made as the query is
ROW, COLUMN = 1, 1  # of the cell that is followed; for scores the column is the key's row
KEY = 0
COMES_OUT = {"facecolor": LIT, "edgecolor": "black"}
HUES = {name: colour for role, colour in ROLES.items() for name in (role, f"W_{role[0].upper()}")}
BRIDGE = [withStroke(linewidth=6, foreground="white")]
TINT, LIGHT = 0.1, 0.35  # of a matrix's hue: everywhere in it, and where it goes in


def draw_attention_steps(
    ax: Axes, step: str, x: Matrix, maps: Mapping[str, Matrix], tokens: Sequence[str]
) -> None:
    """Draw all matrices of one head as far as they are known at one of `STEPS`, and light what makes a cell.

    Of three tokens: x is (3, 3 features); W_Q and W_K map it to 4 features, W_V to 2. Any other step is all.
    """
    tables = _worked_out(np.asarray(x, dtype=float), {name: np.asarray(each) for name, each in maps.items()})
    highlight = [step] if step in STEPS else IN_SHORT
    order = {
        STEPS[each][0]: f"{sign} "
        for each, sign in zip(highlight, "①②③④", strict=False)
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
        if order and top:  # the token that is followed needs the keys and values of all
            rows = (top, left, table.shape[1], 3) if name in ("x", "key", "value") else None
            outline_cells(ax, [rows or (top + ROW, left, table.shape[1], 1)])
    for way in WAYS:
        bridge = BRIDGE if way is WAYS[-1] else []  # over that of the query
        style = {"linewidth": 1.2, "zorder": 0, "path_effects": bridge, "solid_capstyle": "butt"}
        ax.plot(*np.transpose(way[:-1]), color=DARK, **style)
        arrow(ax, *way[-2:], colour=DARK, gap=0)
    lines = [
        f"{order.get(STEPS[each][0], '')}{_light_step(ax, tables, each, highlight=not order)}"
        for each in highlight
    ]
    ax.text(17.2, 1.3, "\n".join(lines), va="center", size=9, linespacing=1.8)
    for place, token in enumerate(tokens):
        ax.text(-0.2, PLACES["x"][1] + place + 0.5, token, ha="right", va="center", size=9)
        for name in ("scores", "weights"):
            left, top = PLACES[name]
            ax.text(left + place + 0.5, top + 3.2, token, ha="center", va="top", size=8.5)
    patches = [Patch(label="worked out →" if order else "comes out", **COMES_OUT)]
    if not order:
        patches.insert(0, Patch(label="goes in", facecolor=pale(GREY, LIGHT)))
    ax.legend(handles=patches, loc="upper left", frameon=False, borderpad=0, borderaxespad=0)
    ax.set(xlim=(-1.5, 28.6), ylim=(10.2, -1.2), aspect="equal")
    ax.set_axis_off()


def _light_step(ax: Axes, tables: Mapping[str, np.ndarray], step: str, *, highlight: bool) -> str:
    """Mark the cell that a step makes, light what goes into it if `highlight`, return its arithmetic."""
    made, made_of = STEPS[step]
    parts = []
    for name, part in made_of.items():  # a row, a column, or the key's row
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
    equals = "≈" if made in ("weights", "output") else "="  # of rounded numbers
    if made == "weights":  # of a row's scores: one of its shares
        grown = [number(each) for each in np.exp(parts[0] / np.sqrt(4))]
        told = f"exp({number(parts[0][KEY])} ÷ √4) ≈ {grown[KEY]},  {grown[KEY]} ÷ ({' + '.join(grown)})"
    else:
        told = " + ".join(f"{one} · {two}" for one, two in zip(*map(_told, parts), strict=True))
    return f"{made}:  {told} {equals} {_told(tables[made])[cell]}"


def _worked_out(x: np.ndarray, maps: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    query, key, value = (x @ each for each in maps.values())
    scores = query @ key.T
    grown = np.exp(scores / np.sqrt(query.shape[1]))
    weights = grown / grown.sum(axis=1, keepdims=True)
    made = {"query": query, "key": key, "value": value, "scores": scores, "weights": weights}
    return {"x": x, **maps, **made, "output": weights @ value}


def _told(table: np.ndarray) -> np.ndarray:
    """A table's numbers as words: all whole, or all with decimals, of weights three."""
    is_whole, digits = (table == table.round()).all(), 2 if table.max() > 1 else 3
    return np.vectorize(lambda value: number(value) if is_whole else two_decimals(value, digits))(table)


def _draw_grid(ax: Axes, left: float, top: float, table: np.ndarray, *, is_known: bool) -> None:
    rows, columns = table.shape
    edges = np.arange(columns + 1) + left, np.arange(rows + 1) + top
    ax.pcolormesh(*edges, np.ma.masked_all(table.shape), edgecolor=SILVER, linewidth=0.8)
    for (row, column), told in np.ndenumerate(_told(table) if is_known else []):
        style = {"ha": "center", "va": "center", "size": 8 if len(told) < 4 else 7, "zorder": 4}
        ax.text(left + column + 0.5, top + row + 0.5, told, **style)
