"""Drawings of lesson 07: the residual stream, the positions of the norms, and the steps of a norm."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_course.figures import inputs
from transformer_course.figures.colours import COMPONENTS, DARK, GREY, HERO, SILVER, pale
from transformer_course.figures.inputs import Labels, Matrix
from transformer_course.figures.layout import canvas, finished, two_decimals
from transformer_course.figures.shapes import (
    FAINT,
    FRAME,
    Point,
    arrow,
    box,
    cells,
    draw_weight_lines,
    line,
    plus,
    way,
)

# The residual stream is drawn as a line that carries x, with the parts on it and next to it

ROAD, SIDE = 1.6, 0.45  # the y coordinates of the residual stream and of the branches below it


def _part(label: str, place: float, height: float = SIDE) -> tuple:
    size = (0.8, 0.6) if label == "norm" else (1.3, 0.75)
    return box, (place, height), label, size, COMPONENTS[label.replace("-\n", "-")]


def residual_branch(
    read: float, added: float, *parts: tuple, road: float = ROAD, gap: float = 0.2
) -> list[tuple]:
    """Return the elements of a residual branch: the point where it reads x, its parts, and the addition."""
    edges = [(middle[0] - size[0] / 2, middle[0] + size[0] / 2) for _, middle, _, size, *_ in parts]
    height = parts[0][1][1]
    enter, leave = (edges[0][0], height), (edges[-1][1], height)
    between = [(way, (one[1], height), (two[0], height)) for one, two in pairwise(edges)]
    enters = way, (read, road), (read, height), enter
    leaves = way, leave, (added, height), (added, road - gap)
    return [*parts, enters, *between, leaves, (plus, (added, road))]


POST_NORM = [
    *residual_branch(0.8, 3.3, _part("attention", 2.0)),
    _part("norm", 4.4, ROAD),
    *residual_branch(5.8, 8.3, _part("feed-\nforward", 7.0)),
    _part("norm", 9.4, ROAD),
]
PRE_NORM = [
    *residual_branch(0.8, 4.6, _part("norm", 1.6), _part("attention", 3.1)),
    *residual_branch(5.8, 9.6, _part("norm", 6.6), _part("feed-\nforward", 8.1)),
]


def norm_orders(*, title: str = "") -> Figure:
    """Draw a post-norm and a pre-norm layer: the residual stream, its branches, and the norms."""
    kept = partial(Axes.plot, color=DARK, linewidth=9, solid_capstyle="butt", zorder=2)
    last = partial(box, letters=8.5, linestyle="--"), (10.6, ROAD), "norm", (0.8, 0.6), COMPONENTS["norm"]
    word = partial(Axes.text, s="once, after\nthe last layer", ha="center", va="top", size=8.5)
    ends = partial(Axes.plot, color=DARK, linewidth=1.2, linestyle=":"), (9.98, 9.98), (0.25, 2.25)
    end = [ends, (partial(Axes.text, s="end of a layer", ha="center", va="top", size=8.5), 9.98, 0.2)]
    post = [*POST_NORM, (kept, (-0.05, 4.0), (ROAD, ROAD)), *end]
    pre = [*PRE_NORM, (kept, (-0.05, 10.2), (ROAD, ROAD)), last, (word, 10.7, ROAD - 0.4), *end]
    roads = {
        "Post-norm: every norm is on the residual stream and rescales x": (post, 11.5),
        "Pre-norm: the norms are on the branches, and x is only added to": (pre, 11.5),
    }
    alt = "In both, x runs along a line, the residual stream. Post-norm: attention reads x and is added to "
    alt += "it, then a norm on the line; feed-forward likewise, then a norm. Pre-norm: a norm and attention "
    alt += "on a branch are added to x; a norm and feed-forward likewise; a last norm follows all layers"
    figure = draw_residual_streams(roads)
    figure.supxlabel("wide line: so far, x has only been added to (the first layer is drawn)", size=9)
    return finished(figure, title, alt)


def draw_residual_streams(
    roads: Mapping[str, tuple[Sequence[tuple], float]],
    size: Point = (8.6, 2.2),
    start: str = "x",
    below: float = 0.0,
) -> Figure:
    """Draw residual streams as thick lines, each with its elements: drawing functions and positions."""
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


STARTS, BAR = (1.1, 3.36, 5.62, 7.88), 0.32  # inches: x of each step; width of a bar
AXIS = {"va": "center", "size": 8, "zorder": 5}
LANE, DROP = 0.4, 0.42  # inches; the distance of two lanes, and of a part below its lane


def layer_lanes(weights: Matrix, tokens: Labels, *, highlight: int, title: str) -> Figure:
    """Draw a post-norm layer with a lane for each token; lines between lanes are the weights (query, key)."""
    weights = inputs.labelled(weights, tokens, tokens)
    figure, (ax,) = canvas(1, (9.2, LANE * len(tokens) + 0.9))
    row = 2 * np.eye(len(tokens), dtype=int)[highlight][:, None]
    style = {"others": pale(COMPONENTS["scores"], 0.3), "faint": 1, "drop": DROP}
    draw_weight_lines(ax, weights, (1.1, 2.67), row, at=-np.arange(len(tokens)), **style)
    for key in np.flatnonzero(weights[highlight] > FAINT):
        ax.text(
            1.05, 0.08 - key, two_decimals(weights[highlight, key]), ha="right", size=9, color=HERO, zorder=5
        )
    for height, token in zip(-np.arange(len(tokens)), tokens, strict=True):
        ax.text(0, height, token, ha="right", va="center", size=9.5)
        arrow(ax, (0.1, height), (10.5, height), width=2.5, colour=SILVER, zorder=1)
        low = height - DROP
        line(ax, (6.0, height), (6.2, low), (6.62, low), width=1)
        ax.plot([2.0, 2.2, 2.67], [height, low, low], "k--", lw=0.8)  # the query
        for middle, part, words in ((3.4, "attention", "sum, concat, W_O"), (7.35, *["feed-forward"] * 2)):
            box(ax, (middle, low), words, (1.46, 0.42), COMPONENTS[part], letters=8)
            way(ax, (middle + 0.73, low), (middle + 0.85, low), (middle + 1.03, height - 0.1), width=1)
            ax.plot(middle + 1.1, height, "o", markersize=10, mfc="white", mec="black", zorder=4)
            ax.plot(middle + 1.1, height, "+", markersize=7, color="black", zorder=5)
            box(ax, (middle + 2.0, height), "norm", (0.7, 0.5), COMPONENTS["norm"], letters=8)
    note = f"one head; width: attention weight; orange: query “{tokens[highlight]}”"
    ways = ("between the lanes", note), ("each token separately", "the same weights for all tokens")
    for middle, part, (head, more) in zip((2.6, 7.35), ("attention", "feed-forward"), ways, strict=True):
        ax.text(middle, 1.0, f"{part}: {head}", ha="center", size=9.5, weight="bold")
        ax.text(middle, 0.6, more, ha="center", size=9.5)
    ax.set(xlim=(-0.9, 10.6), ylim=(0.3 - len(tokens), 1.5))
    ax.set_axis_off()
    figure.supxlabel(
        "dashed: query; sum: of the values, weighted; concat: with the other heads; W_O: output projection",
        size=9,
    )
    seen = np.flatnonzero(weights[highlight] > FAINT)
    to = ", ".join(f"{tokens[key]} {two_decimals(weights[highlight, key])}" for key in seen)
    alt = "A lane for each token, with the same boxes: attention (sum, concat, W_O), added, norm, "
    alt += "feed-forward, added, norm. Only the lines into attention cross the lanes; the thicker, the "
    alt += f"larger the weight. “{tokens[highlight]}” is highlighted; it attends to {to}"
    return finished(figure, title, alt)


def two_stacks(replaced: Sequence[Matrix], added: Sequence[Matrix], tokens: Labels, *, title: str) -> Figure:
    """Draw hidden states (token, feature) before a stack, after its first and after its last layer.

    Top: without residual connections (`replaced`); bottom: with them (`added`). The vectors are scaled to
        length 1, and 12 features are shown. Below each panel are the mean cosine similarity of all pairs of
        different tokens, and the standard deviation.
    """
    figure, panels = canvas(2, (9.2, 2.55), columns=1)
    names = "Replace: each sublayer's output replaces x", "Add: each sublayer's output is added to x"
    alt = "Each from left to right: a row per token, attention, feed-forward, five more layers"
    for ax, name, tables, road in zip(panels, names, (replaced, added), (0.0, 0.4), strict=True):
        stages = zip((0.8, 5.5, 8.0), ("before", "after layer 0", "after layer 5"), tables, strict=True)
        for left, after, table in stages:
            units = inputs.numbers_of(table, 2)
            size, units = units.std(ddof=1), units / np.linalg.norm(units, axis=1, keepdims=True)
            cells(ax, (left, 0.8), (1.2, 1.6), units[:, :12], 0.15)
            mean_cosine = (units @ units.T)[~np.eye(len(tokens), dtype=bool)].mean()
            words = f"{after}\nmean cosine {two_decimals(mean_cosine, 3)}, std {two_decimals(size, 3)}"
            ax.text(left + 0.6, -0.85, words, ha="center", va="top", size=9)
            ax.set_label(f"{ax.get_label()}; {words}".strip("; ").replace("\n", ": "))
        for place, token in enumerate(tokens):
            ax.text(0.72, 0.8 - 1.6 * (place + 0.5) / len(tokens), token, ha="right", va="center", size=8)
        for start, end in ((2.05, 5.45), (6.75, 7.95)):
            arrow(ax, (start, road), (end, road), width=4, colour=DARK)
        ax.text(7.35, road - 0.12, "five more\nlayers", ha="center", va="top", size=9)
        for middle, part in ((2.95, "attention"), (4.45, "feed-forward")):
            low, left, right = -road, middle - 0.6, middle + 0.6
            box(ax, (middle, low), part, (0.9, 0.5), COMPONENTS[part], letters=8.5)
            if road:
                way(ax, (left, road), (left, low), (middle - 0.45, low))
                way(ax, (middle + 0.45, low), (right, low), (right, road - 0.2))
                plus(ax, (right, road))
        ax.set_title(name, loc="left", size=10)
        ax.set(xlim=(0, 9.3), ylim=(-1.25, 0.85), aspect="equal")
        ax.set_axis_off()
    caption = f"12 of {units.shape[1]} features (red > 0, blue < 0), vectors scaled to length 1; untrained\n"
    caption += "mean cosine: of every two different tokens; std: standard deviation of all values"
    figure.supxlabel(caption, size=9)
    return finished(figure, title, alt)


def norm_steps(
    tokens: Mapping[str, Sequence[float]],
    *,
    eps: float,
    weight: Sequence[float],
    bias: Sequence[float],
    title: str,
) -> Figure:
    """Draw the four steps of layer norm as bars, with a frame for each token.

    The dashed line is the mean. The first two steps share a scale; the last two are magnified and have an
    axis.
    """
    features = inputs.numbers_of(list(tokens.values()), 2)
    means = features.mean(axis=1, keepdims=True)
    variances = features.var(axis=1)
    roots = np.sqrt(variances + eps)
    normed = (features - means) / roots[:, None]
    tables = np.array([features, features - means, normed, normed * weight + bias])  # (step, token, feature)
    lows, highs = np.minimum(tables.min(axis=2), 0), np.maximum(tables.max(axis=2), 0)
    spans = highs - lows
    larger = max(1, int(spans[:2].max() / (spans[2:].max() or 1)))
    scales = np.array([1, 1, larger, larger]) * 1.35 / (spans[:2].max() or 1)
    talls = np.maximum((spans * scales[:, None]).max(axis=0) + 0.45, 0.75)
    feet = -np.cumsum(talls + 0.1)
    figure, (ax,) = canvas(1, (9.2, 0.9 - feet[-1]))
    for token, name in enumerate(tokens):
        middle, less, root = feet[token] + talls[token] / 2, *map(_plain, (means[token, 0], roots[token]))
        box(ax, (4.55, middle), "", (9.1, talls[token]), FRAME, rounding=0.1, edgecolor=GREY)
        ax.text(0.1, middle, name, va="center", size=9.5, weight="bold")
        under = "", f"√({_plain(variances[token])} + {_plain(eps)})", ""
        for step, words in enumerate((f"− {less}", f"÷ {root}", "× weight\n+ bias")):
            right = STARTS[step + 1] - 0.42
            arrow(ax, (right - 0.5, middle), (right, middle), zorder=5, gap=0)
            ax.text(right - 0.27, middle + 0.07, words, ha="center", size=9, zorder=5)
            ax.text(right - 0.27, middle - 0.09, under[step], ha="center", va="top", size=8, zorder=5)
        zeros = middle - scales * (lows + highs)[:, token] / 2
        for step, (zero, scale) in enumerate(zip(zeros, scales, strict=True)):
            _bars(ax, step, tables[step, token], zero, scale, means[token, 0])
    last = (f"{name}\n(drawn × {larger})" for name in ("÷ √(variance + eps)", "scaled and shifted"))
    heads = "x (dashed: mean)", "mean subtracted", *last
    for start, words in zip(STARTS, heads, strict=True):
        ax.text(start + 0.48, 0.0, words, ha="center", va="bottom", size=9.5, weight="bold")
    weight, bias = (f"({', '.join(map(_plain, numbers))})" for numbers in (weight, bias))
    figure.supxlabel(f"eps = {_plain(eps)}; for every token, weight = {weight} and bias = {bias}", size=9)
    ax.set(xlim=(-0.03, 9.13), ylim=(feet[-1] - 0.02, 0.35), aspect="equal")
    ax.set_axis_off()
    alt = (
        "A frame for each token, with four groups of bars: x, minus its mean, divided, times weight plus bias"
    )
    for name, steps in zip(tokens, np.moveaxis(tables, 1, 0), strict=True):
        alt += f". {name}: {' → '.join(', '.join(map(_plain, step)) for step in steps)}".replace("\n", " ")
    return finished(figure, title, alt)


def _bars(ax: Axes, step: int, values: np.ndarray, zero: float, scale: float, mean: float) -> None:
    """Draw the features of a token at one step, with the mean at the first step, an axis at the last two."""
    lefts = STARTS[step] + BAR * np.arange(len(values))
    ends, words = [lefts[0] - BAR / 2, lefts[-1] + BAR / 2], [_plain(value) for value in values]
    style = {"color": COMPONENTS["norm"], "edgecolor": "black", "linewidth": 0.6, "zorder": 4}
    bars = ax.bar(lefts, scale * values, 0.8 * BAR, bottom=zero, **style)
    ax.plot(ends, [zero] * 2, color=DARK, linewidth=0.9, zorder=3.5)
    if step:
        ax.bar_label(bars, words, padding=2, size=8.5, zorder=6)
    else:  # keep the words away from the mean
        for left, word in zip(lefts, words, strict=True):
            ax.text(left, zero - 0.03, word, ha="center", va="top", size=8.5, zorder=6)
        ax.plot(ends, [zero + scale * mean] * 2, color=DARK, linewidth=1.2, linestyle="--", zorder=5)
    for level in range(int(min(0, *values)), int(max(0, *values)) + 1) if step > 1 else ():
        height = zero + scale * level
        ax.plot([ends[0] - 0.05, ends[0]], [height] * 2, color=DARK, linewidth=0.9, zorder=5)
        ax.text(ends[0] - 0.07, height, _plain(level), ha="right", **AXIS)


def _plain(value: float) -> str:
    """Format a value as on paper: 2, −.5, 1.59."""
    return two_decimals(value).rstrip("0").rstrip(".") or "0"
