"""A mask at work: what becomes of one row of scores, and who takes from whom, layer upon layer."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from transformer_course.figures import given
from transformer_course.figures.drawings import arrow
from transformer_course.figures.given import Labels, Matrix
from transformer_course.figures.layout import (
    COMPONENTS,
    DARK,
    GREY,
    HERO,
    HIDDEN,
    MARK,
    SILVER,
    canvas,
    finished,
    frame_cells,
    literal,
)
from transformer_course.figures.maps import cell_texts, draw_matrix

FAINT, TOLD = 0.03, 0.1  # a smaller weight has no line; is not told


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
    see = (
        "Bars, a key each. Dashed: without the mask. Hatched: hidden, gone; the others share out what it had."
    )
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


def draw_web(ax: Axes, layers: Sequence[Matrix], tokens: Labels, lit: int, *, upright: bool = False) -> None:
    """Draw a line from each token up to each that takes from it, the wider the more, layer upon layer.

    Lit is what reaches token number `lit` at the top. `layers` are weights or masks (query_pos, key_pos), the
    lowest first; `upright` turns the tokens' names.
    """
    tables = [given.labelled(layer, tokens, tokens) for layer in layers]
    reached = {lit}
    for level, table in reversed(list(enumerate(tables))):
        shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)  # a row of a mask adds up to more
        ways = sorted((query in reached, query, key) for query, key in np.argwhere(shares > FAINT))
        segments = [((key, level), (query, level + 1)) for _, query, key in ways]
        look = {"linewidths": [5 * shares[query, key] for _, query, key in ways]}
        look["colors"] = [HERO if is_lit else SILVER for is_lit, *_ in ways]
        ax.add_collection(LineCollection(segments, **look))
        for place in range(len(tokens)):
            ax.plot(place, level + 1, "o", color=HERO if place in reached else GREY, markersize=3.5)
        reached = {key for is_lit, _, key in ways if is_lit}
    places, turned = range(len(tokens)), 90 * upright
    ax.set_xticks(places, tokens, rotation=turned)
    above = ax.secondary_xaxis("top")
    above.set_xticks(places, tokens, rotation=turned)
    for side, bold in ((ax, reached), (above, {lit})):
        side.tick_params(length=0)
        for place, label in enumerate(side.get_xticklabels()):
            label.set(**({"color": HERO, "weight": "bold"} if place in bold else {"color": GREY}))
    above.spines[:].set_visible(False)
    word = f"“{tokens[lit]}”"
    if len(tables) > 1 or tables[0].sum(axis=1).max() > 1.5:  # several layers, or a mask
        ax.set_xlabel(f"{word} hears of {len(reached)} of {len(tokens)}")
    else:
        most = [key for key in np.argsort(-shares[lit]) if shares[lit, key] > TOLD]
        taken = zip(cell_texts(shares[lit, most]), most, strict=True)
        ax.set_xlabel(f"{word} takes " + ", ".join(f"{share} from “{tokens[key]}”" for share, key in taken))
    ax.set(xlim=(-0.6, len(tokens) - 0.4), ylim=(-0.05, len(tables) + 0.05), yticks=[])
    ax.spines[:].set_visible(False)
    literal(ax)
