"""Heatmaps with a label for every row and column: attention weights, cosine similarities, masks."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from unittest.mock import patch

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import Colormap
from matplotlib.figure import Figure

from transformer_course.figures import inputs, layout
from transformer_course.figures.colours import (
    ATTENTION,
    DARK,
    HIDDEN,
    NO,
    OPEN,
    OPEN_OR_NOT,
    SIGNED,
    YES,
)
from transformer_course.figures.inputs import Labels, Limits, Matrix, Tables

MANY = 12  # a map with more rows or columns than this has no values in its cells
ROUNDING = 1e-6  # values may exceed their scale by this much
Cell = tuple[int, int]  # (query, key)
A_MAP_EACH = (
    "A map for each head: a row for each query, a column for each key; the brighter, the more weight."
)
COSINES = "A cell for every pair: its cosine similarity, from −1, opposite, to 1, the same direction."
KEY_QUERY = ("key", "query")
FRAMED = {"fill": False, "linewidth": 2, "edgecolor": "black"}  # the entry of a frame in a legend

# Sizes in inches around the cells of a map
LETTER, HEAD_LETTER = 0.078, 0.088  # the width of a letter: of a label, of a title
AROUND, ABOVE, BELOW, BAR = 0.16, 0.3, 0.3, 0.95  # a gap; a panel's title; the axis label; a colour bar
HEADLINE = 0.4
SMALL = 0.28  # in a smaller cell, a value of font size 8 would touch the frame
GROUND = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}  # background of text


# One map


def draw_matrix(
    ax: Axes,
    matrix: Matrix,
    rows: Labels,
    columns: Labels,
    *,
    title: str = "",
    limits: Limits | None = None,
    colours: str | Colormap = ATTENTION,
    numbers: bool | np.ndarray | Sequence[Labels] | None = None,
    whole: bool = True,
    bar: str | None = None,
    hidden: Matrix | None = None,
    labels: tuple[str, str] = ("", ""),
    boxed: Iterable[tuple[float, ...]] = (),
    size: float = 8,
) -> None:
    """Draw one matrix into `ax`: a label for every row and column, and values if the cells are large enough.

    `numbers` may also say for each cell whether its value is written, or give another text. Unless `whole`,
    all values have decimals. Cells that are True in `hidden` are hatched; cells in `boxed`, in the format of
    `frame_cells`, have frames. `size` is the font size of the values, in points.

    Raises:
        ValueError: the labels do not match the matrix, or a value is not finite or outside the limits.
    """
    values = inputs.labelled(matrix, rows, columns)
    least, most = values.min(), values.max()
    low, high = limits or (least, most)
    if least < low - ROUNDING or most > high + ROUNDING:  # they would share the end colour
        raise ValueError(
            f"wanted numbers on the scale from {low:g} to {high:g}, got {least:g} to {most:g}; "
            "widen the limits, or, for attention, give the weights after the softmax"
        )
    covered = np.zeros_like(values) if hidden is None else inputs.numbers_of(hidden)
    words = wanted = np.asarray(max(values.shape) <= MANY if numbers is None else numbers)
    if wanted.dtype == bool:
        words = np.where(wanted, layout.cell_texts(values, whole=whole), "") if wanted.any() else None
    words = words if words is None else np.where(covered == 0, words, "")
    mesh = draw_cells(
        ax, values + 0.0, rows, columns, limits=(low, high), colours=colours, words=words, size=size
    )
    ax.set(title=title, aspect="equal", xlabel=labels[0], ylabel=labels[1])
    if bar is not None:
        ax.figure.colorbar(mesh, ax=ax, label=bar, shrink=0.8).outline.set_linewidth(0)
    _readable_numbers(ax)
    layout.hide_cells(ax, np.argwhere(covered))
    layout.frame_cells(ax, boxed)


def draw_cells(
    ax: Axes,
    values: np.ndarray,
    rows: Labels | int,
    columns: Labels | int,
    *,
    limits: Limits,
    colours: str | Colormap,
    words: np.ndarray | None = None,
    size: float = 8,
    gap: float = 0.4,
) -> QuadMesh:
    """Draw seaborn's heatmap into a panel, with the texts of `words` in the cells; return the mesh.

    rows, columns: a label for each of them, or a number n to label every nth one with its index
    gap: width of the white lines between cells, in points
    """
    import seaborn  # imported here because it takes two seconds, at the first heatmap

    # seaborn would draw the whole figure to find overlapping labels: 19 s for twelve maps instead of 1 s.
    with patch.object(seaborn.matrix, "_draw_figure", lambda figure: None):
        seaborn.heatmap(
            values,
            ax=ax,
            vmin=limits[0],
            vmax=limits[1],
            cmap=colours,
            cbar=False,
            linewidths=gap,
            annot=words,
            fmt="",
            annot_kws={"size": size, "color": "black"},
            xticklabels=columns or False,
            yticklabels=rows or False,
        )
    upright = not isinstance(columns, int) and max(map(len, columns), default=0) > 2
    ax.tick_params(axis="x", length=0, rotation=90 if upright else 0)
    ax.tick_params(axis="y", length=0, rotation=0)
    return ax.collections[0]


def _readable_numbers(ax: Axes) -> None:
    """Make each value black or white, whichever has more contrast with its cell: at least 4.5 to 1."""
    mesh = ax.collections[0]
    mesh.update_scalarmappable()
    colour = mesh.get_facecolors()[:, :3]
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    for text, light in zip(ax.texts, luminance, strict=False):
        text.set_color("black" if light > 0.179 else "white")


def attention_heatmap(
    weights: Matrix, tokens: Labels, *, title: str = "", boxed: Iterable[int | Cell] = (), least: float = 0.0
) -> Figure:
    """Draw one attention map (query_pos, key_pos), from 0 to 1; rows or cells in `boxed` have frames.

    Weights of at least `least` are written into their cells.
    """
    side = 0.42 * len(tokens)
    figure, (ax,) = layout.canvas(1, (1.9 + side, 1.3 + side))
    style = {"limits": (0, 1), "labels": ("key (attended to)", "query (attends)")}
    style["numbers"] = inputs.numbers_of(weights) >= least
    style["boxed"] = [cell if np.ndim(cell) else (cell, 0, len(tokens), 1) for cell in boxed]
    draw_matrix(ax, weights, tokens, tokens, bar="attention weight", **style)
    alt = "A row for each query, a column for each key; the brighter, the more of the query's weight."
    return layout.finished(figure, title, alt)


# Several maps next to each other


def lay_maps(
    named: Iterable[tuple[str, Matrix]],
    rows: Labels,
    columns: Labels,
    *,
    unit: float,
    across: int | None = None,
    bar: str | None = None,
    below: float = 0.0,
    per_panel: Sequence[Mapping[str, object]] = (),
    **style: object,
) -> tuple[Figure, np.ndarray]:
    """Draw several maps with shared labels; return the figure and its panels.

    Row labels appear only on the left, column labels only at the bottom.

    Args:
        named: titles and maps.
        rows, columns: the shared labels.
        across: the number of maps in a row; all of them if None.
        unit: the side length of a cell, in inches; reduced if the figure would be wider than a page.
        bar: label of the colour bar, which belongs to the first map.
        below: extra space at the bottom, in inches.
        per_panel, style: options of `draw_matrix` for each map, and for all; rows and columns may differ by
            map.
    """
    named = list(named)
    same = {"rows": rows, "columns": columns}
    style = same | {"limits": (0, 1), "labels": KEY_QUERY, "numbers": False} | style
    across = min(across or len(named), len(named))
    down = -(-len(named) // across)
    left, foot = (BELOW + LETTER * max(map(len, labels)) for labels in (rows, columns))
    beside = left + across * AROUND + (BAR if bar is not None else 0.2)
    most = (layout.WIDEST - beside) / across
    unit = min(unit, most / len(columns))
    style |= {"size": 6.5} if unit < SMALL else {}
    titles = [textwrap.fill(title, max(8, int(most / HEAD_LETTER))) or title for title, _ in named]
    longest = max(len(line) for lines in titles for line in lines.split("\n"))
    panel = max(unit * len(columns), HEAD_LETTER * longest)
    above = ABOVE * max(1 + lines.count("\n") for lines in titles)
    size = across * panel + beside, down * (unit * len(rows) + above) + foot + HEADLINE + below
    figure, panels = layout.canvas(len(named), (0, 0), size, columns=across)
    for ax, title, (_, matrix), more in zip(
        panels, titles, named, per_panel or [{}] * len(named), strict=True
    ):
        draw_matrix(ax, matrix, title=title, **(style | more))
    for place, ax in enumerate(panels):
        if place % across:  # row labels only in the first panel of a row
            same = ax.get_ylabel() == panels[0].get_ylabel()
            ax.tick_params(labelleft=not same)
            ax.set_ylabel("" if same else ax.get_ylabel())
        if place + across < len(panels) and ax.get_xlabel() == panels[place + across].get_xlabel():
            ax.tick_params(labelbottom=False)  # column labels only in the last panel of a column
            ax.set_xlabel("")
    if bar is not None:
        figure.colorbar(panels[0].collections[0], ax=figure.axes, label=bar, shrink=0.7)
    return figure, panels


def head_grid(
    maps: Sequence[Matrix],
    tokens: Labels,
    titles: Labels,
    *,
    title: str = "",
    columns: int = 3,
    unit: float = 0.21,
    least: float = np.inf,
    bar: str | None = "attention weight",
    boxed: Sequence[Iterable[Cell]] | None = None,
    queries: Labels | None = None,
    per_panel: Sequence[Mapping[str, object]] = (),
    alt: str = A_MAP_EACH,
) -> Figure:
    """Draw several attention maps (query_pos, key_pos) of one sentence, with `columns` maps in a row.

    Args:
        least: weights of at least this value are written, also in single cells with a frame.
        bar: label of the colour bar, which belongs to the first map; none if None.
        boxed: for each map the cells (query, key) with a frame; a dict gives the name of each frame.
        queries: labels of the rows, if not every token is a query.
        per_panel: options of `draw_matrix` for each map.
        alt: a sentence for the alternative text.
    """
    boxed = [
        options if isinstance(options, Mapping) else list(options) for options in boxed or [()] * len(maps)
    ]
    numbers = [inputs.numbers_of(weights) >= least for weights in maps]
    for shown, cells in zip(numbers, boxed, strict=True):
        for row, column, *size in cells:
            if isinstance(cells, Mapping) or (least < np.inf and not size):
                width, height = (*size, 1, 1)[:2]
                shown[row : row + height, column : column + width] = True
    every = zip(boxed, numbers, per_panel or [{}] * len(maps), strict=True)
    options = [{"boxed": cells, "numbers": shown} | more for cells, shown, more in every]
    style = {"unit": unit, "across": columns, "bar": bar, "per_panel": options}
    figure, _ = lay_maps(zip(titles, maps, strict=True), queries or tokens, tokens, **style)
    return layout.finished(figure, title, alt)


# Matrices with a few kinds of cells, each with its colour


def masks(
    named: Tables,
    tokens: Labels,
    *,
    title: str = "",
    numbers: Sequence[Matrix] = (),
    boxed: Sequence[tuple[int, ...]] = (),
) -> Figure:
    """Draw boolean masks (query_pos, key_pos) next to each other, four in a row; hidden cells are hatched.

    Each mask may have `numbers` in its cells; cells in `boxed` have frames in every mask.
    """
    tables = inputs.tables_of(named)
    style = {"unit": 0.36 if len(tokens) < 8 else 0.28 if len(numbers) else 0.23, "below": 0.3}
    style |= {"colours": OPEN_OR_NOT, "per_panel": [{"hidden": 1 - mask} for mask in tables.values()]}
    figure, panels = lay_maps(tables.items(), tokens, tokens, across=4, **style)
    words = [np.where(mask, "✓", "") for mask in tables.values() if len(tokens) <= MANY]
    words = [np.vectorize(layout.number)(inputs.numbers_of(table, 2)) for table in numbers] or words
    for ax in panels:
        layout.frame_cells(ax, boxed)
    for ax, written, mask in zip(panels, words, tables.values(), strict=False):
        write_words(ax, written, mask, OPEN)
    layout.legend_of_cells(figure, {"may attend": {"facecolor": OPEN}, "hidden": HIDDEN})
    alt = "A row for each query, a column for each key; plain: may be attended to; hatched: hidden."
    return layout.finished(figure, title, alt)


def write_words(ax: Axes, words: np.ndarray, is_true: np.ndarray, colour: str) -> None:
    """Write a word into each cell, on a background with the `colour` of the true cells."""
    style = {"ha": "center", "va": "center", "size": 8, "zorder": 3}
    for (row, column), word in np.ndenumerate(words):
        yes = is_true[row, column]
        ground = {"facecolor": colour if yes else NO, "edgecolor": "none", "pad": 1}
        style["color"] = "white" if yes and colour == YES else DARK
        ax.text(column + 0.5, row + 0.5, word, bbox=ground if word else None, **style)


def lay_tables(
    named: Tables, labels: tuple[str, str], bar: str
) -> tuple[Figure, np.ndarray, dict[str, np.ndarray]]:
    """Draw large tables next to each other on one scale around zero; return the figure, panels and tables.

    `labels` are the labels of the x and the y axis. The colour bar starts at 0 if no value is negative.
    """
    tables = inputs.tables_of(named)
    reach = max(np.abs(table).max() for table in tables.values())
    wide = min(6.4 if len(tables) == 1 else 3.9, (layout.WIDEST - 1.4) / len(tables))
    figure, panels = layout.canvas(len(tables), (wide, 0), (1.4, 4.4))
    for ax, (name, table) in zip(panels, tables.items(), strict=True):
        every = map(_label_step, table.shape)
        mesh = draw_cells(ax, table, *every, limits=(-reach, reach), colours=SIGNED, gap=0)
        ax.set(xlabel=labels[0], ylabel=labels[1] if ax is panels[0] else "", title=name)
        ax.tick_params(labelleft=ax is panels[0])  # all panels have the labels of the first
    colour_bar = figure.colorbar(mesh, ax=figure.axes, label=bar)
    if min(table.min() for table in tables.values()) >= 0:
        colour_bar.ax.set_ylim(0, reach)
    return figure, panels, tables


def _label_step(size: int) -> int:
    """Return the step between labels that leaves at most six labelled rows or columns."""
    return next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, size) if size <= 6 * step)


def mark_distance(ax: Axes, table: np.ndarray, distance: int, first: int = 0) -> None:
    """Connect the cells at a distance below the diagonal, from index `first` on, and write three of them.

    Their mean and standard deviation go into the title of the panel.
    """
    along = np.diagonal(table, -distance)[first:]
    rows = distance + first + np.arange(len(along)) + 0.5
    mean, deviation = map(layout.two_decimals, (along.mean(), along.std()))
    ax.set_title(
        f"{ax.get_title()}\ndashed: distance {distance}\nmean {mean}, standard deviation {deviation}"
    )
    ax.plot(rows - distance, rows, color="black", linewidth=0.8, linestyle="--")
    for place in range(len(rows) // 4, len(rows), len(rows) // 3):
        point = rows[place] - distance, rows[place]
        ax.plot(*point, "o", color="black", markersize=4)
        style = {"ha": "right", "va": "top", "size": 9, "bbox": GROUND, "zorder": 6}
        ax.annotate(layout.two_decimals(along[place]), point, (-5, -4), textcoords="offset points", **style)


def cosine_heatmaps(named: Tables, tokens: Labels, *, title: str = "") -> Figure:
    """Draw the cosine similarity of all pairs of tokens, one panel per name, on a scale from −1 to 1."""
    tables = inputs.tables_of(named)
    style = {"unit": 0.42, "colours": SIGNED, "labels": ("", ""), "numbers": True, "limits": (-1, 1)}
    figure, _ = lay_maps(tables.items(), tokens, tokens, bar="cosine", **style)
    return layout.finished(figure, title, COSINES)
