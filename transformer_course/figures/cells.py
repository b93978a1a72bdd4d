"""Matrices whose cells are of a few kinds, each with its colour: masks, heads, pairs, what a cache keeps."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import Tensor

from transformer_course.figures import given
from transformer_course.figures.colours import DARK, HIDDEN, NO, PALE, YES, YES_OR_NO
from transformer_course.figures.given import Labels, Matrix, Tables
from transformer_course.figures.layout import canvas, finished, legend_of_cells, number, sign_before
from transformer_course.figures.maps import KEY_QUERY, draw_cells, draw_matrix, lay_maps


def masks(
    named: Tables,
    tokens: Labels,
    *,
    title: str = "",
    legend: tuple[str, str] = ("may attend", "hidden"),
    labels: tuple[str, str] = KEY_QUERY,
    columns: int = 4,
    queries: Labels | None = None,
    numbers: Sequence[Matrix] = (),
) -> Figure:
    """Draw boolean matrices (query_pos, key_pos) side by side, `columns` in a row.

    `legend` says what filled cells, True, and hatched ones, False, mean; `labels` name the horizontal and the
    vertical axis; `queries` are the tokens of the rows where they are not all of the columns'. Some of the
    matrices, from the first on, may have `numbers` in their cells.
    """
    maps = given.tables_of(named)
    look = {
        "unit": 0.36 if len(tokens) < 8 else 0.28 if len(numbers) else 0.23,
        "across": columns,
        "below": 0.3,
        "own": [{"hidden": 1 - each} for each in maps.values()],
    }
    rows = queries or tokens
    figure, panels = lay_maps(maps.items(), rows, tokens, colours=YES_OR_NO, labels=labels, **look)
    for ax, shown, written in zip(panels, maps.values(), numbers, strict=False):
        for (row, column), value in np.ndenumerate(given.numbers_of(written, 2)):
            is_shown = shown[row, column]
            ground = {"facecolor": YES if is_shown else NO, "edgecolor": "none", "pad": 1}
            look = {"ha": "center", "va": "center", "size": 8, "color": "white" if is_shown else DARK}
            ax.text(column + 0.5, row + 0.5, number(value), bbox=ground, zorder=3, **look)
    legend_of_cells(figure, {legend[0]: {"facecolor": YES}, legend[1]: HIDDEN})
    see = (
        "A row for each query, a column for each key; a plain cell may be looked at, a hatched one is hidden."
        if labels == KEY_QUERY
        else f"Across: {labels[0]}. A plain cell: {legend[0]}; a hatched one: {legend[1]}."
    )
    return finished(figure, title, see)


def catch_map(noticed: Matrix, bugs: Labels, tests: Labels, *, title: str = "") -> Figure:
    """Draw a boolean matrix (bug, test), filled where the test notices the bug; the most noticed bugs first.

    Behind the name of each test stands how many it notices.
    """
    values = given.labelled(noticed, bugs, tests)
    most_first = np.argsort(-values.sum(axis=1), kind="stable")
    values, bugs = values[most_first], [bugs[place] for place in most_first]
    size = (0.085 * max(map(len, bugs)) + 0.42 * len(tests) + 1.2, 0.3 * len(bugs) + 2.2)
    figure, (ax,) = canvas(1, size)
    columns = [f"{name}: {int(count)}" for name, count in zip(tests, values.sum(axis=0), strict=True)]
    look = {"limits": (0, 1), "labels": ("test: how many bugs it notices", "bug")}
    draw_matrix(ax, values, bugs, columns, colours=YES_OR_NO, numbers=False, **look)
    legend_of_cells(figure, {"notices it": {"facecolor": YES}, "does not": {"facecolor": NO}})
    see = "A row for each bug, a column for each test; a filled cell is a bug that the test notices."
    return finished(figure, title, see)


def head_blocks(
    panels: Mapping[str, Tensor], tokens: Labels, d_model: int, n_heads: int, *, title: str = ""
) -> Figure:
    """Draw where each number of a small tensor came from: its token in words, its head as a colour.

    In the matrices of `panels`, an entry t · d_model + f stands for feature f of token t.
    """
    origins = {name: table.astype(int) for name, table in given.tables_of(panels).items()}
    heights, widths = zip(*(origin.shape for origin in origins.values()), strict=True)
    room = sum(0.35 + 0.68 * width for width in widths), 1.0 + 0.42 * max(heights)
    figure, axes = canvas(len(origins), (0, 0), room, width_ratios=widths)
    look = {"limits": (0, n_heads), "colours": ListedColormap(PALE[:n_heads]), "gap": 1.5}
    for ax, (name, origin) in zip(axes, origins.items(), strict=True):
        words = [[f"{tokens[entry // d_model]} {entry % d_model}" for entry in row] for row in origin]
        heads = origin % d_model // (d_model // n_heads)
        draw_cells(ax, heads, [], [], words=np.array(words), **look)
        ax.set_title(name)
        sign_before(ax, "→" if ax in axes[1:2] else "")
    see = "A row for each token, a column for each feature; what has one shade belongs to one head."
    return finished(figure, title, see)


def pairings(named: Mapping[str, Sequence[Sequence[int]]], *, title: str = "") -> Figure:
    """Draw which features form a pair, one row for each pairing: a pair is a colour and a number."""
    rows = [np.argsort(np.ravel(pairs)) // 2 for pairs in named.values()]
    width = len(rows[0])
    figure, (ax,) = canvas(1, (1.8 + 0.75 * width, 1.1 + 0.55 * len(rows)))
    words = np.array([[f"pair {pair}" for pair in row] for row in rows])
    look = {"limits": (0, width // 2), "colours": ListedColormap(PALE[: width // 2]), "gap": 2, "size": 9}
    draw_cells(ax, np.array(rows), list(named), [str(i) for i in range(width)], words=words, **look)
    ax.set_xlabel("feature")
    return finished(figure, title, "Features in a row; two that are turned together have one shade.")
