"""Attention maps, and matrices small enough to be read number by number."""

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_lab.course.figures.base import (
    Matrix,
    canvas,
    check_axes,
    check_labels,
    check_limits,
    check_maps,
    check_named,
    check_scale,
    finished,
    literal,
    numbers_of,
)
from transformer_lab.validation import check_positive

MANY = 12  # a heatmap with more rows or columns than this has no room for numbers in its cells


def attention_heatmap(
    weights: Matrix, query_tokens: Sequence[str], key_tokens: Sequence[str] | None = None, *, title: str = ""
) -> Figure:
    """Draw one attention map (query_pos, key_pos), queries down and keys across, on a scale from 0 to 1."""
    key_tokens = query_tokens if key_tokens is None else key_tokens
    check_labels("query tokens", query_tokens)
    check_labels("key tokens", key_tokens)
    side = 0.42
    size = (1.9 + side * max(len(key_tokens), 5), 1.3 + side * max(len(query_tokens), 5))
    figure, ((ax,),) = canvas(1, 1, size)
    draw_within(ax, weights, query_tokens, key_tokens, title=title, bar="attention weight")
    ax.set(xlabel="key (looked at)", ylabel="query (looking)")
    return finished(figure)


def head_grid(
    maps: Sequence[Matrix],
    tokens: Sequence[str],
    titles: Sequence[str],
    *,
    title: str = "",
    columns: int = 3,
    limits: Sequence[tuple[float, float]] | None = None,
    bar: str = "attention weight",
) -> Figure:
    """Draw several attention maps of one sentence side by side, on one shared scale from 0 to 1.

    With `limits` each map has a scale of its own; the colour bar is that of the first.
    """
    check_positive(columns=columns)
    check_maps(maps)
    check_labels("tokens", tokens)
    check_labels("titles", titles, len(maps))
    if limits is not None:
        check_maps(limits)
    if limits is not None and len(limits) != len(maps):
        raise ValueError(f"got {len(limits)} limits, wanted {len(maps)}; give one pair for each map")
    rows = -(-len(maps) // columns)
    side = 0.9 + 0.2 * len(tokens)
    size = (side * columns + 1.0, side * rows + 0.6)
    figure, axes = canvas(rows, columns, size)
    for number, ax in enumerate(axes.flat):
        if number >= len(maps):
            ax.set_axis_off()
            continue
        scale = (0, 1) if limits is None else limits[number]
        draw_within(ax, maps[number], tokens, tokens, title=titles[number], limits=scale, numbers=False)
        ax.set(xlabel="key", ylabel="query")
    figure.colorbar(axes[0, 0].collections[0], ax=axes, label=bar, shrink=0.6)
    figure.suptitle(title)
    return finished(figure)


def matrices(
    named: Mapping[str, Matrix],
    *,
    rows: Sequence[str] | None = None,
    columns: Mapping[str, Sequence[str]] | None = None,
    xlabels: Mapping[str, str] | None = None,
    ylabel: str = "",
    title: str = "",
) -> Figure:
    """Draw small matrices side by side, each with its numbers, its name and its own scale.

    Args:
        named: the matrices by name.
        rows: labels of the rows, for each matrix that has as many.
        columns: labels of the columns, by name.
        xlabels: what the columns are, by name.
        ylabel: what the rows of the first matrix are.
        title: says what to see.
    """
    check_named(named)
    shapes = [numbers_of(matrix, 2, name=name).shape for name, matrix in named.items()]
    columns, xlabels = ({} if given is None else given for given in (columns, xlabels))
    for what, given in (("columns", columns), ("xlabels", xlabels)):
        check_named(given, empty=True)
        if unknown := given.keys() - named.keys():
            raise ValueError(f"{what} name no matrix: got {sorted(unknown)}, wanted some of {list(named)}")
    if rows is not None:
        check_labels("rows", rows)
    if rows is not None and len(rows) not in [height for height, _ in shapes]:
        raise ValueError(f"got {len(rows)} labels of rows, wanted as many as a matrix has; shapes: {shapes}")
    size = sum(0.75 + 0.52 * width for _, width in shapes), 1.2 + 0.5 * max(height for height, _ in shapes)
    figure, axes = canvas(1, len(named), size, width_ratios=[width for _, width in shapes])
    for ax, (name, matrix), (height, width) in zip(axes.flat, named.items(), shapes, strict=True):
        across = columns.get(name, [str(i) for i in range(width)])
        down = rows if rows is not None and len(rows) == height else [str(i) for i in range(height)]
        draw_matrix(ax, matrix, down, across, title=name, numbers=True, **_scale(numbers_of(matrix)))
        ax.set_xlabel(xlabels.get(name, ""))
    axes[0, 0].set_ylabel(ylabel)
    figure.suptitle(title)
    return finished(figure)


def _scale(values: np.ndarray) -> dict:
    """Colours and limits: diverging around zero for signed numbers, from zero upwards for the others."""
    reach = float(np.abs(values).max()) or 1.0
    if values.min() < 0:
        return {"colours": "RdBu_r", "limits": (-reach, reach)}
    return {"colours": "viridis", "limits": (0.0, reach)}


def draw_within(
    ax: Axes,
    matrix: Matrix,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    limits: tuple[float, float] = (0, 1),
    **look: object,
) -> None:
    """Draw as `draw_matrix` does, but raise where a number lies beyond the limits."""
    check_scale(_labelled(matrix, rows, columns), limits)
    draw_matrix(ax, matrix, rows, columns, limits=limits, **look)


def draw_matrix(
    ax: Axes,
    matrix: Matrix,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str = "",
    limits: tuple[float, float] | None = None,
    colours: str = "viridis",
    numbers: bool | None = None,
    bar: str | None = None,
) -> None:
    """Draw one matrix into `ax`: a label for every row and column, numbers in the cells where there is room.

    A number beyond `limits` has the colour of the nearer one.

    Raises:
        TypeError: no axes, labels that are no strings, a matrix that holds no numbers.
        ValueError: the labels do not match the matrix, an empty matrix, or an unknown colour map.
    """
    check_axes(ax)
    values = _labelled(matrix, rows, columns)
    low, high = (float(values.min()), float(values.max())) if limits is None else check_limits(limits)
    if not isinstance(colours, str) or colours not in matplotlib.colormaps:
        raise ValueError(f"colours must name a colour map, got {colours!r}; try viridis, RdBu_r or cividis")
    with_numbers = max(values.shape) <= MANY if numbers is None else numbers
    layout = ax.figure.get_layout_engine()
    ax.figure.set_layout_engine("none")  # seaborn draws the figure once to look for labels that overlap
    sns.heatmap(
        values + 0.0,  # turns −0.0 into 0.0
        ax=ax,
        vmin=low,
        vmax=high,
        cmap=colours,
        square=True,
        annot=np.vectorize(_cell_text)(values) if with_numbers else False,
        fmt="",
        annot_kws={"size": 8},
        linewidths=0.4,
        linecolor="white",
        xticklabels=list(columns),
        yticklabels=list(rows),
        cbar=bar is not None,
        cbar_kws={"label": bar, "shrink": 0.8},
    )
    ax.figure.set_layout_engine(layout)
    ax.set_title(title)
    ax.tick_params(length=0)
    ax.set_xticklabels(ax.get_xticklabels(), rotation=90 if max(map(len, columns)) > 2 else 0)
    ax.set_yticklabels(ax.get_yticklabels(), rotation=0)
    _readable_numbers(ax)
    literal(ax)


def _labelled(matrix: Matrix, rows: Sequence[str], columns: Sequence[str]) -> np.ndarray:
    """The matrix as numbers; raise unless there is a label for every row and column."""
    check_labels("rows", rows)
    check_labels("columns", columns)
    values = numbers_of(matrix, name="the matrix")
    if values.shape != (len(rows), len(columns)):
        raise ValueError(
            f"got a matrix of shape {values.shape}, the labels fit {(len(rows), len(columns))}; "
            "pick one head and one sentence first, for example weights[0, 3]"
        )
    return values


def _cell_text(value: float) -> str:
    """Two decimals as in the prose, .67 and not 0.67; blank if it only rounds to zero: a quieter picture."""
    if value == 0:
        return "0"
    text = f"{abs(value):.2f}".removesuffix(".00").removeprefix("0")
    return f"−{text}" if value < 0 and text else text


def _readable_numbers(ax: Axes) -> None:
    """Make each number black or white, whichever contrasts more with its cell: at least 4.5 to 1."""
    mesh = ax.collections[0]
    mesh.update_scalarmappable()
    colour = mesh.get_facecolors()[:, :3]
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    for text, light in zip(ax.texts, luminance, strict=False):
        text.set_color("black" if light > 0.179 else "white")
