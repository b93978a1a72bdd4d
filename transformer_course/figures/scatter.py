"""Scatter plots: a mark for each head, neuron, text, or part of a model."""

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_course.figures import inputs
from transformer_course.figures.colours import ATTENTION, DARK, GREY, HERO, LINES, MARK
from transformer_course.figures.inputs import Labels, Matrix
from transformer_course.figures.label_placement import place_names
from transformer_course.figures.layout import WIDEST, canvas, finished, two_decimals

GIGA = 1e9
Place = tuple[int, int]


def neuron_activations(
    named: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, legend: tuple[str, str], title: str
) -> Figure:
    """Draw a row per neuron: its activation for the words of its own kind, and for all other words."""
    figure, _ = _strips(named, legend, 7.4, MARK, "activation")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return finished(figure, title, "A row for each neuron, a mark for each word, at the neuron's activation.")


def search_results(cosines: Matrix, answers: Mapping[str, int], texts: Labels, *, title: str) -> Figure:
    """Draw a row for each question: its cosines with the correct text and the others, and the result.

    `cosines` are (question, text); `answers` has the index of the correct text for each question.
    """
    table = inputs.labelled(cosines, [*answers], texts)
    both = zip(answers.items(), table, strict=True)
    rows = {question: (row[[right]], np.delete(row, right)) for (question, right), row in both}
    figure, ax = _strips(
        rows, ("the right notice", "the other notices"), WIDEST, LINES[1], "cosine with the question"
    )
    nearest = table.argmax(axis=1)
    wrong = np.flatnonzero(nearest != [*answers.values()])
    style = {"color": HERO, "marker": "D", "label": "a wrong notice with the largest cosine", "zorder": 2}
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
    ax.text(1, -0.75, " largest cosine, and its notice", weight="bold", va="center", **style)
    alt = "A row for each question: a dot is the correct notice, strokes are others; right, the result."
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return finished(figure, title, alt)


def _strips(
    rows: Mapping[str, tuple], legend: tuple[str, str], width: float, colour: str, xlabel: str
) -> tuple[Figure, Axes]:
    """Return a figure and its panel, with a row per name: its own values as dots, all others as strokes."""
    figure, (ax,) = canvas(1, (width, 1.1 + 0.34 * len(rows)))
    import seaborn

    size, places = 26**0.5, np.arange(len(rows))
    others = {"color": GREY, "marker": "|", "linewidth": 1.5, "zorder": 1}
    for kind, style in ((1, others), (0, {"color": colour, "marker": "o", "zorder": 3})):
        marks = [inputs.numbers_of(numbers[kind], 1, name=name) for name, numbers in rows.items()]
        y = np.repeat(places, [len(row) for row in marks])
        before = len(ax.collections)
        style |= {"size": size, "order": places, "legend": False}
        seaborn.stripplot(x=np.concatenate(marks), y=y, orient="h", jitter=False, ax=ax, **style)
        ax.collections[before].set_label(legend[kind])  # one row is enough for the legend
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set(xlabel=xlabel, ylim=(len(rows) - 0.5, -0.5))
    ax.grid(alpha=0.3, axis="x")
    return figure, ax


def roofline(
    peak: float, bandwidth: float, parts: Mapping[str, tuple[float, float]], *, title: str
) -> Figure:
    """Draw the roofline of a machine, from its peak FLOP/s and memory bandwidth, and the parts of a model.

    A part has its arithmetic intensity (FLOPs per byte) and the FLOP/s that it reached. A part above the
    slope read its data from the cache.
    """
    x, y = inputs.numbers_of(list(parts.values()), 2, name="parts").T
    ridge = peak / bandwidth
    ends = np.array([min(x.min(), ridge) / 6, max(x.max(), ridge) * 8])
    figure, (ax,) = canvas(1, (7.4, 4.2))
    over = np.array([ends[0], ridge, ends[1]])
    ax.plot(over, np.minimum(peak, bandwidth * over) / GIGA, color=DARK, linewidth=2)
    ax.scatter(x, y / GIGA, s=45, color=MARK, edgecolor="black", linewidth=0.6, zorder=4)
    ax.axvline(ridge, color=GREY, linestyle=":", linewidth=1.2)
    ax.set(xscale="log", yscale="log", xlim=tuple(ends))
    ax.set(xlabel="arithmetic intensity (FLOPs per byte moved)", ylabel="throughput (billion FLOP/s)")
    ax.set_ylim(y.min() / GIGA / 4, peak / GIGA * 4)
    limits = (
        (f"memory-bound:\nat most {bandwidth / GIGA:.0f} billion bytes/s", "left", 0.02),
        (f"compute-bound:\nat most {peak / GIGA:.0f} billion FLOP/s", "right", 0.98),
    )
    for text, side, across in limits:
        ax.text(across, 0.97, text, color=GREY, transform=ax.transAxes, ha=side, va="top")
    ax.text(
        ridge, 0.02, f" ridge point: {two_decimals(ridge, 1)}", color=GREY, transform=ax.get_xaxis_transform()
    )
    alt = "The highest possible throughput over the arithmetic intensity: first a slope, then a flat roof."
    finished(figure, title, alt)
    cached = (y > x * bandwidth) & (y < peak / 2)
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
    """Draw every head as a point, coloured by its layer; the y axis is logarithmic.

    Each pair of matrices (layers, heads) has the x and the y values, and is named after the x values;
    `ylabel` names the y values. `marked` names some heads, by (layer, head).
    """
    import seaborn

    pairs = {
        name: [inputs.numbers_of(matrix, 2, name=name) for matrix in pair] for name, pair in named.items()
    }
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
