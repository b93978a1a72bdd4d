"""Drawings of lesson 08: from ids to contextual embeddings."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_course.figures import colours, inputs
from transformer_course.figures.colours import COMPONENTS, DARK, SIGNED, SILVER, YES_OR_NO
from transformer_course.figures.heatmaps import COSINES, lay_maps
from transformer_course.figures.inputs import Labels, Matrix
from transformer_course.figures.layout import WIDEST, canvas, finished, outline_cells, two_decimals
from transformer_course.figures.shapes import (
    DASHED,
    FRAME,
    Point,
    arrow,
    box,
    cells,
    draw_weight_lines,
    line,
    plus,
)

CELL = 0.12  # the side length of a cell


def _sheet(
    ax: Axes,
    middle: Point,
    table: np.ndarray,
    name: str = "",
    **style: object,
) -> None:
    """Draw a tensor, or the part that fits into a row, as coloured cells, with its name below."""
    (x, y), (tall, wide) = middle, CELL * np.array(table.shape)
    style = {"edgecolor": SILVER, "linewidth": 0.5, "zorder": 3} | style
    cells(ax, (x - wide / 2, y + tall / 2), (wide, tall), table, **style)
    ax.text(x, y - tall / 2 - 0.06, name, ha="center", va="top", size=8.5)


# How ids become contextual embeddings; the tensors contain made-up values

ENTERS, PASSES = 1.75, -1.0  # the y coordinates of the two rows
SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
FLOW = {  # labels, with the centres of their lines
    "tokens": (0.58, 2.58),
    "ids": (1.17, 2.58),
    "E: one row for each id": (2.8, 0.5),
    "token vectors": (4.3, 0.5),
    "in the paper": (5.5, 1.37),
    "in BERT and MiniLM": (7.3, 1.37),
    "P: one row for each position\n(models with RoPE have none)": (8.0, ENTERS + 0.95),
    "dashed: only in some models": (7.3, 0.5),
    "contextual\nembeddings": (8.9, -0.45),
    "mask, the same in all layers: which query may attend to which key (dark: yes; [PAD]: no)": (4.65, 0.03),
}
READ = "attention weights of {} heads in each layer (the brighter, the larger; white: masked)\n"
READ += "all values are made up; red: above 0, blue: below 0"


def data_flow(tokens: Sequence[str], ids: Sequence[int], layers: int, heads: int, *, title: str) -> Figure:
    """Draw how ids select rows of E, how positions are added, and how x passes through layers with one mask.

    The id 0 is padding. The values are made up: each layer mixes the rows of x and adds an update, and only
    visible tokens have attention weights.
    """
    figure, (ax,) = canvas(1, (WIDEST, 6.4))
    count, flow = len(tokens), partial(arrow, ax, width=2, colour=DARK)
    up = np.arange(count)[::-1] - (count - 1) / 2
    row_heights = ENTERS + 0.38 * up[np.argsort(np.argsort(ids))]  # the rows of E are sorted by id
    rng = np.random.default_rng(1)
    vectors, places, *news = rng.uniform(-1, 1, (2 + layers, count, 4))
    x = [(vectors + places) / 1.4]
    for new in news:
        x.append(0.6 * x[-1] + 0.3 * x[-1].mean(0) + 0.6 * new)
    box(ax, (2.8, ENTERS), "", (1.4, 0.38 * count + 0.28), COMPONENTS["embedding"], rounding=0.02)
    _look_up(ax, tokens, ids, row_heights, vectors)
    arrow(ax, (0.5 + 4.2 / layers, ENTERS - 0.7), (0.5 + 4.2 / layers, PASSES + 1.5))  # ids to mask
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
    alt = "Above, the tokens and their ids; each id selects a row of the table E, its token vector; × "
    alt += "√d_model (in the paper); plus P, a row for each position; norm (in BERT and MiniLM); x₀. Below, "
    alt += f"x₀ passes through layer 0 to layer {layers - 1}, and after each it has the same shape, up to "
    alt += f"the contextual embeddings x{str(layers).translate(SUBSCRIPT)}. A mask, made from the ids, "
    alt += f"enters every layer; each layer also returns the attention weights of {heads} heads"
    return finished(figure, title, alt)


def _look_up(
    ax: Axes, tokens: Sequence[str], ids: Sequence[int], rows: np.ndarray, vectors: np.ndarray
) -> None:
    """Draw how each id selects its row of the table, at these heights, and the resulting vector."""
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
    """Draw x between the layers, the mask that enters each layer, and the attention weights of each layer."""
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


# The forward pass of a sentence, in inches: a lane for each token, a strip of features at each stage

STRIP, HIGH, ASIDE = 1.24, 0.2, 0.54  # a strip: width, height; a part: distance from its lane
DRAWN = {"whole": 1.97, "its attention": 1.28, "a band": 0.46}  # heights of layers, by how much is drawn
SMALL = {"letters": 8.5, "rounding": 0.03, "linewidth": 0.6}  # the style of a box


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
    """Draw the forward pass of a sentence: the vector of each token, (token, feature), at each stage.

    `stages` are the rows of the two tables, which have their own scale, the input of the first layer, the
    output of each layer, and the mean. For each layer, the mean over the heads of `maps` (head, query, key)
    is drawn, and the weights of the query `highlight` are highlighted. Layer 0 is drawn with all its parts,
    layer 1 with its attention, and the other layers as one band that contains the `note`; `more` is written
    at the bottom.
    """
    talls = [*DRAWN.values()][: len(maps)]
    tables = [inputs.numbers_of(stage, 2) for stage in (*stages[: 2 + len(talls)], *stages[-2:])]
    lanes = 3.1 + 1.4 * np.arange(len(tokens))
    leave = 1.78 + np.cumsum([0.42 + tall for tall in talls])
    depths = -np.array([0.8, 1.2, 1.78, *leave, leave[-1] + 0.64])  # the y coordinates of the strips
    reach = [max(np.abs(table).max() for table in part) for part in (tables[:2], tables[2:])]
    figure, (ax,) = canvas(1, (WIDEST, 1.25 - depths[-1]))
    for lane, *head in zip(lanes, tokens, ids, strict=True):
        _lane(ax, lane, *head, depths, lanes.mean())
    for layer, (tall, top) in enumerate(zip(talls, depths[2:] - 0.21, strict=False)):
        words, style = (note, {"zorder": 2}) if layer == 2 else ("", {"zorder": -1})
        size = np.ptp(lanes) + 1.74, tall
        box(ax, (lanes.mean() + 0.2, top - tall / 2), words, size, FRAME, letters=10, linewidth=0.8, **style)
        _write_at_left(ax, top, _layer_notes(layer, maps, tokens, highlight))
        if layer < 2:
            _layer(ax, layer, top, maps[layer], lanes, highlight)
    for stage, (depth, table) in enumerate(zip(depths, tables, strict=True)):
        for lane, row in zip(lanes if len(table) > 1 else [lanes.mean()], table, strict=True):
            corner = lane - STRIP / 2, depth + HIGH / 2
            cells(ax, corner, (STRIP, HIGH), row[None], reach[stage > 1], zorder=3)
    _write_at_left(ax, 0, dict(zip((0, 0.37, *-depths[[0, 1, 2, -2, -1]]), STAGES, strict=True)))
    above, below = map(two_decimals, reach)
    words = f"red: above 0, blue: below 0; darkest: {above} in the top two rows, {below} in all others"
    words += f"\n{more}"
    ax.text(lanes.mean() - 0.5, depths[-1] - 0.28, words, ha="center", va="top", size=9.5)
    ax.set(xlim=(0, lanes[-1] + 1.1), ylim=(depths[-1] - 0.7, 0.2))
    ax.set_axis_off()
    rows = [inputs.numbers_of(weights, 3).mean(axis=0)[highlight] for weights in maps]
    most = ", ".join(f"{tokens[row.argmax()]} {two_decimals(row.max())}" for row in rows)
    alt = "A lane for each token, downwards: its id, token vector plus position vector, norm; in layer 0, "
    alt += "attention from all lanes, added, norm, feed-forward, added, norm; the later layers likewise; "
    alt += "the contextual embedding. Arrows lead from all lanes to their mean, one vector for the "
    alt += f"sentence. Layer by layer, “{tokens[highlight]}” attends most to {most}"
    return finished(figure, title, alt)


def _lane(ax: Axes, lane: float, token: str, identity: int, depths: np.ndarray, middle: float) -> None:
    """Draw the lane of a token, from its id down to the last layer, and its connection to the mean."""
    ax.text(lane, 0, token, ha="center", va="center", size=11, weight="bold")
    style = {"width": 2.5, "colour": SILVER, "zorder": 0, "gap": 0}
    arrow(ax, (lane, -0.5), (lane, depths[0] + 0.1), **style)
    arrow(ax, (lane, depths[1] - 0.1), (lane, depths[-2] + 0.08), **style)  # the sum of the two rows
    arrow(ax, (lane, depths[-2] - 0.1), (middle, depths[-1] + 0.1), width=0.8, gap=0)
    box(ax, (lane, -0.37), f"{int(identity)}", (0.66, 0.24), COMPONENTS["embedding"], **SMALL)
    box(ax, (lane, -1.49), "norm", (0.5, 0.18), COMPONENTS["norm"], **SMALL)
    plus(ax, (lane, depths[:2].mean()), 0.08)


REST = "norm, ff, norm", 1.24, "white"  # of layer 1, which is drawn with its attention
STAGES = ["tokens", "ids", "token vector", "+ position vector", "their sum, normalised"]
STAGES += ["output: contextual\nembeddings", "their mean: one vector\nfor the sentence"]


def _write_at_left(ax: Axes, top: float, words_at: Mapping[float, str]) -> None:
    """Write texts on the left at these distances below the top; names of layers are bold."""
    for down, words in words_at.items():
        weight = "bold" if words.startswith("layer") else "normal"
        ax.text(0.05, top - down, words, va="center", size=10, weight=weight)


def _layer_notes(layer: int, maps: Sequence, tokens: Labels, highlight: int) -> dict[float, str]:
    """Return the notes next to a layer by distance below its top; layer 2 has one for all later layers."""
    rows = [inputs.numbers_of(weights, 3).mean(axis=0)[highlight] for weights in maps]
    shares, word = [two_decimals(row.max()) for row in rows], f"“{tokens[highlight]}”"
    most = f"{shares[layer]} to {tokens[rows[layer].argmax()]}"
    whole = {
        0.1: f"layer 0, mean of {len(maps[0])} heads",
        0.32: f"orange: attention of {word}",
        0.53: f"wider: more; {most}",
    }
    whole |= {0.9: "added, normalised", 1.36: "feed-forward (ff), by token", 1.7: "added, normalised"}
    part = {0.1: "layer 1", 0.32: f"{word}: {most}", 1.08: "the rest, as in layer 0"}
    band = {0.1: f"layers 2–{len(maps) - 1}: the same parts", 0.34: f"{word}: {', '.join(shares[2:])}"}
    return (whole, part, band)[layer]


def _layer(ax: Axes, layer: int, top: float, weights: Matrix, lanes: np.ndarray, highlight: int) -> None:
    """Draw the attention of each token, with one query highlighted, and in layer 0 the other parts too."""
    row = 2 * np.eye(len(lanes), dtype=int)[highlight][:, None]
    style = {"at": lanes, "drop": -ASIDE, "upright": True, "others": COMPONENTS["scores"], "faint": 0.35}
    draw_weight_lines(ax, inputs.numbers_of(weights, 3).mean(axis=0), (top, top - 0.48), row, **style)
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


def nearest_texts(cosines: Matrix, texts: Labels, *, title: str) -> Figure:
    """Draw the cosine similarity of all pairs of texts; a frame marks the most similar text in each row."""
    table = inputs.labelled(cosines, texts, texts)
    others = ~np.eye(len(texts), dtype=bool)
    columns = [f"{place}" for place in range(1, len(texts) + 1)]
    rows = [f"{place}  {text}" for place, text in enumerate(texts, 1)]
    style = {"unit": 0.42, "colours": SIGNED, "labels": ("", ""), "numbers": others}
    style |= {"limits": (-1, 1), "bar": "cosine similarity", "below": 0.25}
    figure, (ax,) = lay_maps([("", table)], rows, columns, **style)
    ax.collections[0].set_array(np.ma.masked_where(~others, ax.collections[0].get_array()))
    outline_cells(ax, enumerate(np.where(others, table, -2).argmax(axis=1)))
    for place in range(len(texts)):
        ax.text(place + 0.5, place + 0.5, "itself", ha="center", va="center", size=8)
    ax.set_xlabel("framed: the most similar sentence in each row", size=9)
    return finished(figure, title, COSINES)
