"""Points: one mark for each head, seed, word or part."""

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from transformer_course.figures import inputs
from transformer_course.figures.colours import (
    ATTENTION,
    DARK,
    GREY,
    HERO,
    LINES,
    MARK,
    SILVER,
)
from transformer_course.figures.drawings import arrow
from transformer_course.figures.inputs import Labels, Matrix
from transformer_course.figures.label_placement import place_names
from transformer_course.figures.layout import WIDEST, canvas, finished, two_decimals

GIGA = 1e9

Place = tuple[int, int]


def neuron_activations(
    named: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, legend: tuple[str, str], title: str
) -> Figure:
    """Draw one row per neuron: at how much it fires on words of its own kind, and on all the others."""
    figure, _ = _strips(named, legend, 7.4, MARK, "activation")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return finished(
        figure, title, "A row for each neuron, a dot for each word, at how much the neuron fires."
    )


def search_results(cosines: Matrix, answers: Mapping[str, int], texts: Labels, *, title: str) -> Figure:
    """Draw a row for each question: its cosine with the right text, and the others; beside it what is found.

    `cosines` are (question, text); `answers` has for each question the place of its text.
    """
    table = inputs.labelled(cosines, [*answers], texts)
    both = zip(answers.items(), table, strict=True)
    rows = {question: (row[[right]], np.delete(row, right)) for (question, right), row in both}
    figure, ax = _strips(
        rows, ("the right notice", "the other notices"), WIDEST, LINES[1], "cosine with the question"
    )
    nearest = table.argmax(axis=1)
    wrong = np.flatnonzero(nearest != [*answers.values()])
    style = {"color": HERO, "marker": "D", "label": "the nearest, where wrong", "zorder": 2}
    ax.scatter(table.max(axis=1)[wrong], wrong, **style)
    ax.set_xlim(right=np.ceil(10 * ax.dataLim.x1) / 10)
    for row, (place, right) in enumerate(zip(nearest, answers.values(), strict=True)):
        style = {"transform": ax.get_yaxis_transform(), "size": 9}
        words, is_right = f" {two_decimals(table[row, place])}  {texts[place]} ", place == right
        if is_right:
            ax.text(1, row, f"{words}✓", va="center", **style)
        else:
            ax.text(1, row, f"{words}✗", va="bottom", color=HERO, **style)
            words = f" should be: {two_decimals(table[row, right])}  {texts[right]}"
            ax.text(1, row, words, va="top", color=DARK, **style | {"size": 8.5})
    ax.text(1, -0.75, " the nearest notice, and its cosine", weight="bold", va="center", **style)
    alt = "A row for each question: a dot is the right notice, a stroke another; beside it what is found."
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return finished(figure, title, alt)


def _strips(
    rows: Mapping[str, tuple], legend: tuple[str, str], width: float, colour: str, xlabel: str
) -> tuple[Figure, Axes]:
    """Return a figure and its panel: a row per name, its own numbers as dots, all the others as strokes."""
    figure, (ax,) = canvas(1, (width, 1.1 + 0.34 * len(rows)))
    import seaborn

    size, places = 26**0.5, np.arange(len(rows))
    others = {"color": GREY, "marker": "|", "linewidth": 1.5, "zorder": 1}
    for kind, style in ((1, others), (0, {"color": colour, "marker": "o", "zorder": 3})):
        each = [inputs.numbers_of(numbers[kind], 1, name=name) for name, numbers in rows.items()]
        y = np.repeat(places, [len(row) for row in each])
        before = len(ax.collections)
        style |= {"size": size, "order": places, "legend": False}
        seaborn.stripplot(x=np.concatenate(each), y=y, orient="h", jitter=False, ax=ax, **style)
        ax.collections[before].set_label(legend[kind])  # of the first row: it stands for all in the legend
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set(xlabel=xlabel, ylim=(len(rows) - 0.5, -0.5))
    ax.grid(alpha=0.3, axis="x")
    return figure, ax


def mean_pooling(texts: Mapping[str, tuple[Matrix, Matrix]], *, title: str) -> Figure:
    """Draw texts' tokens in a plane, and the mean of each as an arrow: of the real ones, and of all.

    A text has its real tokens and its padding, (token, 2). Below stand the cosines with the first mean.
    """
    figure, panels = canvas(2, (3.4, 4.5), sharey=True)
    placed = []
    for ax, name in zip(panels, ("padding left out", "padding counted"), strict=True):
        means = {}
        for (text, (real, pads)), colour in zip(texts.items(), LINES, strict=False):
            real, pads = np.reshape(real, (-1, 2)), np.reshape(pads, (-1, 2))
            counted = np.concatenate([real, pads]) if ax is panels[1] else real
            means[text] = counted.mean(axis=0)
            ax.plot(*real.T, "o", color=colour, markersize=5)
            ax.plot(*pads.T, "s", color=GREY, markersize=7, mfc="white" if ax is panels[0] else GREY)
            if len(counted) > len(real):
                arrow(ax, real.mean(axis=0), means[text], colour=GREY, gap=0)
        for text, colour in sorted(
            zip(texts, LINES, strict=False), key=lambda each: -np.hypot(*means[each[0]])
        ):
            ax.plot(*np.transpose([(0, 0), means[text]]), color=colour, linewidth=1.8)
            arrow(ax, (0, 0), means[text], width=1.8, colour=colour, gap=0, zorder=3)
        (first, mean), *others = means.items()
        cosines = {text: mean @ tip / np.hypot(*mean) / np.hypot(*tip) for text, tip in others}
        told = ", ".join(f"{first} and {text} {two_decimals(cosine)}" for text, cosine in cosines.items())
        ax.set(title=name, xlabel=f"feature 0\ncosine: {told}")
        ax.margins(0.12)
        ax.set_aspect("equal", adjustable="datalim")
        placed.append(means)
    panels[0].set_ylabel("feature 1")
    padded = " and ".join(text for text, (_, pads) in texts.items() if len(pads))
    told = f"dots: tokens; square: padding of {padded}; arrows: means; grey: how padding moves them"
    figure.supxlabel(told, size=9)
    finished(figure, title, "A dot for each token, a square for padding; an arrow for each mean.")
    for ax, means in zip(panels, placed, strict=True):
        place_names(ax, means, dict(zip(texts, LINES, strict=False)), weight="bold")
    return figure


def seen_from_reference(
    panels: Mapping[str, tuple[Sequence[float], Matrix]],
    names: Labels,
    *,
    reference: str,
    number: str,
    length: str,
    title: str,
) -> Figure:
    """Draw vectors (n, features) as a reference sees them, which lies level: how far along it, how far aside.

    Each panel has its reference and its vectors. Angles to the reference are true; to which side a vector
    points is not drawn, and its length is times the reference's, which `length` tells: so it ends above its
    dot product with it, a `number` that stands at its name. A vector without a name is thin.
    """
    seen = {panel: _beside(*each) for panel, each in panels.items()}
    tips = np.concatenate([*seen.values()])
    low, high = np.minimum(0, tips.min(axis=0)), tips.max(axis=0)
    columns = 2 if len(panels) == 4 else len(panels)
    room, wide = 0.12 * high.max(), min(3.2, WIDEST / columns)
    across = max(high[0] - low[0] + 4 * room, (high[1] + 2 * room) * (wide - 0.3) / 1.7)  # names have room
    ticks = MaxNLocator(2, steps=[1, 2, 5, 10]).tick_values(0, high[0])
    figure, axes = canvas(len(panels), (wide, 2.4), (0, 0.6), columns=columns, sharey=True)
    colours, near = dict(zip(filter(None, names), LINES, strict=False)), 0.035 * high.max()
    for ax, (panel, points) in zip(axes, seen.items(), strict=True):
        for place, (name, tip) in reversed([*enumerate(zip(names, points, strict=True))]):  # the first on top
            colour, width, zorder = (colours[name], 1.8, 3) if name else (GREY, 0.6, 1)
            if name and any(np.allclose(tip, other) for other in points[:place]):  # it stays in sight
                ax.plot((0, tip[0]), (0, tip[1]), color=colour, linewidth=5, solid_capstyle="butt")
            arrow(ax, (0, 0), tip, colour=colour, width=width, zorder=zorder, gap=0)
            if name:
                ax.plot((tip[0], tip[0]), (0, tip[1]), ":", color=colour)
        ax.set_title(panel, loc="left")
        ax.set_xlabel(f"along {reference} → the {number}", loc="left")
        ax.set(yticks=[], aspect="equal", xticks=ticks[ticks <= high[0] + 0.01])
        ax.set(xlim=(low[0] - room, low[0] - room + across), ylim=(-1.7 * room, high[1] + 2 * room))
        ax.spines[:].set_visible(False)
        ax.spines.bottom.set_position(("data", 0))  # and with it the ticks
        ax.plot((0, 1.04 * high[0]), (0, 0), color=SILVER, linewidth=6, zorder=0, solid_capstyle="butt")
    words = f"grey: the direction of {reference}; each angle to it is true, those between others are not\n"
    figure.supxlabel(f"{words}{length}; dotted: down to the {number}", size=9)
    alt = "Each arrow stands at its angle to one that lies level: the further along, the larger the product."
    finished(figure, title, alt)
    for ax, points in zip(axes, seen.values(), strict=True):
        _name_tips(ax, names, points, colours, near)
    return figure


def _beside(reference: Sequence[float], vectors: Matrix) -> np.ndarray:
    """How far vectors reach along the reference, times its length, and aside of it: (n, 2)."""
    asked, table = inputs.numbers_of(reference, 1), inputs.numbers_of(vectors, 2)
    along, most = table @ asked, (table**2).sum(axis=1) * (asked @ asked)
    aside = most - along**2
    aside[aside < 1e-9 * most] = 0  # it lies level, but for what rounding has left
    return np.stack([along, np.sqrt(aside)], axis=1).round(9)


def _name_tips(ax: Axes, names: Labels, tips: np.ndarray, colours: Mapping[str, str], near: float) -> None:
    """Write names and numbers at tips, the lowest first; those of tips near each other stand in a column."""
    lowest = sorted(zip(names, tips, strict=True), key=lambda each: each[1][1])
    told = {f"{name}: {two_decimals(tip[0])}": (tip, colours[name]) for name, tip in lowest if name}
    style, alone = {"textcoords": "offset points", "size": 9, "weight": "bold"}, {}
    for words, (tip, colour) in told.items():
        crowd = [other for other, (end, _) in told.items() if np.hypot(*(end - tip)) < near]
        if len(crowd) == 1:
            alone[words] = tip
        else:
            ax.annotate(words, told[crowd[0]][0], (12, 12 * crowd.index(words) - 3), color=colour, **style)
    place_names(ax, alone, {words: colour for words, (_, colour) in told.items()}, weight="bold")


def roofline(
    speed: float, bandwidth: float, parts: Mapping[str, tuple[float, float]], *, title: str
) -> Figure:
    """Draw the roof of a machine, operations and bytes a second at best, and below it the parts of a model.

    A part is given by its operations for each byte, and its operations a second; above the slope its numbers
    come from the cache.
    """
    x, y = inputs.numbers_of(list(parts.values()), 2, name="parts").T
    ridge = speed / bandwidth
    ends = np.array([min(x.min(), ridge) / 6, max(x.max(), ridge) * 8])
    figure, (ax,) = canvas(1, (7.4, 4.2))
    over = np.array([ends[0], ridge, ends[1]])
    ax.plot(over, np.minimum(speed, bandwidth * over) / GIGA, color=DARK, linewidth=2)
    ax.scatter(x, y / GIGA, s=45, color=MARK, edgecolor="black", linewidth=0.6, zorder=4)
    ax.axvline(ridge, color=GREY, linestyle=":", linewidth=1.2)
    ax.set(xscale="log", yscale="log", xlim=tuple(ends))
    ax.set(xlabel="operations for each byte moved", ylabel="billion operations a second")
    ax.set_ylim(y.min() / GIGA / 4, speed / GIGA * 4)
    limits = (
        (f"memory sets the limit:\n{bandwidth / GIGA:.0f} billion bytes a second", "left", 0.02),
        (f"arithmetic sets the limit:\n{speed / GIGA:.0f} billion operations a second", "right", 0.98),
    )
    for text, side, share in limits:
        ax.text(share, 0.97, text, color=GREY, transform=ax.transAxes, ha=side, va="top")
    ax.text(ridge, 0.02, f" ridge: {two_decimals(ridge, 1)}", color=GREY, transform=ax.get_xaxis_transform())
    alt = "Over the work for each byte, the most that the machine can do: first a slope, then a flat roof."
    finished(figure, title, alt)
    cached = (y > x * bandwidth) & (y < speed / 2)
    names = [name + ",\nfrom the cache" * bool(above) for name, above in zip(parts, cached, strict=True)]
    named = dict(zip(names, zip(x, y / GIGA, strict=True), strict=True))
    place_names(ax, named, arrowprops={"arrowstyle": "-", "linewidth": 0.6, "shrinkB": 0})
    return figure


def head_scatter(
    named: Mapping[str, tuple[Matrix, Matrix]],
    *,
    ylabel: str,
    marked: Mapping[Place, str] | None = None,
    title: str = "",
) -> Figure:
    """Draw every head as a point, coloured by its layer: one number across, another up on a log scale.

    The pairs of matrices (layers, heads), across and up, go by the name of what goes across; `ylabel` is what
    goes up. `marked` names some heads, by (layer, head).
    """
    import seaborn

    pairs = {name: [inputs.numbers_of(each, 2, name=name) for each in pair] for name, pair in named.items()}
    figure, panels = canvas(len(named), (min(4.6, (WIDEST - 0.8) / len(named)), 0), (0.8, 3.8), sharey=True)
    for ax, (name, (across, up)) in zip(panels, pairs.items(), strict=True):
        colours = matplotlib.colormaps[ATTENTION](np.arange(len(across)) / max(1, len(across) - 1))
        layer = np.repeat(np.arange(len(across)), across.shape[1])
        style = {"hue": layer, "palette": [*colours], "edgecolor": "black", "linewidth": 0.4, "s": 42}
        seaborn.scatterplot(x=across.ravel(), y=up.ravel(), ax=ax, legend=ax is panels[-1], **style)
        ax.grid(alpha=0.3)
        ax.set(xlabel=name, yscale="log")
    panels[0].set_ylabel(ylabel)
    panels[-1].legend(title="layer", bbox_to_anchor=(1.0, 1.0), loc="upper left", frameon=False)
    finished(figure, title, "A dot for each head; the shade is its layer.")
    for ax, (across, up) in zip(panels, pairs.values(), strict=True):
        named_heads = {name: (across[place], up[place]) for place, name in (marked or {}).items()}
        for (layer, _), place in zip(marked or {}, named_heads.values(), strict=True):
            ax.scatter(*place, s=42, color=colours[layer], edgecolor="black", linewidth=1.8, zorder=4)
        place_names(ax, named_heads, size=8, arrowprops={"arrowstyle": "-", "linewidth": 0.6})
    return figure
