"""Maps too large, or too many, for a label on every cell: tables, planes, all heads of a model, patches."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from torch import Tensor

from transformer_course.figures import given
from transformer_course.figures.given import Labels, Limits, Matrix, Tables
from transformer_course.figures.layout import ATTENTION, GREY, SIGNED, WIDEST, canvas, finished

# Signed tables and functions


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


def position_tables(named: Tables, *, xlabel: str, title: str, bar: str) -> Figure:
    """Draw large tables side by side on a scale from −1 to 1: positions down, `xlabel` across."""
    look = {"cell": (4.2, 4.2), "shrink": 1.0, "aspect": "auto", "interpolation": "nearest"}
    tables = given.tables_of(named, limits=(-1, 1))
    figure, _ = _signed(tables, (xlabel, "position"), limits=(-1, 1), bar=bar, **look)
    return finished(figure, title, "A row for each position; the two ends of the colour scale are −1 and 1.")


def score_maps(named: Tables, *, title: str, bar: str) -> Figure:
    """Draw scores (position of the query, position of the key) side by side, all on one scale around zero."""
    tables = given.tables_of(named)
    reach = max(np.abs(scores).max() for scores in tables.values())
    look = {"cell": (3.5, 4.1), "limits": (-reach, reach), "interpolation": "nearest"}
    figure, _ = _signed(tables, ("position of the key", "position of the query"), bar=bar, **look)
    see = "A row for the position of each query, a column for that of each key; scores around zero."
    return finished(figure, title, see)


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
            _name_point(ax, name, point)
    see = "Two features span a plane; the shade at each place is what the function gives there."
    return finished(figure, title, see)


def _name_point(ax: Axes, name: str, point: tuple[float, float]) -> None:
    ground = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}
    ax.plot(*point, "o", color="black", markersize=5)
    ax.annotate(name, point, (0, 7), textcoords="offset points", ha="center", size=8, bbox=ground)


# Many small maps in one picture: drawn faster than a panel for each, and told in fewer words


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
    for number in framed:
        top, left = corners[number]
        frame = Rectangle((left - 0.5, top - 0.5), side, side, fill=False, edgecolor="white", linewidth=2)
        frame.set_path_effects([withStroke(linewidth=4, foreground="black")])
        ax.add_patch(frame)
    for (top, left), name in zip(corners, names, strict=False):
        ax.text(left + side / 2 - 0.5, top - 1, name, size=7.5, ha="center", va="bottom")
    return corners


def head_atlas(maps: Matrix, *, title: str = "") -> Figure:
    """Draw every attention map (layer, head, query_pos, key_pos) of a model, small."""
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
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    figure.colorbar(ax.images[0], ax=ax, label="attention weight", shrink=0.6)
    see = "A small map for each head, layers down and heads across; the brighter a dot, the more weight."
    return finished(figure, title, see)


# Attention over an image


def image_attention(
    images: Matrix, maps: Matrix, names: Labels, *, patch: tuple[int, int], title: str, bar: str
) -> Figure:
    """Draw each image, and beside it, for each head, how much weight its patches get.

    Args:
        images: (image, rows, columns); the larger, the more ink.
        maps: (image, head, patches), the patches in reading order.
        names: of the heads.
        patch: height and width of a patch.
        bar: what the colours mean.
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
    for row in range(patch[0], len(image), patch[0]):
        ax.axhline(row - 0.5, color=GREY, linewidth=0.8)
    for column in range(patch[1], len(image[0]), patch[1]):
        ax.axvline(column - 0.5, color=GREY, linewidth=0.8)
    ax.set_axis_off()
