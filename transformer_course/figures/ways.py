"""Who takes from whom: a line for each weight, the wider the more."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from transformer_course.figures import given
from transformer_course.figures.colours import GREY, HERO
from transformer_course.figures.given import Labels, Matrix
from transformer_course.figures.layout import canvas, cell_texts, finished

FAINT = 0.035  # a smaller weight has no line
WIDTH = 6.0  # points, of a weight of 1


def draw_ways(
    ax: Axes,
    weights: np.ndarray,
    ends: tuple[float, float],
    lit: np.ndarray,
    *,
    at: np.ndarray,
    upright: bool = False,
    others: str = GREY,
    faint: float = 0.3,
    drop: float = 0.0,
) -> None:
    """Draw a line from each key to each query, as wide as the weight (query, key), from left to right.

    Keys stand at ends[0], queries at ends[1], in lanes `at` these heights; `upright` lets the lines go up.
    They end so far below a query's lane as they `drop`. Those that are not `lit` lie below, so `faint` that
    where they lie over each other they are seen as several.
    """
    lit = np.broadcast_to(lit, weights.shape)
    drawn = sorted(np.argwhere(weights > FAINT).tolist(), key=lambda place: lit[*place])
    lines = [[(ends[0], at[key]), (ends[1], at[query] - drop)] for query, key in drawn]
    look = {"linewidths": [WIDTH * weights[*place] for place in drawn]}
    look["colors"] = [HERO if lit[*place] else to_rgba(others, faint) for place in drawn]
    ax.add_collection(LineCollection(np.flip(lines, axis=2) if upright else lines, **look))


def draw_arcs(
    ax: Axes, weights: Matrix, tokens: Labels, lit: int, colour: str = HERO, dark: str = HERO
) -> None:
    """Draw an arc from a token, framed, to each that it takes from, itself too; below, in `dark`, shares."""
    shares, turn = given.labelled(weights, tokens, tokens)[lit], np.linspace(0, np.pi, 31)
    for key, (token, share, text) in enumerate(zip(tokens, shares, cell_texts(shares), strict=True)):
        apart, is_told = (lit - key) / 2, share > FAINT
        if is_told:  # a loop, to the token itself
            height = (2 * abs(apart) / len(tokens)) ** 0.5
            arc = key + apart + apart * np.cos(turn), height * np.sin(turn)
            loop = key + 0.28 * np.sin(2 * turn), 0.29 * (1 - np.cos(2 * turn))
            ax.plot(*(arc if apart else loop), color=colour, linewidth=12 * share, solid_capstyle="butt")
        bold = {"weight": "bold", "color": dark} if is_told or key == lit else {"color": GREY}
        edge = {"facecolor": "white", "edgecolor": dark, "pad": 1.5} if key == lit else None
        ax.text(key, -0.1, token, ha="center", va="top", size=11, bbox=edge, **bold)
        ax.text(key, -0.42, text if is_told else "", ha="center", va="top", size=10, **bold)
    ax.plot(lit, 0, "o", color=dark, markersize=7)
    ax.set(xlim=(-0.5, len(tokens) - 0.5), ylim=(-0.64, 1.05))
    ax.set_axis_off()


def attention_paths(
    maps: Sequence[Matrix],
    edges: Sequence[tuple[int, int]],
    *,
    found: Mapping[str, Labels],
    carried: Labels,
    title: str,
) -> Figure:
    """Draw places in a column before and after each layer, joined by lines as wide as attention's weights.

    There is a map (query_pos, key_pos) for each layer; an edge, the (query, key) of which it tells; and what
    is `carried` along it. `found` says what stands at the places at the start and after each layer, and when.
    """
    length = len(maps[0])
    figure, (ax,) = canvas(1, (2.8 * len(found) - 0.6, 0.42 * length + 0.8), (0, 0.4))
    look = {"ha": "center", "color": HERO}
    circle = {"boxstyle": "circle", "facecolor": "white", "edgecolor": HERO}
    for layer, (weights, edge, words) in enumerate(zip(maps, edges, carried, strict=True)):
        ends, middle, (asks, asked) = (layer + 0.21, layer + 0.79), layer + 0.5, edge
        lit = np.zeros((length, length), bool)
        lit[edge] = True
        draw_ways(ax, given.numbers_of(weights, 2), ends, lit, at=np.arange(length))
        ax.text(middle, -0.76, f"layer {layer}", ha="center", va="center", weight="bold")
        ax.text(middle, asks - 0.14, f"place {asks} asks place {asked}", va="bottom", size=9, **look)
        ax.text(middle, (asks + asked) / 2, words, va="center", weight="bold", bbox=circle, **look)
    told = [edges[0], *(edge[:1] for edge in edges)]  # at the start the first two; then who asks
    for place, (rows, lit) in enumerate(zip(found.values(), told, strict=True)):
        for row, token in enumerate(rows):
            bold = {"weight": "bold", "color": HERO} if row in lit else {}
            ax.text(place, row, token, ha="center", va="center", size=9, **bold)
    ax.set(xlim=(-0.3, len(maps) + 0.3), ylim=(length - 0.5, -0.5), yticks=[])
    ax.set_xticks(range(len(found)), found)
    ax.tick_params(length=0, labeltop=True, labelbottom=False)
    ax.spines[:].set_visible(False)
    note = "at a line's right end is who asks, at its left end who is asked, and hands over its note"
    figure.supxlabel(f"thicker: more weight; {note}", size=9)
    see = "Tokens in columns; a line is as wide as its right end's weight for its left end."
    return finished(figure, title, see)
