"""Vectors, matrices and shapes as pictures: a weighted sum, tensors on their way, what stands in a file."""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from transformer_course.figures import given
from transformer_course.figures.colours import DARK, HERO, LINES, NO, PALE
from transformer_course.figures.drawings import arrow, way
from transformer_course.figures.given import Labels, Matrix
from transformer_course.figures.layout import WIDEST, canvas, finished

SHEET = 0.06  # from one head's sheet to the next
TALL, WIDE, THIN = 0.36, 3.2, 0.1  # of what has the most positions, the most features; the least width
GAP = 1.2  # from column to column


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

    `query` names the token that asks; `of` and `result` are what the values and their sum are called.
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
    for token, value, colour in zip(tokens, values, colours, strict=False):
        _vector(left, np.zeros(2), value, token, colour)
    for token, weight, start, end, colour in zip(tokens, weights, steps, steps[1:], colours, strict=False):
        _vector(right, start, end, f"{weight:.2f} · {token}".removeprefix("0"), colour)
    _vector(right, steps[0], steps[-1], result, HERO, width=2.6, side=-1)
    for ax, name in ((left, "what each hands over"), (right, f"what “{query}” gets")):
        ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal", title=name)
        ax.set(xlabel=f"feature 0 of the {of}")
        ax.grid(alpha=0.3)
    left.set_ylabel(f"feature 1 of the {of}")
    see = "Left, what each token hands over; right, each arrow cut to its weight, end to end: their sum."
    return finished(figure, title, see)


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


def shape_flow(
    shapes: Mapping[str, Sequence[int] | Mapping[str, Sequence[int]]], steps: Labels, *, title: str = ""
) -> Figure:
    """Draw tensors from left to right: a rectangle of positions by features, one sheet for each head.

    Features have one scale, positions another: a score has two positions and no feature, so it is square.

    Args:
        shapes: by name: (batch, position, features), or (batch, heads, position, features). Several in one
            place stand one below the other; the last of them goes past the next place, to the one behind.
        steps: what leads from each place to the next.
    """
    columns = [each if isinstance(each, Mapping) else {name: each} for name, each in shapes.items()]
    sizes = [{name: _sizes_of(shape) for name, shape in column.items()} for column in columns]
    scale = [max(size[axis] for column in sizes for size in column.values()) for axis in (1, 2)]
    stack = TALL / 2 + SHEET * max(size[0] for column in sizes for size in column.values())
    pitch, most = stack + TALL / 2 + 0.8, max(map(len, columns))
    places, right = [], 0.0
    figure, (ax,) = canvas(1, (WIDEST, 0.55 * pitch * most + 0.6))
    for column, column_sizes in zip(columns, sizes, strict=True):
        left, heights = right, [pitch * ((len(column) - 1) / 2 - i) for i in range(len(column))]
        for middle, (name, shape) in zip(heights, column.items(), strict=True):
            width = _draw_sheets(ax, left, middle, column_sizes[name], scale)
            right = max(right, left + width)
            label = f"{name}\n{tuple(shape)}"
            ax.text(left + width / 2, middle - TALL / 2 - 0.08, label, ha="center", va="top", size=8.5)
        places.append((left, right, heights))
        right += GAP
    _draw_steps(ax, places, steps, stack)
    reach = pitch * (most - 1) / 2
    ax.set(xlim=(-0.2, right - GAP + 0.2), ylim=(-reach - TALL / 2 - 0.9, reach + stack + 0.1))
    ax.set_aspect("equal")
    ax.set_axis_off()
    see = (
        "From left to right: a rectangle is a tensor, as tall as it has positions and as "
        "wide as it has features; arrows lead from step to step."
    )
    return finished(figure, title, see)


def _draw_steps(
    ax: Axes, places: list[tuple[float, float, list[float]]], steps: Labels, stack: float
) -> None:
    """The arrows from column to column; the last of several tensors goes past the next column."""
    past = None
    for (_, right, heights), (left, _, ends), step in zip(places, places[1:], steps, strict=False):
        starts = heights[:-1] if len(heights) > 1 else heights
        for pair in product(starts, ends):
            arrow(ax, (right + 0.1, pair[0]), (left - 0.1, pair[1]))
        middle = (right + left) / 2
        if past:
            way(ax, past, (middle, past[1]), (middle, -0.03), width=1.2)
        past = (right + 0.1, heights[-1]) if len(heights) > 1 else None
        if len(ends) > 1:  # where the arrows part, or meet, there is room beside them only
            ax.text(right, TALL / 2 + 0.1, step, ha="right", va="bottom", size=8.5)
        elif len(starts) > 1:
            ax.text(left, stack + 0.1, step, va="bottom", size=8.5)
        else:
            ax.text(middle, 0.1, step, ha="center", va="bottom", size=8.5)


def _draw_sheets(
    ax: Axes, left: float, middle: float, size: tuple[int, int, int], scale: Sequence[int]
) -> float:
    """A tensor's heads, head 0 in front and coloured; return the width of them all."""
    heads, positions, features = size
    tall = TALL * positions / scale[0]
    wide = tall if positions == features else max(WIDE * features / scale[1], THIN)
    for head in reversed(range(heads)):
        corner = left + SHEET * head, middle - tall / 2 + SHEET * head
        colour = PALE[0] if heads > 1 and head == 0 else NO
        ax.add_patch(Rectangle(corner, wide, tall, facecolor=colour, edgecolor=DARK, linewidth=0.8))
    return wide + SHEET * (heads - 1)


def _sizes_of(shape: Sequence[int]) -> tuple[int, int, int]:
    """Return how many heads, positions and features."""
    return shape[1] if len(shape) == 4 else 1, shape[-2], shape[-1]
