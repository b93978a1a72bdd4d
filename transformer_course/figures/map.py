"""The map of the whole encoder: a lane for each token, the parts beside the lanes, and one head opened."""

from functools import partial

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_course.figures.colours import (
    ATTENTION,
    COMPONENTS,
    GREY,
    HERO,
    HIDDEN,
    LIT,
    SILVER,
    pale,
)
from transformer_course.figures.drawings import DASHED, FRAME, arrow, box, cells, line, plus
from transformer_course.figures.layout import canvas, finished, two_decimals

# Of its components, and of a lit group of them: pale where much is written on it, so that every edge is clear
GROUNDS = COMPONENTS | {"attention": pale(COMPONENTS["attention"], 0.3), "": pale(LIT, 0.5)}
# What a lesson builds
BUILDS = {
    **{
        1: "positional encoding",
        2: "the turn of queries and keys",
        3: "one head of attention",
        4: "the mask",
    },
    **{5: "multi-head attention", 6: "feed-forward", 7: "the layer, and its norms"},
    8: "the embedding, and the whole encoder",
}
# What a lesson does that builds no box, and to which components, by the lessons that built them
LATER = {
    9: ("puts the numbers of a real model into the parts that are lit", (1, 5, 6, 7, 8)),
    13: ("measures the parts that are lit, and lets attention move fewer bytes", (5, 6, 7)),
}
WORDS, IDS = ("the", "boy", "saw", "[PAD]"), (1996, 2879, 2387, 0)  # as in MiniLM
LANES, KEYS = 1.85 + 0.76 * np.arange(4), 6.1 + 0.66 * np.arange(4)  # where tokens and keys stand
ASKS, NAMES = 5.45, 8.42  # where the query stands, and the names of the steps
SCORES, WEIGHTS = (0.5, 2.0, 1.0, 1.5), (0.14, 0.63, 0.23, 0.0)  # made up; and their softmax, as masked
TAKES = (0.3, 0.5, 0.2, 0), (0.5, 0.2, 0.3, 0), WEIGHTS, (0.4, 0.3, 0.3, 0)
STAGES = np.random.default_rng(3).normal(size=(4, 4, 6))  # vectors of six features, made up
KEY = "numbers: lessons; dashed: in some models, 01 or 02; vectors made up"
WRITTEN = {"va": "center", "zorder": 6}


def encoder_map(lesson: int = 0) -> Figure:
    """Draw the whole encoder and light what one lesson builds, or changes; a part bears its lesson's number.

    A lit component has its colour, a group of them pale yellow; without a lesson all have theirs.
    """
    does, changed = LATER.get(lesson, ("", ()))
    if lesson in BUILDS:
        does, changed = f"builds the part that is lit: {BUILDS[lesson]}", (lesson,)
    figure, (ax,) = canvas(1, (9.8, 6.3))
    lit = partial(_look, changed, lesson)
    vectors = STAGES * (0.35 if lesson else 1)  # paler beside what is lit
    _lanes(ax, lit, vectors)
    _one_head(ax, lit, vectors)
    ax.text(9.7, 0.16, KEY, ha="right", size=9, **WRITTEN)
    ax.set(xlim=(0, 9.75), ylim=(0, 6.2), aspect="equal")
    ax.set_axis_off()
    title = f"Lesson {lesson:02d} {does}" if does else "The encoder: each token's vector travels up its lane"
    see = "A lane for each token, from its id up to its vector in context; at the right one head is opened."
    return finished(figure, title, see)


def _look(changed: tuple[int, ...], lesson: int, number: int, component: str = "") -> dict:
    """The look of a box of this lesson's: of a lit one, of any if there is no lesson, of the others."""
    is_lit, group = number in changed, not component
    if is_lit and (not group or lesson == number):
        colour = GROUNDS[component]
        if component == "embedding":  # its grey is no light, nor is the whole encoder's yellow
            colour = "white" if lesson == number else LIT
        return {"colour": colour, "linewidth": 2.0}
    return {"colour": FRAME if group else "white" if lesson else GROUNDS[component], "edgecolor": GREY}


def _named(ax: Axes, at: tuple[float, float], number: int, words: str, look: dict, **more: object) -> None:
    """Write what a part is called, behind its lesson's number; bold where it is lit."""
    weight = "bold" if look.get("linewidth") else "normal"
    ax.text(*at, f"{number:02d} {words}", weight=weight, **{"size": 9.5} | WRITTEN | more)


def _strip(ax: Axes, place: float, height: float, row: np.ndarray) -> None:
    """Draw a vector as a strip of cells."""
    wide = 0.09 * len(row)
    cells(ax, (place - wide / 2, height + 0.08), (wide, 0.16), row[None], 2.5)


def _lanes(ax: Axes, lit: partial, vectors: np.ndarray) -> None:
    """Draw a lane for each token, from its word at the bottom up to its vector in context."""
    whole, layer, attention = lit(8), lit(7), lit(5, "attention")
    embedding, positions, norm = lit(8, "embedding"), lit(1, "positions"), lit(7, "norm")
    forward, entrance = lit(6, "feed-forward"), lit(8, "norm") | DASHED
    box(ax, (4.875, 3.02), "", (9.7, 5.3), rounding=0.12, **whole | {"zorder": -2})
    box(ax, (2.42, 3.72), "", (4.62, 3.2), rounding=0.12, **layer | {"zorder": -1})
    box(ax, (LANES.mean(), 2.78), "", (2.95, 0.62), rounding=0.06, **attention | {"zorder": 0})
    for query, shares in zip(LANES, TAKES, strict=True):
        for key, share in zip(LANES, shares, strict=True):
            colour = HERO if shares is WEIGHTS else GREY
            ax.plot((key, query), (2.53, 3.03), color=colour, linewidth=5 * share, zorder=2)
    for token, (lane, word, number) in enumerate(zip(LANES, WORDS, IDS, strict=True)):
        ax.text(lane, 0.16, word, ha="center", size=11, weight="bold", **WRITTEN)
        arrow(ax, (lane, 0.27), (lane, 5.86), width=2.5, colour=SILVER, zorder=1)
        box(ax, (lane, 0.66), f"{number}", (0.58, 0.24), rounding=0.03, **embedding)
        box(ax, (lane + 0.4, 1.32), "", (0.32, 0.2), rounding=0.02, **positions | DASHED)
        arrow(ax, (lane + 0.24, 1.32), (lane + 0.1, 1.32), width=1, gap=0, zorder=4)
        line(ax, (lane, 3.8), (lane + 0.36, 3.8), (lane + 0.36, 4.3), (lane + 0.2, 4.3), width=1)
        arrow(ax, (lane + 0.25, 4.3), (lane + 0.1, 4.3), width=1, gap=0, zorder=4)
        box(ax, (lane + 0.36, 4.05), "", (0.3, 0.24), rounding=0.03, **forward)
        for height in (1.32, 3.22, 4.3):
            plus(ax, (lane, height), 0.1)
        for height, look in ((1.66, entrance), (3.53, norm), (4.61, norm)):
            box(ax, (lane, height), "norm", (0.5, 0.22), rounding=0.04, letters=8.5, **look)
        for height, stage in zip((0.98, 1.98, 4.93, 5.96), (0, 1, 2, 2), strict=True):
            _strip(ax, lane, height, vectors[stage][token])
    for height, number, words, look in (
        *((0.66, 8, "embedding", embedding), (1.32, 1, "positional\nencoding", positions)),
        *((1.66, 8, "norm", entrance), (2.78, 5, "multi-head\nattention", attention)),
        *((3.53, 7, "norm", norm), (4.05, 6, "feed-\nforward", forward), (4.61, 7, "norm", norm)),
        *((5.06, 7, "encoder layer,\nrepeated", layer), (5.5, 8, "the full encoder", whole)),
    ):
        _named(ax, (0.2, height), number, words, look)
    for height, words in (
        (0.16, "tokens"),
        (1.98, "x: a vector each"),
        (3.2, "+ added"),
        (5.96, "vectors in context"),
    ):
        ax.text(0.2, height, words, size=9, **WRITTEN)


def _one_head(ax: Axes, lit: partial, vectors: np.ndarray) -> None:
    """Draw the attention opened: what one head does for one token, step by step upwards."""
    heads, head, mask = lit(5, "attention"), lit(3, "attention"), lit(4, "attention")
    turn = lit(2, "positions") | DASHED
    for band, edge in ((2.47, 0.5), (3.09, 5.3)):
        ax.plot((4.47, 4.95), (band, edge), color=GREY, linewidth=0.8, zorder=0)
    box(ax, (7.28, 2.9), "", (4.66, 4.8), rounding=0.1, **heads | {"zorder": 0})
    for back in (2, 1, 0):
        box(ax, (7.13 + 0.1 * back, 2.43 + 0.08 * back), "", (4.16, 3.72), **head | {"zorder": 1 - back / 9})
    _named(ax, (5.1, 5.12), 5, "multi-head attention: heads side by side", heads)
    _named(ax, (5.15, 4.02), 3, "one head:\n“saw” asks", head)
    for place, word in ((ASKS, "saw"), *zip(KEYS, WORDS, strict=True)):
        ax.text(
            place, 0.74, word, ha="center", size=9, weight="bold" if place == ASKS else "normal", **WRITTEN
        )
    for token, key in zip((2, 0, 1, 2, 3), (ASKS, *KEYS), strict=True):
        _strip(ax, key, 0.98, vectors[1][token])
        arrow(ax, (key, 1.08), (key, 1.32), width=1, gap=0, zorder=4)
        _strip(ax, key, 1.42, vectors[3][token][2 * (key == ASKS) :][:4])
        if key != ASKS:
            for low, high in ((1.52, 2.32), (2.6, 2.77), (3.05, 3.22), (3.5, 3.67)):
                arrow(ax, (key, low), (key, high), width=1, gap=0, zorder=4 if low > 2 else 1.5)
    line(ax, (ASKS, 1.52), (ASKS, 2.46), (KEYS[-1] - 0.2, 2.46), width=1.6, zorder=2)
    box(ax, (6.78, 1.84), "", (3.2, 0.28), rounding=0.04, **turn)
    _named(ax, (6.78, 1.84), 2, "turn, by the position", turn, ha="center")
    box(ax, (7.46, 2.91), "", (3.42, 0.3), rounding=0.04, **mask)
    _cells(ax)
    for key, token in zip(KEYS, range(4), strict=True):
        _strip(ax, key, 3.78, vectors[2][token][:4])
        if WEIGHTS[token]:
            wide = 5 * WEIGHTS[token]
            ax.plot((key, KEYS.mean()), (3.86, 4.08), color=HERO, linewidth=wide, zorder=3)
    _strip(ax, KEYS.mean(), 4.12, (np.array(WEIGHTS) @ vectors[2])[:4])
    steps = (0.98, "x"), (1.42, "q and k"), (2.46, "q · k: score"), (3.36, "softmax"), (3.78, "× values")
    for height, words in steps:
        ax.text(NAMES, height, words, size=9, **WRITTEN)
    ax.text(7.9, 4.12, "their sum", size=9, **WRITTEN)
    _named(ax, (NAMES, 2.91), 4, "mask", mask)
    arrow(ax, (KEYS.mean(), 4.2), (KEYS.mean(), 4.62), width=1.2, gap=0, zorder=4)
    for place, values in zip(KEYS.mean() + 0.38 * np.arange(-2, 2), vectors[0], strict=True):
        _strip(ax, place, 4.72, values[:4])
    ax.text(7.9, 4.72, "joined, and back\nto the lane of “saw”", size=9, **WRITTEN)


def _cells(ax: Axes) -> None:
    """Draw the scores of a query with all keys, what the mask lets through, and the weights."""
    colours = colormaps[ATTENTION]
    for key, score, weight in zip(KEYS, SCORES, WEIGHTS, strict=True):
        box(ax, (key, 2.46), f"{score:g}".replace("0.", "."), (0.44, 0.26), rounding=0.0)
        box(ax, (key, 2.91), "✓" if weight else "", (0.44, 0.22), rounding=0.0)
        if weight:
            box(ax, (key, 3.36), "", (0.44, 0.26), colours(weight), rounding=0.0)
            colour = "black" if weight > 0.5 else "white"
            ax.text(key, 3.36, two_decimals(weight), ha="center", size=9, color=colour, **WRITTEN)
        else:
            box(ax, (key, 2.91), "", (0.44, 0.22), HIDDEN["facecolor"], rounding=0.0, hatch="////")
            box(ax, (key, 3.36), "0", (0.44, 0.26), HIDDEN["facecolor"], rounding=0.0)
