"""Drawings of lesson 06: a small network, one neuron of a pretrained model, a function of two features."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch.nn import functional as F

from transformer_course.figures import inputs
from transformer_course.figures.colours import COMPONENTS, GREY, HERO, HIDDEN, LIT, SIGNED, SILVER
from transformer_course.figures.heatmaps import GROUND
from transformer_course.figures.inputs import Labels, Limits, Matrix
from transformer_course.figures.layout import canvas, finished, two_decimals
from transformer_course.figures.shapes import FRAME, arrow, box, way

CENTRED = {"ha": "center", "va": "center", "size": 8.5, "zorder": 5}
CELLS = {"edgecolor": "white", "linewidth": 0.8}


def draw_network(
    ax: Axes,
    features: Mapping[str, float],
    up: Mapping[str, tuple[Sequence[float], float]],
    down: Mapping[str, Sequence[float]],
    cases: Mapping[str, Sequence[float]],
) -> None:
    """Draw a feed-forward network with ReLU for one token: pre-activations, activations and outputs.

    `up` contains the weights and the bias of each neuron, by the formula of its pre-activation, and `down`
    the weights of each output. A line at the bottom shows the activations and outputs of each of the other
    `cases`.
    """
    token = np.array(list(features.values()), dtype=float)
    sums = [token @ weights for weights, _ in up.values()]
    bent = np.array([max(total + bias, 0) for total, (_, bias) in zip(sums, up.values(), strict=True)])
    ends = [1.05 * ((len(numbers) - 1) / 2 - np.arange(len(numbers))) for numbers in (features, up, down)]
    for height, (name, value) in zip(ends[0], features.items(), strict=True):
        box(ax, (0, height), f"{name}\n{value:g}", (1.5, 0.7), LIT if value else "white")
    reach = max(np.abs(weights).sum() + abs(bias) for weights, bias in up.values())
    said = [f"{name} {value:g}" for name, value in features.items()]
    neurons = zip(ends[1], sums, bent, up.items(), strict=True)
    for row, (height, total, after, (question, (weights, bias))) in enumerate(neurons):
        ax.text(2.05, height + 0.51, f"neuron {row}", va="center", size=8.5)
        _wires(ax, (0.75, ends[0]), (2.0, height), weights, token)
        style = {"linewidth": 2.0, "weight": "bold"} if after else {"edgecolor": GREY}
        added = f"({bias:g})" if bias < 0 else f"{bias:g}"
        words = f"{question}\n{total:g} + {added} = {total + bias:g}".replace("-", "−")
        box(ax, (3.2, height), words, (2.4, 0.8), COMPONENTS["feed-forward"] if after else "white", **style)
        _bend(ax, (5.25, height), total + bias, reach)
        ax.text(6.25, height, f"{after:g}", ha="center", va="center", size=10, weight=style.get("weight"))
        said.append(f"neuron {row}: {words}, after ReLU {after:g}")
    for height, (name, weights) in zip(ends[2], down.items(), strict=True):
        _wires(ax, (6.45, ends[1]), (7.5, height), weights, bent)
        terms = [f"{numbers:g}".replace("-", "−") for numbers in weights * bent if numbers]
        terms = [" + ".join(terms).replace("+ −", "− ")] * (len(terms) > 1)
        words = " = ".join([*terms, f"{bent @ weights:g}".replace("-", "−")])
        box(ax, (8.35, height), f"{name}\n{words}", (1.7, 0.7), LIT if bent @ weights else "white")
        said.append(f"{name} {words}")
    ax.set_label("; ".join(said).replace("\n", ": "))
    ax.text(0, -1.35, "orange: weight × value\nis not 0", color=HERO, ha="center", va="center", size=8.5)
    heads = "the token", "pre-activation: sum + bias", "ReLU: fires above 0", "outputs"
    for place, words in zip((0, 3.2, 5.25, 8.35), heads, strict=True):
        ax.text(place, 1.85, words, ha="center", size=9.5, weight="bold")
    others = {name: numbers for name, numbers in cases.items() if list(numbers) != token.tolist()}
    for place, (name, values) in enumerate(others.items()):
        _line_of(ax, -2.15 - 0.5 * place, name, np.array(values), up, down)
    ax.set(xlim=(-0.85, 9.3), ylim=(-1.9 - 0.5 * len(others), 2.15))
    ax.set_axis_off()


def _line_of(
    ax: Axes, height: float, name: str, values: np.ndarray, up: Mapping, down: Mapping[str, Matrix]
) -> None:
    """Draw the features, activations and outputs of one token as a line of boxes."""
    answers = [max(values @ weights + bias, 0) for weights, bias in up.values()]
    written = {word: np.dot(answers, weights) for word, weights in down.items()}
    box(ax, (0, height), f"{name}: {', '.join(f'{number:g}' for number in values)}", (1.5, 0.36), FRAME)
    fires = COMPONENTS["feed-forward"]
    for row, (left, answer) in enumerate(zip(np.linspace(2.7, 5.75, len(up)), answers, strict=True)):
        style = {"linewidth": 2.0, "weight": "bold"} if answer else {"edgecolor": GREY}
        colour = fires if answer else "white"
        box(ax, (left, height), f"neuron {row}: {answer:g}", (1.3, 0.36), colour, **style)
    for left, (word, number) in zip(np.linspace(7.9, 8.8, len(down)), written.items(), strict=True):
        box(
            ax,
            (left, height),
            f"{word} {number:g}".replace("-", "−"),
            (0.85, 0.36),
            LIT if number else "white",
        )
    for start, end in ((0.8, 2.0), (6.45, 7.43)):
        arrow(ax, (start, height), (end, height), gap=0)


def _bend(ax: Axes, middle: tuple[float, float], total: float, reach: float) -> None:
    """Draw ReLU with its corner at 0, and a dot at the pre-activation of the neuron."""
    box(ax, middle, "", (1.6, 0.86), rounding=0.02, linewidth=0.6, edgecolor=GREY)
    at = np.array([-reach, 0, reach, total])
    left, height = middle[0] + 0.75 * at / reach, middle[1] - 0.17 + 0.15 * np.maximum(at, 0)
    ax.plot(left[:3], height[:3], color="black", linewidth=1.6, zorder=4)
    ax.text(left[1], height[1] - 0.1, "0", ha="center", va="top", size=7.5, zorder=5)
    colour = HERO if total > 0 else GREY
    ax.plot([left[3]] * 2, [height[1], height[3]], "-", color=colour, linewidth=1, zorder=5)
    ax.plot(left[3], height[3], "o", color=colour, markersize=6, zorder=6)


HARDLY = "white: almost 0 from"  # the update of a neuron for such tokens


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
    """Draw a feed-forward network as matrices and activations (token, neuron), with one neuron highlighted.

    `asked` are the pre-activations. `asks` and `writes` are the words whose vectors are most similar to the
    input and output weights of the neuron, with their cosine similarities. One of its pre-activations is
    `worked` out in words.
    """
    bent = inputs.numbers_of(F.gelu(torch.as_tensor(asked)), 2, name="the pre-activations")
    first = max(neuron - 14, 0)  # the first neuron that is drawn; the highlighted one is the last
    shown, foot, d_ff = bent[:, first : neuron + 1], -0.2 * len(tokens), f"{bent.shape[1]:,}"
    is_highlighted, x_size = np.arange(shown.shape[1]) == neuron - first, f"{len(tokens)} × {d_model}"
    edges = 2.9 + np.insert(np.cumsum(np.where(is_highlighted, 1.06, 0.2)), 0, 0)
    end, half = edges[-1], foot / 2
    figure, (ax,) = canvas(1, (9.2, 4.3 - foot))
    _draw_neurons(ax, edges, shown, is_highlighted, tokens, asked[:, neuron])
    labels = {
        (0.95, 1.25): f"W₁: {d_model} × {d_ff}\none column per neuron\n(15 drawn)",
        (0.95, foot - 1.05): f"W₂: {d_ff} × {d_model}\n(transposed: one\ncolumn per neuron)",
        (0.95, 0.5): f"+ b₁: {d_ff} biases",
        (0.95, 0.12): f"x: {x_size}",
        (end + 0.75, 0.12): f"out: {x_size}",
        (end + 0.15, 0.5): worked,
        (end + 0.75, foot - 0.26): f"+ {bent.shape[1] - 1:,} other neurons + b₂\n{HARDLY} N{neuron}",
    }
    for place, words in labels.items():
        ax.text(*place, words, va="center", size=8.5)
    ax.text(end - 0.53, 2.0, f"N{neuron}", **CENTRED | {"weight": "bold"})
    ax.text(end - 0.53, 0.5, two_decimals(bias), **CENTRED)
    for height, side, near in ((1.3, "input", asks), (foot - 1.1, "output", writes)):
        arrow(ax, (end, height), (end + 0.3, height), gap=0)
        words = [f"N{neuron}'s {side} weights are", "most similar to (cosine)"]
        words += [f"{word} {two_decimals(cosine)}" for word, cosine in near.items()]
        ax.text(end + 0.36, height, "\n".join(words), va="center", size=8.5)
    for left, right, words in ((2.3, 2.85, "· W₁\n+ b₁"), (end + 0.05, end + 0.7, "· W₂")):
        arrow(ax, (left, half), (right, half), width=2)
        ax.text(left + 0.04, half + 0.08, words, size=8.5)
    enters = (end - 0.53, foot - 0.18), (end + 0.38, foot - 0.18), (end + 0.38, half - 0.04)
    way(ax, (end - 0.53, foot - 0.4), *enters, width=2)
    ax.set(xlim=(0, 9.2), ylim=(foot - 1.8, 2.1))
    ax.set_axis_off()
    fires = [
        f"{token} {two_decimals(bent[i, neuron])}" for i, token in enumerate(tokens) if bent[i, neuron] > 1
    ]
    alt = "From x through W₁ (a column for each neuron), plus b₁, GELU and W₂ to out. The input weights of "
    alt += f"N{neuron} are most similar to {_most_similar(asks)}. It fires at {', '.join(fires)}. There it "
    alt += f"adds its output weights, which are most similar to {_most_similar(writes)}."
    return finished(figure, title, alt)


def _most_similar(near: Mapping[str, float]) -> str:
    return ", ".join(f"{word} {two_decimals(cosine)}" for word, cosine in [*near.items()][:3])


def _draw_neurons(
    ax: Axes,
    edges: np.ndarray,
    shown: np.ndarray,
    is_highlighted: np.ndarray,
    tokens: Labels,
    asked: np.ndarray,
) -> None:
    """Draw three matrices with a column for each neuron, and the vectors and activations of each token."""
    reach, heights = np.abs(shown).max() or 1.0, -0.2 * np.arange(len(tokens) + 1)
    ax.pcolormesh(edges, heights, shown, cmap=SIGNED, vmin=-reach, vmax=reach, **CELLS)
    words = f"activations: blue below 0, red above, the darkest {two_decimals(reach)}"
    ax.text(3.5, 0.12, words, va="center", size=8.5)
    heads = (
        (0.95, 1.6, "1 input weights"),
        (2.9, 0.12, "2 GELU"),
        (0.95, heights[-1] - 0.7, "3 output weights"),
    )
    for left, height, head in heads:
        ax.text(left, height, head, va="center", size=8.5, weight="bold")
    style = CELLS | {
        "cmap": ListedColormap([HIDDEN["facecolor"], COMPONENTS["feed-forward"]], name="one lit")
    }
    for spans in ((1.9, 0.7), (0.6, 0.4), (heights[-1] - 0.4, heights[-1] - 1.6)):
        ax.pcolormesh(edges, spans, is_highlighted[None], **style)
    bent = shown[:, is_highlighted].ravel()
    for height, token, before, answer in zip(heights[:-1] - 0.1, tokens, asked, bent, strict=True):
        ax.text(0.9, height, token, ha="right", va="center", size=9)
        fires, word = answer > reach / 2, two_decimals(answer)
        ink = "white" if answer > 0.65 * reach else "black"
        ax.text(edges[-1] - 0.53, height, f"{two_decimals(before)} → {word}", color=ink, **CENTRED)
        adds, colour = (f"+ {word} × output weights", COMPONENTS["feed-forward"]) if fires else ("", "white")
        style = {"letters": 8, "rounding": 0, "linewidth": 2 if fires else 0.6, "zorder": 3 + fires}
        box(ax, (1.6, height), "", (1.3, 0.2), "white", **style)
        box(ax, (edges[-1] + 1.53, height), adds, (1.56, 0.2), colour, **style)


def _wires(ax: Axes, start: tuple, end: tuple, weights: Sequence[float], values: np.ndarray) -> None:
    """Draw a line with its weight for each nonzero weight; pale if weight · value is 0."""
    for height, weight, value in zip(start[1], weights, values, strict=True):
        if weight:
            ways, colour = ([start[0], end[0]], [height, end[1]]), HERO if value else SILVER
            ax.plot(*ways, color=colour, linewidth=1.3 * abs(weight), zorder=3 if value else 2)
            place = start[0] + 0.7 * (end[0] - start[0]), height + 0.7 * (end[1] - height)
            style = CENTRED | {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1}}
            style["weight"] = "bold" if value and abs(weight) > 1 else "normal"
            ax.text(*place, f"{weight:g}".replace("-", "−"), **style)


def function_of_two(
    values: Matrix,
    ends: Limits,
    wanted: Mapping[str, tuple[float, float]],
    *,
    name: str,
    bar: str,
    title: str,
) -> Figure:
    """Draw a function of two features, (up, across) between the `ends`, and the `wanted` points."""
    table = inputs.numbers_of(values, 2)
    reach = np.abs(table).max()
    figure, (ax,) = canvas(1, (3.1, 0), (1.2, 3.5))
    style = {"vmin": -reach, "vmax": reach, "extent": (*ends, *ends), "origin": "lower"}
    image = ax.imshow(table, cmap=SIGNED, **style)
    ax.set(xlabel="good?", ylabel="negated?", title=name)
    for words, point in wanted.items():
        ax.plot(*point, "o", color="black", markersize=5)
        ax.annotate(words, point, (0, 7), textcoords="offset points", ha="center", size=8, bbox=GROUND)
    ax.locator_params(nbins=4)
    figure.colorbar(image, ax=figure.axes, label=bar, shrink=0.8)
    alt = "Two features span a plane; the colour at each point is the value of the function there."
    return finished(figure, title, alt)
