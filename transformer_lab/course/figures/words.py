"""A figure in words: for whoever cannot see the picture, and for the test that notices when it has changed.

A line that begins with a space gives numbers in full; the other lines tell the figure without them.
Numbers are rounded twice, first to ten digits. Machines differ in the last of sixteen, and have to agree on
which way 0.125 is rounded and on whether two entries are equally large.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatch
from itertools import pairwise
from typing import TypeVar

import numpy as np
from matplotlib import colors
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis, Tick
from matplotlib.collections import Collection, LineCollection, PathCollection, PolyCollection, QuadMesh
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle
from matplotlib.patches import FancyArrow, FancyArrowPatch, FancyBboxPatch, Patch
from matplotlib.text import Annotation, Text
from matplotlib.ticker import LogFormatter, ScalarFormatter
from matplotlib.typing import ColorType
from numpy.typing import ArrayLike

FEW = 12  # so many rows, bars or points are told one by one; more are averaged or sampled, in the table
SAMPLE = 40  # so many of them, at most, stand in the table
LINE_STYLES = {"-": "solid", "--": "dashed", "-.": "dash-dotted", ":": "dotted", "None": "no line"}
KINDS = {
    FancyBboxPatch: "block",
    FancyArrowPatch: "arrow",
    FancyArrow: "arrow",
    PolyCollection: "area",
}
PLAIN_COLOURS = {name.removeprefix("tab:"): colour for name, colour in colors.TABLEAU_COLORS.items()} | {
    "black": "black",
    "white": "white",
    "light grey": "lightgray",
    "yellow": "gold",
    "light blue": "lightblue",
    "light green": "lightgreen",
    "dark blue": "darkblue",
    "dark red": "darkred",
}

Item = TypeVar("Item")


def describe(figure: Figure) -> str:
    """Return the figure in words: titles, axes, labels, colours, and its values, rounded."""
    if not isinstance(figure, Figure):
        raise TypeError(f"figure must be a matplotlib Figure, got {type(figure).__name__}; try ax.figure")
    figure.draw_without_rendering()  # only a drawn figure knows its tick labels
    return "\n".join(_figure(figure))


def told(words: str) -> str:
    """The words without tables and exact colours: short enough to be read aloud."""
    told = " ".join(line for line in words.splitlines() if not line.startswith(" "))
    return re.sub(" #[0-9a-f]{6,8}", "", told)


# The figure, its panels and their axes


def _figure(figure: Figure) -> Iterator[str]:
    bars = [axes for axes in figure.axes if _is_colour_bar(axes)]
    panels = [axes for axes in figure.axes if axes not in bars]
    titles = "".join(_named(text.get_text()) for text in figure.texts)
    if len(panels) == 1:
        yield from _panel(panels[0], f"Figure{titles}")
    else:
        yield f"Figure{titles} of {_count(len(panels), 'panel')}."
        told = [line for number, axes in enumerate(panels, 1) for line in _panel(axes, f"Panel {number}")]
        yield from told if len(panels) <= FEW else _in_table(told)
    yield from (f"Colour bar{_named(axes.get_ylabel() or axes.get_xlabel())}." for axes in bars)
    yield from (_legend(legend) for legend in figure.legends)
    yield f"  Size in inches: {' by '.join(_numbers(figure.get_size_inches()))}"


def _is_colour_bar(axes: Axes) -> bool:
    return hasattr(axes, "_colorbar")  # set by matplotlib, which asks the same way


def _panel(axes: Axes, name: str) -> Iterator[str]:
    yield f"{name}{_named(axes.get_title() or axes.get_title('left') or axes.get_title('right'))}."
    if axes.axison:
        yield from _axis("x", axes.xaxis)
        yield from _axis("y", axes.yaxis)
    for artist in (*axes.images, *axes.collections, *_bar_groups(axes)):
        yield from _tell(artist, axes)
    yield from _lines(axes)
    yield from _shapes(axes)
    yield from _writing(axes)
    if axes.get_legend():
        yield _legend(axes.get_legend())
    for inset in axes.child_axes:
        if isinstance(inset, Axes):  # and not a second scale of this panel
            yield from _panel(inset, f"{name}, inset")


def _axis(side: str, axis: Axis) -> Iterator[str]:
    name = f"{side} axis{_named(axis.get_label_text())}"
    labels = [label for _, label in _ticks(axis) if label]
    if not _is_numeric(axis) and (labels or axis.get_label_text()):
        yield from _listed(name, labels)
    elif labels:
        low, high = _numbers(sorted(axis.get_view_interval()), axis.get_scale())
        scale = "" if axis.get_scale() == "linear" else f" ({axis.get_scale()})"
        yield f"{name} from {low} to {high}{scale}."
        yield f"  {side} ticks: {' '.join(labels)}"
    elif axis.get_label_text():
        yield f"{name}, without numbers."


def _is_numeric(axis: Axis) -> bool:
    return isinstance(axis.get_major_formatter(), ScalarFormatter | LogFormatter)


def _ticks(axis: Axis) -> list[tuple[float, str]]:
    """Return place and label of the ticks in view, one that lies on the very edge included."""
    low, high = sorted(axis.get_view_interval())
    slack = 1e-6 * (high - low)
    ticks = [tick for tick in axis.get_major_ticks() if low - slack <= tick.get_loc() <= high + slack]
    return [(tick.get_loc(), _tick_label(tick, axis)) for tick in ticks]


def _tick_label(tick: Tick, axis: Axis) -> str:
    label = next((label for label in (tick.label1, tick.label2) if label.get_visible()), None)
    if label and label.get_text() and isinstance(axis.get_major_formatter(), LogFormatter):
        return _numbers([tick.get_loc()])[0]  # the label itself is a formula, 10 to the power of n
    return label.get_text() if label else ""


def _legend(legend: Legend) -> str:
    entries = ", ".join(text.get_text() for text in legend.get_texts())
    return f"Legend{_named(legend.get_title().get_text())}: {entries}."


# What a panel holds, told by its kind


@singledispatch
def _tell(artist: Artist, axes: Axes) -> Iterator[str]:
    yield f"Also drawn: {type(artist).__name__}."


@_tell.register
def _(mesh: QuadMesh, axes: Axes) -> Iterator[str]:
    corners = mesh.get_coordinates()  # (rows + 1, columns + 1, 2)
    values = np.ma.reshape(mesh.get_array(), (len(corners) - 1, len(corners[0]) - 1))
    return _heatmap(mesh, values, _names(axes.yaxis, corners[:, 0, 1]), _names(axes.xaxis, corners[0, :, 0]))


@_tell.register
def _(image: AxesImage, axes: Axes) -> Iterator[str]:
    values = np.ma.asarray(image.get_array())
    if values.ndim == 3:  # a coloured picture is told by its brightness
        values = values[..., :3].mean(axis=-1)
    left, right, bottom, top = image.get_extent()
    first, last = (top, bottom) if image.origin == "upper" else (bottom, top)
    down, across = np.linspace(first, last, len(values) + 1), np.linspace(left, right, len(values[0]) + 1)
    return _heatmap(image, values, _names(axes.yaxis, down), _names(axes.xaxis, across))


@_tell.register
def _(points: PathCollection, axes: Axes) -> Iterator[str]:
    x, y = _settled(_blank_filled(points.get_offsets())).reshape(-1, 2).T
    values = points.get_array()
    colour = _face_colours(points) if values is None else f"coloured by {points.get_cmap().name}"
    yield from _listed(f"{_count(len(x), 'point')}{_label(points)}, {colour}", _points(x, y, axes))
    if values is not None:
        yield f"  Values: {' '.join(_sample(_numbers(_blank_filled(values)), SAMPLE))}"


@_tell.register
def _(bars: BarContainer, axes: Axes) -> Iterator[str]:
    along, across = (0, 1) if bars.orientation == "horizontal" else (1, 0)
    boxes = np.array(
        [bar.get_bbox().get_points() for bar in bars]
    )  # (bars, lower left and upper right, x and y)
    lengths = _numbers(boxes[:, 1, along] - boxes[:, 0, along])
    centres = _numbers(boxes[:, :, across].mean(axis=1))
    names = {
        _numbers([place])[0]: label for place, label in _ticks((axes.xaxis, axes.yaxis)[across]) if label
    }
    told = [f"{names.get(centre, centre)} {length}" for centre, length in zip(centres, lengths, strict=True)]
    colour = _colours(bar.get_facecolor() for bar in bars)
    yield from _listed(f"{_count(len(bars), 'bar')}{_label(bars)}, {colour}", told)


@_tell.register
def _(lines: LineCollection, axes: Axes) -> Iterator[str]:
    told = [" to ".join(_points(*segment.T, axes)) for segment in lines.get_segments()]
    name = f"{_count(len(told), 'line')}{_label(lines)}, {_colours(lines.get_edgecolor())}"
    yield from _listed(name, told)


@_tell.register
def _(collection: Collection, axes: Axes) -> Iterator[str]:
    parts = _count(len(collection.get_paths()), _kind(collection))
    within = " to ".join(_corners(collection, axes))
    yield f"{parts}{_label(collection)}, {_face_colours(collection)}, within {within}."


def _lines(axes: Axes) -> Iterator[str]:
    told = [told for line in axes.lines for told in _line(line, axes)]
    if len(axes.lines) > FEW:
        yield f"{len(axes.lines)} lines."
    yield from told if len(axes.lines) <= FEW else _in_table(told)


def _line(line: Line2D, axes: Axes) -> Iterator[str]:
    x, y = _settled(line.get_xdata(orig=False)), _settled(line.get_ydata(orig=False))
    style = LINE_STYLES.get(line.get_linestyle(), line.get_linestyle())
    marker = MarkerStyle.markers.get(line.get_marker(), line.get_marker())
    marks = "" if marker == "nothing" else f", {marker} marks"
    name = f"Line{_label(line)}, {_colour(line.get_color())}, {style}{marks}"
    points = _points(x, y, axes)
    if len(points) <= FEW:
        yield from _listed(name, points)
    else:
        yield f"{name}, {len(points)} points from {points[0]} to {points[-1]}{_extremes(y, points)}."
        yield f"  {'; '.join(_sample(points, FEW))}"


def _extremes(y: np.ndarray, points: list[str]) -> str:
    if np.isnan(y).all():
        return ""
    return f", lowest {points[np.nanargmin(y)]}, highest {points[np.nanargmax(y)]}"


def _bar_groups(axes: Axes) -> list[BarContainer]:
    return [container for container in axes.containers if isinstance(container, BarContainer)]


def _shapes(axes: Axes) -> Iterator[str]:
    bars = {bar for group in _bar_groups(axes) for bar in group}
    shapes = [patch for patch in axes.patches if patch not in bars]
    if shapes:
        kinds = Counter(f"{_colour_name(shape.get_facecolor())} {_kind(shape)}" for shape in shapes)
        yield f"Shapes: {', '.join(_count(number, kind) for kind, number in kinds.items())}."
        for shape in _sample(shapes, SAMPLE):
            place = " to ".join(_corners(shape, axes))
            yield f"  {_kind(shape)}, {_colour(shape.get_facecolor())}, {place}"


def _corners(artist: Artist, axes: Axes) -> list[str]:
    low, high = axes.transData.inverted().transform(artist.get_tightbbox())
    return _points(*np.transpose([low, high]), axes)


def _writing(axes: Axes) -> Iterator[str]:
    texts = [_text(text, axes) for text in axes.texts if text.get_text().strip()]
    arrows = [_arrow(text, axes) for text in axes.texts if isinstance(text, Annotation) and text.arrow_patch]
    if texts and any(isinstance(artist, QuadMesh | AxesImage) for artist in axes.get_children()):
        yield f"  Written: {'; '.join(texts)}"  # a heatmap's numbers, told already
    elif texts:
        yield f"Written: {'; '.join(texts)}."
    if arrows:
        yield f"  Arrows: {'; '.join(arrows)}"


def _text(text: Text, axes: Axes) -> str:
    ground = _ground(text, axes)
    colour = _colour(ground.get_facecolor()) if ground else "white"
    return _quote(text.get_text()) + ("" if colour.startswith("white") else f" on {colour}")


def _arrow(annotation: Annotation, axes: Axes) -> str:
    (start_x, start_y), (end_x, end_y) = annotation.xyann, annotation.xy
    x = [annotation.convert_xunits(start_x), annotation.convert_xunits(end_x)]
    y = [annotation.convert_yunits(start_y), annotation.convert_yunits(end_y)]
    return " to ".join(_points(x, y, axes))


def _ground(text: Text, axes: Axes) -> Patch | None:
    """Return the shape that the text stands on: its colour is how a diagram marks a part."""
    low, high = text.get_window_extent().get_points()
    place = (low + high) / 2  # of the writing itself: its anchor may be the edge of a bar
    shapes = [shape for shape in axes.patches if _kind(shape) != "arrow"]
    under = [shape for shape in shapes if shape.contains_point(place)]
    return text.get_bbox_patch() or (under[-1] if under else None)


# Heatmaps


def _heatmap(
    drawn: QuadMesh | AxesImage, values: np.ma.MaskedArray, rows: list[str], columns: list[str]
) -> Iterator[str]:
    values = _settled(_blank_filled(values))
    low, high = _numbers(drawn.get_clim())
    norm = "" if type(drawn.norm) is colors.Normalize else f" ({type(drawn.norm).__name__})"
    yield f"Heatmap of {_count(len(rows), 'row')} by {_count(len(columns), 'column')}, {_range(values)}."
    if np.ndim(drawn.get_array()) < 3:
        yield f"Colour map {drawn.get_cmap().name} from {low} to {high}{norm}."
    if len(rows) <= FEW:
        told = [f"{name}: {_largest(row, columns)}" for name, row in zip(rows, values, strict=True)]
        yield f"Largest in each row: {'; '.join(told)}."
    yield from _table(values, rows, columns)


def _names(axis: Axis, edges: np.ndarray) -> list[str]:
    """Return the tick label within each cell, or the cell's number where there is not just one."""
    ticks = [] if _is_numeric(axis) else _ticks(axis)
    cells = [sorted(cell) for cell in pairwise(edges)]
    within = [[label for place, label in ticks if label and low < place < high] for low, high in cells]
    return [labels[0] if len(labels) == 1 else str(number) for number, labels in enumerate(within)]


def _range(values: np.ndarray) -> str:
    shown = values[~np.isnan(values)]
    if not shown.size:
        return "all blank"
    low, high = _numbers([shown.min(), shown.max()])
    blank = f", {values.size - shown.size} blank" if shown.size < values.size else ""
    return f"values from {low} to {high}{blank}"


def _largest(row: np.ndarray, columns: list[str]) -> str:
    if np.isnan(row).all():
        return "all blank"
    best = np.flatnonzero(row == np.nanmax(row))
    where = columns[best[0]] if len(best) == 1 else f"{len(best)} alike"
    return f"{where} {_numbers(row)[best[0]]}"


def _table(values: np.ndarray, rows: list[str], columns: list[str]) -> Iterator[str]:
    down, across = _blocks(len(rows)), _blocks(len(columns))
    averages = np.array([[_average(values[np.ix_(r, c)]) for c in across] for r in down])
    printed = np.reshape(_numbers(averages), averages.shape)
    if values.size > averages.size:
        yield "  Averages over blocks"
    yield f"  Columns: {' | '.join(_block_name(columns, block) for block in across)}"
    for block, entries in zip(down, printed, strict=True):
        yield f"  {_block_name(rows, block)}: {' '.join(entries)}"


def _blocks(size: int) -> list[np.ndarray]:
    return np.array_split(np.arange(size), min(size, FEW))


def _block_name(names: list[str], block: np.ndarray) -> str:
    return names[block[0]] if len(block) == 1 else f"{names[block[0]]} to {names[block[-1]]}"


def _average(block: np.ndarray) -> float:
    return np.nan if np.isnan(block).all() else np.nanmean(block)


# Numbers, points, colours and names in words


def _settled(values: ArrayLike) -> np.ndarray:
    """Return the values to ten digits of the largest: beyond them, machines may differ."""
    values = np.asarray(values, dtype=float)
    return np.round(values, 9 - _magnitude(values))


def _magnitude(values: np.ndarray) -> int:
    """Return the exponent m of the largest value, a × 10^m with 1 ≤ a < 10."""
    largest = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    return int(np.floor(np.log10(largest))) if largest > 0 else 0


def _numbers(values: ArrayLike, scale: str = "linear") -> list[str]:
    """Write values to three digits: of the largest on a linear scale, each of its own on another scale."""
    if scale != "linear":
        return [_numbers([value])[0] for value in np.ravel(values)]
    settled = _settled(values).ravel()
    magnitude = _magnitude(settled)
    if np.array_equal(settled, np.round(settled), equal_nan=True):
        form = ".0f"
    elif -4 <= magnitude < 6:
        form = f".{max(0, 2 - magnitude)}f"
    else:
        form = ".2e"
    return [_written(value, form) for value in settled]


def _written(value: float, form: str) -> str:
    return "blank" if np.isnan(value) else format(value, f"z{form}")  # z: no minus before a zero


def _blank_filled(values: np.ndarray) -> np.ndarray:
    return np.ma.filled(np.ma.asarray(values, dtype=float), np.nan)


def _points(x: ArrayLike, y: ArrayLike, axes: Axes) -> list[str]:
    across, up = _numbers(x, axes.get_xscale()), _numbers(y, axes.get_yscale())
    return [f"({a}, {b})" for a, b in zip(across, up, strict=True)]


def _listed(what: str, items: list[str]) -> Iterator[str]:
    """Tell a few items; put a sample of more of them in the table."""
    if not items:
        yield f"{what}: nothing."
    elif len(items) <= FEW:
        yield f"{what}: {'; '.join(items)}."
    else:
        yield f"{what}."
        yield f"  {'; '.join(_sample(items, SAMPLE))}"


def _in_table(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _sample(items: Sequence[Item], most: int) -> list[Item]:
    """Return at most so many items, evenly spaced, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[i * (len(items) - 1) // (most - 1)] for i in range(most)]


def _colours(given: Iterable[ColorType]) -> str:
    different = list(dict.fromkeys(_colour(colour) for colour in given))
    return " and ".join(different) if len(different) <= 3 else f"{len(different)} colours"


def _face_colours(collection: Collection) -> str:
    faces = collection.get_facecolor()
    return _colours(faces if len(faces) else collection.get_edgecolor())


def _colour(given: ColorType) -> str:
    """Return the name of the nearest plain colour, and the exact colour."""
    alpha = colors.to_rgba(given)[3]
    return f"{_colour_name(given)} {colors.to_hex(given, keep_alpha=alpha < 1)}"


def _colour_name(given: ColorType) -> str:
    *rgb, alpha = colors.to_rgba(given)
    if alpha == 0:
        return "empty"
    plain = {name: np.subtract(rgb, colors.to_rgb(colour)) for name, colour in PLAIN_COLOURS.items()}
    return min(plain, key=lambda name: np.square(plain[name]).sum())


def _kind(artist: Artist) -> str:
    names = (name for kind, name in KINDS.items() if isinstance(artist, kind))
    return next(names, type(artist).__name__.lower())


def _label(artist: Artist | BarContainer) -> str:
    label = str(artist.get_label())
    return "" if label.startswith("_") else _named(label)  # matplotlib's own labels begin with _


def _named(name: str) -> str:
    return f" {_quote(name)}" if name else ""


def _quote(text: str) -> str:
    return f"“{' '.join(text.split())}”"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
