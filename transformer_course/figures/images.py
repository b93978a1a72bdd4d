"""Maps too large, or too many, for a label on every cell: tables, planes, all heads of a model, patches."""

from collections.abc import Iterable, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_course.figures import given
from transformer_course.figures.colours import ATTENTION, COMPONENTS, GREY, SIGNED
from transformer_course.figures.drawings import arrow
from transformer_course.figures.given import Labels, Limits, Matrix, Tables
from transformer_course.figures.layout import WIDEST, canvas, finished, frame_cells, two_decimals
from transformer_course.figures.maps import KEY_QUERY, draw_matrix

GROUND = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}  # of words on a picture


def position_tables(
    named: Tables,
    *,
    labels: tuple[str, str],
    title: str,
    bar: str,
    reach: float | None = None,
    above: Mapping[str, float] | None = None,
    distance: int = 0,
    plane: Limits | None = None,
    points: Mapping[str, tuple[float, float]] | None = None,
    edge: float | None = None,
) -> Figure:
    """Draw large tables side by side on one scale around zero; `labels` say what goes across, and down.

    Words stand `above` some columns, and an `edge` is dashed; a line joins cells at a `distance`, whose mean
    and spread are told, and three of them. In a `plane` both axes have these ends, and `points` their names.
    The scale goes as far as `reach`.
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
        if distance:
            _mark_distance(ax, table, distance)
        if edge is not None:
            ax.axvline(edge, color="black", linewidth=1.8, linestyle="--")
        if above:
            ax.secondary_xaxis("top").set_xticks(list(above.values()), above)
        for name, point in (points or {}).items():
            ax.plot(*point, "o", color="black", markersize=5)
            ax.annotate(name, point, (0, 7), textcoords="offset points", ha="center", size=8, bbox=GROUND)
        if plane:
            ax.locator_params(nbins=4)
    figure.colorbar(image, ax=figure.axes, label=bar, shrink=0.8 if plane else 1.0)
    see = f"A row for each {labels[1]}, a column for each {labels[0]}; one scale, zero in its middle."
    in_plane = "Two features span a plane; the shade at each place is what the function gives there."
    return finished(figure, title, in_plane if plane else see)


def _mark_distance(ax: Axes, table: np.ndarray, distance: int) -> None:
    rows, along = np.arange(distance, len(table)), np.diagonal(table, -distance)
    told = " ± ".join(map(two_decimals, (along.mean(), along.std())))
    ax.set_title(f"{ax.get_title()}\non the line, distance {distance}: {told}")
    ax.plot(rows - distance, rows, color="black", linewidth=0.8)
    for row in rows[len(rows) // 6 :: len(rows) // 3]:
        ax.plot(row - distance, row, "o", color="black", markersize=4)
        look = {"textcoords": "offset points", "ha": "right", "va": "top", "size": 9, "bbox": GROUND}
        ax.annotate(two_decimals(along[row - distance]), (row - distance, row), (-5, -4), **look)


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


def head_atlas(maps: Matrix, tokens: Labels, *, enlarged: tuple[int, int], title: str = "") -> Figure:
    """Draw every attention map (layer, head, query_pos, key_pos), six in a row, and one enlarged."""
    values = given.numbers_of(maps, 4, name="the maps (layer, head, query_pos, key_pos)")
    n_layers, n_heads, length, _ = values.shape
    given.check_scale(values, (0, 1))
    layer, head = enlarged
    tiles, columns = values.reshape(-1, length, length), min(6, n_heads)
    side = (WIDEST - 3.0) / columns
    room = WIDEST, max(side * -(-len(tiles) // columns) + 0.6, 4.4)
    figure, (ax, large) = canvas(2, (0, 0), room, width_ratios=[WIDEST - 3.0, 1.9])
    large.set_in_layout(False)  # what stands round it takes nothing from the tiles
    large.set_position((0.79, 0.4, 0.2, 0.35))
    ax.set_anchor("W")
    names = [f"L{i}.H{j}" for i in range(n_layers) for j in range(n_heads)]
    look = {"gap": 2 + length // 8, "names": names, "framed": [layer * n_heads + head]}
    draw_tiles(ax, tiles, columns, **look)
    ax.set_axis_off()
    name, look = f"framed: L{layer}.H{head}", {"limits": (0, 1), "numbers": False}
    draw_matrix(large, values[enlarged], tokens, tokens, title=name, labels=KEY_QUERY, **look)
    look = {"orientation": "horizontal", "ticks": [0, 1], "format": "%g", "label": "attention weight"}
    figure.colorbar(ax.images[0], cax=large.inset_axes([0, -0.6, 1, 0.07]), **look)
    see = "A map for each head, layer by layer; queries down, keys across; the brighter, the more weight."
    return finished(figure, title, see)


def draw_heads(ax: Axes, head: int, maps: Matrix, adds: Matrix, tokens: Labels, every: int = 32) -> None:
    """Draw where a head looks, and what it adds to each token; that, plus the heads before it, is their sum.

    `maps` are (head, query_pos, key_pos), `adds` (head, position, d_model): one of `every` features is drawn.
    """
    weights, adds = given.numbers_of(maps, 3)[head], given.numbers_of(adds, 3)
    shown = adds[:, :, ::every]
    lengths, sums = np.linalg.norm(adds, axis=2), shown.cumsum(axis=0)
    n, wide = len(tokens), shown.shape[2]
    most = np.abs(sums).max() or 1.0  # one scale: what is added has to add up by eye
    adding = n + 7.0  # where what the head adds begins, its lengths, the heads before it, their sum
    first, before, after = adding + wide + np.array([0.4, 10.5, wide + 12.9])
    panels = [
        (0, 0, weights, "where it looks", (ATTENTION, 0, 1)),
        (adding, 0, shown[head], f"what head {head} adds, its length", (SIGNED, -most, most)),
        (before, 0, sums[head] - shown[head], f"heads before {head}", (SIGNED, -most, most)),
        (after, 0, sums[head], f"heads 0 to {head}", (SIGNED, -most, most)),
        (n + 0.6, 0, np.linspace(1, 0, n)[:, None], "", (ATTENTION, 0, 1)),
        (adding, n + 1.2, np.linspace(-1, 1, wide)[None], "", (SIGNED, -1, 1)),
    ]
    for left, top, table, name, (colours, low, high) in panels:
        edges = np.arange(table.shape[1] + 1) + left, np.arange(len(table) + 1) + top
        look = {"cmap": colours, "edgecolor": "white", "linewidth": 0.3, "clip_on": False}
        ax.pcolormesh(*edges, table, vmin=low, vmax=high, **look)
        if name:  # the token to which it adds most
            frame_cells(ax, [(lengths[head].argmax(), left, table.shape[1], 1)])
        ax.text(left, -0.4, name, va="bottom", size=9, weight="bold")
    look = {"color": COMPONENTS["attention"], "edgecolor": "black", "linewidth": 0.5}
    drawn = ax.barh(np.arange(n) + 0.5, 3 * lengths[head] / lengths.max(), 0.7, first, **look)
    rests = np.where(weights[:, 0] > 0.5, ", rests", "")
    words = [two_decimals(each) + rest for each, rest in zip(lengths[head], rests, strict=True)]
    ax.bar_label(drawn, words, padding=2, size=8.5)
    arrow(ax, (n + 2.6, n / 2), (adding - 0.2, n / 2))
    words = {
        (n + 4.5, n / 2 - 1.5): "× value,\n× W_O",
        **{(n + 2.1, 0.5): "1", (n + 2.1, n - 0.5): "0"},
        **{(before - 1.2, n / 2): "+", (after - 1.2, n / 2): "="},
        (adding + wide / 2, n + 2.9): f"from {two_decimals(-most)} to {two_decimals(most)}",
        (after + wide / 2, n + 1.7): f"{wide} of {adds.shape[2]} features\nare drawn",
        (first + 4.5, n + 1.7): f"rests: over half of its\nweight on {tokens[0]}",
    }
    for place, word in words.items():
        ax.text(*place, word, ha="center", va="center", size=14 if word in "+=" else 8.5)
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
