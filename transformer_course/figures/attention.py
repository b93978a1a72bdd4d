"""How attention comes to its numbers: keys on the line of a query, a row behind its mask, cell by cell."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from transformer_course.figures import given
from transformer_course.figures.colours import (
    ATTENTION,
    COMPONENTS,
    DARK,
    GREY,
    HERO,
    HIDDEN,
    LINES,
    MARK,
    NO,
    SIGNED,
    SILVER,
)
from transformer_course.figures.drawings import arrow
from transformer_course.figures.given import Labels, Matrix
from transformer_course.figures.layout import (
    canvas,
    cell_texts,
    finished,
    frame_cells,
    legend_of_cells,
    two_decimals,
)
from transformer_course.figures.maps import draw_matrix

# A query and keys in a plane


def query_and_keys(query: Sequence[float], keys: Mapping[str, Sequence[float]], *, title: str) -> Figure:
    """Draw keys (2,) as arrows, where each falls on the line of a query (2,), and the weights that follow."""
    query, table = np.asarray(query, dtype=float), np.asarray(list(keys.values()), dtype=float)
    length, scores = np.hypot(*query), table @ query / np.sqrt(2)
    weights = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    figure, (plane, *both) = canvas(3, (2.9, 3.4), (0.6, 0), width_ratios=[1.9, 1, 1])
    _draw_plane(plane, query, keys)
    names = f"scores: reach × {two_decimals(length)} ÷ √d, d = 2", "weights: softmax of the scores"
    for ax, name, heights in zip(both, names, (scores, weights), strict=True):
        bars = ax.bar(list(keys), heights, color=LINES[1 : 1 + len(keys)])
        ax.bar_label(bars, [two_decimals(height) for height in heights], padding=2, size=9)
        ax.axhline(0, color="black", linewidth=0.8)
        ax.margins(y=0.15)
        ax.set_title(name, size=9.5)
        ax.set_yticks([])
        ax.spines[["left", "bottom"]].set_visible(False)
        ax.tick_params(length=0)
    see = "Each key falls at a right angle on the line of the query; the further it reaches, the more weight."
    return finished(figure, title, see)


def _draw_plane(ax: Axes, query: np.ndarray, keys: Mapping[str, Sequence[float]]) -> None:
    along = query / np.hypot(*query)
    feet = {name: (np.asarray(key) @ along) * along for name, key in keys.items()}
    ends = np.array([*feet.values(), query, 0 * query]) @ along
    ax.plot(*np.outer(along, [ends.min() - 0.4, ends.max() + 0.4]), color=HERO, linewidth=0.9, linestyle="--")
    halo = [withStroke(linewidth=3, foreground="white")]
    word = {"size": 9.5, "ha": "center", "va": "center", "path_effects": halo}
    arrow(ax, (0, 0), query, width=2.2, colour=HERO, zorder=3, gap=0)
    ax.text(*(ends.max() + 0.75) * along, "query", color=HERO, weight="bold", **word)
    for (name, foot), key, colour in zip(
        feet.items(), map(np.asarray, keys.values()), LINES[1:], strict=False
    ):
        arrow(ax, (0, 0), key, width=2.2, colour=colour, zorder=3, gap=0)
        ax.text(*key * (1 + 0.24 / np.hypot(*key)), name, color=colour, weight="bold", **word)
        ax.plot(*np.transpose([key, foot]), color=colour, linewidth=1.2, linestyle=":")
        ax.plot(*foot, "o", color=colour, markersize=6, zorder=4)
        beyond = foot + 0.22 * (foot - key) / np.hypot(*(foot - key))  # the other side of the line
        ax.text(*beyond, two_decimals(foot @ along), color=colour, zorder=5, **word)
    corners = np.array([0 * query, query, *keys.values()])
    low, high = corners.min(axis=0) - 0.5, corners.max(axis=0) + 0.5
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    ax.set(xlabel="feature 0", ylabel="feature 1")
    ax.set_title(f"reach along the query, {two_decimals(np.hypot(*query))} long", size=9.5)
    ax.grid(alpha=0.3)


# A row of scores behind its mask


def masked_row(scores: Matrix, may_attend: Matrix, tokens: Labels, query: str, *, title: str = "") -> Figure:
    """Draw scores (query_pos, key_pos), and step by step, as bars, what a mask makes of one query's row."""
    table, row = given.labelled(scores, tokens, tokens), list(tokens).index(query)
    seen = given.labelled(may_attend, tokens, tokens)[row] > 0
    before, powers = table[row], np.exp(table[row])
    after = np.where(seen, powers, 0)
    steps = {
        f"row of {query}, plus M": (before, np.where(seen, before, -np.inf)),
        "e to the power of that": (powers, after),
        "divided by the sum": (powers / powers.sum(), after / after.sum()),
    }
    figure, (left, *panels) = canvas(4, (2.3, 2.7))
    draw_matrix(left, table, tokens, tokens, title="")
    left.set_title("scaled scores", size=10)
    left.set(xlabel="key", ylabel="query")
    frame_cells(left, [(row, column) for column in range(len(tokens))])
    for ax, (name, (old, new)) in zip(panels, steps.items(), strict=True):
        _draw_change(ax, old, new)
        ax.set_xticks(range(len(tokens)), tokens, rotation=90)
        ax.set_title(name, size=10)
        ax.set(xlabel="key", yticks=[])
    words = {"dashed: without the mask": {"facecolor": "white", "edgecolor": DARK, "linestyle": "--"}}
    legend_of_cells(figure, words | {"hidden": HIDDEN, "what the others gain": {"facecolor": MARK}})
    see = "A bar for each key; dashed: without the mask. What is hatched is gone, the others share it out."
    return finished(figure, title, see)


def _draw_change(ax: Axes, old: np.ndarray, new: np.ndarray) -> None:
    """Draw bars as they were, dashed, and as they are; what is gone is hatched, what has grown is marked."""
    places, high = np.arange(len(old)), max(old.max(), new.max())
    hidden = new < old
    low = -0.45 * high if np.isinf(new).any() else 0
    kept = np.where(hidden, 0, np.minimum(old, new))
    ax.bar(places[hidden], 1.25 * high - low, bottom=low, width=1, **HIDDEN)
    ax.bar(places, kept, width=0.6, color=COMPONENTS["scores"])
    ax.bar(places, np.maximum(new - old, 0), bottom=kept, width=0.6, color=MARK)
    ax.bar(places, old, width=0.6, fill=False, edgecolor=DARK, linestyle="--", linewidth=1)
    ground = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    look = {"ha": "center", "va": "bottom", "size": 9, "bbox": ground, "zorder": 5}
    for place, value, text in zip(places, new, cell_texts(np.where(hidden, old, new)), strict=True):
        ax.text(place, max(value, old[place]) + 0.03 * high, text, **look)
        if np.isinf(value):
            arrow(ax, (place, 0), (place, low), width=2.5, colour=HERO, zorder=4)
            ax.text(place + 0.25, low / 2, "−∞", **look)
        elif hidden[place]:
            ax.text(place, 0.03 * high, "0", **look)
    ax.axhline(0, color=DARK, linewidth=0.8)
    ax.set(xlim=(-0.5, len(old) - 0.5), ylim=(low, 1.25 * high))
    ax.spines[:].set_visible(False)


# From x to the output, one cell at a time

# A matrix: the place of its upper left corner, in cells. Those of the lower row have one row for each token.
PLACES = {
    **{"x": (0, 4.4), "W_Q": (4.1, 0), "W_K": (9.2, 0), "W_V": (14.3, 0)},
    **{"query": (4.1, 4.4), "key": (9.2, 4.4), "value": (14.3, 4.4)},
    **{"scores": (17.6, 4.4), "weights": (21.8, 4.4), "output": (26, 4.4)},
}
# A step: the matrix that it makes, and what of which matrix goes into one cell of it
STEPS = {
    "query = x W_Q": ("query", {"x": "row", "W_Q": "column"}),
    "key = x W_K": ("key", {"x": "row", "W_K": "column"}),
    "value = x W_V": ("value", {"x": "row", "W_V": "column"}),
    "score = query · key": ("scores", {"query": "row", "key": "match"}),
    "weight = softmax of a row of scores ÷ √4": ("weights", {"scores": "row"}),
    "output = weights · value": ("output", {"weights": "row", "value": "column"}),
}
ROW, COLUMN = 1, 1  # of the cell that is followed; for scores the column is the key's row
KEY = 0


def draw_walk(ax: Axes, step: str, x: Matrix, maps: Mapping[str, Matrix], tokens: Sequence[str]) -> None:
    """Draw all matrices of one head as far as they are known at one of `STEPS`, and light what makes a cell.

    Of three tokens: x is (3, 3 features); W_Q and W_K map it to 4 features, W_V to 2.
    """
    tables = _worked_out(np.asarray(x, dtype=float), {name: np.asarray(each) for name, each in maps.items()})
    made, made_of = STEPS[step]
    known = ["x", *maps, *(each for each, _ in list(STEPS.values())[: list(STEPS).index(step) + 1])]
    for name, (left, top) in PLACES.items():
        table = tables[name]
        _draw_grid(ax, left, top, table if name in known else np.full_like(table, np.nan))
        ax.text(left + table.shape[1] / 2, top - 0.25, name, ha="center", va="bottom", size=9, weight="bold")
    parts = [_light(ax, name, tables[name], part) for name, part in made_of.items()]
    cell = (ROW, KEY if made in ("scores", "weights") else COLUMN)
    left, top = PLACES[made]
    ax.add_patch(Rectangle((left + cell[1], top + cell[0]), 1, 1, facecolor=MARK, zorder=1))
    equals = "≈" if made in ("weights", "output") else "="  # of rounded numbers
    words = f"{_sum_of(*parts)} {equals} {_word(tables[made][cell])}"
    ax.text(22.8, 1.5, words, ha="center", va="center", size=11)
    for place, token in enumerate(tokens):
        ax.text(-0.2, PLACES["x"][1] + place + 0.5, token, ha="right", va="center", size=9)
        for name in ("scores", "weights"):
            left, top = PLACES[name]
            ax.text(left + place + 0.5, top + 3.2, token, ha="center", va="top", size=8.5)
    ax.set(xlim=(-1.5, 28.1), ylim=(8.3, -1.2), aspect="equal")
    ax.set_axis_off()


def _worked_out(x: np.ndarray, maps: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    query, key, value = (x @ each for each in maps.values())
    scores = query @ key.T
    grown = np.exp(scores / np.sqrt(query.shape[1]))
    weights = grown / grown.sum(axis=1, keepdims=True)
    made = {"query": query, "key": key, "value": value, "scores": scores}
    return {"x": x, **maps, **made, "weights": weights, "output": weights @ value}


def _sum_of(row: np.ndarray, other: np.ndarray | None = None) -> str:
    """The arithmetic of the cell that is lit: products added up, or one of a row's shares."""
    if other is None:
        grown = [_word(each) for each in np.exp(row / np.sqrt(4))]
        return f"exp({_word(row[KEY])} ÷ √4) ≈ {grown[KEY]}\n{grown[KEY]} ÷ ({' + '.join(grown)})"
    return " + ".join(f"{_word(one)} · {_word(two)}" for one, two in zip(row, other, strict=True))


def _word(number: float) -> str:
    if number == round(number):
        return f"{number:.0f}".replace("-", "−")
    return f"{number:.1f}" if number >= 1 else two_decimals(number)


def _draw_grid(ax: Axes, left: float, top: float, table: np.ndarray) -> None:
    """A matrix as cells, each with its number; one that is not known yet is empty."""
    rows, columns = table.shape
    edges = np.arange(columns + 1) + left, np.arange(rows + 1) + top
    ax.pcolormesh(*edges, np.ma.masked_all(table.shape), edgecolor=SILVER, linewidth=0.8)
    for (row, column), number in np.ndenumerate(table):
        if np.isfinite(number):
            look = {"ha": "center", "va": "center", "size": 8, "zorder": 4}
            ax.text(left + column + 0.5, top + row + 0.5, _word(number), **look)


def _light(ax: Axes, name: str, table: np.ndarray, part: str) -> np.ndarray:
    """Light the row, the column or the row of the key that goes into the cell, and return its numbers."""
    (left, top), (rows, columns) = PLACES[name], table.shape
    row = KEY if part == "match" else ROW
    place = (left + COLUMN, top, 1, rows) if part == "column" else (left, top + row, columns, 1)
    ax.add_patch(Rectangle(place[:2], *place[2:], facecolor=COMPONENTS["attention"], zorder=1))
    return table[:, COLUMN] if part == "column" else table[row]


# What each head adds


def draw_heads(ax: Axes, head: int, maps: Matrix, adds: Matrix, tokens: Labels, every: int = 24) -> None:
    """Draw where a head looks, what it adds to each token, and the sum of the heads up to it.

    `maps` are (head, query_pos, key_pos), `adds` (head, position, d_model): one of `every` features is drawn.
    """
    weights, adds = given.numbers_of(maps, 3)[head], given.numbers_of(adds, 3)
    shown = adds[:, :, ::every]
    lengths, sums = np.linalg.norm(adds, axis=2), shown.cumsum(axis=0)
    n, wide, reach = len(tokens), shown.shape[2], np.abs(sums).max() or 1.0
    first, bars, last = n + 4, n + wide + 5, n + wide + 14  # where parts begin
    named = f"adds, in {wide} of {adds.shape[2]} features"
    panels = [
        (0, weights, "where it looks", ATTENTION, (0, 1)),
        (first, shown[head], named, SIGNED, (-reach, reach)),
        (last, sums[head], f"sum of heads 0 to {head}", SIGNED, (-reach, reach)),
    ]
    for left, table, name, colours, (low, high) in panels:
        edges = np.arange(table.shape[1] + 1) + left, np.arange(n + 1)
        ax.pcolormesh(*edges, table, cmap=colours, vmin=low, vmax=high, edgecolor="white", linewidth=0.3)
        ax.text(left + table.shape[1] / 2, -0.4, name, ha="center", va="bottom", size=9, weight="bold")
    long = 3.6 * lengths[head] / lengths.max()
    look = {"color": COMPONENTS["attention"], "edgecolor": "black", "linewidth": 0.5}
    drawn = ax.barh(np.arange(n) + 0.5, long, 0.7, bars, **look)
    ax.bar_label(drawn, [two_decimals(length) for length in lengths[head]], padding=2, size=8.5)
    for start, words in ((n, "× value,\n× W_O"), (last - 4, "+")):
        arrow(ax, (start + 0.3, n / 2), (start + 3.7, n / 2))
        ax.text(start + 2, n / 2 - 0.3, words, ha="center", va="bottom", size=8)
    ax.text(bars, -0.4, "length", va="bottom", size=9, weight="bold")
    ax.set_xticks(np.arange(n) + 0.5, tokens, rotation=90)
    ax.set_yticks(np.arange(n) + 0.5, tokens)
    ax.set(xlim=(0, last + wide), ylim=(n, -1.8), aspect="equal")
    ax.tick_params(length=0, labelsize=8)
    ax.spines[:].set_visible(False)


# Which key a query favours


def draw_favourite(ax: Axes, keys: Matrix, degrees: float) -> None:
    """Draw keys (key, 2), a query that has turned from 0 to so many degrees, and whom it has favoured.

    A key's score is how far it reaches along the query; the line through the favourite leaves all behind it.
    """
    keys = given.numbers_of(keys, 2)
    turned = np.radians(np.linspace(0, degrees, 1 + int(degrees)))
    ways = np.stack([np.cos(turned), np.sin(turned)], axis=1)
    winners = list(dict.fromkeys((ways @ keys.T).argmax(axis=1)))  # in the order in which they win
    way, best = ways[-1], keys[(keys @ ways[-1]).argmax()]
    ax.fill(*keys[winners].T, facecolor=NO, edgecolor=GREY)
    ax.scatter(*keys.T, marker="x", color="black", zorder=3)
    ax.scatter(*keys[winners].T, s=70, color=LINES[1])
    front = best + np.outer([-9, 9], [-way[1], way[0]])
    ax.plot(*front.T, color=HERO, linewidth=1.2, linestyle="--")
    ax.scatter(*best, s=190, facecolor="none", edgecolor=HERO, linewidth=2.5)
    arrow(ax, (0, 0), way * (best @ way), width=2, colour=HERO)
    reach = 1.2 * np.abs(keys).max()
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    ax.set(xlabel="feature 0", ylabel="feature 1")
