"""Masks and leak maps: what is dark is hidden, or does not move."""

from collections.abc import Mapping, Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from transformer_lab.course.figures.base import (
    Matrix,
    canvas,
    check_boolean,
    check_labels,
    check_named,
    finished,
)
from transformer_lab.course.figures.heatmaps import draw_matrix
from transformer_lab.validation import check_positive

COLOURS = "cividis"


def masks(
    named: Mapping[str, Matrix],
    tokens: Sequence[str],
    *,
    title: str = "",
    legend: tuple[str, str] = ("may attend", "hidden"),
    labels: tuple[str, str] = ("key", "query"),
    columns: int = 4,
) -> Figure:
    """Draw boolean matrices (query_pos, key_pos) side by side, False dark and True light.

    Args:
        named: the matrices by title.
        tokens: labels of the rows and of the columns.
        title: says what to see.
        legend: what light and dark mean.
        labels: of the horizontal and of the vertical axis; ("changed", "moves") suits leak maps.
        columns: panels in a row.
    """
    check_named(named)
    check_labels("tokens", tokens)
    check_labels("words of the legend", legend, 2)
    check_positive(columns=columns)
    across = min(columns, len(named))
    rows = -(-len(named) // across)
    side = 1.0 + 0.2 * len(tokens)
    size = (side * across + 0.3, (side + 0.25) * rows + 0.9)
    figure, axes = canvas(rows, across, size)
    for ax, (name, matrix) in zip(axes.flat, named.items(), strict=False):
        draw_mask(ax, matrix, tokens, title=name, labels=labels)
    for ax in axes.flat[len(named) :]:
        ax.set_axis_off()
    light, dark = (matplotlib.colormaps[COLOURS](end) for end in (1.0, 0.0))
    patches = [
        Patch(facecolor=colour, label=word) for colour, word in zip((light, dark), legend, strict=True)
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(title)
    return finished(figure)


def draw_mask(
    ax: Axes,
    matrix: Matrix,
    tokens: Sequence[str],
    *,
    title: str = "",
    labels: tuple[str, str] = ("key", "query"),
) -> None:
    """Draw one boolean matrix into `ax`, False dark and True light."""
    check_labels("labels", labels, 2)
    values = check_boolean("the mask", matrix)
    draw_matrix(ax, values, tokens, tokens, title=title, limits=(0, 1), colours=COLOURS, numbers=False)
    ax.set(xlabel=labels[0], ylabel=labels[1])
