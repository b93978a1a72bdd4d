"""Drawings: boxes on the road that carries x, and on a line."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch, Rectangle
from matplotlib.text import Annotation

from transformer_course.figures import colours
from transformer_course.figures.colours import COMPONENTS, DARK, HERO, LIT, NO, SIGNED, SILVER, YES, YES_OR_NO
from transformer_course.figures.layout import WIDEST, canvas, finished, legend_of_cells

Point = tuple[float, float]


# What drawings are made of


def box(
    ax: Axes,
    middle: Point,
    label: str,
    size: Point,
    colour: str = "white",
    *,
    letters: float = 9,
    weight: str = "normal",
    label_up: float = 0.0,
    rounding: float = 0.1,
    **edge: object,
) -> None:
    """Draw a box of (width, height) around its middle, with its label there, or so much further up."""
    corner = middle[0] - size[0] / 2, middle[1] - size[1] / 2
    style = {"edgecolor": "black", "boxstyle": f"round,pad=0,rounding_size={rounding}", "zorder": 3} | edge
    ax.add_patch(FancyBboxPatch(corner, *size, facecolor=colour, **style))
    place = middle[0], middle[1] + label_up
    ax.text(*place, label, ha="center", va="center", size=letters, weight=weight, zorder=4)


def arrow(
    ax: Axes,
    start: Point,
    end: Point,
    *,
    width: float = 1.2,
    colour: str = "black",
    zorder: int = 1,
    gap: float = 2.0,
    first_gap: float | None = None,
) -> Annotation:
    """Draw an arrow from start to end but for a gap, in points; below boxes and sums."""
    first = gap if first_gap is None else first_gap
    properties = {"arrowstyle": "-|>", "color": colour, "lw": width, "shrinkA": first, "shrinkB": gap}
    return ax.annotate("", end, start, arrowprops=properties, zorder=zorder)


def plus(ax: Axes, middle: Point, radius: float = 0.2) -> None:
    """Draw a sum: a plus in a circle."""
    ax.add_patch(Circle(middle, radius, facecolor="white", edgecolor="black", zorder=3))
    ax.text(*middle, "+", ha="center", va="center", size=8 + 20 * radius, zorder=4)


def cells(
    ax: Axes, corner: Point, size: Point, table: np.ndarray, reach: float = 1.0, **style: object
) -> QuadMesh:
    """Draw a table's cells in a frame, below its upper left corner; colours go from −reach to reach."""
    rows, columns = table.shape
    across = corner[0] + np.linspace(0, size[0], columns + 1)
    down = corner[1] - np.linspace(0, size[1], rows + 1)
    style = {"cmap": SIGNED, "vmin": -reach, "vmax": reach, "zorder": 2} | style
    mesh = ax.pcolormesh(across, down, table, **style)
    ax.add_patch(Rectangle((across[0], down[-1]), *size, fill=False, linewidth=0.7, zorder=3))
    return mesh


def line(ax: Axes, *points: Point, width: float = 1.4, zorder: int = 2) -> None:
    """Draw a line through the points."""
    ax.plot(*zip(*points, strict=True), color="black", lw=width, zorder=zorder)


def way(ax: Axes, *points: Point, width: float = 1.4, zorder: int = 4) -> None:
    """Draw a line through the points, its last piece an arrow."""
    line(ax, *points[:-1], width=width, zorder=zorder)
    arrow(ax, points[-2], points[-1], width=width, zorder=zorder, first_gap=0 if points[2:] else None)


# The road that carries x, and what stands on it and beside it

ROAD, SIDE = 1.6, 0.45  # heights: the road, and what stands below it
CELL = 0.12  # the side of a cell


def _part(label: str, place: float, height: float = SIDE) -> tuple:
    size = (0.8, 0.6) if label == "norm" else (1.3, 0.75)
    return box, (place, height), label, size, COMPONENTS[label.replace("-\n", "-")]


def _added(read: float, added: float, *parts: tuple, road: float = ROAD, gap: float = 0.2) -> list[tuple]:
    """The pieces of parts beside a road: where it is read, and where what they make of x is added to it."""
    edges = [(middle[0] - size[0] / 2, middle[0] + size[0] / 2) for _, middle, _, size, *_ in parts]
    height = parts[0][1][1]
    enter, leave = (edges[0][0], height), (edges[-1][1], height)
    between = [(way, (one[1], height), (two[0], height)) for one, two in pairwise(edges)]
    enters = way, (read, road), (read, height), enter
    leaves = way, leave, (added, height), (added, road - gap)
    return [*parts, enters, *between, leaves, (plus, (added, road))]


POST_NORM = [
    *_added(0.8, 3.3, _part("attention", 2.0)),
    _part("norm", 4.4, ROAD),
    *_added(5.8, 8.3, _part("feed-\nforward", 7.0)),
    _part("norm", 9.4, ROAD),
]
PRE_NORM = [
    *_added(0.8, 4.6, _part("norm", 1.6), _part("attention", 3.1)),
    *_added(5.8, 9.6, _part("norm", 6.6), _part("feed-\nforward", 8.1)),
]


def _sheet(
    ax: Axes,
    middle: Point,
    table: np.ndarray,
    name: str = "",
    **style: object,
) -> None:
    """Draw a tensor, or as much of a row, as cells in their colours, its name below."""
    (x, y), (tall, wide) = middle, CELL * np.array(table.shape)
    style = {"edgecolor": SILVER, "linewidth": 0.5, "zorder": 3} | style
    cells(ax, (x - wide / 2, y + tall / 2), (wide, tall), table, **style)
    ax.text(x, y - tall / 2 - 0.06, name, ha="center", va="top", size=8.5)


def norm_orders(*, title: str = "") -> Figure:
    """Draw both orders of a layer: the road through it, what reads from it, and where the norms stand."""
    kept = partial(Axes.plot, color=DARK, linewidth=9, solid_capstyle="butt", zorder=2)
    last = partial(box, letters=8.5, linestyle="--"), (10.6, ROAD), "norm", (0.8, 0.6), COMPONENTS["norm"]
    word = partial(Axes.text, s="once, behind\nthe last layer", ha="center", va="top", size=8.5)
    ends = partial(Axes.plot, color=DARK, linewidth=1.2, linestyle=":"), (9.98, 9.98), (0.25, 2.25)
    end = [ends, (partial(Axes.text, s="end of a layer", ha="center", va="top", size=8.5), 9.98, 0.2)]
    post = [*POST_NORM, (kept, (-0.05, 4.0), (ROAD, ROAD)), *end]
    pre = [*PRE_NORM, (kept, (-0.05, 10.2), (ROAD, ROAD)), last, (word, 10.7, ROAD - 0.4), *end]
    roads = {
        "Post-norm: every norm stands on the road, and rewrites x": (post, 11.5),
        "Pre-norm: the norms stand beside it, and no layer rewrites x": (pre, 11.5),
    }
    alt = "The road carries x, and is wide where x is only added to: up to the first norm that stands on it."
    figure = _two_roads(roads)
    figure.supxlabel("wide road: up to here x was only added to (the first layer is drawn)", size=9)
    return finished(figure, title, alt)


def _two_roads(
    roads: Mapping[str, tuple[Sequence[tuple], float]],
    size: Point = (8.6, 2.2),
    start: str = "x",
    below: float = 0.0,
) -> Figure:
    """Draw thick roads from 0 to their end, and on each its pieces: what draws them, and where."""
    figure, panels = canvas(len(roads), size, (0, below), columns=1)
    longest = max(end for _, end in roads.values())
    for ax, (name, (pieces, end)) in zip(panels, roads.items(), strict=True):
        arrow(ax, (0, ROAD), (end, ROAD), width=4, colour=DARK)
        ax.text(-0.15, ROAD, start, ha="right", va="center", size=11)
        for draw, *where in pieces:
            draw(ax, *where)
        ax.set(xlim=(-0.6, longest + 0.2), ylim=(-0.2, 2.3), aspect="equal")
        ax.set_title(name, loc="left")
        ax.set_axis_off()
    return figure


# MiniLM and ModernBERT

FRAME = "#f4f4f4"  # of a layer
CLEAR = {"fill": False, "edgecolor": "black"}
DASHED, MOVED, CAME = {"linestyle": "--"}, {"linewidth": 2.5}, {"edgecolor": HERO, "linewidth": 1.8}


def _stage(label: str, place: float, height: float = ROAD, **style: object) -> tuple:
    part = {"LayerNorm": "norm", "positions": "positions", "padding": ""}
    (part,) = [part[word] for word in part if word in label] or ["embedding"]
    return partial(box, letters=8, **style), (place, height), label, (1.6, 0.9), COMPONENTS.get(part, "white")


def _inside(outer: str, inner: Sequence[str], place: float, width: float, **style: object) -> tuple:
    """The piece of a part that has others inside."""

    def draw(ax: Axes, middle: Point, label: str, size: Point) -> None:
        tall = [0.1 + 0.36 * (1 + name.count("\n")) for name in inner]
        top, high = middle[1] + 0.5, 0.53 + sum(tall) + 0.08 * len(inner)
        whole = {"colour": COMPONENTS[label], "letters": 8.5, "label_up": high / 2 - 0.25}
        box(ax, (middle[0], top - high / 2), label, (size[0], high), **whole)
        for row, name in enumerate(inner):
            down = 0.5 + sum(tall[:row]) + 0.08 * row + tall[row] / 2
            mine = {"colour": COMPONENTS["positions"]} if "rotary" in name else {}
            box(ax, (middle[0], top - down), name, (size[0] - 0.2, tall[row]), letters=8, **mine, **style)

    return draw, (place, SIDE), outer, (width, 0.9)


def _note(words: str, middle: Point, width: float, **style: object) -> tuple:
    return partial(box, letters=8, **style), middle, words, (width, 0.4)


def _frame(ax: Axes, right: float, low: float) -> None:
    style = {"boxstyle": "round,pad=0", "facecolor": FRAME, "linewidth": 0.8, "zorder": -1}
    ax.add_patch(FancyBboxPatch((5.85, low), right - 5.85, 2.2 - low, **style))
    ax.text(5.95, 1.83, "layer, repeated", va="bottom", size=8)


def minilm_and_modernbert(*, title: str) -> Figure:
    """Draw MiniLM above ModernBERT: what went, what moved, what came."""
    aside = partial(Axes.text, ha="center", va="center", size=8)
    then = [
        *(_stage("embedding", 1.1), _stage("+ positions\n(a table)", 2.95, **DASHED)),
        *(_stage("LayerNorm", 4.8), _note("padding is computed like a word", (2.95, SIDE), 4.5, **DASHED)),
        *((_frame, 16.3, -0.8), _note("biases", (14.9, -0.5), 1.6, **DASHED)),
        *_added(6.1, 9.3, _inside("attention", ["all meet all\nin every layer"], 7.75, 2.4, **DASHED)),
        *(_stage("LayerNorm", 10.4, **MOVED), _stage("LayerNorm", 15.25, **MOVED)),
        *_added(11.5, 14.15, _inside("feed-forward", ["GELU alone"], 12.85, 2.0, **DASHED)),
    ]
    attends, gates = ["rotary turns q, k", "2 layers of 3:\nnear only"], ["GeGLU: a gate\nwith GELU"]
    norm = partial(_stage, "LayerNorm", height=SIDE, **MOVED)
    now = [
        *(_stage("padding\ntaken out", 1.1, **CAME), _stage("embedding", 2.95), _stage("LayerNorm", 4.8)),
        *((_frame, 17.35, -1.3), (aside, 7.2, -0.3, "not in layer 0")),  # which the norm before it spares one
        *_added(6.1, 11.55, norm(7.2), _inside("attention", attends, 9.8, 2.9, **CAME)),
        *_added(11.9, 17.0, norm(13.0), _inside("feed-forward", gates, 15.4, 2.6, **CAME)),
        *(_stage("LayerNorm\nat the end", 18.35, **CAME), (aside, 18.5, 0.75, "then padding\ncomes back")),
    ]
    roads = {
        "MiniLM, a BERT: inside the layer the norms stand on the road": (then, 17.3),
        "ModernBERT: inside the layer the norms stand beside the road": (now, 19.6),
    }
    figure = _two_roads(roads, (9.4, 2.15), "ids", 0.3)
    for ax in figure.axes:
        ax.set_ylim(-1.4, 2.3)
    legend_of_cells(figure, {"went": CLEAR | DASHED, "moved": CLEAR | MOVED, "came": CLEAR | CAME})
    alt = "Two rows of boxes, a model each; a dashed box went, a thick one moved, a coloured edge came."
    return finished(figure, title, alt)


# How ids become vectors in context, as shapes of numbers made up

ENTERS, PASSES = 1.75, -1.0  # heights of both rows
SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
FLOW = {  # words, and where the middles of their lines stand
    **{"tokens": (0.58, 2.58), "ids": (1.17, 2.58), "E: a row for each id": (2.8, 0.5)},
    **{"their rows": (4.3, 0.5), "in the paper": (5.5, 1.37), "in BERT, MiniLM": (7.3, 1.37)},
    **{"P: a row for each position;\nmodels with rotary have none": (8.0, ENTERS + 0.95)},
    **{"dashed: only in some models": (7.3, 0.5), "vectors\nin context": (8.9, -0.45)},
    "mask: who may look at whom (dark: yes; nobody at [PAD], id 0), one for all layers": (4.4, 0.03),
}
READ = "weights of {} heads, out of each layer (the brighter, the more; white: masked)\n"
READ += "all numbers are made up; red: above 0, blue: below 0"


def data_flow(tokens: Sequence[str], ids: Sequence[int], layers: int, heads: int, *, title: str) -> Figure:
    """Draw how ids look up rows of E, and get positions; and how x passes the layers, which share a mask.

    The id 0 is padding. The numbers are made up: a layer mixes the rows of x, and adds what is new; who may
    be looked at has weights.
    """
    figure, (ax,) = canvas(1, (WIDEST, 6.4))
    count, flow = len(tokens), partial(arrow, ax, width=2, colour=DARK)
    up = np.arange(count)[::-1] - (count - 1) / 2
    found = ENTERS + 0.38 * up[np.argsort(np.argsort(ids))]  # E has its rows in the order of the ids
    rng = np.random.default_rng(1)
    vectors, places, *news = rng.uniform(-1, 1, (2 + layers, count, 4))
    x = [(vectors + places) / 1.4]
    for new in news:
        x.append(0.6 * x[-1] + 0.3 * x[-1].mean(0) + 0.6 * new)
    box(ax, (2.8, ENTERS), "", (1.4, 0.38 * count + 0.28), COMPONENTS["embedding"], rounding=0.02)
    _look_up(ax, tokens, ids, found, vectors)
    arrow(ax, (0.5 + 4.2 / layers, ENTERS - 0.7), (0.5 + 4.2 / layers, PASSES + 1.5))  # the mask comes of ids
    box(ax, (5.5, ENTERS), "× √d_model", (0.96, 0.45), **DASHED)
    box(ax, (7.3, ENTERS), "norm", (0.96, 0.45), COMPONENTS["norm"], **DASHED)
    around = 4 * CELL + 0.16, CELL * count + 0.16
    box(ax, (6.4, ENTERS + 0.95), "", around, COMPONENTS["positions"], rounding=0.02, **DASHED)
    _sheet(ax, (6.4, ENTERS + 0.95), places)
    _sheet(ax, (8.7, ENTERS), x[0], "x₀")
    flow((6.4, ENTERS + 0.54), (6.4, ENTERS + 0.2))
    plus(ax, (6.4, ENTERS))
    for start, end in ((4.58, 5.02), (5.98, 6.2), (6.6, 6.82), (7.78, 8.4)):
        flow((start, ENTERS), (end, ENTERS))
    _passes(ax, x, np.array(ids) != 0, heads, 8.4 / layers)
    for words, place in (FLOW | {READ.format(heads): (4.7, -2.82)}).items():
        ax.text(*place, words, ha="center", va="center", size=9)
    ax.set(xlim=(0.1, 9.4), ylim=(-3.0, ENTERS + 1.38), aspect="equal")
    ax.set_axis_off()
    alt = "Above, ids pick rows of a table and get positions; below, x passes all layers in one shape."
    return finished(figure, title, alt)


def _look_up(
    ax: Axes, tokens: Sequence[str], ids: Sequence[int], rows: np.ndarray, vectors: np.ndarray
) -> None:
    """Draw how each id picks its row of the table, at these heights, and the vector that comes out."""
    heights = ENTERS + 0.28 * (np.arange(len(tokens))[::-1] - (len(tokens) - 1) / 2)
    for token, number, row, height, vector in zip(tokens, ids, rows, heights, vectors, strict=True):
        ax.text(0.8, height, token, ha="right", va="center", size=10, weight="bold")
        box(ax, (1.17, height), f"{int(number)}", (0.56, 0.22), letters=9, rounding=0.02)
        ax.text(2.74, row, f"{int(number)}", ha="right", va="center", size=9, zorder=5)
        for up, beside in ((0.19, number - 1), (-0.19, number + 1)):
            between = "⋮" if number and beside not in ids else ""
            ax.text(2.57, row + up, between, ha="center", va="center", size=8, zorder=5)
        line(ax, (1.45, height), (2.1, row), (2.22, row), width=0.9, zorder=5)
        line(ax, (3.34, row), (3.5, row), (4.04, height), width=0.9, zorder=5)
        _sheet(ax, (3.1, row), vector[None])
        _sheet(ax, (4.3, height), vector[None])


def _passes(ax: Axes, x: Sequence[np.ndarray], real: np.ndarray, heads: int, step: float) -> None:
    """Draw x on its way through the layers, the mask that enters each, and each one's weights."""
    rng, square = np.random.default_rng(3), np.ones((len(real), len(real)))
    _sheet(ax, (0.5, PASSES), x[0], "x₀")
    _sheet(ax, (0.5 + step / 2, PASSES + 1.1), square * real, cmap=YES_OR_NO, vmin=0)
    line(ax, (0.83 + step / 2, PASSES + 0.9), (8.9 - step / 2, PASSES + 0.9))
    for layer, behind in enumerate(x[1:]):
        place, half = 0.5 + step * (layer + 0.5), step / 2
        for start, end in ((0.9 if layer else 0.75, 0.35), (-0.35, -0.65)):
            arrow(ax, (place, PASSES + start), (place, PASSES + end), gap=0)
        for start, end in ((0.26 - half, -0.28), (0.28, half - 0.26)):
            arrow(ax, (place + start, PASSES), (place + end, PASSES), width=2, colour=DARK)
        box(ax, (place, PASSES), f"layer\n{layer}", (0.56, 0.7), FRAME, weight="bold")
        for back in reversed(range(heads)):
            middle = place + 0.026 * back - 0.14, PASSES - 1.22 + 0.02 * back
            shares = np.where(real, np.exp(1.3 * rng.normal(size=square.shape)), np.nan)
            shares /= np.nansum(shares, axis=1, keepdims=True)
            _sheet(ax, middle, shares, cmap=colormaps[colours.ATTENTION].with_extremes(bad="white"), vmin=0)
        _sheet(ax, (place + half, PASSES), behind, f"x{layer + 1}".translate(SUBSCRIPT))


# Five kinds of tests before one bug: what goes in, who computes, what comes out; what is asked; who notices.
# A star stands before a number that differs from what is beside it, or promised, a ring before a changed one.
SUSPECT, HAND = "softmax down\nthe columns", "0  log 3\nlog 2  0"  # the bug; the scores of lesson 14, by hand
LOOP = [
    (HAND, SUSPECT, "*.33  .75\n.67  *.25"),
    (HAND, "the formula,\ntrusted", "*.25  .75\n.67  *.33"),
]
NUDGE = [(HAND, SUSPECT, ".33  .75\n*.67  *.25"), ("°log 3  °0\nlog 2  0", SUSPECT, ".60  .50\n*.40  *.50")]
SUMS = ".33+.75 =  *1.08\n.67+.25 =  *.92"
KINDS_OF_TESTS = {
    "sizes": ([("shape (3, 5)", SUSPECT, "shape (3, 5)")], "the shape as\npromised? yes", "missed"),
    "loop": (LOOP, "all numbers\nequal? no", "noticed"),
    "promise": ([(HAND, SUSPECT, SUMS)], "rows add up\nto 1? no", "noticed"),
    "count": ([("", SUSPECT, "0 parameters")], "as many as counted\nby hand, 0? yes", "missed"),
    "nudge": (NUDGE, "only row 0 was changed:\nrow 1 as before? no", "noticed"),
}


def kinds_of_tests(*, title: str) -> Figure:
    """Draw for each of the five kinds of tests what the suspect is given, and what is asked of its answer."""
    figure, panels = canvas(5, (0, 0), (WIDEST, 3.5), width_ratios=[1.1, 2.4, 1.95, 1.15, 2.4])
    for ax, (name, (runs, question, verdict)) in zip(panels, KINDS_OF_TESTS.items(), strict=True):
        for x, stages in enumerate(runs):
            for y, word in zip((2, 1, 0), stages, strict=True):
                computes = y == 1
                colour = "white" if word == SUSPECT else FRAME if computes else LIT
                if word:
                    box(ax, (x, y), word if computes else "", (0.94, 0.56), colour, letters=8, rounding=0.04)
                for row, line_of in enumerate("" if computes else word.splitlines()):
                    _write_row(ax, x, y + 0.13 * (1 - 2 * row) * ("\n" in word), line_of.split("  "))
                if y and stages[2 - y]:
                    arrow(ax, (x, y - 0.28), (x, y - 0.72))
                for place in (0, 1) if y == 2 and "\n" in word else ():
                    ax.text(x + 0.44 * place - 0.22, 2.31, f"key {place}", ha="center", va="bottom", size=8)
                    if x == 0:  # they are those of all at its right
                        ax.text(-0.5, 2.13 - 0.26 * place, f"query {place}", ha="right", va="center", size=8)
        middle, is_seen = (len(runs) - 1) / 2, verdict == "noticed"
        ax.text(middle, -0.4, question, ha="center", va="top", size=9, weight="bold")
        box(ax, (middle, -1.13), "", (0.94, 0.26), YES if is_seen else NO, rounding=0.04)
        style = {"color": "white" if is_seen else "black", "zorder": 4}
        ax.text(middle, -1.13, verdict, ha="center", va="center", size=9, weight="bold", **style)
        ax.set(
            xlim=(-0.55 if name in ("sizes", "count") else -0.85, len(runs) - 0.45),
            ylim=(-1.3, 2.52),
            title=name,
        )
        ax.set_axis_off()
    told = "the bug: softmax down the columns, not along the rows\n"
    told += "framed: should be equal, and is not (promise: should be 1); dotted: changed for the test"
    figure.supxlabel(told, size=9)
    alt = "For each test, from above: what goes in, who computes, what comes out; framed: what differs."
    return finished(figure, title, alt)


def _write_row(ax: Axes, x: float, y: float, words: Sequence[str]) -> None:
    """Write the numbers of a row side by side, a frame round those with a star, a dashed one with a ring."""
    for place, word in enumerate(words):
        frame = {"facecolor": "white", "edgecolor": HERO, "pad": 0.8}
        edge = {"*": {"bbox": frame}, "°": {"bbox": frame | {"edgecolor": "black", "linestyle": ":"}}}
        right = 0.44 * (place - (len(words) - 1) / 2)
        ax.text(
            x + right,
            y,
            word.lstrip("*°"),
            ha="center",
            va="center",
            size=8,
            zorder=4,
            **edge.get(word[0], {}),
        )
