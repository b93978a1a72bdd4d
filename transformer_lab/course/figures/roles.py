"""Layer by head: one number for every head of a model, and two such numbers against each other."""

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_lab.course.figures.base import (
    Matrix,
    canvas,
    check_above_zero,
    check_marked,
    check_named,
    check_places,
    finished,
    frame_cells,
    from_zero,
    numbers_of,
)
from transformer_lab.course.figures.heatmaps import draw_within
from transformer_lab.validation import check_number, check_positive

LAYERS = "viridis"
POINTS = np.array([280.0, 175.0])  # a panel of the scatter between its outermost heads, in points
CLEAR = 7.0  # from a name to the nearest head, in points

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
    check_named(named)
    check_positive(columns=columns)
    if limit is not None:
        check_number(limit=limit, above=0)
    n_layers, n_heads = numbers_of(next(iter(named.values())), 2).shape
    check_places("marked heads", marked, (n_layers, n_heads))
    rows = -(-len(named) // columns)
    size = (columns * (0.9 + 0.42 * n_heads), rows * (0.9 + 0.42 * n_layers) + 0.4)
    figure, axes = canvas(rows, columns, size)
    for ax in axes.flat[len(named) :]:
        ax.set_axis_off()
    for ax, (name, matrix) in zip(axes.flat, named.items(), strict=False):
        values = numbers_of(matrix, 2, name=name)
        down, across = [f"layer {i}" for i in range(n_layers)], [str(i) for i in range(n_heads)]
        scale = from_zero(values) if limit is None else (0.0, limit)
        draw_within(ax, values, down, across, title=name, limits=scale, numbers=True)
        ax.set_xlabel("head")
        frame_cells(ax, marked)
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
    check_named(named)
    marked = {} if marked is None else marked
    pairs = {name: _pair(name, matrices, marked) for name, matrices in named.items()}
    figure, axes = canvas(1, len(named), (4.6 * len(named) + 0.8, 3.6), sharey=True)
    for ax, (name, (across, up)) in zip(axes.flat, pairs.items(), strict=True):
        _draw_points(ax, across, up, marked)
        ax.set(xlabel=name, yscale="log")
    axes[0, 0].set_ylabel(ylabel)
    axes[0, -1].legend(title="layer", bbox_to_anchor=(1.0, 1.0), loc="upper left", frameon=False)
    figure.suptitle(title)
    return finished(figure)


def _pair(name: str, matrices: tuple[Matrix, Matrix], marked: Mapping[Place, str]) -> tuple:
    """Both matrices as numbers; raise unless they are alike, and every point can be drawn."""
    if not isinstance(matrices, tuple | list) or len(matrices) != 2:
        raise TypeError(
            f"{name} must be two matrices, across and up, got {type(matrices).__name__}; give a pair"
        )
    across, up = (numbers_of(matrix, 2, name=name) for matrix in matrices)
    if across.shape != up.shape:
        raise ValueError(f"{name} has shapes {across.shape} and {up.shape}, wanted the same (layers, heads)")
    check_above_zero(f"{name}, up,", up)
    check_marked(marked, up.shape)
    return across, up


def _draw_points(ax: Axes, x: np.ndarray, y: np.ndarray, marked: Mapping[Place, str]) -> None:
    colours = matplotlib.colormaps[LAYERS]
    for layer in range(len(x)):
        colour = colours(layer / max(1, len(x) - 1))
        ax.scatter(x[layer], y[layer], color=colour, edgecolor="black", linewidth=0.4, label=str(layer))
    across, up = (np.interp(v, (v.min(), v.max()), (0, 1)) for v in (x, np.log(y)))
    taken = np.stack([across.ravel() * POINTS[0], up.ravel() * POINTS[1]], axis=1)
    for place, name in marked.items():
        spot = np.array([across[place], up[place]]) * POINTS
        offset = _free_offset(spot, 5 * len(name), taken)
        taken = np.vstack([taken, _outline(spot + offset, 5 * len(name))])  # the next name keeps away too
        ax.annotate(
            name,
            (x[place], y[place]),
            xytext=tuple(offset),
            textcoords="offset points",
            size=8,
            ha="center",
            va="center",
            arrowprops={"arrowstyle": "-", "linewidth": 0.6},
        )
    ax.grid(alpha=0.3)


def _free_offset(spot: np.ndarray, width: float, taken: np.ndarray) -> np.ndarray:
    """Where a name may stand, measured from its point: the nearest place that hides no other point."""
    angles = np.arange(0, 2 * np.pi, np.pi / 8)
    rounds = [
        np.round([radius * np.cos(angle) * 1.5, radius * np.sin(angle)])
        for radius in (18, 24, 32, 42, 54)
        for angle in angles
    ]
    rooms = []
    for offset in rounds:
        line = np.multiply.outer(np.linspace(0, 1, 20), offset)  # from the point to its name
        line = line[np.linalg.norm(line, axis=1) > CLEAR]
        outline = np.vstack([_outline(spot + offset, width), spot + line])
        if (outline >= 0).all() and (outline <= POINTS).all():
            room = np.linalg.norm(outline[:, None] - taken, axis=-1).min()
            if room > CLEAR:
                return offset
            rooms.append((room, tuple(offset)))
    return np.array(max(rooms)[1]) if rooms else rounds[0]


def _outline(middle: np.ndarray, width: float) -> np.ndarray:
    """Points along a written name: its upper and its lower edge, and the line between them."""
    steps = [(along, over) for along in np.linspace(-0.5, 0.5, 9) for over in (-4, 0, 4)]
    return np.array([(middle[0] + along * width, middle[1] + over) for along, over in steps])
