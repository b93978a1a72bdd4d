"""Maps too large, or too many, for a label on every cell: tables, planes, all heads of a model, patches."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from transformer_course.figures import given
from transformer_course.figures.colours import ATTENTION, COMPONENTS, GREY, SIGNED
from transformer_course.figures.drawings import arrow
from transformer_course.figures.given import Labels, Limits, Matrix, Tables
from transformer_course.figures.layout import WIDEST, canvas, finished, frame_cells, two_decimals

GROUND = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}  # of words on a picture


def _signed(
    tables: Mapping[str, np.ndarray],
    labels: tuple[str, str],
    *,
    cell: tuple[float, float],
    limits: Limits,
    bar: str,
    shrink: float = 0.8,
    **look: object,
) -> tuple[Figure, np.ndarray]:
    """Draw signed tables side by side on one scale, and return the figure with its panels."""
    width, height = cell
    room = 1.2 if shrink < 1 else 1.4
    width = min(width, (WIDEST - room) / len(tables))
    figure, panels = canvas(len(tables), (width, 0), (room, height))
    for ax, (name, table) in zip(panels, tables.items(), strict=True):
        image = ax.imshow(table, vmin=limits[0], vmax=limits[1], **{"cmap": SIGNED} | look)
        ax.set(xlabel=labels[0], title=name)
    panels[0].set_ylabel(labels[1])
    for ax in panels[1:]:
        ax.tick_params(labelleft=False)  # as in the first
    figure.colorbar(image, ax=figure.axes, label=bar, shrink=shrink)
    return figure, panels


def position_tables(
    named: Tables,
    *,
    labels: tuple[str, str],
    title: str,
    bar: str,
    above: Mapping[str, float] | None = None,
    distance: int = 0,
) -> Figure:
    """Draw large tables side by side on one scale around zero; `labels` say what goes across, and down.

    Words stand `above` some columns; a line joins cells at a `distance`, and three of them are told.
    """
    tables = given.tables_of(named)
    reach = max(np.abs(table).max() for table in tables.values())
    cell = 6.4 if len(tables) == 1 else 3.9, 4.4
    look = {"cell": cell, "shrink": 1.0, "aspect": "auto", "interpolation": "nearest"}
    figure, panels = _signed(tables, labels, limits=(-reach, reach), bar=bar, **look)
    for ax, (name, table) in zip(panels, tables.items(), strict=True):
        if distance:
            _mark_distance(ax, table, distance)
            ax.set_title(f"{name}\non the line: distance {distance}")
        if above:
            ax.secondary_xaxis("top").set_xticks(list(above.values()), above)
    see = f"A row for each {labels[1]}, a column for each {labels[0]}; one scale, zero in its middle."
    return finished(figure, title, see)


def _mark_distance(ax: Axes, table: np.ndarray, distance: int) -> None:
    rows = np.arange(distance, len(table))
    ax.plot(rows - distance, rows, color="black", linewidth=0.8)
    for row in rows[len(rows) // 6 :: len(rows) // 3]:
        ax.plot(row - distance, row, "o", color="black", markersize=4)
        look = {"textcoords": "offset points", "ha": "right", "va": "top", "size": 9, "bbox": GROUND}
        ax.annotate(two_decimals(table[row, row - distance]), (row - distance, row), (-5, -4), **look)


def planes(
    functions: Mapping[str, Callable[[Tensor, Tensor], Tensor]],
    *,
    xlabel: str,
    ylabel: str,
    title: str,
    bar: str,
    limits: Limits = (-3.0, 3.0),
    reach: float | None = None,
    points: Mapping[str, tuple[float, float]] | None = None,
) -> Figure:
    """Draw functions of two numbers on one signed scale, as far as `reach`; `points` are marked and named."""
    line = torch.linspace(*limits, 61, dtype=torch.float64)
    x, y = torch.meshgrid(line, line, indexing="xy")
    tables = {
        name: np.broadcast_to(given.numbers_of(function(x, y), name=name), x.shape)
        for name, function in functions.items()
    }
    reach = reach or max(np.abs(each).max() for each in tables.values())
    look = {"limits": (-reach, reach), "extent": (*limits, *limits), "origin": "lower"}
    figure, panels = _signed(tables, (xlabel, ylabel), cell=(3.1, 3.5), bar=bar, **look)
    for ax in panels:
        ax.locator_params(nbins=4)
        for name, point in (points or {}).items():
            ax.plot(*point, "o", color="black", markersize=5)
            ax.annotate(name, point, (0, 7), textcoords="offset points", ha="center", size=8, bbox=GROUND)
    see = "Two features span a plane; the shade at each place is what the function gives there."
    return finished(figure, title, see)


def draw_tiles(
    ax: Axes,
    maps: np.ndarray,
    columns: int,
    *,
    gap: int,
    names: Iterable[str] = (),
    framed: Iterable[int] = (),
) -> list[tuple[int, int]]:
    """Draw square maps (map, length, length) as tiles of one picture, and return the top left cell of each.

    Between two tiles, and above the first, is a gap of so many cells. There stand the names, if maps have
    some; maps whose numbers are in `framed` have a frame.
    """
    side = len(maps[0])
    pitch = side + gap
    corners = [(i // columns * pitch + gap, i % columns * pitch) for i in range(len(maps))]
    picture = np.full((-(-len(maps) // columns) * pitch, columns * pitch - gap), np.nan)
    for (top, left), tile in zip(corners, maps, strict=True):
        picture[top : top + side, left : left + side] = tile
    ax.imshow(picture, vmin=0, vmax=1, cmap=ATTENTION, interpolation="nearest")
    framed = [corners[number] for number in framed]
    frame_cells(ax, [(top - 0.5, left - 0.5, side, side) for top, left in framed])
    for (top, left), name in zip(corners, names, strict=False):
        ax.text(left + side / 2 - 0.5, top - 1, name, size=7.5, ha="center", va="bottom")
    return corners


def head_atlas(maps: Matrix, *, tokens: Labels = (), title: str = "") -> Figure:
    """Draw every attention map (layer, head, query_pos, key_pos) of a model, small; name the tokens below."""
    values = given.numbers_of(maps, 4, name="the maps (layer, head, query_pos, key_pos)")
    n_layers, n_heads, length, _ = values.shape
    given.check_scale(values, (0, 1))
    side = min(0.8, (WIDEST - 1.6) / n_heads)
    figure, (ax,) = canvas(1, (n_heads * side + 1.6, n_layers * side + 0.9))
    tiles = values.reshape(-1, length, length)
    corners = draw_tiles(ax, tiles, n_heads, gap=1 + length // 8)
    middle = length / 2 - 0.5
    ax.set_ylim(top=corners[0][0] - 0.5)  # no gap above the first
    ax.set_xticks([left + middle for _, left in corners[:n_heads]], [f"head {j}" for j in range(n_heads)])
    ax.set_yticks([top + middle for top, _ in corners[::n_heads]], [f"layer {i}" for i in range(n_layers)])
    ax.set_xlabel(f"in each map: a column for each key, a row for each query\n{'   '.join(tokens)}".strip())
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    figure.colorbar(ax.images[0], ax=ax, label="attention weight", shrink=0.6)
    see = "A small map for each head, layers down and heads across; the brighter a dot, the more weight."
    return finished(figure, title, see)


def draw_heads(ax: Axes, head: int, maps: Matrix, adds: Matrix, tokens: Labels, every: int = 32) -> None:
    """Draw where a head looks, and what it adds to each token; that, plus the heads before it, is their sum.

    `maps` are (head, query_pos, key_pos), `adds` (head, position, d_model): one of `every` features is drawn.
    """
    weights, adds = given.numbers_of(maps, 3)[head], given.numbers_of(adds, 3)
    shown = adds[:, :, ::every]
    lengths, sums = np.linalg.norm(adds, axis=2), shown.cumsum(axis=0)
    n, wide, reach = len(tokens), shown.shape[2], np.abs(sums).max() or 1.0
    first = n + 4.4  # where the lengths begin, what the head adds, the heads before it, their sum, the scale
    adding, before = first + 7.5, first + wide + 9.9
    after, signed = before + wide + 2.4, (SIGNED, -reach, reach)
    panels = [
        (0, 0, weights, "where it looks", (ATTENTION, 0, 1)),
        (adding, 0, shown[head], f"what head {head} adds", signed),
        (before, 0, sums[head] - shown[head], f"heads before {head}", signed),
        (after, 0, sums[head], f"heads 0 to {head}", signed),
        (before, n + 1.6, np.linspace(-reach, reach, wide)[None], "", signed),
    ]
    for left, top, table, name, (colours, low, high) in panels:
        edges = np.arange(table.shape[1] + 1) + left, np.arange(len(table) + 1) + top
        look = {"cmap": colours, "edgecolor": "white", "linewidth": 0.3, "clip_on": False}
        ax.pcolormesh(*edges, table, vmin=low, vmax=high, **look)
        if name:  # the token to which it adds most
            frame_cells(ax, [(lengths[head].argmax(), left, table.shape[1], 1)])
        ax.text(left + table.shape[1] / 2, -0.4, name, ha="center", va="bottom", size=9, weight="bold")
    look = {"color": COMPONENTS["attention"], "edgecolor": "black", "linewidth": 0.5}
    drawn = ax.barh(np.arange(n) + 0.5, 3.4 * lengths[head] / lengths.max(), 0.7, first, **look)
    ax.bar_label(drawn, [two_decimals(length) for length in lengths[head]], padding=2, size=8.5)
    ax.text(first, -0.4, "its length", va="bottom", size=9, weight="bold")
    arrow(ax, (n + 0.3, n / 2), (first - 0.3, n / 2))
    ax.text((n + first) / 2, n / 2 - 0.3, "× value,\n× W_O", ha="center", va="bottom", size=8)
    for sign, left in (("+", before), ("=", after)):
        ax.text(left - 1.2, n / 2, sign, ha="center", va="center", size=14)
    words = f"{wide} of {adds.shape[2]} features, from {two_decimals(-reach)} to {two_decimals(reach)}"
    ax.text(before - 0.4, n + 2.1, words, ha="right", va="center", size=8.5)
    ax.set_xticks(np.arange(n) + 0.5, tokens, rotation=90)
    ax.set_yticks(np.arange(n) + 0.5, tokens)
    ax.set(xlim=(0, after + wide + 2), ylim=(n, -1.8), aspect="equal")
    ax.tick_params(length=0, labelsize=8)
    ax.spines[:].set_visible(False)


def image_attention(
    images: Matrix, maps: Matrix, names: Labels, *, patch: tuple[int, int], title: str, bar: str
) -> Figure:
    """Draw each image (rows, columns), and beside it, for each head, how much weight its patches get.

    `maps` are (image, head, patches), in reading order; a patch is given by its height and width.
    """
    images, maps = given.numbers_of(images, 3, name="images"), given.numbers_of(maps, 3, name="maps")
    n_images, rows, columns = images.shape
    grid = maps.reshape(n_images, len(names), rows // patch[0], columns // patch[1])
    low, high = given.from_zero(maps)
    look = {"vmin": low, "vmax": high, "cmap": ATTENTION, "extent": (-0.5, columns - 0.5, rows - 0.5, -0.5)}
    across = 1 + len(names)
    figure, panels = canvas(n_images * across, (1.45, 1.45), (1.2, 0.8), columns=across)
    for image, line, (ink, *heads) in zip(images, grid, panels.reshape(n_images, across), strict=True):
        _draw_ink(ink, image, patch)
        for ax, weights in zip(heads, line, strict=True):
            shown = ax.imshow(weights, **look)
            ax.set_axis_off()
    for ax, name in zip(panels, ["image", *names], strict=False):
        ax.set_title(name, fontsize=10)
    figure.colorbar(shown, ax=figure.axes, label=bar, shrink=0.7)
    see = "Left an image, beside it where each head looks; the brighter, the more weight."
    return finished(figure, title, see)


def _draw_ink(ax: Axes, image: np.ndarray, patch: tuple[int, int]) -> None:
    """The image itself, and the lines along which it is cut."""
    ax.imshow(image, cmap="gray_r")
    for height, draw, length in zip(patch, (ax.axhline, ax.axvline), image.shape, strict=True):
        for place in range(height, length, height):
            draw(place - 0.5, color=GREY, linewidth=0.8)
    ax.set_axis_off()
