"""Matrices whose cells are of a few kinds, each with its colour: masks, heads, pairs, what a cache keeps."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import Tensor

from transformer_course.figures import given
from transformer_course.figures.colours import DARK, EDGE, HIDDEN, NO, OPEN, OPEN_OR_NOT, PALE, YES, YES_OR_NO
from transformer_course.figures.given import Labels, Matrix, Tables
from transformer_course.figures.layout import (
    WIDEST,
    canvas,
    finished,
    frame_cells,
    hide_cells,
    legend_of_cells,
    number,
    outline_cells,
)
from transformer_course.figures.maps import KEY_QUERY, MANY, draw_cells, lay_maps


def masks(
    named: Tables,
    tokens: Labels,
    *,
    title: str = "",
    see: str = "",
    legend: Sequence[str] = ("may attend", "hidden"),
    effects: Sequence[str] = (),
    labels: tuple[str, str] | Sequence[tuple[str, str]] = KEY_QUERY,
    columns: int = 4,
    queries: Labels | None = None,
    numbers: Sequence[Matrix] = (),
    framed: Sequence[tuple[int, ...]] = (),
    above: bool = False,
) -> Figure:
    """Draw boolean matrices (query_pos, key_pos) side by side, `columns` in a row.

    `legend` says what cells mean that are True, and others, then the same of the maps in `effects`, then what
    frames mean; `labels` name both axes, of all or of each. Effects, and all where `queries` are the rows
    because these are not the columns' tokens, hide nothing: they are dark and light.
    Some matrices, from the first on, may have `numbers`, but where nan; in all some cells may be `framed`.
    The columns may have their names `above` them, level, and cells that are wide and low.
    """
    maps = given.tables_of(named)
    pairs = [labels] * len(maps) if isinstance(labels[0], str) else labels
    look = {"unit": 0.36 if len(tokens) < 8 else 0.28 if len(numbers) else 0.23, "below": 0.3}
    look["colours"], mask = YES_OR_NO, {"colours": OPEN_OR_NOT}
    own = [{} if queries or name in effects else mask | {"hidden": 1 - each} for name, each in maps.items()]
    look["own"] = [more | {"labels": pair} for more, pair in zip(own, pairs, strict=True)]
    figure, panels = lay_maps(maps.items(), queries or tokens, tokens, across=columns, **look)
    for ax in panels:
        (outline_cells if effects else frame_cells)(ax, framed)
        if above:
            ax.tick_params(axis="x", labeltop=True, labelbottom=False, rotation=0)
            ax.xaxis.set_label_position("top")
            ax.set_aspect("auto")
            figure.set_size_inches(WIDEST, 1.7 + 0.2 * len(queries or tokens))
    ticks = [np.where(each["hidden"], "", "✓") for each in own if each and len(tokens) <= MANY]
    told = [given.numbers_of(each, 2, gaps=True) for each in numbers]
    words = [np.where(np.isnan(each), "", np.vectorize(number)(each)) for each in told] or ticks
    for ax, written, shown, mine in zip(panels, words, maps.values(), own, strict=False):
        _write_words(ax, written, shown, is_mask="hidden" in mine)
    key = {"facecolor": OPEN}, HIDDEN, {"facecolor": YES}, {"facecolor": NO}, {"fill": False, "linewidth": 2}
    legend_of_cells(figure, dict(zip(legend, key[2 * bool(queries) :], strict=False)))
    kinds = ("dark", "light") if queries else ("plain", "hatched")
    see = see or (
        "A row for each query, a column for each key; a plain cell may be looked at, a hatched one is hidden."
        if labels == KEY_QUERY
        else f"Across: {labels[0]}. A {kinds[0]} cell: {legend[0]}; a {kinds[1]} one: {legend[1]}."
    )
    return finished(figure, title, see)


def _write_words(ax: Axes, written: np.ndarray, shown: np.ndarray, *, is_mask: bool) -> None:
    """Write a word into each cell, on its colour."""
    look = {"ha": "center", "va": "center", "size": 8, "zorder": 3}
    for (row, column), word in np.ndenumerate(written):
        yes = shown[row, column]
        ground = {
            "facecolor": (OPEN if is_mask else YES) if yes else NO,
            "edgecolor": "none",
            "pad": 1,
        }
        look["color"] = "white" if yes and not is_mask else DARK
        ax.text(column + 0.5, row + 0.5, word, bbox=ground if word else None, **look)


def head_blocks(
    panels: Mapping[str, Tensor],
    tokens: Labels,
    d_model: int,
    n_heads: int,
    *,
    masked: Sequence[int] = (),
    title: str = "",
) -> Figure:
    """Draw where each number of a small tensor came from: its token in words, its head as a colour.

    In the matrices of `panels`, an entry t · d_model + f stands for feature f of token t.
    In the heads the `masked` rows are hatched.
    """
    origins = {name: table.astype(int) for name, table in given.tables_of(panels).items()}
    heights, widths = zip(*(origin.shape for origin in origins.values()), strict=True)
    room = sum(0.75 + 0.68 * width for width in widths), 1.2 + 0.42 * max(heights)
    figure, axes = canvas(len(origins), (0, 0), room, width_ratios=widths)
    look = {"limits": (0, n_heads), "colours": ListedColormap(PALE[:n_heads]), "gap": 1.5}
    for ax, (name, origin) in zip(axes, origins.items(), strict=True):
        words = [[f"{tokens[entry // d_model]} {entry % d_model}" for entry in row] for row in origin]
        heads = origin % d_model // (d_model // n_heads)
        draw_cells(ax, heads, tokens, [], words=np.array(words), **look)
        moved = origin // d_model != np.arange(len(origin))[:, None]
        for row in np.flatnonzero(moved.any(axis=1)):  # what is not its token's
            outline_cells(ax, [(row, moved[row].argmax(), moved[row].sum(), 1)])
        hidden = [(row, column) for row in masked for column in range(heads.shape[1]) if ax is not axes[0]]
        hide_cells(ax, hidden)
        for row, column in hidden:
            ax.texts[row * heads.shape[1] + column].set(path_effects=EDGE, zorder=3)
        ax.set_title(name)
    if len(axes) > 1:  # between two rows' names
        look = {"arrowstyle": "-|>", "linewidth": 3, "mutation_scale": 20, "color": DARK}
        ends = (1 + 0.5 / widths[0], 1 - 1 / len(tokens)), (1 + 0.1 / widths[0], 1 - 1 / len(tokens))
        axes[0].annotate("", *ends, xycoords="axes fraction", textcoords="axes fraction", arrowprops=look)
    see = "A row for each token, a column for each feature; what has one shade belongs to one head."
    return finished(figure, title, see)
