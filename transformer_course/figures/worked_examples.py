"""Vectors, matrices and shapes as pictures: sums, a sentence and tensors on their way, arithmetic."""

from collections.abc import Mapping, Sequence
from itertools import pairwise, product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from transformer_course.figures import inputs
from transformer_course.figures.attention_flow import draw_ways
from transformer_course.figures.colours import (
    COMPONENTS,
    DARK,
    EDGE,
    GREY,
    HERO,
    HIDDEN,
    LIT,
    NO,
    PALE,
    ROLES,
    SILVER,
    pale,
)
from transformer_course.figures.drawings import FRAME, Point, arrow, box, cells, line, plus
from transformer_course.figures.inputs import Labels, Matrix
from transformer_course.figures.layout import WIDEST, canvas, finished, legend_of_cells, number, two_decimals
from transformer_course.figures.positions import named_arrow

# Of the shapes, in inches: all features, all positions, a head's features, from row to row, sheet to sheet
WHOLE, TALL, NARROW, ROW, SHEET = 0.9, 0.66, 0.34, 1.3, 0.022


def weighted_sum(
    weights: Sequence[float], values: Matrix, tokens: Labels, *, query: str, title: str = ""
) -> Figure:
    """Draw values (token, 2) as arrows; beside them each times its weight, end to end: what `query` gets."""
    weights = inputs.numbers_of(weights, 1, name="weights")
    values = inputs.numbers_of(values, 2, name="values")
    steps = np.concatenate([np.zeros((1, 2)), np.cumsum(weights[:, None] * values, axis=0)])
    drawn = np.concatenate([values, steps])  # the steps begin at 0
    low, high = drawn.min(axis=0), drawn.max(axis=0)
    room = 0.14 * ((high - low).max() or 1.0)
    figure, (left, right) = canvas(2, (4.1, 4.1))
    colour, style = ROLES["value"], {"width": 1.8, "zorder": 3, "gap": 0}
    bold = {"textcoords": "offset points", "size": 9, "weight": "bold"}
    for token, weight, value, start in zip(tokens, weights, values, steps[:-1], strict=True):
        named_arrow(left, (0, 0), value, token, colour)
        arrow(right, start, start + weight * value, **style, colour=colour)
        aside = np.array([value[1], -value[0]]) / (np.hypot(*value) or 1.0)  # to the right of its middle
        sides = {"ha": "left" if aside[0] > 0.1 else "center", "va": "top" if aside[1] < -0.1 else "center"}
        words = f"{two_decimals(weight, 3)} · {token}"
        right.annotate(words, start + weight * value / 2, 6 * aside, **bold, **sides, color=colour)
    arrow(right, (0, 0), steps[-1], **style | {"zorder": 2}, colour=HERO)  # its head below the last one's
    words = f"output ({', '.join(map(two_decimals, steps[-1]))})"
    right.annotate(words, steps[-1], (0, 6), **bold, ha="center", color=HERO)
    for ax, name in ((left, "what each hands over"), (right, f"what “{query}” gets")):
        ax.set(aspect="equal", title=name, xlabel="feature 0 of the value")
        ax.set(xlim=(low[0] - room, high[0] + 2 * room), ylim=(low[1] - room, high[1] + room))
        ax.grid(alpha=0.3)
    left.set_ylabel("feature 1 of the value")
    alt = "Left, what each token hands over; right, each arrow cut to its weight, end to end: their sum."
    return finished(figure, title, alt)


# Shapes on their way: all that multi-head attention multiplies, named, with the part of head 0 lit

# A tensor: the left end and the middle of its picture, its size, and how it is cut into heads
UP = {"q": ROW, "k": 0, "v": -ROW}
SHAPES = {
    "x": (0.68, 0, WHOLE, TALL, ""),
    **{f"W_{name.upper()}": (1.82, up, WHOLE, WHOLE, "columns") for name, up in UP.items()},
    **{name: (2.97, up, WHOLE, TALL, "columns") for name, up in UP.items()},
    **{f"{name}, cut": (4.5, up, NARROW, TALL, "sheets") for name, up in UP.items()},
    **{"weights": (5.7, 0.7, TALL, TALL, "sheets"), "mixtures": (7.05, -0.25, NARROW, TALL, "sheets")},
    **{"merged": (8.42, ROW, WHOLE, TALL, "columns"), "W_O": (8.42, 0, WHOLE, WHOLE, "rows")},
    "output": (8.42, -ROW, WHOLE, TALL, ""),
}
AXES = {"x": "text, position,\nfeature", "v, cut": "text, head, position, feature"}
AXES |= {"weights": "text, head, query, key", "output": "text, position, feature"}
WORDS = {(1.74, up): "×" for up in UP.values()} | {(2.87, up): "=" for up in UP.values()}
WORDS |= {(8.3, 0): "×", (8.3, -ROW): "=", (1.13, 2): "tokens", (2.27, 2): "1 project", (4.8, 2): "2 cut"}
WORDS |= {(6.12, 2): "3 softmax(q kᵀ ÷ √{})", (7.35, 2): "4 × v", (8.75, 2): "5 merge, project"}
ARROWS = [  # from one to the next: x and y of both ends
    *(((3.9, up), (4.48, up)) for up in UP.values()),
    *(((5.1, 1.25), (5.67, 0.95)), ((5.1, 0.1), (5.67, 0.45)), ((6.62, 0.5), (7.1, 0.2))),
    *(((5.1, -1.25), (7.02, -0.45)), ((7.65, 0.1), (8.38, 1.1))),
]


def shape_flow(texts: Sequence[Labels], d_model: int, n_heads: int, *, title: str = "") -> Figure:
    """Draw all tensors of multi-head attention on the first of some texts, equally long, and their shapes.

    What is cut into heads shows the cut: the columns of W_Q, W_K, W_V, the rows of W_O.
    """
    figure, (ax,) = canvas(1, (WIDEST, 5.1))
    n, length, cut = len(texts), len(texts[0]), d_model // n_heads
    shapes = dict.fromkeys(("W_Q", "W_K", "W_V", "W_O"), (d_model, d_model))
    shapes["weights"] = (n, n_heads, length, length)
    for name, (left, middle, wide, tall, pieces) in SHAPES.items():
        shape = shapes.get(name, (n, n_heads, length, cut) if pieces == "sheets" else (n, length, d_model))
        _pieces(ax, left, middle - tall / 2, wide, tall, pieces, n_heads)
        place = left + (wide + SHEET * (n_heads - 1) * (pieces == "sheets")) / 2, middle - tall / 2 - 0.05
        ax.text(*place, f"{name}\n{shape}\n{AXES.get(name, '')}", ha="center", va="top", size=8.5)
    for row, token in enumerate(texts[0]):
        height = TALL * (0.5 - (row + 0.5) / length)
        ax.text(SHAPES["x"][0] - 0.05, height, token, ha="right", va="center", size=8)
    for start, end in ARROWS:
        arrow(ax, start, end)
    for place, word in WORDS.items():
        ax.text(*place, word.format(cut), ha="center", va="center", size=9.5, weight="bold")
    for left in (2.97, 8.42):
        ax.text(left - 0.02, ROW + TALL / 2 + 0.03, f"0 1        …        {n_heads - 1}", size=7.5)
    style = {"arrowstyle": "-|>", "ls": "--"}
    ax.annotate("mask: on\nthe scores", (6.2, 1.9), (6.3, 1.35), size=8.5, arrowprops=style)
    line(ax, (1.58, 0), (1.66, 0))
    line(ax, (1.66, ROW), (1.62, ROW), (1.62, -ROW), (1.66, -ROW))
    ax.set(xlim=(0, WIDEST), ylim=(-2.3, 2.15), aspect="equal")
    ax.set_axis_off()
    words = f"head 0, one of {n_heads}: it has {cut} of the {d_model} features; drawn is one of {n} texts"
    legend_of_cells(figure, {words: {"facecolor": PALE[0], "edgecolor": DARK}})
    alt = "Every tensor from x to the output with its name and shape; what belongs to the first head is lit."
    return finished(figure, title, alt)


def _pieces(ax: Axes, left: float, foot: float, wide: float, tall: float, pieces: str, count: int) -> None:
    """A rectangle: whole, cut into columns or rows, or so many sheets behind each other; the first is lit."""
    count, step = (count if pieces else 1), {"columns": (wide / count, 0), "rows": (0, -tall / count)}
    aside, up = step.get(pieces, (SHEET, SHEET))
    size = {"columns": (aside, tall), "rows": (wide, -up)}.get(pieces, (wide, tall))
    for piece in reversed(range(count)):  # the first in front
        style = {"facecolor": PALE[0] if pieces and piece == 0 else NO, "edgecolor": DARK, "linewidth": 0.6}
        ax.add_patch(Rectangle((left + aside * piece, foot + tall - size[1] + up * piece), *size, **style))


# A sentence on its way down the page, in inches: a lane for each token, a strip of features at each stage

STRIP, HIGH, ASIDE = 1.24, 0.2, 0.54  # sizes of a strip; how far right of its lane a part stands
DRAWN = {"whole": 1.97, "its attention": 1.28, "a band": 0.46}  # how tall layers are, by what is drawn
SMALL = {"letters": 8.5, "rounding": 0.03, "linewidth": 0.6}  # a box


def forward_pass(
    stages: Sequence[Matrix],
    maps: Sequence,
    tokens: Labels,
    ids: Labels,
    *,
    highlight: int,
    note: str,
    more: str,
    title: str,
) -> Figure:
    """Draw a sentence on its way through an encoder: each token's vector, (token, feature), at each stage.

    Stages are the rows of both tables, on a scale of their own, what enters the first layer and what leaves
    each, and one vector for all. Of each layer's weights, `maps` (head, query, key), the mean is drawn; the
    weights of the query `highlight` are highlighted. Layer 0 is drawn with all its parts, layer 1 with its
    attention, the others as one band, in which stands a `note`; at the foot stands `more`.
    """
    talls = [*DRAWN.values()][: len(maps)]
    tables = [inputs.numbers_of(stage, 2) for stage in (*stages[: 2 + len(talls)], *stages[-2:])]
    lanes = 3.1 + 1.4 * np.arange(len(tokens))
    leave = 1.78 + np.cumsum([0.42 + tall for tall in talls])
    depths = -np.array([0.8, 1.2, 1.78, *leave, leave[-1] + 0.64])  # of the strips
    reach = [max(np.abs(table).max() for table in part) for part in (tables[:2], tables[2:])]
    figure, (ax,) = canvas(1, (WIDEST, 1.25 - depths[-1]))
    for lane, *head in zip(lanes, tokens, ids, strict=True):
        _lane(ax, lane, *head, depths, lanes.mean())
    for layer, (tall, top) in enumerate(zip(talls, depths[2:] - 0.21, strict=False)):
        words, style = (note, {"zorder": 2}) if layer == 2 else ("", {"zorder": -1})
        size = np.ptp(lanes) + 1.74, tall
        box(ax, (lanes.mean() + 0.2, top - tall / 2), words, size, FRAME, letters=10, linewidth=0.8, **style)
        _say(ax, top, _told_of_layer(layer, maps, tokens, highlight))
        if layer < 2:
            _layer(ax, layer, top, maps[layer], lanes, highlight)
    for stage, (depth, table) in enumerate(zip(depths, tables, strict=True)):
        for lane, row in zip(lanes if len(table) > 1 else [lanes.mean()], table, strict=True):
            corner = lane - STRIP / 2, depth + HIGH / 2
            cells(ax, corner, (STRIP, HIGH), row[None], reach[stage > 1], zorder=3)
    _say(ax, 0, dict(zip((0, 0.37, *-depths[[0, 1, 2, -2, -1]]), STAGES, strict=True)))
    above, below = map(two_decimals, reach)
    words = f"red: above 0, blue: below 0; darkest: {above} in the rows of both tables, {below} in all below"
    words += f"\n{more}"
    ax.text(lanes.mean() - 0.5, depths[-1] - 0.28, words, ha="center", va="top", size=9.5)
    ax.set(xlim=(0, lanes[-1] + 1.1), ylim=(depths[-1] - 0.7, 0.2))
    ax.set_axis_off()
    alt = "A lane for each token, from its id down to its vectors; at the end all become one."
    return finished(figure, title, alt)


def _lane(ax: Axes, lane: float, token: str, identity: int, depths: np.ndarray, middle: float) -> None:
    """Draw a lane from its token and id down to the last layer, and its end's way into the mean."""
    ax.text(lane, 0, token, ha="center", va="center", size=11, weight="bold")
    style = {"width": 2.5, "colour": SILVER, "zorder": 0, "gap": 0}
    arrow(ax, (lane, -0.5), (lane, depths[0] + 0.1), **style)
    arrow(ax, (lane, depths[1] - 0.1), (lane, depths[-2] + 0.08), **style)  # of the sum of two rows
    arrow(ax, (lane, depths[-2] - 0.1), (middle, depths[-1] + 0.1), width=0.8, gap=0)
    box(ax, (lane, -0.37), f"{int(identity)}", (0.66, 0.24), COMPONENTS["embedding"], **SMALL)
    box(ax, (lane, -1.49), "norm", (0.5, 0.18), COMPONENTS["norm"], **SMALL)
    plus(ax, (lane, depths[:2].mean()), 0.08)


REST = "norm, ff, norm", 1.24, "white"  # of layer 1, which is drawn with its attention
STAGES = ["tokens", "ids", "its row of the table", "+ its position's row", "their sum, normalised"]
STAGES += ["one vector for each\ntoken, in context", "their mean: one vector\nfor the sentence"]


def _say(ax: Axes, top: float, said: Mapping[float, str]) -> None:
    """Write words at the left, so far below the top; a layer's name is bold."""
    for down, words in said.items():
        weight = "bold" if words.startswith("layer") else "normal"
        ax.text(0.05, top - down, words, va="center", size=10, weight=weight)


def _told_of_layer(layer: int, maps: Sequence, tokens: Labels, highlight: int) -> dict[float, str]:
    """Say what stands beside a layer, and how far below its top; of the third, for all from there on."""
    rows = [inputs.numbers_of(weights, 3).mean(axis=0)[highlight] for weights in maps]
    shares, word = [two_decimals(row.max()) for row in rows], f"“{tokens[highlight]}”"
    most = f"{shares[layer]} from {tokens[rows[layer].argmax()]}"
    whole = {
        0.1: f"layer 0, mean of {len(maps[0])} heads",
        0.32: f"lit: what {word} takes;",
        0.53: f"wider: more; {most}",
    }
    whole |= {0.9: "+ added, normalised", 1.36: "feed-forward (ff), in each lane", 1.7: "+ added, normalised"}
    part = {0.1: "layer 1", 0.32: f"{word}: {most}", 1.08: "the rest, as in layer 0"}
    band = {0.1: f"layers 2–{len(maps) - 1}: the same parts", 0.34: f"{word}: {', '.join(shares[2:])}"}
    return (whole, part, band)[layer]


def _layer(ax: Axes, layer: int, top: float, weights: Matrix, lanes: np.ndarray, highlight: int) -> None:
    """Draw what each token takes from all, one lit, added to its lane; in layer 0 also what follows."""
    row = 2 * np.eye(len(lanes), dtype=int)[highlight][:, None]
    style = {"at": lanes, "drop": -ASIDE, "upright": True, "others": COMPONENTS["scores"], "faint": 0.35}
    draw_ways(ax, inputs.numbers_of(weights, 3).mean(axis=0), (top, top - 0.48), row, **style)
    parts = {"attention": top - 0.57, "feed-forward": top - 1.4}
    for lane in lanes:
        for part, height in [*parts.items()][: 2 - layer]:
            beside, back = lane + ASIDE, height - 0.22
            if part == "feed-forward":
                line(ax, (lane, height + 0.16), (beside, height + 0.16), (beside, height), width=0.8)
            line(ax, (beside, height), (beside, back), width=0.8)
            arrow(ax, (beside, back), (lane + 0.08, back), width=0.8, gap=0)
            box(ax, (beside, height), part, (0.86, 0.18), COMPONENTS[part], **SMALL | {"letters": 8})
            plus(ax, (lane, back), 0.08)
            words, wide, colour = ("norm", 0.5, COMPONENTS["norm"]) if layer == 0 else REST
            box(ax, (lane, back - 0.24), words, (wide, 0.18), colour, **SMALL)


# Arithmetic as on paper, in inches

CELL, LETTER, BETWEEN = 0.3, 0.075, 0.2  # how tall a cell is, how wide a letter; from column to column
Piece = str | tuple[Sequence[Sequence[float | str]], Sequence[str]]
COLOURS = {"": "white", "part": NO, "head 0": PALE[0], "head 1": PALE[1], "result": LIT}  # of a cell
WHERE_NOT_ZERO = {"A": COMPONENTS["attention"], "x": SILVER, "truth": PALE[0]}  # x grey, as its road
SIGNS = {"above 0": "#f3a98c", "below 0": "#92c5de"}  # as SIGNED has them; paler where nearer to 0
PADDING = "padding: evens the lengths, is not counted"
HATCHED = {PADDING: HIDDEN}
KINDS = {kind: {"facecolor": colour} for kind, colour in (COLOURS | WHERE_NOT_ZERO | SIGNS).items()} | HATCHED
KINDS["silenced"] = {"facecolor": HIDDEN["facecolor"]}
KINDS["gradient"] = {"facecolor": PALE[1], "edgecolor": HERO}  # as its way


def arithmetic_table(
    rows: Sequence[Sequence[Piece]], names: Labels, *, wide: float = 0.42, title: str, alt: str
) -> Figure:
    """Draw rows of words and of tables, below each other in columns that have names.

    A table comes with the kind of each of its columns, or cells, of `KINDS`; where a number is 0 some have no
    colour, and a "sign" is one of `SIGNS`. A word in a cell has no frame, but a "part" of the model has, as
    wide as its column. A cell is so `wide`.
    Words behind → stand above an arrow; behind ← or ↓, the gradient's way, it is thick, as ⇓ and ⇑ are.
    """
    columns = [*zip(names, *rows, strict=True)]
    widths = [
        BETWEEN + max(1.2 * _wide(name, wide), *(_wide(each, wide) for each in column))
        for name, *column in columns
    ]
    sizes = [max(1 if isinstance(each, str) else len(each[0]) for each in row) for row in rows]
    feet = np.cumsum([0.16 + CELL * size for size in sizes])
    tables = [piece for row in rows for piece in row if not isinstance(piece, str)]
    each = [(np.array(table, dtype=object), [*kinds]) for table, kinds in tables]
    signed = [values[np.broadcast_to(kinds, values.shape) == "sign"] for values, kinds in each]
    reach = max(abs(value) for value in np.concatenate([[1e-9], *signed]) if not isinstance(value, str))
    figure, (ax,) = canvas(1, (sum(widths) + 0.1, feet[-1] + 1.0))
    for row, top, foot in zip([names, *rows], [-0.45, 0, *feet], [0, *feet], strict=False):
        for piece, left, width in zip(row, np.cumsum([0, *widths]), widths, strict=False):
            middle = left + width / 2, (top + foot) / 2
            if isinstance(piece, str):
                _write(ax, piece, middle, width, "bold" if row is names else "normal")
            else:
                _draw_cells(ax, *piece, middle, wide, width - BETWEEN, reach)
    ax.set(xlim=(0, sum(widths)), ylim=(feet[-1], -0.45), aspect="equal")
    ax.set_axis_off()
    used = {kind for _, kinds in tables for kind in np.ravel([*kinds])}
    used |= set(SIGNS) if "sign" in used else set()
    legend_of_cells(figure, {kind: KINDS[kind] for kind in KINDS if kind in used - {"", "part"}})
    return finished(figure, title, alt)


def _wide(piece: Piece, wide: float) -> float:
    if isinstance(piece, str):
        return 0 if piece[:1] in "↓⇓⇑" else LETTER * max(map(len, piece.split("\n")))
    return wide * len(piece[0][0])


def _write(ax: Axes, words: str, middle: Point, width: float, weight: str) -> None:
    style, end = {"ha": "center", "va": "center", "size": 9, "weight": weight}, width / 2 - 0.06
    ways = {"→": (end, 0), "←": (-end, 0), "↓": (0, 0.2), "⇓": (0, 0.2), "⇑": (0, -0.2)}
    if words[:1] in ways:
        way = np.array(ways[words[0]])
        thick = {} if words[0] == "→" else {"width": 2.2, "colour": "black" if words[0] in "⇓⇑" else HERO}
        arrow(ax, middle - way, middle + way, gap=0, **thick)
        middle = middle + np.array([0, -0.06] if way[0] else [0.15, 0])
        style |= {"va": "bottom"} if way[0] else {"ha": "left"}
    ax.text(*middle, words.strip("→←↓⇓⇑ "), **style)


def _draw_cells(
    ax: Axes, table: Sequence, kinds: Labels, middle: Point, wide: float, room: float, reach: float
) -> None:
    values = np.array(table, dtype=object)
    for (row, column), kind in np.ndenumerate(np.broadcast_to([*kinds], values.shape)):
        value, is_word = values[row, column], isinstance(values[row, column], str)
        wide = room if kind == "part" else wide
        left = middle[0] + wide * (column - values.shape[1] / 2)
        top = middle[1] + CELL * (row - len(table) / 2)
        if kind == "part" or not is_word or (kind in HATCHED and value == ""):
            shown = kind if value or kind not in WHERE_NOT_ZERO else ""
            style = KINDS[list(SIGNS)[value < 0] if kind == "sign" else shown]
            if kind == "sign":
                style = {"facecolor": pale(style["facecolor"], 0.1 * bool(value) + 0.9 * abs(value) / reach)}
            ax.add_patch(Rectangle((left, top), wide, CELL, **{"edgecolor": GREY, "linewidth": 0.8} | style))
        edge = EDGE if kind in HATCHED and not is_word else []
        style = {"ha": "center", "va": "center", "size": 9, "path_effects": edge}
        ax.text(left + wide / 2, top + CELL / 2, value if is_word else _short(value), **style)


def _short(value: float) -> str:
    return two_decimals(value) if 0.1 <= abs(round(value, 2)) < 1 else number(value, 2)


def two_heads(
    query: Sequence[float],
    keys: Matrix,
    values: Matrix,
    mixing: Matrix,
    words: Labels,
    jobs: Mapping[str, str],
    says: Sequence[str],
    *,
    title: str,
) -> Figure:
    """Draw what the middle word gets by one head, by two half as wide, and by W_O of these; by pencil.

    Words whose values are not 0 name the features of both halves; W_O, here `mixing`, makes of each what it
    `says`. At the foot the first and the last word have exchanged their values.
    """
    query, keys, values, mixing = (np.asarray(each, dtype=float) for each in (query, keys, values, mixing))
    half, named = len(query) // 2, [word for word, row in zip(words, values, strict=True) if row.any()]
    kinds, rows, found = ["head 0"] * half + ["head 1"] * half, [], {}
    low = "\n" * 6  # at the height of the weights
    for (name, job), own in zip(jobs.items(), (slice(None), slice(half), slice(half, None)), strict=True):
        scores = keys[:, own] @ query[own]
        scaled = scores / len(query[own]) ** 0.5
        powers = np.exp(scaled)
        weights = (powers / powers.sum()).round(2)
        found[name] = [weights @ order[:, own] for order in (values, values[::-1])]
        features, colours = (named * 2)[: len(query[own])], [name if name in kinds else ""] * len(query[own])
        asks = [["", *words], ["score", *scores], [f"÷ √{len(query[own])}", *scaled], ["weight", *weights]]
        table = [["", *features], *([word, *row] for word, row in zip(words, values[:, own], strict=True))]
        mixed = f"{low}×", (table, ["", *colours]), f"{low}=", ([features, found[name][0]], colours)
        rows.append([f"{name}:\n{job}", (asks, [""] * (1 + len(words))), *mixed])
    one, other = np.concatenate([found[name] for name in dict.fromkeys(kinds)], axis=1)
    ends = ["", *(f"{word}\n{what}" for what in says for word in named)]
    added = one[:half] @ mixing[:half], one[half:] @ mixing[half:], one @ mixing
    reads = [ends, *([word, *row] for word, row in zip(named * 2, mixing, strict=True))], _lines_of(kinds)
    adds = (
        [ends, *([sign, *row] for sign, row in zip(("", "+", "="), added, strict=True))],
        _lines_of(["head 0", "head 1", "result"]),
    )
    again = ([["", *(other @ mixing)]], ["", *["result"] * len(query)])
    rows += [
        ["", "head 0 and head 1, side by side", "", "W_O", "", "both add to one vector"],
        [" ".join(words), ([named * 2, one], kinds), "×", reads, "=", adds],
        [" ".join(words[::-1]), ([other], kinds), "×", "W_O", "=", again],
    ]
    heads = ["", f"weights of {words[1]}", "", f"values: {' '.join(words)}", "", "what the head found"]
    alt = "A row for each head: weights times values. Then both side by side, times W_O: what each adds."
    return arithmetic_table(rows, heads, wide=0.48, title=title, alt=alt)


def _lines_of(kinds: Labels) -> list[list[str]]:
    """Return the kinds of a table's cells: a line each for its four features, below their names."""
    return [[""] * 5, *(["", *[kind] * 4] for kind in kinds)]


def text_cosine(
    hidden: Tensor, may_attend: Tensor, named: Mapping[str, Labels], *, features: Sequence[int], title: str
) -> Figure:
    """Draw how two texts become one number: tokens (text, position, d_model), their means, the cosine.

    It stands between neighbours of several texts, `named`: their tokens by name. Two features are written.
    `may_attend` (text, 1, 1, position) is False for padding.
    """
    vectors, real = inputs.numbers_of(hidden, 3), inputs.numbers_of(may_attend, 4)[:, 0, 0] > 0
    told, units, rows = [*features], [], []
    for (name, words), each, is_real in zip(named.items(), vectors, real, strict=True):
        mean = each[is_real].mean(axis=0)
        length = np.linalg.norm(mean)
        units.append(mean / length)
        table = [*each.T[told].round(2), ["⋮"] * len(words)], ["sign" if yes else PADDING for yes in is_real]
        rows += [["", "", "", "", "", "⇓"]] if rows else []
        rows += [
            [name, ([words], [""] * len(words)), "", "", "", ""],
            ["encoder: each\nhears all the\nreal ones", ([[""], [""]], ["part"]), "", "", "", ""],
            [f"features {told[0]},\n{told[1]} of {vectors.shape[2]},\nrounded", table, "→ mean of\nthe real"],
        ]
        mean, unit = ([*column[told, None], ["⋮"]] for column in (mean, units[-1]))
        rows[-1] += [
            (mean, ["sign"]),
            f"→ ÷ {length:.2f}, its\nlength (all {vectors.shape[2]})",
            (unit, ["sign"]),
        ]
    sums = []  # for each two neighbours, of the products: those told, the sum above 0, and that below
    for place, (one, other) in enumerate(pairwise(units), 1):
        products = one * other
        shown = "\n+ ".join(
            f"({_short(a)}) · ({_short(b)})" for a, b in zip(one[told], other[told], strict=True)
        )
        sums.append((shown, np.maximum(products, 0).sum(), np.minimum(products, 0).sum()))
        rows[4 * place][4:] = "", ([[one @ other]], ["result"])
        rows[4 * place + 1][5] = "⇑"
    names = ["", "a vector for each token", "", "mean", "", "embedding"]
    alt = "Texts, each as tokens, vectors, and the mean of the real ones; between neighbours their cosine."
    figure = arithmetic_table(rows, names, wide=0.46, title=title, alt=alt)
    _draw_hearing(figure.axes[0], real)
    _draw_sums(figure.axes[0], sums, vectors.shape[2])
    return figure


def _draw_sums(ax: Axes, sums: Sequence[tuple[str, float, float]], count: int) -> None:
    """Draw left of each result what the products above 0 add up to, and what those below take away."""
    results = [patch for patch in ax.patches if to_hex(patch.get_facecolor()) == LIT]
    for result, (shown, above, below) in zip(results, sums, strict=True):
        zero, middle, inch = result.get_x() - 2.6, result.get_y() + CELL / 2, 2.2
        ends = (0, above, "above 0"), (above, below, "below 0")
        for up, (start, length, words), colour in zip((-0.3, 0.02), ends, SIGNS.values(), strict=True):
            corner = zero + inch * start, middle + up
            ax.add_patch(Rectangle(corner, inch * length, 0.26, facecolor=colour, edgecolor=GREY, lw=0.8))
            told = f"{words}: {two_decimals(length)}"
            ax.text(zero + inch * above + 0.06, middle + up + 0.13, told, va="center", size=9)
        ax.plot([zero] * 2, [middle - 0.36, middle + 0.34], color=DARK, lw=1.2)
        rest = zero + inch * (above + below)
        ax.plot([rest] * 2, [middle - 0.3, middle + 0.42], color=DARK, lw=1.2, ls="--")
        ax.text(rest, middle + 0.44, f"{two_decimals(above + below)} is left", ha="center", va="top", size=9)
        ax.text(zero, middle - 0.42, f"cosine: {shown} + … {count} products", va="bottom", size=9)


def _draw_hearing(ax: Axes, real: np.ndarray) -> None:
    """Draw a line from each real token to all, over both halves of the part that stands for the encoder."""
    parts = [patch for patch in ax.patches if to_hex(patch.get_facecolor()) == NO]
    for part, below, is_real in zip(parts[::2], parts[1::2], real, strict=True):
        below.remove()
        part.set_height(2 * CELL)
        at = part.get_x() + part.get_width() * (np.arange(len(is_real)) + 0.5) / len(is_real)
        top, foot = part.get_y(), part.get_y() + 2 * CELL
        lines = [[(start, top), (end, foot)] for start, end in product(at[is_real], at)]
        ax.add_collection(LineCollection(lines, colors=GREY, linewidths=0.35))
