"""Drawings of lesson 05: tensor shapes from x to the output, two heads by hand, heads as feature blocks."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from transformer_course.figures import inputs, layout
from transformer_course.figures.arithmetic import arithmetic_table, short_number
from transformer_course.figures.colours import DARK, EDGE, NO, PALE
from transformer_course.figures.heatmaps import draw_cells
from transformer_course.figures.inputs import Labels, Matrix
from transformer_course.figures.layout import WIDEST, canvas, finished, legend_of_cells
from transformer_course.figures.shapes import arrow, line

# Sizes in inches: all features, all positions, the features of a head, row distance, sheet distance
WHOLE, TALL, NARROW, ROW, SHEET = 0.9, 0.66, 0.34, 1.3, 0.022

# Shape flow: every tensor of multi-head attention with its name; head 0 is highlighted

# Of each tensor: the left edge and the centre of its picture, its size, and how it is split into heads
UP = {"q": ROW, "k": 0, "v": -ROW}
SHAPES = {
    "x": (0.68, 0, WHOLE, TALL, ""),
    **{f"W_{name.upper()}": (1.82, up, WHOLE, WHOLE, "columns") for name, up in UP.items()},
    **{name: (2.97, up, WHOLE, TALL, "columns") for name, up in UP.items()},
    **{f"{name}, split": (4.5, up, NARROW, TALL, "sheets") for name, up in UP.items()},
    "weights": (5.7, 0.7, TALL, TALL, "sheets"),
    "head outputs": (7.05, -0.25, NARROW, TALL, "sheets"),
    "merged": (8.42, ROW, WHOLE, TALL, "columns"),
    "W_O": (8.42, 0, WHOLE, WHOLE, "rows"),
    "output": (8.42, -ROW, WHOLE, TALL, ""),
}
AXES = {"x": "batch,\nposition,\nfeature", "v, split": "batch, head, position, feature"}
AXES |= {"weights": "batch, head, query, key", "output": "batch, position, feature"}
WORDS = {(1.74, up): "×" for up in UP.values()} | {(2.87, up): "=" for up in UP.values()}
WORDS |= {(8.3, 0): "×", (8.3, -ROW): "=", (1.13, 2): "tokens", (2.27, 2): "1 project", (4.8, 2): "2 split"}
WORDS |= {(6.12, 2): "3 softmax(q kᵀ ÷ √{})", (7.35, 2): "4 × v", (8.75, 2): "5 merge, project"}
ARROWS = [  # from one tensor to the next: x and y of both ends
    *(((3.9, up), (4.48, up)) for up in UP.values()),
    ((5.1, 1.25), (5.67, 0.95)),
    ((5.1, 0.1), (5.67, 0.45)),
    ((6.62, 0.5), (7.1, 0.2)),
    ((5.1, -1.25), (7.02, -0.45)),
    ((7.65, 0.1), (8.38, 1.1)),
]


def shape_flow(texts: Sequence[Labels], d_model: int, n_heads: int, *, title: str = "") -> Figure:
    """Draw all tensors of multi-head attention with their shapes, for the first of several sequences.

    It shows the split into heads: columns of W_Q, W_K, W_V, and rows of W_O. The sequences have equal
        lengths.
    """
    figure, (ax,) = canvas(1, (WIDEST, 5.1))
    n, length, d_head = len(texts), len(texts[0]), d_model // n_heads
    shapes = dict.fromkeys(("W_Q", "W_K", "W_V", "W_O"), (d_model, d_model))
    shapes["weights"] = (n, n_heads, length, length)
    for name, (left, middle, wide, tall, pieces) in SHAPES.items():
        shape = shapes.get(name, (n, n_heads, length, d_head) if pieces == "sheets" else (n, length, d_model))
        _pieces(ax, left, middle - tall / 2, wide, tall, pieces, n_heads)
        place = left + (wide + SHEET * (n_heads - 1) * (pieces == "sheets")) / 2, middle - tall / 2 - 0.05
        ax.text(*place, f"{name}\n{shape}\n{AXES.get(name, '')}", ha="center", va="top", size=8.5)
    for row, token in enumerate(texts[0]):
        height = TALL * (0.5 - (row + 0.5) / length)
        ax.text(SHAPES["x"][0] - 0.05, height, token, ha="right", va="center", size=8)
    for start, end in ARROWS:
        arrow(ax, start, end)
    for place, word in WORDS.items():
        ax.text(*place, word.format(d_head), ha="center", va="center", size=9.5, weight="bold")
    for left in (2.97, 8.42):
        ax.text(left - 0.02, ROW + TALL / 2 + 0.03, f"0 1        …        {n_heads - 1}", size=7.5)
    style = {"arrowstyle": "-|>", "ls": "--"}
    ax.annotate("mask the\nscores", (6.2, 1.9), (6.3, 1.35), size=8.5, arrowprops=style)
    line(ax, (1.58, 0), (1.66, 0))
    line(ax, (1.66, ROW), (1.62, ROW), (1.62, -ROW), (1.66, -ROW))
    ax.set(xlim=(0, WIDEST), ylim=(-2.3, 2.15), aspect="equal")
    ax.set_axis_off()
    words = f"head 0 of {n_heads}: {d_head} of the {d_model} features (one of {n} sequences is drawn)"
    legend_of_cells(figure, {words: {"facecolor": PALE[0], "edgecolor": DARK}})
    whole, split = f"({n}, {length}, {d_model})", f"({n}, {n_heads}, {length}, {d_head})"
    alt = f"x {whole} times W_Q, W_K and W_V ({d_model}, {d_model}) gives q, k and v {whole}; each is split "
    alt += f"into {n_heads} heads {split}. q and k give the weights ({n}, {n_heads}, {length}, {length}), "
    alt += f"where the scores are masked; with v they give the head outputs {split}; merged {whole}, times "
    alt += f"W_O ({d_model}, {d_model}), they give the output {whole}. Highlighted: head 0"
    return finished(figure, title, alt)


def _pieces(ax: Axes, left: float, foot: float, wide: float, tall: float, pieces: str, count: int) -> None:
    """Draw a rectangle, whole or split into columns, rows or sheets, with the first piece highlighted."""
    count, step = (count if pieces else 1), {"columns": (wide / count, 0), "rows": (0, -tall / count)}
    aside, up = step.get(pieces, (SHEET, SHEET))
    size = {"columns": (aside, tall), "rows": (wide, -up)}.get(pieces, (wide, tall))
    for piece in reversed(range(count)):  # the first one in front
        style = {"facecolor": PALE[0] if pieces and piece == 0 else NO, "edgecolor": DARK, "linewidth": 0.6}
        ax.add_patch(Rectangle((left + aside * piece, foot + tall - size[1] + up * piece), *size, **style))


def two_heads(
    query: Sequence[float],
    keys: Matrix,
    values: Matrix,
    mixing: Matrix,
    words: Labels,
    jobs: Mapping[str, str],
    columns: Sequence[str],
    *,
    title: str,
) -> Figure:
    """Draw the output for the middle word: of one head, of two heads half as wide, and after W_O.

    The features of both halves are named after the words whose values are not 0. `mixing` is W_O, whose
    `columns` are labelled. In the last row, the first and the last word have swapped their values.
    """
    query, keys, values, mixing = (np.asarray(array, dtype=float) for array in (query, keys, values, mixing))
    half, named = len(query) // 2, [word for word, row in zip(words, values, strict=True) if row.any()]
    kinds, rows, outputs = ["head 0"] * half + ["head 1"] * half, [], {}
    low = "\n" * 6  # moves the text down to the weights
    for (name, job), own in zip(jobs.items(), (slice(None), slice(half), slice(half, None)), strict=True):
        scores = keys[:, own] @ query[own]
        scaled = scores / len(query[own]) ** 0.5
        powers = np.exp(scaled)
        weights = (powers / powers.sum()).round(2)
        outputs[name] = [weights @ order[:, own] for order in (values, values[::-1])]
        features, colours = (named * 2)[: len(query[own])], [name if name in kinds else ""] * len(query[own])
        asks = [["", *words], ["score", *scores], [f"÷ √{len(query[own])}", *scaled], ["weight", *weights]]
        table = [["", *features], *([word, *row] for word, row in zip(words, values[:, own], strict=True))]
        mixed = f"{low}×", (table, ["", *colours]), f"{low}=", ([features, outputs[name][0]], colours)
        rows.append([f"{name}:\n{job}", (asks, [""] * (1 + len(words))), *mixed])
    one, other = np.concatenate([outputs[name] for name in dict.fromkeys(kinds)], axis=1)
    ends = ["", *(f"{word}\n{what}" for what in columns for word in named)]
    added = one[:half] @ mixing[:half], one[half:] @ mixing[half:], one @ mixing
    reads = [ends, *([word, *row] for word, row in zip(named * 2, mixing, strict=True))], _lines_of(kinds)
    adds = (
        [ends, *([sign, *row] for sign, row in zip(("", "+", "="), added, strict=True))],
        _lines_of(["head 0", "head 1", "result"]),
    )
    again = ([["", *(other @ mixing)]], ["", *["result"] * len(query)])
    rows += [
        ["", "head 0 and head 1, concatenated", "", "W_O", "", "contributions and their sum"],
        [" ".join(words), ([named * 2, one], kinds), "×", reads, "=", adds],
        [" ".join(words[::-1]), ([other], kinds), "×", "W_O", "=", again],
    ]
    heads = ["", f"weights of {words[1]}", "", f"values: {' '.join(words)}", "", "output of the head"]
    said = [f"{name}: {', '.join(map(short_number, outputs[name][0]))}" for name in outputs]
    alt = f"In the first rows, the weights of “{words[1]}” times the values give the output of "
    alt += f"{'; '.join(said)}. Then the outputs of head 0 and head 1 are concatenated and multiplied by "
    alt += "W_O: "
    last = ((words, one @ mixing), (words[::-1], other @ mixing))
    alt += "; ".join(f"{' '.join(order)} gives {', '.join(map(short_number, row))}" for order, row in last)
    return arithmetic_table(rows, heads, wide=0.48, title=title, alt=alt)


def _lines_of(kinds: Labels) -> list[list[str]]:
    """Return the kinds of the cells of a table, one row for each of its four features, below the names."""
    return [[""] * 5, *(["", *[kind] * 4] for kind in kinds)]


def head_blocks(
    panels: Mapping[str, Tensor],
    tokens: Labels,
    d_model: int,
    n_heads: int,
    *,
    masked: Sequence[int] = (),
    title: str = "",
) -> Figure:
    """Draw where each entry of a small tensor comes from: text gives its token, colour its head.

    In the matrices of `panels`, an entry t · d_model + f stands for feature f of token t. In the heads, rows
    in `masked` are hatched.
    """
    origins = {name: table.astype(int) for name, table in inputs.tables_of(panels).items()}
    heights, widths = zip(*(origin.shape for origin in origins.values()), strict=True)
    room = sum(0.75 + 0.68 * width for width in widths), 1.2 + 0.42 * max(heights)
    figure, axes = layout.canvas(len(origins), (0, 0), room, width_ratios=widths)
    style = {"limits": (0, n_heads), "colours": ListedColormap(PALE[:n_heads]), "gap": 1.5}
    for ax, (name, origin) in zip(axes, origins.items(), strict=True):
        words = [[f"{tokens[entry // d_model]} {entry % d_model}" for entry in row] for row in origin]
        heads = origin % d_model // (d_model // n_heads)
        draw_cells(ax, heads, tokens, [], words=np.array(words), **style)
        moved = origin // d_model != np.arange(len(origin))[:, None]
        for row in np.flatnonzero(moved.any(axis=1)):  # entries from another token
            layout.outline_cells(ax, [(row, moved[row].argmax(), moved[row].sum(), 1)])
        hidden = [(row, column) for row in masked for column in range(heads.shape[1]) if ax is not axes[0]]
        layout.hide_cells(ax, hidden)
        for row, column in hidden:
            ax.texts[row * heads.shape[1] + column].set(path_effects=EDGE, zorder=3)
        ax.set_title(name)
    style = {"arrowstyle": "-|>", "linewidth": 3, "mutation_scale": 20, "color": DARK}
    height = 1 - 1 / len(tokens)  # between two row labels
    ends = (1 + 0.5 / widths[0], height), (1 + 0.1 / widths[0], height)
    axes[0].annotate("", *ends, xycoords="axes fraction", textcoords="axes fraction", arrowprops=style)
    alt = "A row for each token, a column for each feature; each colour marks the features of one head."
    return layout.finished(figure, title, alt)
