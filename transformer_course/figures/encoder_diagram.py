"""The diagram of the whole encoder: a lane for each token, components next to it, one head in detail."""

from functools import partial

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_course.figures.colours import (
    ATTENTION,
    COMPONENTS,
    DARK,
    GREY,
    HERO,
    HIDDEN,
    LIT,
    OPEN,
    ROLES,
    SILVER,
    pale,
)
from transformer_course.figures.layout import canvas, finished, two_decimals
from transformer_course.figures.shapes import DASHED, FRAME, arrow, box, cells, plus

# The backgrounds of components and of a highlighted group: pale where they contain much, to show the edges
GROUNDS = COMPONENTS | {"attention": pale(COMPONENTS["attention"], 0.3), "": pale(LIT, 0.5)}
GROUNDS["mask"] = OPEN

# The lesson that builds each part
BUILDS = {
    1: "positional encoding",
    2: "the rotation of queries and keys",
    3: "one head of attention",
    4: "the mask",
    5: "multi-head attention",
    6: "feed-forward",
    7: "the layer, its residual connections and norms",
    8: "the embedding, and the whole encoder",
}

# Lessons that do not build a part: what they do, and the lessons that built the components concerned
LATER = {
    9: ("loads the weights of a real model into the highlighted parts", (1, 5, 6, 7, 8)),
}
WORDS, IDS = ("the", "boy", "saw", "[PAD]"), (1996, 2879, 2387, 0)  # as in MiniLM
LANES, KEYS = 1.85 + 0.76 * np.arange(4), 6.15 + 0.67 * np.arange(4)  # the x coordinates of tokens and keys
BESIDE, APART = 0.36, 0.17  # the distance of a branch from its lane; of a key or a value from its x
ASKS, SUM, NAMES = 5.37, 6.99, 8.52  # x coordinates of the query, its output, the step names
SCORES, WEIGHTS = (0.5, 2.0, 1.0, 1.5), (0.14, 0.63, 0.23, 0.0)  # made-up scores, and their masked softmax
TAKES = (0.3, 0.5, 0.2, 0), (0.5, 0.2, 0.3, 0), WEIGHTS, (0.4, 0.3, 0.3, 0)
HEADS, WIDTH, CELL = 3, 2, 0.1  # number of heads, features of a head, width of a cell
STAGES = np.random.default_rng(3).normal(size=(4, 4, HEADS * WIDTH))  # made-up values at all stages
ROTATED = np.array(
    [(1.4, -0.8), (0.8, 0.52), (1.4, -1.09), (0.2, -1.42), (1.9, 0.67)]
)  # their dot products are the scores
VALUES = np.array([(1.2, 0.4), (2.2, -2.0), (-0.9, -1.3), (0.6, 1.8)])
TAKEN, OTHERS = np.array(WEIGHTS) @ VALUES, STAGES[0][2][WIDTH:].reshape(-1, WIDTH)  # this head, the others
KEY = "01 to 08: lessons; dashed: only in some models; values made up"
WRITTEN = {"va": "center", "zorder": 6}
ALT = (
    "A lane for each token, upwards: its id, the embedding, plus a position, a norm, the encoder layer "
    "(repeated), the contextual embedding. In the layer: attention, where the lanes meet, is added to each "
    "lane, then a norm; feed-forward is added, then a norm. At the right, multi-head attention: each head "
    "projects x to q, k, v; rotates q and k; q · k ÷ √d; mask; softmax; weighted sum of v. The heads are "
    "concatenated, and W_O projects them."
)


def encoder_map(lesson: int = 0) -> Figure:
    """Draw the whole encoder, and highlight the parts that one lesson builds or changes.

    A highlighted component has its own colour, a highlighted group is pale yellow, and the others are white.
    With lesson 0, all components are coloured. Numbers are the lessons that build the parts.
    """
    does, changed = LATER.get(lesson, ("", ()))
    if lesson in BUILDS:
        does, changed = f"builds the highlighted part: {BUILDS[lesson]}", (lesson,)
    figure, (ax,) = canvas(1, (9.8, 6.3))
    highlight, strength = partial(_style, changed, lesson), partial(_strength, changed, lesson)
    _lanes(ax, highlight, strength)
    _heads(ax, highlight, strength)
    ax.text(9.7, 0.16, KEY, ha="right", size=9, **WRITTEN)
    ax.set(xlim=(0, 9.75), ylim=(0, 6.2), aspect="equal")
    ax.set_axis_off()
    whole = "The encoder: each token's vector travels up its lane, the residual stream"
    title = f"Lesson {lesson:02d} {does}" if does else whole
    return finished(figure, title, ALT)


def _style(changed: tuple[int, ...], lesson: int, number: int, component: str = "") -> dict:
    """The style of a box: highlighted if this lesson builds it, coloured without a lesson, else white."""
    is_highlighted, group = number in changed, not component
    if is_highlighted and (not group or lesson == number):
        return {"colour": GROUNDS[component], "linewidth": 2.0}
    return {"colour": FRAME if group else "white" if lesson else GROUNDS[component], "edgecolor": GREY}


def _strength(changed: tuple[int, ...], lesson: int, *numbers: int) -> float:
    """The opacity of lines in parts of these lessons, reduced if other parts are highlighted."""
    return 1 if not lesson or {*numbers} & {*changed} else 0.35


def _write_name(
    ax: Axes, at: tuple[float, float], number: int, words: str, style: dict, **more: object
) -> None:
    """Write the name of a part after its lesson's number, in bold if it is highlighted."""
    weight = "bold" if style.get("linewidth") else "normal"
    ax.text(*at, f"{number:02d} {words}", weight=weight, **{"size": 9.5} | WRITTEN | more)


def _strip(
    ax: Axes, place: float, height: float, row: np.ndarray, strength: float, edge: str = "black"
) -> None:
    """Draw a vector as a strip of cells with a coloured frame."""
    corner = place - CELL * len(row) / 2, height + 0.08
    cells(ax, corner, (CELL * len(row), 0.16), strength * row[None], 2.5)
    ax.patches[-1].set(edgecolor=pale(edge, strength), linewidth=0.7 if edge == "black" else 1.2)


def _way(ax: Axes, colour: str, *points: tuple[float, float], zorder: float = 2) -> None:
    """Draw a line through the points that ends in an arrow without a gap."""
    ax.plot(*zip(*points[:-1], strict=True), color=colour, linewidth=1.2, zorder=zorder)
    arrow(ax, *points[-2:], gap=0, colour=colour, zorder=zorder)


def _lanes(ax: Axes, highlight: partial, strength: partial) -> None:
    """Draw a lane for each token, from its word at the bottom up to its contextual embedding."""
    whole, layer, attention = highlight(8), highlight(7), highlight(5, "attention")
    embedding, positions, norm = highlight(8, "embedding"), highlight(1, "positions"), highlight(7, "norm")
    forward, entrance = highlight(6, "feed-forward"), highlight(8, "norm") | DASHED
    box(ax, (4.875, 3.08), "", (9.7, 5.42), rounding=0.12, **whole | {"zorder": -2})
    box(ax, (2.42, 3.72), "", (4.62, 3.2), rounding=0.12, **layer | {"zorder": -1})
    box(ax, (3.17, 2.79), "", (3.0, 0.46), rounding=0.06, **attention | {"zorder": 0})
    for query, weights in zip(LANES + BESIDE, TAKES, strict=True):
        for key, weight in zip(LANES + BESIDE, weights, strict=True):
            colour = pale(HERO if weights is WEIGHTS else GREY, strength(5))
            ax.plot((key, query), (2.56, 3.02), color=colour, linewidth=5 * weight, zorder=2)
    for token, (lane, word, number) in enumerate(zip(LANES, WORDS, IDS, strict=True)):
        ax.text(lane, 0.16, word, ha="center", size=11, weight="bold", **WRITTEN)
        arrow(ax, (lane, 0.27), (lane, 5.91), width=2.5, colour=SILVER, zorder=1)
        box(ax, (lane, 0.66), f"{number}", (0.58, 0.24), rounding=0.03, **embedding)
        box(ax, (lane + 0.4, 1.32), f"{token}", (0.3, 0.22), rounding=0.02, **positions | DASHED)
        _way(ax, pale("black", strength(1)), (lane + 0.25, 1.32), (lane + 0.1, 1.32))
        plus(ax, (lane, 1.32), 0.1)
        ax.patches[-1].set_edgecolor(pale("black", strength(1)))
        _residuals(ax, lane, layer, strength)
        box(ax, (lane + BESIDE, 4.07), "ff", (0.3, 0.22), rounding=0.03, **forward)
        for height, style in ((1.66, entrance), (3.57, norm), (4.62, norm)):
            box(ax, (lane, height), "norm", (0.5, 0.22), rounding=0.04, **style)
        for height, stage in zip((0.98, 1.98, 4.93, 6.01), (0, 1, 2, 2), strict=True):
            _strip(ax, lane, height, STAGES[stage][token], strength())
    for height, number, words, style in (
        (0.66, 8, "embedding", embedding),
        (1.32, 1, "positional\nencoding", positions),
        (1.66, 8, "norm", entrance),
        (2.79, 5, "multi-head\nattention", attention),
        (3.57, 7, "norm", norm),
        (4.07, 6, "feed-\nforward", forward),
        (4.62, 7, "norm", norm),
        (5.06, 7, "encoder layer,\nrepeated", layer),
        (5.56, 8, "the full encoder", whole),
    ):
        _write_name(ax, (0.2, height), number, words, style)
    for height, words in ((0.16, "tokens"), (1.98, "x: one vector each"), (6.01, "contextual\nembeddings")):
        ax.text(0.2, height, words, size=9, **WRITTEN)


def _residuals(ax: Axes, lane: float, layer: dict, strength: partial) -> None:
    """Draw how attention and feed-forward read from a lane, and how their outputs are added to it."""
    highlight, side = "linewidth" in layer, lane + BESIDE
    if highlight:
        ax.plot((lane, lane), (2.12, 5.32), color=DARK, linewidth=2.5, zorder=1)
    for number, low, enters, leaves, added in ((5, 2.32, 2.56, 3.02, 3.28), (6, 3.84, 3.96, 4.18, 4.33)):
        colour = pale("black", strength(number, 7))
        _way(ax, colour, (lane, low), (side, low), (side, enters))
        _way(ax, colour, (side, leaves), (side, added), (lane + 0.1, added))
        plus(ax, (lane, added), 0.1)
        ax.patches[-1].set(edgecolor=colour, linewidth=2.0 if highlight else 1.0)


def _heads(ax: Axes, highlight: partial, strength: partial) -> None:
    """Draw multi-head attention in detail: one head in front, and the concatenation of all heads."""
    heads, head, strong = highlight(5, "attention"), highlight(3, "attention"), strength(5)
    if "linewidth" not in head:  # its colours are easiest to distinguish on white
        head["colour"] = "white"
    for band, edge in ((2.56, 0.48), (3.02, 5.5)):
        ax.plot((4.67, 4.95), (band, edge), color=GREY, linewidth=0.8, linestyle="--", zorder=0)
    box(ax, (7.28, 2.99), "", (4.66, 5.02), rounding=0.1, **heads | {"zorder": 0})
    for back in reversed(range(HEADS)):
        style = ({"colour": "white", "edgecolor": GREY} if back else head) | {"zorder": 1 - back / 9}
        box(ax, (7.18 + 0.08 * back, 2.45 + 0.08 * back), "", (4.3, 3.8), rounding=0.1, **style)
    _write_name(ax, (5.1, 5.3), 5, "multi-head attention: heads in parallel", heads)
    _write_name(ax, (5.13, 4.08), 3, "one head:\n“saw” attends", head)
    _values(ax, strength(3, 5))
    _scores(ax, highlight, strength(3, 5))
    _weights(ax, highlight(4, "mask"), strength(3, 5))
    for back, part in reversed([*enumerate((TAKEN, *OTHERS))]):
        place, low, edge = SUM + WIDTH * CELL * back, 4.35 + 0.08 * back, "black" if back else HERO
        _way(ax, pale("black", strong), (place, low if back else 4.23), (place, 4.73))
        _strip(ax, place, 4.82, part, strong, edge)
    weights = {"colour": GROUNDS["attention"]} if strong == 1 else {}
    box(ax, (7.98, 4.82), "W_O", (0.46, 0.26), rounding=0.03, edgecolor=pale("black", strong), **weights)
    for left, right in ((7.51, 7.75), (8.21, 8.43)):
        _way(ax, pale("black", strong), (left, 4.82), (right, 4.82))
    _strip(ax, 8.73, 4.82, STAGES[3][2], strong)
    for place, height, words in (
        (SUM - 1.2, 4.82, "concatenated"),
        (7.55, 5.06, "added to the lane of “saw”"),
        (SUM + 0.18, 4.17, "weighted sum"),
        (NAMES, 0.95, "x"),
        (NAMES, 2.56, "q · k ÷ √d"),
        (NAMES, 1.2, "= x · W"),
        (NAMES, 3.39, "softmax"),
        (NAMES, 3.78, "× v"),
    ):
        ax.text(place, height, words, size=9, **WRITTEN)


def _values(ax: Axes, strong: float) -> None:
    """Draw the vectors that a head reads, their values, and the weighted sum of the values."""
    for place, token in ((ASKS, 2), *zip(KEYS, range(4), strict=True)):
        weight = "bold" if place == ASKS else "normal"
        ax.text(place, 0.77, WORDS[token], ha="center", size=9, weight=weight, **WRITTEN)
        _strip(ax, place, 0.95, STAGES[1][token], strong)
    for place, words in ((ASKS, "attends"), (KEYS.mean(), "are attended to")):
        ax.text(place, 0.63, words, ha="center", size=8, color=DARK, **WRITTEN)
    ax.plot((5.76, 5.76), (0.58, 1.6), color=GREY, linewidth=0.8, linestyle=":", zorder=2)
    green, orange = pale(ROLES["value"], strong), pale(HERO, strong)
    for key, weight, value in zip(KEYS, WEIGHTS, VALUES, strict=True):
        place = key + APART
        _way(ax, green, (place, 1.03), (place, 1.36))
        _strip(ax, place, 1.45, value, strong, ROLES["value"])
        _way(ax, green, (place, 1.54), (place, 3.69), zorder=1.5)
        _way(ax, orange, (key - APART, 3.5), (key - APART, 3.78), (place - 0.09, 3.78))
        box(ax, (place, 3.78), "×", (0.18, 0.18), rounding=0.09, edgecolor=pale("black", strong))
        ax.plot((place, SUM), (3.87, 4.07), color=orange, linewidth=5 * weight, zorder=1.5)
    _strip(ax, SUM, 4.15, TAKEN, strong, HERO)


def _scores(ax: Axes, highlight: partial, strong: float) -> None:
    """Draw the query and the keys, and the score of each pair."""
    rotation = highlight(2, "positions") | DASHED
    violet, blue = (pale(ROLES[role], strong) for role in ("query", "key"))
    for place, role, row in zip((ASKS, *KEYS - APART), ("query", *["key"] * 4), ROTATED, strict=True):
        colour = pale(ROLES[role], strong)
        _way(ax, colour, (place, 1.03), (place, 1.36))
        _strip(ax, place, 1.45, row, strong, ROLES[role])
        _way(ax, colour, (place, 1.54), (place, 1.8))
        box(ax, (place, 1.92), "rotate", (0.5, 0.24), rounding=0.03, **rotation)
    across = KEYS[-1] - APART - 0.08
    ax.plot((ASKS, ASKS, across), (2.04, 2.26, 2.26), color=violet, linewidth=1.2, zorder=2)
    for key, score in zip(KEYS - APART, SCORES, strict=True):
        _way(ax, violet, (key - 0.08, 2.26), (key - 0.08, 2.44))
        _way(ax, blue, (key + 0.06, 2.04), (key + 0.06, 2.44))
        box(ax, (key, 2.56), f"{score:g}", (0.36, 0.24), rounding=0.0, edgecolor=pale("black", strong))
    for step, (role, colour) in enumerate(ROLES.items()):
        shown = colour if strong == 1 else GREY
        ax.text(NAMES + 0.15 * step, 1.45, role[0], size=9, weight="bold", color=shown, **WRITTEN)
    _write_name(ax, (NAMES, 1.92), 2, "rotate", rotation)


def _weights(ax: Axes, mask: dict, strong: float) -> None:
    """Draw the visible keys of the mask, and the attention weights."""
    hidden = {"colour": HIDDEN["facecolor"], "hatch": "////"}
    black, size = pale("black", strong), (0.36, 0.24)
    for key, weight in zip(KEYS - APART, WEIGHTS, strict=True):
        for low in (2.68, 3.1):
            _way(ax, black, (key, low), (key, low + 0.17))
        box(ax, (key, 2.98), "✓" if weight else "", size, rounding=0.0, **mask | ({} if weight else hidden))
        colour = pale(colormaps[ATTENTION](weight)[:3], strong) if weight else HIDDEN["facecolor"]
        box(ax, (key, 3.39), "", size, colour, rounding=0.0, edgecolor=black)
        words, letters = two_decimals(weight), "white" if 0 < weight < 0.5 and strong == 1 else "black"
        ax.text(key, 3.39, words if weight else "0", ha="center", size=9, color=letters, **WRITTEN)
    _write_name(ax, (NAMES, 2.98), 4, "mask", mask)
