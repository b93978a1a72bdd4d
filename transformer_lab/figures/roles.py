"""Layer by head: one number for every head of a model, and two such numbers against each other."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from transformer_lab.figures.base import Matrix, finished, numbers_of
from transformer_lab.figures.heatmaps import draw_matrix

MARK = "#d95f02"
LAYERS = "viridis"

Place = tuple[int, int]


def head_values(
    named: Mapping[str, Matrix],
    *,
    columns: int = 2,
    limit: float | None = None,
    marked: Sequence[Place] = (),
    title: str = "",
) -> Figure:
    """Draw one number for every head, layers down and heads across, for each name.

    Args:
        named: matrices (layers, heads) of numbers that are not negative.
        columns: panels in a row.
        limit: the brightest value, for all panels; each its own largest if None.
        marked: (layer, head) of heads to frame, in every panel.
        title: says what to see.
    """
    n_layers, n_heads = numbers_of(next(iter(named.values()))).shape
    rows = -(-len(named) // columns)
    size = (columns * (0.9 + 0.42 * n_heads), rows * (0.9 + 0.42 * n_layers) + 0.4)
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for ax in axes.flat[len(named) :]:
        ax.set_axis_off()
    for ax, (name, matrix) in zip(axes.flat, named.items(), strict=False):
        values = numbers_of(matrix)
        down, across = [f"layer {i}" for i in range(n_layers)], [str(i) for i in range(n_heads)]
        top = limit if limit is not None else float(values.max())
        draw_matrix(ax, values, down, across, title=name, limits=(0.0, top), numbers=True)
        ax.set_xlabel("head")
        for layer, head in marked:
            ax.add_patch(Rectangle((head, layer), 1, 1, fill=False, edgecolor=MARK, linewidth=2.5))
    figure.suptitle(title)
    return finished(figure)


def head_scatter(
    named: Mapping[str, tuple[Matrix, Matrix]],
    *,
    ylabel: str,
    marked: Mapping[Place, str] | None = None,
    title: str = "",
) -> Figure:
    """Draw every head as a point, coloured by its layer: one number across, another up on a log scale.

    Args:
        named: by the name of what goes across, a pair of matrices (layers, heads): across, and up.
        ylabel: what goes up.
        marked: names of some heads, by (layer, head).
        title: says what to see.
    """
    figure, axes = plt.subplots(
        1,
        len(named),
        figsize=(4.6 * len(named) + 0.8, 3.6),
        layout="constrained",
        squeeze=False,
        sharey=True,
    )
    for ax, (name, (across, up)) in zip(axes.flat, named.items(), strict=True):
        _draw_points(ax, across, up, marked or {})
        ax.set(xlabel=name, yscale="log")
    axes[0, 0].set_ylabel(ylabel)
    axes[0, -1].legend(title="layer", bbox_to_anchor=(1.0, 1.0), loc="upper left", frameon=False)
    figure.suptitle(title)
    return finished(figure)


def _draw_points(ax: Axes, across: Matrix, up: Matrix, marked: Mapping[Place, str]) -> None:
    x, y = numbers_of(across), numbers_of(up)
    colours = plt.get_cmap(LAYERS)
    for layer in range(len(x)):
        colour = colours(layer / max(1, len(x) - 1))
        ax.scatter(x[layer], y[layer], color=colour, edgecolor="black", linewidth=0.4, label=str(layer))
    middle = (x.min() + x.max()) / 2
    for number, (place, name) in enumerate(marked.items()):
        on_the_left = x[place] < middle
        ax.annotate(
            name,
            (x[place], y[place]),
            xytext=(10 if on_the_left else -10, -16 if number % 2 else 12),  # two neighbours keep apart
            textcoords="offset points",
            size=8,
            ha="left" if on_the_left else "right",
            arrowprops={"arrowstyle": "-", "linewidth": 0.6},
        )
    ax.grid(alpha=0.3)
