"""Who takes from whom: a line for each weight, the wider the more, from layer to layer."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from transformer_course.figures import inputs
from transformer_course.figures.colours import DARK, GREY, HERO, ROLES, SILVER
from transformer_course.figures.drawings import FRAME, box
from transformer_course.figures.inputs import Labels, Matrix
from transformer_course.figures.layout import WIDEST, canvas, cell_texts, finished

FAINT, TOLD = 0.035, 0.1  # a smaller weight has no line; none in a web unless it is lit
WIDTH = 6.0  # points, of a weight of 1


def draw_ways(
    ax: Axes,
    weights: np.ndarray,
    ends: tuple[float, float],
    highlight: np.ndarray,
    *,
    at: np.ndarray | None = None,
    upright: bool = False,
    others: str = GREY,
    faint: float = 0.3,
    drop: float = 0.0,
    least: float = 0.0,
) -> None:
    """Draw a line from each key to each query, as wide as the weight (query, key), from left to right.

    Keys stand at ends[0], queries at ends[1], in lanes `at` 0, 1, … if None; `upright` lets the lines go up.
    They end so far below a query's lane as they `drop`. `highlight` is 2 for the highlighted lines, which are
    at `least` so many points wide, 1 for those of the same query, and else 0; these lie below, so
    `faint` that where they lie over each other they are seen as several.
    """
    highlight = np.broadcast_to(highlight, weights.shape)
    drawn = sorted(np.argwhere(weights > FAINT).tolist(), key=lambda place: highlight[*place])
    at = np.arange(len(weights)) if at is None else at
    lines = [[(ends[0], at[key]), (ends[1], at[query] - drop)] for query, key in drawn]
    style = {
        "linewidths": [max(WIDTH * weights[*place], least * (highlight[*place] == 2)) for place in drawn]
    }
    style["colors"] = [(to_rgba(others, faint), DARK, HERO)[highlight[*place]] for place in drawn]
    ax.add_collection(LineCollection(np.flip(lines, axis=2) if upright else lines, **style))


def draw_attention_web(
    ax: Axes, layers: Sequence[Matrix], tokens: Labels, highlight: int, *, upright: bool = False
) -> None:
    """Draw a line from each token up to each that takes from it, the wider the more, layer upon layer.

    Highlighted is what reaches token number `highlight` at the top. `layers` are weights or masks (query_pos,
    key_pos), the lowest first; all lines of a mask are alike. `upright` turns the tokens' names.
    """
    tables = [inputs.labelled(layer, tokens, tokens) for layer in layers]
    places = np.arange(len(tokens))
    reached = places == highlight
    for level, table in reversed(list(enumerate(tables))):
        shares = table / np.maximum(table.sum(axis=1).max(), 1)  # a row of a mask adds up to more
        drawn = np.where(reached[:, None] | (shares > TOLD), shares, 0)
        draw_ways(ax, drawn, (level, level + 1), 2 * reached[:, None], upright=True, others=SILVER)
        _draw_dots(ax, level + 1, reached)
        reached = (shares[reached] > FAINT).any(axis=0)
    _draw_dots(ax, 0, reached)
    turned = 90 * upright
    ax.set_xticks(places, tokens, rotation=turned)
    top = ax.secondary_xaxis("top")
    top.set_xticks(places, tokens, rotation=turned)
    for side, bold in ((ax, reached), (top, places == highlight)):
        side.tick_params(length=0)
        for label, is_bold in zip(side.get_xticklabels(), bold, strict=True):
            label.set(**({"color": HERO, "weight": "bold"} if is_bold else {"color": GREY}))
        side.spines[:].set_visible(False)
    ax.set(xlim=(-0.6, len(tokens) - 0.4), ylim=(-0.05, len(tables) + 0.05), yticks=[])
    ax.set_ylabel("from the input up to the output")
    ax.set_xlabel(f"“{tokens[highlight]}” hears of {reached.sum()} of {len(tokens)}")


def _draw_dots(ax: Axes, height: int, highlight: np.ndarray) -> None:
    style = {"color": np.where(highlight, HERO, GREY), "zorder": 3, "clip_on": False}
    ax.scatter(np.arange(len(highlight)), np.full(len(highlight), height), s=12, **style)


def draw_attention_arcs(
    ax: Axes, weights: Matrix, tokens: Labels, highlight: int, colour: str = HERO, dark: str = HERO
) -> None:
    """Draw an arc from a token, framed, to each that it takes from, itself too; below, in `dark`, shares."""
    shares, turn = inputs.labelled(weights, tokens, tokens)[highlight], np.linspace(0, np.pi, 31)
    for key, (token, share, text) in enumerate(zip(tokens, shares, cell_texts(shares), strict=True)):
        apart, is_told = (highlight - key) / 2, share > FAINT
        if is_told:  # a loop, to the token itself
            height = (2 * abs(apart) / len(tokens)) ** 0.5
            arc = key + apart + apart * np.cos(turn), height * np.sin(turn)
            loop = key + 0.28 * np.sin(2 * turn), 0.29 * (1 - np.cos(2 * turn))
            ax.plot(*(arc if apart else loop), color=colour, linewidth=12 * share, solid_capstyle="butt")
        bold = {"weight": "bold", "color": dark} if is_told or key == highlight else {"color": GREY}
        edge = {"facecolor": "white", "edgecolor": dark, "pad": 1.5} if key == highlight else None
        ax.text(key, -0.1, token, ha="center", va="top", size=11, bbox=edge, **bold)
        ax.text(key, -0.42, text if is_told else "", ha="center", va="top", size=10, **bold)
    ax.plot(highlight, 0, "o", color=dark, markersize=7)
    ax.set(xlim=(-0.5, len(tokens) - 0.5), ylim=(-0.64, 1.05))
    ax.set_axis_off()


# Which of a file's tensors fit which places


def matching_shapes(
    fits: Mapping[tuple[int, ...], tuple[Labels, Labels]],
    added: Mapping[str, str],
    left: str,
    pairs: tuple[str, str, str],
    *,
    title: str,
) -> Figure:
    """Draw which tensors of a file fit into which places of an encoder: all that have the same shape.

    `fits` has by their shape the file's names and the places. Where several share a shape, the lines are lit.
    To a place may be `added` what the words say; what is `left` in the file has no place. Of one name, the
    first of the `pairs`, the line to its place is thick, and dashed that to another.
    """
    count = sum(len(places) for _, places in fits.values())
    figure, (ax,) = canvas(1, (WIDEST, 0.4 * count + 1.8))
    top = 0.0
    for shape, (names, places) in fits.items():
        heights, many = top - 0.4 * np.arange(len(places)), len(places) > 1
        for name, start in zip(sorted(names), heights, strict=True):
            box(ax, (1.75, start), name, (3.3, 0.3), rounding=0.03)
            for place, end in zip(places, heights, strict=True):
                is_told = name == pairs[0] and place in pairs[1:]
                colour = ROLES["query"] if is_told else HERO if many else "black"
                dashes = "--" if is_told and place != pairs[1] else "-"
                style = {"color": colour, "linewidth": 2.2 if is_told else 1.1, "linestyle": dashes}
                ax.plot((3.4, 5.55), (start, end), zorder=2 + is_told, **style)
        for place, height in zip(places, heights, strict=True):
            box(ax, (7.1, height), place, (3.1, 0.3), FRAME, rounding=0.03)
            if place in added:
                ax.text(4.47, height - 0.05, f"+ {added[place]}", ha="center", va="top", size=8)
        words = " × ".join(map("{:,}".format, shape))
        ax.text(4.47, top + 0.04, words, ha="center", va="bottom", size=8.5)
        top -= 0.4 * len(places) + 0.14 + 0.2 * (places[0] in added)
    for place, words in ((1.75, "names in the file"), (4.4, "shape"), (7.1, "your encoder's places")):
        ax.text(place, 0.4, words, ha="center", weight="bold", size=9.5)
    _tell_kinds(ax, top, pairs[0], left)
    ax.set(xlim=(0, 9.0), ylim=(top - 0.75, 0.7))
    ax.set_axis_off()
    return finished(
        figure, title, "Left names of a file, by their shape; right the places that each shape fits."
    )


def _tell_kinds(ax: Axes, top: float, name: str, left: str) -> None:
    """Say below what the arrows mean, and what is not drawn."""
    words = "orange: each of these names fits each of these places; exchange two, and still all keys match"
    one = f"thick: {name} to its place; dashed: to another, where it fits, too"
    rest = f"drawn: weights of the tables, of the first norm, and of layer 0; {left}"
    for up, told, colour in ((0.12, words, HERO), (-0.12, one, ROLES["query"]), (-0.46, rest, DARK)):
        ax.text(0.1, top + up, told, va="center", size=8.5, color=colour)
