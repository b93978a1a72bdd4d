"""Vectors, matrices and shapes as pictures: a weighted sum, a sentence and tensors on their way."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrow, Rectangle
from matplotlib.patheffects import withStroke

from transformer_course.figures import given
from transformer_course.figures.colours import COMPONENTS, DARK, GREY, HERO, HIDDEN, LINES, NO, PALE, SILVER
from transformer_course.figures.drawings import FRAME, arrow, box, cells, line, way
from transformer_course.figures.given import Labels, Matrix
from transformer_course.figures.layout import WIDEST, canvas, finished, legend_of_cells, two_decimals
from transformer_course.figures.ways import draw_ways

SHEET = 0.06  # from one head's sheet to the next
HIGH, WIDE = 0.36, 3.2  # of what has all positions, all features


def weighted_sum(
    weights: Sequence[float],
    values: Matrix,
    tokens: Labels,
    *,
    query: str,
    of: str = "value",
    result: str = "output",
    title: str = "",
) -> Figure:
    """Draw values (token, 2) as arrows, and beside them each times its weight, laid end to end: the output.

    `query` names the token that asks; `of` and `result` are what the values and their sum are called. What
    has no weight is hatched, and hands over nothing.
    """
    weights = given.numbers_of(weights, 1, name="weights")
    values = given.numbers_of(values, 2, name="values")
    steps = np.concatenate([np.zeros((1, 2)), np.cumsum(weights[:, None] * values, axis=0)])
    drawn = np.concatenate([values, steps])  # the steps begin at 0
    low, high = drawn.min(axis=0), drawn.max(axis=0)
    room = 0.14 * ((high - low).max() or 1.0)
    low, high = low - room, high + room * np.array([2, 1])
    wide, tall = high - low
    figure, (left, right) = canvas(2, (max(3.2, 4.1 * min(1.0, wide / tall)), 4.1))
    colours = LINES[1:]
    for token, weight, value, start, end, colour in zip(
        *(tokens, weights, values, steps, steps[1:], colours), strict=False
    ):
        if weight:
            _vector(left, np.zeros(2), value, token, colour)
            _vector(right, start, end, f"{weight:.2f} · {token}".removeprefix("0"), colour)
        else:
            _hidden_vector(left, value, f"{token}: weight 0")
    _vector(right, steps[0], steps[-1], result, HERO, width=2.6, side=-1)
    for ax, name in ((left, "what each hands over"), (right, f"what “{query}” gets")):
        ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal", title=name)
        ax.set(xlabel=f"feature 0 of the {of}")
        ax.grid(alpha=0.3)
    left.set_ylabel(f"feature 1 of the {of}")
    see = "Left, what each token hands over; right, each arrow cut to its weight, end to end: their sum."
    return finished(figure, title, see)


def _hidden_vector(ax: Axes, value: np.ndarray, name: str) -> None:
    """A hatched arrow from 0, of a token that hands over nothing."""
    wide = 0.025 * np.hypot(*value)
    look = HIDDEN | {"linewidth": 0.8}
    ax.add_patch(
        FancyArrow(0, 0, *value, width=wide, length_includes_head=True, head_width=2.5 * wide, **look)
    )
    look = {"color": GREY, "size": 9, "va": "center", "textcoords": "offset points"}
    ax.annotate(name, tuple(value / 2), (9, 0), **look)
    for text in ax.texts:  # a name is read where it crosses the arrow, too
        text.set_path_effects([withStroke(linewidth=2.5, foreground="white")])


def _vector(
    ax: Axes, start: np.ndarray, end: np.ndarray, name: str, colour: str, *, width: float = 1.8, side: int = 1
) -> None:
    """An arrow with its name beside its middle: on the right of its way, or the left (side −1)."""
    arrow(ax, start, end, width=width, colour=colour, zorder=3, gap=0)
    along = (end - start) / (np.hypot(*(end - start)) or 1.0)
    beside = 13 * side * np.array([along[1], -along[0]])  # points
    anchor = "left" if beside[0] > 0.1 else "right" if beside[0] < -0.1 else "center"
    look = {"color": colour, "size": 9, "ha": anchor, "va": "center", "textcoords": "offset points"}
    ax.annotate(name, tuple((start + end) / 2), tuple(beside / 2), **look)


# Shapes on their way

# A tensor of multi-head attention: the place of its left end and its middle, in the order in which they come
PLACES = {
    **{"x": (0, 0), "q": (4.4, 1.65), "k": (4.4, 0), "v": (4.4, -1.65), "weights": (6.4, 0)},
    **{"mixtures": (8.4, 0), "merged": (10.4, 0), "output": (14.8, 0)},
}
ARROWS = [  # from one to the next: x and y of both ends
    *(((3.3, 0), (4.3, 1.6)), ((3.3, 0), (4.3, 0)), ((3.3, 0), (4.3, -1.6)), ((5.3, 1.6), (6.3, 0.05))),
    *(((5.3, 0), (6.3, 0)), ((7.3, 0), (8.3, 0)), ((9.3, 0), (10.3, 0)), ((13.7, 0), (14.7, 0))),
]
DONE = {
    **{"× W_Q, W_K, W_V;\ncut": (1.9, 0.35), "mix": (7.8, 0.1), "merge": (9.8, 0.1), "× W_O": (14.2, 0.1)},
    "compare,\nsoftmax": (6.2, 0.75),
}


def shape_flow(batch: int, length: int, d_model: int, n_heads: int, *, title: str = "") -> Figure:
    """Draw the tensors of multi-head attention: rectangles of positions by features, a sheet for each head.

    Features have one scale, positions another: a weight has two positions and no feature, so it is square.
    """
    figure, (ax,) = canvas(1, (WIDEST, 3.1))
    whole, cut = (batch, length, d_model), (batch, n_heads, length, d_model // n_heads)
    shapes = {"weights": (batch, n_heads, length, length), "x": whole, "merged": whole, "output": whole}
    for name, (left, middle) in PLACES.items():
        shape = shapes.get(name, cut)
        heads, features = (n_heads, shape[-1]) if len(shape) == 4 else (1, d_model)
        wide = HIGH if name == "weights" else WIDE * features / d_model
        pieces = n_heads if name == "merged" else 1
        for head in reversed(range(heads * pieces)):  # head 0 in front, and coloured
            aside, up = (wide / pieces, 0) if pieces > 1 else (SHEET, SHEET)
            corner = left + aside * head, middle - HIGH / 2 + up * head
            look = {"facecolor": PALE[0] if heads * pieces > 1 and head == 0 else NO, "edgecolor": DARK}
            ax.add_patch(Rectangle(corner, wide / pieces, HIGH, linewidth=0.8, **look))
        place = left + (wide + SHEET * (heads - 1)) / 2, middle - HIGH / 2 - 0.08
        ax.text(*place, f"{name}\n{shape}", ha="center", va="top", size=8.5)
    for start, end in ARROWS:
        arrow(ax, start, end)
    way(ax, (5.3, -1.65), (7.8, -1.65), (7.8, -0.05), width=1.2)
    for step, place in DONE.items():
        ax.text(*place, step, ha="center", va="bottom", size=8.5)
    ax.set(xlim=(-0.2, 18.2), ylim=(-2.75, 2.4), aspect="equal")
    ax.set_axis_off()
    legend_of_cells(figure, {"head 0": {"facecolor": PALE[0], "edgecolor": DARK}})
    see = "Each rectangle is a tensor, as tall as it has positions and as wide as it has features."
    return finished(figure, title, see)


# A sentence on its way down the page, in inches: a lane for each token, a strip of features at each stage

STRIP, TALL, FRAMED, STEP = 1.16, 0.18, 0.46, 0.78  # sizes; from a layer to the next


def journey(
    stages: Sequence[Matrix], maps: Sequence[Matrix], tokens: Labels, ids: Sequence[int], *, title: str
) -> Figure:
    """Draw a sentence on its way through an encoder: each token's vector, (token, feature), at each stage.

    Stages are the rows of both tables, on a scale of their own, what enters the first layer and what leaves
    each, and one vector for all; `maps` are each layer's weights, (query, key).
    """
    tables = [given.numbers_of(stage, 2) for stage in stages]
    lanes = 2.75 + 1.35 * np.arange(len(tokens))
    depths = -np.concatenate([[0.75, 1.1], 1.62 + STEP * np.arange(len(maps) + 1)])
    depths = [*depths, depths[-1] - 0.62]  # of the strips
    reach = [max(np.abs(table).max() for table in part) for part in (tables[:2], tables[2:])]
    names = ["its row of the table", "+ its position's row", "their sum, normalised", *[""] * (len(maps) - 1)]
    names += ["one vector for each\ntoken, in context", "their mean: one vector\nfor the sentence"]
    figure, (ax,) = canvas(1, (WIDEST, 1.0 - depths[-1]))
    look = {"letters": 8.5, "rounding": 0.03, "linewidth": 0.6}
    for lane, token, number in zip(lanes, tokens, ids, strict=True):
        ax.text(lane, 0, token, ha="center", va="center", size=10, weight="bold")
        arrow(ax, (lane, -0.47), (lane, depths[-2] + 0.07), width=2.5, colour=SILVER, zorder=0, gap=0)
        arrow(ax, (lane, depths[-2] - 0.09), (lanes.mean(), depths[-1] + 0.09), width=0.8, gap=0)
        box(ax, (lane, -0.36), f"{int(number)}", (0.6, 0.22), COMPONENTS["embedding"], **look)
        box(ax, (lane, -1.36), "norm", (0.6, 0.2), COMPONENTS["norm"], **look)
        ax.text(lane - 0.65, depths[1], "+", ha="right", va="center", size=11)
    for number, weights in enumerate(maps):
        _layer(ax, number, depths[number + 2] - 0.16, weights, lanes)
    for stage, (depth, name, table) in enumerate(zip(depths, names, tables, strict=True)):
        for lane, row in zip(lanes if len(table) > 1 else [lanes.mean()], table, strict=True):
            corner = lane - STRIP / 2, depth + TALL / 2
            cells(ax, corner, (STRIP, TALL), row[None], reach[stage > 1], zorder=3)
        ax.text(0.1, depth, name, va="center", size=9)
    for height, words in {0: "tokens", -0.36: "ids"}.items():
        ax.text(0.1, height, words, va="center", size=9)
    above, below = map(two_decimals, reach)
    words = f"red: positive, blue: negative; the darkest is {above} above the norms, {below} below them"
    ax.text(lanes.mean(), depths[-1] - 0.25, words, ha="center", size=9)
    ax.set(xlim=(0, lanes[-1] + 0.7), ylim=(depths[-1] - 0.4, 0.2))
    ax.set_axis_off()
    see = "A lane for each token, from its id down to its vectors; at the end all become one."
    return finished(figure, title, see)


def _layer(ax: Axes, number: int, top: float, weights: Matrix, lanes: np.ndarray) -> None:
    """Draw a layer as a frame: what each token takes from all, and a feed-forward for each."""
    wide, table, low = lanes[-1] - lanes[0] + 1.3, given.numbers_of(weights, 2), top - 0.35
    box(ax, (lanes.mean(), top - FRAMED / 2), "", (wide, FRAMED), FRAME, zorder=-1, linewidth=0.8)
    look = {"at": lanes, "upright": True, "others": COMPONENTS["scores"]}
    draw_ways(ax, table, (top, top - 0.25), np.zeros_like(table, int), **look)
    for lane in lanes:
        beside = lane + 0.5
        turns = (lane + 0.12, low), (beside, low), (beside, low - 0.08), (lane, low - 0.08)
        line(ax, (lane, low + 0.09), *turns, width=0.8)
        look = {"rounding": 0.02, "linewidth": 0.6}
        box(ax, (lane + 0.3, low), "", (0.3, 0.1), COMPONENTS["feed-forward"], **look)
    ax.text(0.1, top - 0.08, f"layer {number}", va="center", size=9, weight="bold")
    if number == 0:
        ax.text(0.1, top - 0.2, "lines: attention, wider: more\nboxes: feed-forward", va="top", size=8)
