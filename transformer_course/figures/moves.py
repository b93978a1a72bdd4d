"""What moves: a tile over the map, texts into one row, pieces round a ring, what a window lets through."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from transformer_course.figures import given
from transformer_course.figures.colours import (
    COMPONENTS,
    GREY,
    HERO,
    HIDDEN,
    PALE,
    YES,
)
from transformer_course.figures.drawings import arrow, box
from transformer_course.figures.given import Labels, Matrix
from transformer_course.figures.layout import (
    WIDEST,
    canvas,
    cell_texts,
    finished,
    hide_cells,
    legend_of_cells,
    two_decimals,
)
from transformer_course.figures.maps import draw_cells

HELD = {"of one": "white", "sum of two": PALE[2], "sum of all": PALE[0]}  # what a piece is in a ring


def draw_tile(ax: Axes, scores: Matrix, tile: int, size: tuple[int, int], values: Matrix = ()) -> None:
    """Draw scores (query_pos, key_pos) while a fused kernel is at a tile of this (height, width).

    Where there are values (key_pos,), the numbers that it keeps for each query stand at the right.
    """
    table = given.numbers_of(scores, 2, name="the scores")
    (rows, columns), (height, width) = table.shape, size
    across = columns // width
    top, left = tile // across * height, tile % across * width
    here = np.zeros_like(table, bool)
    here[top : top + height, left : left + width] = True
    order = np.arange(rows)[:, None] // height * across + np.arange(columns) // width  # of each cell's tile
    states = np.sign(order - tile)  # -1: forgotten, 0: in the cache, 1: not read yet
    colours = ListedColormap([PALE[2], COMPONENTS["scores"], "white"])
    names = [[f"{letter}{i}" for i in range(n)] for letter, n in (("q", rows), ("k", columns))]
    words = np.where(here, cell_texts(table), "")
    draw_cells(ax, states, *names, limits=(-1, 1), colours=colours, words=words).set(edgecolor=GREY)
    for place in set(range(order.max() + 1)) - {tile}:
        middle = (place % across + 0.5) * width, (place // across + 0.5) * height
        word, ground = ("forgotten", PALE[2]) if place < tile else ("not yet", "white")
        patch = {"facecolor": ground, "edgecolor": "none", "pad": 1}
        ax.text(*middle, word, ha="center", va="center", size=8, bbox=patch)
    if len(values):
        _draw_kept(
            ax, np.where(states <= 0, table, -np.inf), given.numbers_of(values, 1), order.min(1) <= tile
        )
        ax.set_xlabel(
            _sum_so_far(table[top, left : left + width], table[top, :left], top), size=8.5, loc="left"
        )
    ax.set_aspect("equal")


def _sum_so_far(here: np.ndarray, before: np.ndarray, query: int) -> str:
    """How a query's sum grows by a tile: what was summed before is brought to the new largest score."""
    largest = max(*here, *before)

    def power(score: float) -> str:
        less = f"{'+' if largest < 0 else '−'} {two_decimals(abs(largest))}"
        return "1" if score == largest else f"e^({two_decimals(score)} {less})"

    terms = [power(score) for score in here]
    if len(before):
        old = two_decimals(np.exp(before - before.max()).sum())
        terms.insert(0, old if before.max() == largest else f"{old} · {power(before.max())}")
    total = np.exp(np.append(here, before) - largest).sum()
    return f"sum of q{query}: {' + '.join(terms)} ≈ {two_decimals(total)}"


def _draw_kept(ax: Axes, read: np.ndarray, values: np.ndarray, begun: np.ndarray) -> None:
    """Write its largest score and its two sums beside each query that has begun; -inf: not read."""
    largest = np.max(read, axis=1, keepdims=True)
    weights = np.exp(read[begun] - largest[begun])
    kept = np.column_stack([largest[begun], weights.sum(1), weights @ values])
    start = read.shape[1] + 0.5
    for column, name in enumerate(("largest", "sum", "mixture")):
        middle = start + 1.5 * column + 0.75
        ax.text(middle, -0.15, name, ha="center", va="bottom", size=8)
        for row, word in zip(np.flatnonzero(begun), cell_texts(kept)[:, column], strict=True):
            box(ax, (middle, row + 0.5), word, (1.4, 0.84), COMPONENTS["attention"], letters=8)
    ax.set_xlim(0, start + 4.6)


def packed_row(texts: Sequence[Labels], *, title: str) -> Figure:
    """Draw the tokens of texts as a padded batch, then end to end in one row, and below it the row's mask."""
    lengths = [len(text) for text in texts]
    total, longest = sum(lengths), max(lengths)
    text_of = np.repeat(np.arange(len(texts)), lengths)
    padded = np.tile(np.arange(len(texts))[:, None], longest)
    figure, (batch, row, mask) = canvas(
        *(3, (0.34 * total + 1.3, 0), (0, 0.26 * (total + len(texts) + 3) + 1.9)),
        **{"columns": 1, "height_ratios": [len(texts), 3, total], "sharex": True},
    )
    look = {"limits": (0, len(PALE)), "colours": ListedColormap(PALE)}
    draw_cells(batch, padded, [f"text {i}" for i in range(len(texts))], [], **look)
    hide_cells(batch, [(i, j) for i, n in enumerate(lengths) for j in range(n, longest)])
    draw_cells(row, text_of[None], ["one row"], [], **look)
    tokens = [token for text in texts for token in text]
    for place, token in enumerate(tokens):
        row.text(place + 0.5, 0.5, token, rotation=90, ha="center", va="center", size=8)
    own = text_of[:, None] == text_of
    draw_cells(mask, np.where(own, text_of, 0), tokens, tokens, **look)
    hide_cells(mask, np.argwhere(~own))
    mask.set(ylabel="query", xlabel="key: the tokens of the row, above")
    mask.tick_params(labelbottom=False)
    places = longest * len(texts)
    batch.set_title(f"padded: {places} places, {places - total} of them for nothing", loc="left")
    row.set_title(f"packed: {total} places", loc="left")
    mask.set_title("who may attend to whom", loc="left")
    legend_of_cells(figure, {"padding above, hidden below": HIDDEN})
    see = "The mask has a block on its diagonal for each text, in its colour; all else is hidden."
    return finished(figure, title, see)


def ring_of_three(*, title: str) -> Figure:
    """Draw three workers in a ring, round by round: the pieces that each holds, and what it sends on."""
    held = [[letter] * 3 for letter in "abc"]
    figure, panels = canvas(5, (1.86, 1.5), (0, 0.75))
    for r, ax in enumerate(panels):
        lap, step = divmod(r, 2)
        sent = [(w + lap - step) % 3 for w in range(3)] if r < 4 else []
        _draw_ring(ax, held, sent)
        ax.set_title(f"round {r}" if sent else "the end")
        carried = [held[w][piece] for w, piece in enumerate(sent)]
        for w, (piece, sums) in enumerate(zip(sent, carried, strict=True)):
            to = (w + 1) % 3
            held[to][piece] = sums if lap else sums + held[to][piece]
    legend_of_cells(figure, {kind: {"facecolor": colour} for kind, colour in HELD.items()})
    see = "Each worker's three pieces as a round begins; an arrow carries the framed one to the next."
    return finished(figure, title, see)


def _draw_ring(ax: Axes, held: Sequence[Sequence[str]], sent: Sequence[int]) -> None:
    """Draw the workers clockwise, each with its pieces; an arrow to the next worker bears what is sent."""
    places = [(0.0, 1.5), (1.46, -0.8), (-1.46, -0.8)]
    ways = [((0.45, 1.05), (1.25, -0.4)), ((0.38, -0.8), (-0.38, -0.8)), ((-1.25, -0.4), (-0.45, 1.05))]
    beside = [(1.3, 0.4), (0.0, -0.45), (-1.3, 0.4)]  # the arrows
    for w, (x, y) in enumerate(places):
        ax.text(x, y + (-0.45 if y < 0 else 0.45), f"worker {w}", ha="center", va="center", size=8.5)
        for piece, sums in enumerate(held[w]):
            edge = {"edgecolor": HERO, "linewidth": 2.2} if sent and piece == sent[w] else {"linewidth": 0.8}
            colour = list(HELD.values())[len(sums) - 1]
            box(ax, (x + 0.68 * (piece - 1), y), sums, (0.64, 0.5), colour, letters=8, rounding=0.02, **edge)
        if sent:
            arrow(ax, *ways[w], colour=HERO, width=1.8)
            look = {"ha": "center", "va": "center", "size": 9, "weight": "bold", "color": HERO}
            ax.text(*beside[w], held[w][sent[w]], **look)
    ax.set(xlim=(-2.5, 2.5), ylim=(-1.45, 2.1), aspect="equal")
    ax.set_axis_off()


def reach(named: Mapping[str, Sequence[int | None]], length: int, place: int, *, title: str) -> Figure:
    """Draw for one token of a text what each layer lets it see, and what it has heard of behind the layer.

    A model is given by the window of each layer, in tokens to each side; None: it sees the whole text.
    """
    figure, panels = canvas(len(named), (WIDEST / len(named), 4.0), (0, 0.3), sharey=True)
    for ax, (name, windows) in zip(panels, named.items(), strict=True):
        wide = np.array([length if window is None else window for window in windows])
        for distances, height, colour in ((np.cumsum(wide), 0.9, PALE[0]), (wide, 0.5, YES)):
            low, high = np.maximum(place - distances, 0), np.minimum(place + distances, length - 1)
            ax.barh(range(len(wide)), high - low + 1, height, low, color=colour)
        ax.set(title=name, xlabel="place in the text", xlim=(0, length))
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.set_yticks(range(len(wide)))
        ax.plot([place, place], [-0.6, len(wide) - 0.5], color=HERO, linewidth=1.2)
        ax.text(place, len(wide) - 0.45, "this token", color=HERO, ha="center", va="bottom", size=8.5)
        ax.tick_params(axis="y", length=0, labelsize=8)
        ax.spines[["left", "right", "top"]].set_visible(False)
    panels[0].set(ylabel="layer", ylim=(-0.6, max(map(len, named.values())) + 0.4))
    words = {"this layer sees": {"facecolor": YES}, "heard of by now": {"facecolor": PALE[0]}}
    legend_of_cells(figure, words)
    see = "For each layer, the first at the foot, what one token sees in it, and has heard of by then."
    return finished(figure, title, see)
