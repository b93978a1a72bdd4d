"""Vectors, matrices and shapes as pictures: a weighted sum, tensors on their way, what stands in a file."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from transformer_lab.course.figures import given
from transformer_lab.course.figures.drawings import arrow, box
from transformer_lab.course.figures.given import Labels, Matrix
from transformer_lab.course.figures.layout import (
    COMPONENTS,
    DARK,
    HERO,
    LINES,
    LIT,
    PALE,
    WIDEST,
    canvas,
    finished,
)
from transformer_lab.validation import check_positive

SHEET = 0.07  # from one head's sheet to the next
MOST_SHEETS = 12
OF_HEADS = PALE[0], PALE[1], PALE[3]
TALL, WIDE = 1.0, 2.2  # of what has the most positions, the most features
THINNEST = 0.012  # of a matrix that is as large as its side: thinner could not be seen


# A weighted sum


def weighted_sum(
    weights: Sequence[float], values: Matrix, tokens: Labels, *, query: str, title: str = ""
) -> Figure:
    """Draw values (token, 2) as arrows, and beside them each times its weight, laid end to end: the output.

    Args:
        weights: of one query, one for each token; they add up to one.
        values: what each token hands over.
        tokens: their names.
        query: the name of the token that asks.
        title: of the figure.
    """
    weights, values = given.numbers_of(weights, 1, name="weights"), given.pairs_of("values", values)
    given.check_labels("tokens", tokens, len(weights))
    given.check_few(len(tokens), len(LINES) - 1, "tokens")
    if len(values) != len(weights) or not np.isclose(weights.sum(), 1):
        raise ValueError(f"got {len(values)} values and weights {weights}, wanted weights that add up to 1")
    steps = np.concatenate([np.zeros((1, 2)), np.cumsum(weights[:, None] * values, axis=0)])
    figure, (left, right) = canvas(2, (4.1, 4.1))
    colours = LINES[1:]
    for token, value, colour in zip(tokens, values, colours, strict=False):
        _vector(left, np.zeros(2), value, token, colour)
    for token, weight, start, end, colour in zip(tokens, weights, steps, steps[1:], colours, strict=False):
        _vector(right, start, end, f"{weight:.2f} · {token}".removeprefix("0"), colour)
    _vector(right, steps[0], steps[-1], "output", HERO, width=2.6, side=-1)
    low, high = min(0.0, values.min(), steps.min()), max(values.max(), steps.max())
    room = 0.14 * (high - low or 1.0)
    for ax, name in ((left, "what each hands over"), (right, f"what “{query}” gets")):
        ax.set(xlim=(low - room, high + 2 * room), ylim=(low - room, high + room), aspect="equal", title=name)
        ax.set(xlabel="feature 0 of the value")
        ax.grid(alpha=0.3)
    left.set_ylabel("feature 1 of the value")
    return finished(figure, title)


def _vector(
    ax: Axes, start: np.ndarray, end: np.ndarray, name: str, colour: str, *, width: float = 1.8, side: int = 1
) -> None:
    """An arrow with its name beside its middle: on the right of its way, or the left (side −1)."""
    style = {"arrowstyle": "-|>", "color": colour, "linewidth": width, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", tuple(end), tuple(start), arrowprops=style)
    along = (end - start) / (np.hypot(*(end - start)) or 1.0)
    beside = 13 * side * np.array([along[1], -along[0]])  # points
    anchor = "left" if beside[0] > 0.1 else "right" if beside[0] < -0.1 else "center"
    look = {"color": colour, "size": 9, "ha": anchor, "va": "center", "textcoords": "offset points"}
    ax.annotate(name, tuple((start + end) / 2), tuple(beside / 2), **look)


# Shapes on their way


def shape_flow(shapes: Mapping[str, Sequence[int]], steps: Labels, *, title: str = "") -> Figure:
    """Draw tensors from left to right: a rectangle of positions by features, one sheet for each head.

    Args:
        shapes: by name: (batch, position, features), or (batch, heads, position, features).
        steps: what leads from each tensor to the next.
        title: of the figure.
    """
    given.check_named(shapes)
    given.check_labels("steps", steps, len(shapes) - 1)
    sizes = {name: _sizes_of(name, shape) for name, shape in shapes.items()}
    tallest, widest = (max(size[axis] for size in sizes.values()) for axis in (1, 2))
    drawn = {
        name: (heads, *_drawn_size(tall / tallest, wide / widest, is_square=tall == wide))
        for name, (heads, tall, wide) in sizes.items()
    }
    gap = 1.3
    total = sum(wide + SHEET * heads + gap for heads, _, wide in drawn.values()) - gap
    figure, (ax,) = canvas(1, (min(0.59 * total + 0.4, WIDEST), 2.6))
    place = 0.0
    for number, (name, (heads, tall, wide)) in enumerate(drawn.items()):
        _draw_sheets(ax, place, heads, tall, wide)
        middle = place + (wide + SHEET * (heads - 1)) / 2
        label = f"{name}\n{tuple(int(size) for size in shapes[name])}"
        ax.text(middle, -TALL / 2 - 0.2, label, ha="center", va="top", size=9)
        place += wide + SHEET * heads
        if number < len(steps):
            arrow(ax, (place + 0.1, 0), (place + gap - 0.1, 0))
            ax.text(place + gap / 2, 0.12, steps[number], ha="center", va="bottom", size=8.5)
            place += gap
    top = TALL / 2 + SHEET * max(heads for heads, *_ in drawn.values())
    ax.set(xlim=(-0.3, total + 0.3), ylim=(-TALL / 2 - 0.9, top + 0.1))
    ax.set_axis_off()
    return finished(figure, title)


def _drawn_size(tall: float, wide: float, *, is_square: bool) -> tuple[float, float]:
    """Height and width of a tensor with these shares of the largest sizes."""
    height = TALL * max(0.35, tall)
    return height, height if is_square else WIDE * max(0.16, wide)


def _sizes_of(name: str, shape: Sequence[int]) -> tuple[int, int, int]:
    """Return how many heads, positions and features; raise unless the shape has three axes, or four."""
    sizes = given.numbers_of(shape, 1, name=name)
    if len(sizes) not in (3, 4) or (sizes < 1).any() or (sizes != sizes.round()).any():
        raise ValueError(
            f"{name} must be (batch, position, features) or (batch, heads, position, features), got "
            f"{shape!r}; give tuple(x.shape)"
        )
    heads = int(sizes[1]) if len(sizes) == 4 else 1
    given.check_few(heads, MOST_SHEETS, "heads can be drawn")
    return heads, int(sizes[-2]), int(sizes[-1])


def _draw_sheets(ax: Axes, left: float, heads: int, tall: float, wide: float) -> None:
    """The sheet of head 0 in front; a tensor without heads is grey."""
    for head in reversed(range(heads)):
        corner = left + SHEET * head, -tall / 2 + SHEET * head
        colour = OF_HEADS[head % len(OF_HEADS)] if heads > 1 else "#f2f2f2"
        ax.add_patch(Rectangle(corner, wide, tall, facecolor=colour, edgecolor=DARK, linewidth=0.8))


def low_rank(rows: int, columns: int, rank: int, *, title: str = "") -> Figure:
    """Draw a weight and what LoRA trains beside it, B times A, all to scale, with the count of numbers."""
    check_positive(rows=rows, columns=columns, rank=rank)
    figure, (ax,) = canvas(1, (7.0, 3.1))
    tall, wide = rows / max(rows, columns), columns / max(rows, columns)
    thin = max(rank / max(rows, columns), THINNEST)
    parts = (
        (f"W, frozen\n{rows:,} × {columns:,} = {rows * columns:,}", 0.0, wide, tall, COMPONENTS["embedding"]),
        (f"B\n{rows:,} × {rank} = {rows * rank:,}", wide + 0.85, thin, tall, HERO),
        (f"A\n{rank} × {columns:,} = {rank * columns:,}", wide + 1.4, wide, thin, HERO),
    )
    for label, left, width, height, colour in parts:
        ax.add_patch(
            Rectangle((left, tall - height), width, height, facecolor=colour, edgecolor=DARK, lw=0.6)
        )
        ax.text(left + width / 2, -0.06, label, ha="center", va="top", size=9)
    for sign, place in (("+", wide + 0.42), ("·", wide + 1.22)):
        ax.text(place, tall / 2, sign, ha="center", va="center", size=16)
    ax.set(xlim=(-0.15, 2 * wide + 1.6), ylim=(-0.3, tall + 0.05), aspect="equal")
    ax.set_axis_off()
    return finished(figure, title)


# What stands in a file

LAYER = ".N."  # in a name of each layer
PARTS = {  # what begins a name of ours, without the layer, and the component
    "embedding.": "embedding",
    "positions.": "positions",
    "attention.": "attention",
    "feed_forward.": "feed-forward",
}
ROW = 0.24  # inches


def file_parts(lines: Sequence[tuple[str, str, tuple[int, ...]]], *, title: str = "") -> Figure:
    """Draw the parts of an encoder from above to below, and beside each the names of its tensors.

    Args:
        lines: for each tensor its name in a file, its name in our encoder, and its shape; N is any layer.
        title: of the figure.
    """
    if not isinstance(lines, list | tuple) or any(len(each) != 3 for each in lines) or not lines:
        raise TypeError(f"lines must be a list of (name, our name, shape), got {lines!r:.60}; write one")
    given.check_labels("names in the file", [name for name, *_ in lines])
    components = [_component_of(ours) for _, ours, _ in lines]
    firsts = [i for i, each in enumerate(components) if i == 0 or each != components[i - 1]]
    figure, (ax,) = canvas(1, (8.8, ROW * len(lines) + 0.16 * len(firsts) + 0.7))
    in_layers, height = [], 0.0
    for first, last in zip(firsts, [*firsts[1:], len(lines)], strict=True):
        top, height = height, height + ROW * (last - first) + 0.16
        middle, size = (top + height) / 2, (2.1, height - top - 0.08)
        colour = COMPONENTS.get(components[first], "white")
        box(ax, (0, middle), components[first], size, colour, rounding=0.05)
        for row, (theirs, ours, shape) in enumerate(lines[first:last]):
            _write_line(ax, top + 0.08 + ROW * (row + 0.5), theirs, f"{ours} {shape}")
        if LAYER in lines[first][1]:
            in_layers += [top, height]
    if in_layers:
        corner, tall = (-1.18, min(in_layers)), max(in_layers) - min(in_layers)
        ax.add_patch(Rectangle(corner, 10.6, tall, facecolor=LIT, edgecolor="none", zorder=0))
    ax.set(xlim=(-1.25, 9.5), ylim=(height + 0.05, -0.05))
    ax.set_axis_off()
    return finished(figure, title)


def _component_of(name: str) -> str:
    """The component that a name of ours belongs to."""
    name = name.rpartition(LAYER)[2]
    if "norm" in name:
        return "norm"
    return next((component for start, component in PARTS.items() if name.startswith(start)), name)


def _write_line(ax: Axes, height: float, left: str, right: str) -> None:
    look = {"va": "center", "size": 8.5, "family": "monospace"}
    ax.text(1.25, height, left, **look)
    ax.text(9.3, height, right, ha="right", **look)
