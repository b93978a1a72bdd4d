"""Inside a layer: tokens as lanes of a road, who hears whom, and what layer norm does to a token."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from transformer_course.figures import inputs
from transformer_course.figures.attention_flow import FAINT, draw_ways
from transformer_course.figures.colours import (
    COMPONENTS,
    DARK,
    GREY,
    HERO,
    HIDDEN,
    LIT,
    SIGNED,
    SILVER,
    pale,
)
from transformer_course.figures.drawings import FRAME, arrow, box, cells, line, plus, way
from transformer_course.figures.inputs import Labels, Matrix
from transformer_course.figures.layout import canvas, finished, two_decimals

CENTRED = {"ha": "center", "va": "center", "size": 8.5, "zorder": 5}
CELLS = {"edgecolor": "white", "linewidth": 0.8}
STARTS, BAR = (1.1, 3.36, 5.62, 7.88), 0.32  # inches; of the steps of a norm, of a feature there
AXIS = {"va": "center", "size": 8, "zorder": 5}
LANE, DROP = 0.4, 0.42  # inches; of a lane, how far below it a part stands
LANES, SHOWN = 1.3, 6  # how far two lanes are from the middle; features of a vector that is drawn


def layer_lanes(weights: Matrix, tokens: Labels, *, highlight: int, title: str) -> Figure:
    """Draw a post-norm layer with a lane for each token, and weights (query, key) as lines between lanes."""
    weights = inputs.labelled(weights, tokens, tokens)
    figure, (ax,) = canvas(1, (9.2, LANE * len(tokens) + 0.9))
    row = 2 * np.eye(len(tokens), dtype=int)[highlight][:, None]
    style = {"others": pale(COMPONENTS["scores"], 0.3), "faint": 1, "drop": DROP}
    draw_ways(ax, weights, (1.1, 2.67), row, at=-np.arange(len(tokens)), **style)
    for key in np.flatnonzero(weights[highlight] > FAINT):
        ax.text(
            1.05, 0.08 - key, two_decimals(weights[highlight, key]), ha="right", size=9, color=HERO, zorder=5
        )
    for height, token in zip(-np.arange(len(tokens)), tokens, strict=True):
        ax.text(0, height, token, ha="right", va="center", size=9.5)
        arrow(ax, (0.1, height), (10.5, height), width=2.5, colour=SILVER, zorder=1)
        low = height - DROP
        line(ax, (6.0, height), (6.2, low), (6.62, low), width=1)
        ax.plot([2.0, 2.2, 2.67], [height, low, low], "k--", lw=0.8)  # who asks
        for middle, part, words in ((3.4, "attention", "sum, join, project"), (7.35, *["feed-forward"] * 2)):
            box(ax, (middle, low), words, (1.46, 0.42), COMPONENTS[part], letters=8)
            way(ax, (middle + 0.73, low), (middle + 0.85, low), (middle + 1.03, height - 0.1), width=1)
            ax.plot(middle + 1.1, height, "o", markersize=10, mfc="white", mec="black", zorder=4)
            ax.plot(middle + 1.1, height, "+", markersize=7, color="black", zorder=5)
            box(ax, (middle + 2.0, height), "norm", (0.7, 0.5), COMPONENTS["norm"], letters=8)
    note = f"one head; width: weight; lit: what “{tokens[highlight]}” takes"
    ways = ("across the lanes", note), ("each lane by itself,", "all with the same weights")
    for middle, part, (head, more) in zip((2.6, 7.35), ("attention", "feed-forward"), ways, strict=True):
        ax.text(middle, 1.0, f"{part}: {head}", ha="center", size=9.5, weight="bold")
        ax.text(middle, 0.6, more, ha="center", size=9.5)
    ax.set(xlim=(-0.9, 10.6), ylim=(0.3 - len(tokens), 1.5))
    ax.set_axis_off()
    figure.supxlabel("dashed: who asks; join: with the other heads; project: by W_O", size=9)
    alt = "A lane for each token. A line between lanes is attention: the thicker, the more."
    return finished(figure, title, alt)


def two_stacks(handed_on: Sequence[Matrix], added: Sequence[Matrix], tokens: Labels, *, title: str) -> Figure:
    """Draw (token, feature) before a stack, after its first layer and its last: handed on, and added to.

    Every vector is drawn at length 1, 12 of its features; below, the mean cosine of two different tokens.
    """
    figure, panels = canvas(2, (9.2, 2.55), columns=1)
    names = "Handed on: x becomes what a part returns", "Added: x goes on, and what a part returns is added"
    for ax, name, tables, road in zip(panels, names, (handed_on, added), (0.0, 0.4), strict=True):
        stages = zip((0.8, 5.5, 8.0), ("before", "after layer 0", "after layer 5"), tables, strict=True)
        for left, after, table in stages:
            units = inputs.numbers_of(table, 2)
            size, units = units.std(ddof=1), units / np.linalg.norm(units, axis=1, keepdims=True)
            cells(ax, (left, 0.8), (1.2, 1.6), units[:, :12], 0.15)
            alike = (units @ units.T)[~np.eye(len(tokens), dtype=bool)].mean()
            words = f"{after}: likeness {two_decimals(alike, 3)}\nsize {two_decimals(size, 3)}"
            ax.text(left + 0.6, -0.85, words, ha="center", va="top", size=9)
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
    told = f"12 of {units.shape[1]} features, red above 0, blue below; all at length 1, on one scale\n"
    told += "likeness: mean cosine of two different tokens; size: standard deviation; fresh random weights"
    figure.supxlabel(told, size=9)
    alt = "Rows are tokens, before and behind layers: above, all become alike; below, each stays itself."
    return finished(figure, title, alt)


def two_blocks(
    layer: nn.Module, block: nn.Module, x: torch.Tensor, tokens: Mapping[str, int], *, title: str
) -> Figure:
    """Draw two tokens on their way through the layer of a paper, and through the block of a tutorial.

    `x` enters both, (1, position, d_model); `tokens` says where the two stand that are drawn.
    """
    joined = torch.cat([block.attention(block.norm(x))[0], x], dim=-1)  # [A ‖ x]
    tables = x, joined, block.feed_forward(joined), layer(x)[0], block(x)[0]
    drawn = (each[0, list(tokens.values())] for each in tables)
    weight, x, *more = (inputs.numbers_of(each, 2) for each in (block.output_projection.weight, *drawn))
    first, d_model = _typical(x, more[2:]), x.shape[1]
    # The drawn ones come first, in each half of what is twice as wide, and of W's rows, too.
    turned = (np.roll(each.reshape(len(each), -1, d_model), -first, axis=2) for each in (x, weight, *more))
    x, weight, *more = (each.reshape(len(each), -1) for each in turned)
    weight, joined, ends = np.roll(weight, -first, axis=0), more[:2], more[2:]
    figure, panels = canvas(2, (9.2, 2.75), columns=1)
    names = (
        "The paper's layer: x goes on, and what a part makes of it is added",
        "The tutorial's block: A and x side by side, then W, the one way out",
    )
    for ax, name, end, parts in zip(panels, names, ends, (_draw_added, _draw_beside), strict=True):
        each = zip(tokens, (LANES, -LANES), x, end, _cosines(x, end), strict=True)
        for token, lane, one, other, cosine in each:
            ax.text(0.05, lane, token, ha="right", va="center", size=10, weight="bold")
            cells(ax, (0.2, lane + 0.36), (0.3, 0.72), _shown(one)[:, None], 0.12)
            cells(ax, (12.6, lane + 0.36), (0.3, 0.72), _shown(other)[:, None], 0.12)
            ax.text(
                13.1, lane, f"cosine with x\n(all {d_model}): {two_decimals(cosine)}", va="center", size=9
            )
        parts(ax, joined, weight)
        ax.set_title(name, loc="left", size=10)
        ax.set(xlim=(-0.9, 14.6), ylim=(-1.8, 1.8), aspect="equal")
        ax.set_axis_off()
    kept = " and ".join(map(two_decimals, _cosines(x, joined[1][:, d_model:])))
    panels[1].text(9.75, 0, f"x's half: cosine\nstill {kept}", ha="center", va="center", size=8.5)
    told = "fresh random weights, the same for both tokens; "
    told += f"drawn: {SHOWN} of {d_model} features, with cosines like those of all\n"
    told += "red: above 0, blue: below; each vector at length 1, W on its own scale; "
    told += "thick: the way of x; once A joins it, of both\n"
    told += "not drawn: other tokens, which attention reads; the norm inside the feed-forward below; W's bias"
    figure.supxlabel(told, size=9)
    alt = "A lane for each token. Above, what leaves looks like x; below, x ends in a random matrix."
    return finished(figure, title, alt)


def _typical(x: np.ndarray, ends: Sequence[np.ndarray]) -> int:
    """Return from which feature on those that are drawn have cosines with x nearest to those of all."""
    wanted, starts = [_cosines(x, end) for end in ends], range(max(1, x.shape[1] - SHOWN + 1))
    parts = [[_cosines(*(v[:, start : start + SHOWN] for v in (x, end))) for end in ends] for start in starts]
    return int(np.abs(np.array(parts) - wanted).sum(axis=(1, 2)).argmin())


def _cosines(x: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return for each token the cosine of two vectors."""
    return (x * end).sum(axis=1) / np.linalg.norm(x, axis=1) / np.linalg.norm(end, axis=1)


def _shown(vector: np.ndarray) -> np.ndarray:
    """Return some features of a vector at length 1."""
    return (vector / np.linalg.norm(vector))[:SHOWN]


def _draw_added(ax: Axes, *_: object) -> None:
    """Draw what stands on and beside both lanes of the paper's layer."""
    box(ax, (3.4, 0), "attention", (1.5, 0.9), COMPONENTS["attention"], letters=8.5)
    for lane, side in ((LANES, 1), (-LANES, -1)):
        box(ax, (8.6, 0.4 * side), "feed-forward", (1.5, 0.6), COMPONENTS["feed-forward"], letters=8.5)
        for read, back, low in ((1.7, 5.1, 0.25 * side), (7.2, 10.0, 0.4 * side)):
            middle = (read + back) / 2
            way(ax, (read, lane), (read, low), (middle - 0.75, low))
            way(ax, (middle + 0.75, low), (back, low), (back, lane - 0.22 * side))
            plus(ax, (back, lane), 0.22)
            box(ax, (back + 1.1, lane), "norm", (0.85, 0.55), COMPONENTS["norm"], letters=8.5)
        arrow(ax, (0.6, lane), (12.5, lane), width=5, colour=DARK)


def _draw_beside(ax: Axes, joined: Sequence[np.ndarray], weight: np.ndarray) -> None:
    """Draw what stands on and beside both lanes of the tutorial's block."""
    d_model, tall, thick = len(weight), 0.22, {"color": DARK, "linewidth": 5}
    columns = np.r_[:SHOWN, d_model : d_model + SHOWN]
    box(ax, (3.05, 0), "attention", (1.2, 1.1), COMPONENTS["attention"], letters=8.5)
    for token, (lane, side) in enumerate(((LANES, 1), (-LANES, -1))):
        row, low, inner = 0.75 * side, 0.3 * side, 0.33 * side
        ax.plot([0.6, 5.71, 5.71], [lane, lane, row + 0.35 * side], **thick, zorder=1)
        arrow(ax, (5.71, row + 0.5 * side), (5.71, row + 0.1 * side), width=5, colour=DARK)
        way(ax, (1.0, lane), (1.0, low), (1.36, low))
        box(ax, (1.75, low), "norm", (0.75, 0.5), COMPONENTS["norm"], letters=8.5)
        arrow(ax, (2.13, low), (2.44, low))
        way(ax, (3.65, low), (3.9, low), (3.9, row), (4.2, row))
        pink = COMPONENTS["feed-forward"]
        box(ax, (7.45, row - 0.19 * side), "", (2.08, 0.92), pink, zorder=1)
        ax.text(7.46, inner, "feed-forward", ha="center", va="center", size=7.5)
        way(ax, (6.54, row), (6.54, inner), (6.82, inner))
        way(ax, (8.12, inner), (8.28, inner), (8.28, row - 0.14 * side))
        arrow(ax, (6.2, row), (8.73, row), width=5, colour=DARK)
        plus(ax, (8.28, row), 0.14)
        for left, vector in zip((4.25, 8.75), joined, strict=True):
            shown = (vector[token] / np.linalg.norm(vector[token]))[columns % vector.shape[1]]
            cells(ax, (left, row + tall / 2), (1.92, tall), shown[None], 0.1)
            line(ax, (left + 0.96, row - tall / 2), (left + 0.96, row + tall / 2), width=2, zorder=4)
        arrow(ax, (10.7, row), (11.1, row), width=5, colour=DARK)
        corner = weight[:SHOWN, columns[columns < 2 * d_model]]
        cells(ax, (11.15, row + 0.3), (0.9, 0.6), corner, np.abs(weight).max())  # the same W in each lane
        way(ax, (12.05, row), (12.25, row), (12.25, lane), (12.55, lane))
    ax.text(11.6, 0, "the same W,\nfresh: random", ha="center", va="center", size=8.5)
    for left, word in zip((4.15, 4.73, 5.21, 5.69, 6.27), "[A‖x]", strict=True):
        ax.text(left, 0, word, ha="center", va="center", size=10, weight="bold")


def norm_steps(
    tokens: Mapping[str, Sequence[float]],
    *,
    eps: float,
    weight: Sequence[float],
    bias: Sequence[float],
    title: str,
) -> Figure:
    """Draw layer norm of tokens' features as bars at each of four steps, each token in a frame of its own.

    The mean is drawn dashed. The first two steps have one scale; that of the last two is so many times as
    large, and has an axis.
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
    last = (f"{name}\n(drawn × {larger})" for name in ("÷ √(variance + ε)", "scaled and shifted"))
    heads = "x; dashed, its mean", "− its mean", *last
    for start, words in zip(STARTS, heads, strict=True):
        ax.text(start + 0.48, 0.0, words, ha="center", va="bottom", size=9.5, weight="bold")
    weight, bias = (f"({', '.join(map(_plain, each))})" for each in (weight, bias))
    figure.supxlabel(f"ε here {_plain(eps)}; weight {weight}, bias {bias}, for every token", size=9)
    ax.set(xlim=(-0.03, 9.13), ylim=(feet[-1] - 0.02, 0.35), aspect="equal")
    ax.set_axis_off()
    alt = "A frame for each token: its features as bars, less its mean, over its root, scaled and shifted."
    return finished(figure, title, alt)


def _bars(ax: Axes, step: int, values: np.ndarray, zero: float, scale: float, mean: float) -> None:
    """Draw a token's features at a step of the norm, its mean at the first, an axis at the last two."""
    lefts = STARTS[step] + BAR * np.arange(len(values))
    ends, words = [lefts[0] - BAR / 2, lefts[-1] + BAR / 2], [_plain(each) for each in values]
    style = {"color": COMPONENTS["norm"], "edgecolor": "black", "linewidth": 0.6, "zorder": 4}
    bars = ax.bar(lefts, scale * values, 0.8 * BAR, bottom=zero, **style)
    ax.plot(ends, [zero] * 2, color=DARK, linewidth=0.9, zorder=3.5)
    if step:
        ax.bar_label(bars, words, padding=2, size=8.5, zorder=6)
    else:  # clear of the mean
        for left, word in zip(lefts, words, strict=True):
            ax.text(left, zero - 0.03, word, ha="center", va="top", size=8.5, zorder=6)
        ax.plot(ends, [zero + scale * mean] * 2, color=DARK, linewidth=1.2, linestyle="--", zorder=5)
    for level in range(int(min(0, *values)), int(max(0, *values)) + 1) if step > 1 else ():
        height = zero + scale * level
        ax.plot([ends[0] - 0.05, ends[0]], [height] * 2, color=DARK, linewidth=0.9, zorder=5)
        ax.text(ends[0] - 0.07, height, _plain(level), ha="right", **AXIS)


def _plain(value: float) -> str:
    """Write a number as on paper: 2, −.5, 1.59."""
    return two_decimals(value).rstrip("0").rstrip(".") or "0"


def draw_network(
    ax: Axes,
    features: Mapping[str, float],
    up: Mapping[str, tuple[Sequence[float], float]],
    down: Mapping[str, Sequence[float]],
    cases: Mapping[str, Sequence[float]],
) -> None:
    """Draw what a feed-forward with ReLU makes of one token: what each neuron asks, answers, and writes.

    `up` has for each neuron, by what it asks, its weights and its bias; `down` for each output its weights.
    Below stands in a line what becomes of the features of each other of the `cases`.
    """
    given_in = np.array(list(features.values()), dtype=float)
    sums = [given_in @ weights for weights, _ in up.values()]
    bent = np.array([max(total + bias, 0) for total, (_, bias) in zip(sums, up.values(), strict=True)])
    ends = [1.05 * ((len(each) - 1) / 2 - np.arange(len(each))) for each in (features, up, down)]
    for height, (name, value) in zip(ends[0], features.items(), strict=True):
        box(ax, (0, height), f"{name}\n{value:g}", (1.5, 0.7), LIT if value else "white")
    reach = max(np.abs(weights).sum() + abs(bias) for weights, bias in up.values())
    neurons = zip(ends[1], sums, bent, up.items(), strict=True)
    for row, (height, total, after, (question, (weights, bias))) in enumerate(neurons):
        ax.text(2.05, height + 0.51, f"neuron {row}", va="center", size=8.5)
        _wires(ax, (0.75, ends[0]), (2.0, height), weights, given_in)
        style = {"linewidth": 2.0, "weight": "bold"} if after else {"edgecolor": GREY}
        added = f"({bias:g})" if bias < 0 else f"{bias:g}"
        words = f"{question}\n{total:g} + {added} = {total + bias:g}".replace("-", "−")
        box(ax, (3.2, height), words, (2.4, 0.8), COMPONENTS["feed-forward"] if after else "white", **style)
        _bend(ax, (5.25, height), total + bias, reach)
        ax.text(6.25, height, f"{after:g}", ha="center", va="center", size=10, weight=style.get("weight"))
    for height, (name, weights) in zip(ends[2], down.items(), strict=True):
        _wires(ax, (6.45, ends[1]), (7.5, height), weights, bent)
        terms = [f"{each:g}".replace("-", "−") for each in weights * bent if each]
        terms = [" + ".join(terms).replace("+ −", "− ")] * (len(terms) > 1)
        words = " = ".join([*terms, f"{bent @ weights:g}".replace("-", "−")])
        box(ax, (8.35, height), f"{name}\n{words}", (1.7, 0.7), LIT if bent @ weights else "white")
    ax.text(0, -1.35, "orange: weight · value\nis not 0", color=HERO, ha="center", va="center", size=8.5)
    heads = "the token", "question: sum + bias", "bend: fires above 0", "what is written"
    for place, words in zip((0, 3.2, 5.25, 8.35), heads, strict=True):
        ax.text(place, 1.85, words, ha="center", size=9.5, weight="bold")
    others = {name: each for name, each in cases.items() if list(each) != given_in.tolist()}
    for place, (name, values) in enumerate(others.items()):
        _line_of(ax, -2.15 - 0.5 * place, name, np.array(values), up, down)
    ax.set(xlim=(-0.85, 9.3), ylim=(-1.9 - 0.5 * len(others), 2.15))
    ax.set_axis_off()


def _line_of(
    ax: Axes, height: float, name: str, values: np.ndarray, up: Mapping, down: Mapping[str, Matrix]
) -> None:
    """Draw one token's features, its neurons' answers and its outputs as a line of boxes."""
    answers = [max(values @ weights + bias, 0) for weights, bias in up.values()]
    written = {word: np.dot(answers, weights) for word, weights in down.items()}
    box(ax, (0, height), f"{name}: {', '.join(f'{each:g}' for each in values)}", (1.5, 0.36), FRAME)
    fires = COMPONENTS["feed-forward"]
    for row, (left, answer) in enumerate(zip(np.linspace(2.7, 5.75, len(up)), answers, strict=True)):
        style = {"linewidth": 2.0, "weight": "bold"} if answer else {"edgecolor": GREY}
        colour = fires if answer else "white"
        box(ax, (left, height), f"neuron {row}: {answer:g}", (1.3, 0.36), colour, **style)
    for left, (word, each) in zip(np.linspace(7.9, 8.8, len(down)), written.items(), strict=True):
        box(ax, (left, height), f"{word} {each:g}".replace("-", "−"), (0.85, 0.36), LIT if each else "white")
    for start, end in ((0.8, 2.0), (6.45, 7.43)):
        arrow(ax, (start, height), (end, height), gap=0)


def _bend(ax: Axes, middle: tuple[float, float], total: float, reach: float) -> None:
    """Draw ReLU, its corner at 0, and a dot at the total of the neuron."""
    box(ax, middle, "", (1.6, 0.86), rounding=0.02, linewidth=0.6, edgecolor=GREY)
    at = np.array([-reach, 0, reach, total])
    left, height = middle[0] + 0.75 * at / reach, middle[1] - 0.17 + 0.15 * np.maximum(at, 0)
    ax.plot(left[:3], height[:3], color="black", linewidth=1.6, zorder=4)
    ax.text(left[1], height[1] - 0.1, "0", ha="center", va="top", size=7.5, zorder=5)
    colour = HERO if total > 0 else GREY
    ax.plot([left[3]] * 2, [height[1], height[3]], "-", color=colour, linewidth=1, zorder=5)
    ax.plot(left[3], height[3], "o", color=colour, markersize=6, zorder=6)


HARDLY = "white: next to nothing of"  # what a neuron adds to such tokens


def one_neuron(
    asked: Matrix,
    neuron: int,
    tokens: Labels,
    asks: Mapping[str, float],
    writes: Mapping[str, float],
    *,
    bias: float,
    worked: str,
    d_model: int,
    title: str,
) -> Figure:
    """Draw a feed-forward as its matrices, around its neurons' answers (token, neuron), by GELU; lit is one.

    `asked` are the answers before the bend; the lit one's stand beside those behind it.
    `asks` and `writes` are the words whose vectors are most like its question and what it adds: cosines.
    One of its answers is `worked` out in words.
    """
    bent = inputs.numbers_of(F.gelu(torch.as_tensor(asked)), 2, name="the answers")
    first = max(neuron - 14, 0)  # of the neurons that are drawn; the lit one is the last
    shown, foot, d_ff = bent[:, first : neuron + 1], -0.2 * len(tokens), f"{bent.shape[1]:,}"
    is_lit, x_size = np.arange(shown.shape[1]) == neuron - first, f"{len(tokens)} × {d_model}"
    edges = 2.9 + np.insert(np.cumsum(np.where(is_lit, 1.06, 0.2)), 0, 0)
    end, half = edges[-1], foot / 2
    figure, (ax,) = canvas(1, (9.2, 4.3 - foot))
    _draw_neurons(ax, edges, shown, is_lit, tokens, asked[:, neuron])
    labels = {
        (0.95, 1.25): f"W₁: {d_model} × {d_ff}\na column is a neuron's\nquestion (15 drawn)",
        (0.95, foot - 1.05): f"W₂: {d_ff} × {d_model}, turned:\na column is what a\nneuron adds",
        (0.95, 0.5): f"+ b₁: {d_ff}, a bias each",
        **{(0.95, 0.12): f"x: {x_size}", (end + 0.75, 0.12): f"out: {x_size}", (end + 0.15, 0.5): worked},
        (end + 0.75, foot - 0.26): f"+ {bent.shape[1] - 1:,} other neurons + b₂\n{HARDLY} N{neuron}",
    }
    for place, words in labels.items():
        ax.text(*place, words, va="center", size=8.5)
    ax.text(end - 0.53, 2.0, f"N{neuron}", **CENTRED | {"weight": "bold"})
    ax.text(end - 0.53, 0.5, two_decimals(bias), **CENTRED)
    for height, verb, near in ((1.3, "question", asks), (foot - 1.1, "adds", writes)):
        arrow(ax, (end, height), (end + 0.3, height), gap=0)
        words = [f"N{neuron} {verb}: most like", "the vectors of (cosine)"]
        words += [f"{word} {two_decimals(cosine)}" for word, cosine in near.items()]
        ax.text(end + 0.36, height, "\n".join(words), va="center", size=8.5)
    for left, right, words in ((2.3, 2.85, "· W₁\n+ b₁"), (end + 0.05, end + 0.7, "· W₂")):
        arrow(ax, (left, half), (right, half), width=2)
        ax.text(left + 0.04, half + 0.08, words, size=8.5)
    enters = (end - 0.53, foot - 0.18), (end + 0.38, foot - 0.18), (end + 0.38, half - 0.04)
    way(ax, (end - 0.53, foot - 0.4), *enters, width=2)
    ax.set(xlim=(0, 9.2), ylim=(foot - 1.8, 2.1))
    ax.set_axis_off()
    alt = "A column for each neuron: above its question, in the middle its answers, below what it adds."
    return finished(figure, title, alt)


def _draw_neurons(
    ax: Axes, edges: np.ndarray, shown: np.ndarray, is_lit: np.ndarray, tokens: Labels, asked: np.ndarray
) -> None:
    """Draw three matrices with a column for each neuron, and for each token its vectors and its answers."""
    reach, heights = np.abs(shown).max() or 1.0, -0.2 * np.arange(len(tokens) + 1)
    ax.pcolormesh(edges, heights, shown, cmap=SIGNED, vmin=-reach, vmax=reach, **CELLS)
    words = f"by GELU: blue below 0, red above, the darkest {two_decimals(reach)}"
    ax.text(3.5, 0.12, words, va="center", size=8.5)
    heads = (0.95, 1.6, "1 question"), (2.9, 0.12, "2 bend"), (0.95, heights[-1] - 0.7, "3 adds")
    for left, height, head in heads:
        ax.text(left, height, head, va="center", size=8.5, weight="bold")
    style = CELLS | {
        "cmap": ListedColormap([HIDDEN["facecolor"], COMPONENTS["feed-forward"]], name="one lit")
    }
    for spans in ((1.9, 0.7), (0.6, 0.4), (heights[-1] - 0.4, heights[-1] - 1.6)):
        ax.pcolormesh(edges, spans, is_lit[None], **style)
    bent = shown[:, is_lit].ravel()
    for height, token, before, answer in zip(heights[:-1] - 0.1, tokens, asked, bent, strict=True):
        ax.text(0.9, height, token, ha="right", va="center", size=9)
        fires, word = answer > reach / 2, two_decimals(answer)
        ink = "white" if answer > 0.65 * reach else "black"
        ax.text(edges[-1] - 0.53, height, f"{two_decimals(before)} → {word}", color=ink, **CENTRED)
        adds, colour = (f"+ {word} × what it adds", COMPONENTS["feed-forward"]) if fires else ("", "white")
        style = {"letters": 8, "rounding": 0, "linewidth": 2 if fires else 0.6, "zorder": 3 + fires}
        box(ax, (1.6, height), "", (1.3, 0.2), "white", **style)
        box(ax, (edges[-1] + 1.53, height), adds, (1.56, 0.2), colour, **style)


def _wires(ax: Axes, start: tuple, end: tuple, weights: Sequence[float], values: np.ndarray) -> None:
    """A line for each weight that is not 0, with the weight on it; pale where weight · value is 0."""
    for height, weight, value in zip(start[1], weights, values, strict=True):
        if weight:
            ways, colour = ([start[0], end[0]], [height, end[1]]), HERO if value else SILVER
            ax.plot(*ways, color=colour, linewidth=1.3 * abs(weight), zorder=3 if value else 2)
            place = start[0] + 0.7 * (end[0] - start[0]), height + 0.7 * (end[1] - height)
            style = CENTRED | {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1}}
            style["weight"] = "bold" if value and abs(weight) > 1 else "normal"
            ax.text(*place, f"{weight:g}".replace("-", "−"), **style)
