"""Maps too large, or too many, for a label on every cell: tables, planes, all heads of a model, patches."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_course.figures import given
from transformer_course.figures.colours import ATTENTION, GREY, SIGNED
from transformer_course.figures.given import Labels, Limits, Matrix, Tables
from transformer_course.figures.layout import WIDEST, canvas, finished, frame_cells, two_decimals

GROUND = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}  # of words on a picture


def position_tables(
    named: Tables,
    *,
    labels: tuple[str, str],
    title: str,
    bar: str,
    reach: float | None = None,
    above: Mapping[str, float] | None = None,
    distances: Sequence[int] = (),
    first: int = 0,
    plane: Limits | None = None,
    points: Mapping[str, tuple[float, float]] | None = None,
    edge: float | None = None,
) -> Figure:
    """Draw large tables side by side on one scale around zero; `labels` say what goes across, and down.

    Words stand `above` some columns, and an `edge` is dashed; a line joins cells at each of the `distances`,
    above the diagonal at one below 0, from row and column `first` on; their mean and spread are told, and
    three of them. In a `plane` both axes have these ends, and `points` their names. The scale goes as far as
    `reach`; its bar only down to 0, if no number lies below.
    """
    tables = given.tables_of(named)
    reach = reach or max(np.abs(table).max() for table in tables.values())
    wide, room = 6.4 if len(tables) == 1 else 3.9, (1.4, 4.4)
    look = {"aspect": "auto", "interpolation": "nearest"}
    if plane:
        wide, room, look = 3.1, (1.2, 3.5), {"extent": (*plane, *plane), "origin": "lower"}
    figure, panels = canvas(len(tables), (min(wide, (WIDEST - room[0]) / len(tables)), 0), room)
    for ax, (name, table) in zip(panels, tables.items(), strict=True):
        image = ax.imshow(table, vmin=-reach, vmax=reach, cmap=SIGNED, **look)
        ax.set(xlabel=labels[0], ylabel=labels[1] if ax is panels[0] else "", title=name)
        ax.tick_params(labelleft=ax is panels[0])  # the others' are as in the first
        for distance in distances:
            name = "upper line" if distance < 0 else "lower line" if distances[1:] else "line"
            _mark_distance(ax, table, distance, first, f"on the {name}")
        if edge is not None:
            ax.axvline(edge, color="black", linewidth=1.8, linestyle="--")
        if above:
            ax.secondary_xaxis("top").set_xticks(list(above.values()), above)
        for name, point in (points or {}).items():
            ax.plot(*point, "o", color="black", markersize=5)
            ax.annotate(name, point, (0, 7), textcoords="offset points", ha="center", size=8, bbox=GROUND)
        if plane:
            ax.locator_params(nbins=4)
    shown = figure.colorbar(image, ax=figure.axes, label=bar, shrink=0.8 if plane else 1.0)
    if min(table.min() for table in tables.values()) >= 0:
        shown.ax.set_ylim(0, reach)
    see = f"A row for each {labels[1]}, a column for each {labels[0]}; one scale, zero in its middle."
    in_plane = "Two features span a plane; the shade at each place is what the function gives there."
    return finished(figure, title, in_plane if plane else see)


def _mark_distance(ax: Axes, table: np.ndarray, distance: int, first: int, name: str) -> None:
    along = np.diagonal(table, -distance)[first:]
    rows = max(distance, 0) + first + np.arange(len(along))
    side, ha, va = (1, "left", "bottom") if distance < 0 else (-1, "right", "top")
    told = " ± ".join(map(two_decimals, (along.mean(), along.std())))
    ax.set_title(f"{ax.get_title()}\n{name}, distance {abs(distance)}: {told}")
    ax.plot(rows - distance, rows, color="black", linewidth=0.8)
    for place in range(len(rows) // 6, len(rows), len(rows) // 3):
        point = rows[place] - distance, rows[place]
        ax.plot(*point, "o", color="black", markersize=4)
        look = {"textcoords": "offset points", "ha": ha, "va": va, "size": 9, "bbox": GROUND}
        ax.annotate(two_decimals(along[place]), point, (5 * side, 4 * side), **look)


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
    frame_cells(
        ax, [(top - 1, left - 1, side + 1, side + 1) for top, left in framed]
    )  # round it, not over it
    for (top, left), name in zip(corners, names, strict=False):
        above = 1.4 if framed else 1  # clear of a frame
        ax.text(left + side / 2 - 0.5, top - above, name, size=7.5, ha="center", va="bottom")
    return corners


def image_attention(
    images: Matrix,
    maps: Matrix,
    names: Labels,
    *,
    patch: tuple[int, int],
    digits: Labels,
    title: str,
    bar: str,
) -> Figure:
    """Draw each image (rows, columns), one of `digits`; for each head, how much weight its patches get.

    `maps` are (image, head, patches), in reading order; a patch is given by its height and width.
    """
    images, maps = given.numbers_of(images, 3, name="images"), given.numbers_of(maps, 3, name="maps")
    n_images, rows, columns = images.shape
    grid = maps.reshape(n_images, len(names), rows // patch[0], columns // patch[1])
    look = {"vmin": 0, "vmax": 1, "cmap": ATTENTION, "extent": (-0.5, columns - 0.5, rows - 0.5, -0.5)}
    across = 1 + len(names)
    figure, panels = canvas(n_images * across, (1.45, 1.45), (1.2, 0.8), columns=across)
    rows_of = zip(images, grid, panels.reshape(n_images, across), digits, strict=True)
    for image, line, (ink, *heads), digit in rows_of:
        _draw_ink(ink, image, patch)
        ink.set_ylabel(f"a {digit}", rotation=0, ha="right", va="center")
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
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color=GREY)
