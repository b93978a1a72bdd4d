"""A figure in words: for whoever cannot see the picture, and for the test that notices when it has changed.

A line that begins with a space gives numbers in full; the other lines tell the figure without them.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import singledispatch
from itertools import pairwise

import numpy as np
from matplotlib import colors
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import Collection, LineCollection, PathCollection, QuadMesh
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle
from matplotlib.patches import FancyBboxPatch, Patch
from matplotlib.text import Annotation, Text
from matplotlib.ticker import LogFormatter, ScalarFormatter

from transformer_course.figures import phrases

LONGEST_TOLD = 1200  # characters of what is read aloud
LINE_STYLES = {"-": "solid", "--": "dashed", "-.": "dash-dotted", ":": "dotted", "None": "no line"}


def describe(figure: Figure) -> str:
    """Return the figure in words: titles, axes, labels, colours, and its values, rounded."""
    if not isinstance(figure, Figure):
        raise TypeError(f"figure must be a matplotlib Figure, got {type(figure).__name__}; try ax.figure")
    figure.draw_without_rendering()  # only a drawn figure knows its tick labels
    return "\n".join(_figure(figure))


def told(words: str) -> str:
    """Return the words without tables and exact colours: short enough to be read aloud."""
    told = " ".join(line for line in words.splitlines() if not line.startswith(" "))
    told = re.sub(" #[0-9a-f]{6,8}", "", told)
    if len(told) <= LONGEST_TOLD:
        return told
    return told[:LONGEST_TOLD].rpartition(". ")[0] + ". And more, not told here."


# The figure, its panels and their axes


def _figure(figure: Figure) -> Iterator[str]:
    bars = [axes for axes in figure.axes if _is_colour_bar(axes)]
    panels = [axes for axes in figure.axes if axes not in bars and not _is_blank(axes)]
    titles = "".join(phrases.titled(text.get_text()) for text in figure.texts)
    kinds = [_kinds(axes) for axes in panels]
    if len(panels) == 1:
        yield from _panel(panels[0], f"Figure{titles}", kinds[0])
    else:
        alike = f", in each {kinds[0]}" if len(set(kinds)) == 1 and kinds[0] else ""
        yield f"Figure{titles} of {phrases.counted(len(panels), 'panel')}{alike}."
        yield from _panels(panels, ["" if alike else each for each in kinds])
    if figure.get_label():
        yield figure.get_label()
    yield from (f"Colours show{phrases.titled(axes.get_ylabel() or axes.get_xlabel())}." for axes in bars)
    yield from (_legend(legend) for legend in figure.legends)
    yield f"  Size in inches: {' by '.join(phrases.number_words(figure.get_size_inches()))}"


def _is_blank(axes: Axes) -> bool:
    return not (axes.axison or axes.has_data() or axes.texts)


def _panels(panels: list[Axes], kinds: list[str]) -> Iterator[str]:
    """Tell each panel, and once what is the same in all of them."""
    named = enumerate(zip(panels, kinds, strict=True), 1)
    each = [list(_panel(axes, f"Panel {number}", kind)) for number, (axes, kind) in named]
    first = each[0][1:] if each else []
    shared = [line for line in dict.fromkeys(first) if all(line in lines for lines in each)]
    own = [line for lines in each for line in lines if line not in shared]
    yield from own if len(panels) <= phrases.FEW else phrases.in_table(own)
    if shared:
        yield "In every panel:"
        yield from shared


def _kinds(axes: Axes) -> str:
    """What a panel is, in a few words."""
    if boxes := _boxes(axes):
        return f"a drawing of {phrases.counted(len(boxes), 'block')}"
    maps = [each for each in (*axes.images, *axes.collections) if isinstance(each, QuadMesh | AxesImage)]
    points = [len(each.get_offsets()) for each in axes.collections if isinstance(each, PathCollection)]
    bars = [len(group) for group in _bar_groups(axes)]
    counts = {"line": len(axes.lines), "bar": sum(bars), "point": sum(points)}
    kinds = [_size_of(maps[-1])] if maps else []
    return " and ".join(kinds + [phrases.counted(count, kind) for kind, count in counts.items() if count])


def _boxes(axes: Axes) -> list[Patch]:
    return [patch for patch in axes.patches if isinstance(patch, FancyBboxPatch)]


def _size_of(drawn: QuadMesh | AxesImage) -> str:
    is_mesh = isinstance(drawn, QuadMesh)
    rows, columns = (
        n - is_mesh for n in (drawn.get_coordinates() if is_mesh else drawn.get_array()).shape[:2]
    )
    return f"a heatmap of {phrases.counted(rows, 'row')} by {phrases.counted(columns, 'column')}"


def _is_colour_bar(axes: Axes) -> bool:
    return hasattr(axes, "_colorbar")  # set by matplotlib, which asks the same way


def _panel(axes: Axes, name: str, kind: str = "") -> Iterator[str]:
    """Say what it is, what to see in it, along which axes, and then the rest."""
    title = phrases.titled(axes.get_title() or axes.get_title("left") or axes.get_title("right"))
    yield f"{name}{title}{f': {kind}' if kind else ''}."
    for artist in (*axes.images, *axes.collections, *_bar_groups(axes)):
        yield from _tell(artist, axes)
    if _boxes(axes):
        yield from _writing(axes)
        yield from phrases.in_table(list(_lines(axes)))  # the roads from box to box
    else:
        yield from _lines(axes)
    if axes.axison:
        yield from _axis("x", axes.xaxis)
        yield from _axis("y", axes.yaxis)
    yield from _shapes(axes)
    if not _boxes(axes):
        yield from _writing(axes)
    if axes.get_legend():
        yield _legend(axes.get_legend())
    for inset in axes.child_axes:
        if isinstance(inset, Axes):  # and not a second scale of this panel
            yield from _panel(inset, f"{name}, inset")


def _axis(side: str, axis: Axis) -> Iterator[str]:
    if not axis.get_tick_params().get("labelbottom" if side == "x" else "labelleft", True):
        return  # that of a neighbour
    name = f"{side} axis{phrases.titled(axis.get_label_text())}"
    labels = [label for _, label in _ticks(axis) if label]
    if not _is_numeric(axis) and (labels or axis.get_label_text()):
        yield from phrases.listed(name, labels)
    elif labels:
        low, high = phrases.number_words(sorted(axis.get_view_interval()), axis.get_scale())
        scale = "" if axis.get_scale() == "linear" else f" ({axis.get_scale()})"
        yield f"{name} from {low} to {high}{scale}."
        yield f"  {side} ticks: {' '.join(labels)}"
    elif axis.get_label_text():
        yield f"{name}, without numbers."


def _is_numeric(axis: Axis) -> bool:
    return isinstance(axis.get_major_formatter(), ScalarFormatter | LogFormatter)


def _ticks(axis: Axis) -> list[tuple[float, str]]:
    """Return place and label of the ticks in view, one on the very edge included.

    Also of a panel that leaves its labels to its neighbour, which has the same.
    """
    low, high = sorted(axis.get_view_interval())
    slack = 1e-6 * (high - low)
    places, formatter = axis.get_majorticklocs(), axis.get_major_formatter()
    labels = [str(label) for label in formatter.format_ticks(places)]
    if isinstance(formatter, LogFormatter):  # its labels are formulas, 10 to the power of n
        powers = [phrases.number_words([place])[0] for place in places]
        labels = [power if label else "" for power, label in zip(powers, labels, strict=True)]
    both = zip(places, labels, strict=True)
    return [(place, label) for place, label in both if low - slack <= place <= high + slack]


def _legend(legend: Legend) -> str:
    entries = ", ".join(text.get_text() for text in legend.get_texts())
    return f"Legend{phrases.titled(legend.get_title().get_text())}: {entries}."


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
    x, y = phrases.rounded_off(phrases.blank_filled(points.get_offsets())).reshape(-1, 2).T
    values = points.get_array()
    colour = phrases.face_colours(points) if values is None else f"coloured by {points.get_cmap().name}"
    yield from phrases.listed(
        f"{phrases.counted(len(x), 'point')}{phrases.label_of(points)}, {colour}",
        phrases.point_words(x, y, axes),
    )
    if values is not None:
        every = phrases.number_words(phrases.blank_filled(values))
        yield f"  Values: {' '.join(phrases.sampled(every, phrases.SAMPLE))}"


@_tell.register
def _(bars: BarContainer, axes: Axes) -> Iterator[str]:
    along, across = (0, 1) if bars.orientation == "horizontal" else (1, 0)
    boxes = np.array(
        [bar.get_bbox().get_points() for bar in bars]
    )  # (bars, lower left and upper right, x and y)
    lengths = phrases.number_words(boxes[:, 1, along] - boxes[:, 0, along])
    centres = phrases.number_words(boxes[:, :, across].mean(axis=1))
    names = {
        phrases.number_words([place])[0]: label
        for place, label in _ticks((axes.xaxis, axes.yaxis)[across])
        if label
    }
    told = [f"{names.get(centre, centre)} {length}" for centre, length in zip(centres, lengths, strict=True)]
    colour = phrases.colour_words(bar.get_facecolor() for bar in bars)
    yield from phrases.listed(f"{phrases.counted(len(bars), 'bar')}{phrases.label_of(bars)}, {colour}", told)


@_tell.register
def _(lines: LineCollection, axes: Axes) -> Iterator[str]:
    told = [" to ".join(phrases.point_words(*segment.T, axes)) for segment in lines.get_segments()]
    name = f"{phrases.counted(len(told), 'line')}{phrases.label_of(lines)}"
    yield from phrases.listed(f"{name}, {phrases.colour_words(lines.get_edgecolor())}", told)


@_tell.register
def _(collection: Collection, axes: Axes) -> Iterator[str]:
    parts = phrases.counted(len(collection.get_paths()), phrases.kind_of(collection))
    within = " to ".join(_corners(collection, axes))
    yield f"{parts}{phrases.label_of(collection)}, {phrases.face_colours(collection)}, within {within}."


def _lines(axes: Axes) -> Iterator[str]:
    told = [told for line in axes.lines for told in _line(line, axes)]
    if len(axes.lines) > phrases.FEW:
        yield f"{len(axes.lines)} lines."
    yield from told if len(axes.lines) <= phrases.FEW else phrases.in_table(told)


def _line(line: Line2D, axes: Axes) -> Iterator[str]:
    x, y = phrases.rounded_off(line.get_xdata(orig=False)), phrases.rounded_off(line.get_ydata(orig=False))
    style = LINE_STYLES.get(line.get_linestyle(), line.get_linestyle())
    marker = MarkerStyle.markers.get(line.get_marker(), line.get_marker())
    marks = "" if marker == "nothing" else f", {marker} marks"
    name = f"Line{phrases.label_of(line)}, {phrases.colour_word(line.get_color())}, {style}{marks}"
    points = phrases.point_words(x, y, axes)
    if len(points) <= phrases.FEW:
        yield from phrases.listed(name, points)
    else:
        yield f"{name}, {len(points)} points from {points[0]} to {points[-1]}{_extremes(y, points)}."
        yield f"  {'; '.join(phrases.sampled(points, phrases.FEW))}"


def _extremes(y: np.ndarray, points: list[str]) -> str:
    if np.isnan(y).all():
        return ""
    return f", lowest {points[np.nanargmin(y)]}, highest {points[np.nanargmax(y)]}"


def _bar_groups(axes: Axes) -> list[BarContainer]:
    return [container for container in axes.containers if isinstance(container, BarContainer)]


def _shapes(axes: Axes) -> Iterator[str]:
    bars = {bar for group in _bar_groups(axes) for bar in group}
    shapes = [patch for patch in axes.patches if patch not in bars]
    if any(isinstance(artist, QuadMesh) for artist in axes.collections):
        yield from _cells(axes, shapes)
    elif shapes:
        kinds = Counter(
            f"{phrases.nearest_colour(shape.get_facecolor())} {phrases.kind_of(shape)}" for shape in shapes
        )
        yield f"Shapes: {', '.join(phrases.counted(number, kind) for kind, number in kinds.items())}."
        for shape in phrases.sampled(shapes, phrases.SAMPLE):
            place = " to ".join(_corners(shape, axes))
            yield f"  {phrases.kind_of(shape)}, {phrases.colour_word(shape.get_facecolor())}, {place}"


def _cells(axes: Axes, shapes: list[Patch]) -> Iterator[str]:
    """Tell which cells of a heatmap are hatched, and which are framed."""
    rows, columns = (dict(_ticks(axis)) for axis in (axes.yaxis, axes.xaxis))
    for word, chosen in (
        ("Hidden", [each for each in shapes if each.get_hatch()]),
        ("Framed", [each for each in shapes if not each.get_hatch()]),
    ):
        places = [(each.get_y() + 0.5, each.get_x() + 0.5) for each in chosen]
        names = [f"{rows.get(y, f'{y:g}')}–{columns.get(x, f'{x:g}')}" for y, x in places]
        if 0 < len(names) <= phrases.FEW:
            yield f"{word}: {'; '.join(names)}."
        elif names:
            yield f"{word}: {phrases.counted(len(names), 'cell')}."
            yield f"  {word}: {'; '.join(names)}"


def _corners(artist: Artist, axes: Axes) -> list[str]:
    low, high = axes.transData.inverted().transform(artist.get_tightbbox())
    return phrases.point_words(*np.transpose([low, high]), axes)


def _writing(axes: Axes) -> Iterator[str]:
    named = {line.get_label() for line in axes.lines}  # told with their lines already
    written = [text for text in axes.texts if text.get_text().strip() and text.get_text() not in named]
    texts = [_text(text, axes) for text in written]
    arrows = [_arrow(text, axes) for text in axes.texts if isinstance(text, Annotation) and text.arrow_patch]
    if texts and any(isinstance(artist, QuadMesh | AxesImage) for artist in axes.get_children()):
        yield f"  Written: {'; '.join(texts)}"  # a heatmap's numbers, told already
    elif texts:
        yield f"Written: {'; '.join(texts)}."
    if arrows:
        yield f"  Arrows: {'; '.join(arrows)}"


def _text(text: Text, axes: Axes) -> str:
    ground = _ground(text, axes)
    colour = phrases.colour_word(ground.get_facecolor()) if ground else "white"
    return phrases.quoted(text.get_text()) + ("" if colour.startswith("white") else f" on {colour}")


def _arrow(annotation: Annotation, axes: Axes) -> str:
    (start_x, start_y), (end_x, end_y) = annotation.xyann, annotation.xy
    x = [annotation.convert_xunits(start_x), annotation.convert_xunits(end_x)]
    y = [annotation.convert_yunits(start_y), annotation.convert_yunits(end_y)]
    return " to ".join(phrases.point_words(x, y, axes))


def _ground(text: Text, axes: Axes) -> Patch | None:
    """Return the shape that the text stands on: its colour is how a diagram marks a part."""
    low, high = text.get_window_extent().get_points()
    place = (low + high) / 2  # of the writing itself: its anchor may be the edge of a bar
    shapes = [shape for shape in axes.patches if phrases.kind_of(shape) != "arrow"]
    under = [shape for shape in shapes if shape.contains_point(place)]
    return text.get_bbox_patch() or (under[-1] if under else None)


# Heatmaps


def _heatmap(
    drawn: QuadMesh | AxesImage, values: np.ma.MaskedArray, rows: list[str], columns: list[str]
) -> Iterator[str]:
    values = phrases.rounded_off(phrases.blank_filled(values))
    low, high = phrases.number_words(drawn.get_clim())
    norm = "" if type(drawn.norm) is colors.Normalize else f" ({type(drawn.norm).__name__})"
    if len(rows) <= phrases.FEW:
        told = [f"{name}: {_largest(row, columns)}" for name, row in zip(rows, values, strict=True)]
        yield f"Largest in each row: {'; '.join(told)}."
    yield f"{_range(values).capitalize()}."
    if np.ndim(drawn.get_array()) < 3:
        yield f"  Colour map {drawn.get_cmap().name} from {low} to {high}{norm}"
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
    low, high = phrases.number_words([shown.min(), shown.max()])
    blank = f", {values.size - shown.size} blank" if shown.size < values.size else ""
    return f"values from {low} to {high}{blank}"


def _largest(row: np.ndarray, columns: list[str]) -> str:
    if np.isnan(row).all():
        return "all blank"
    best = np.flatnonzero(row == np.nanmax(row))
    where = columns[best[0]] if len(best) == 1 else f"{len(best)} alike"
    return f"{where} {phrases.number_words(row)[best[0]]}"


def _table(values: np.ndarray, rows: list[str], columns: list[str]) -> Iterator[str]:
    down, across = _blocks(len(rows)), _blocks(len(columns))
    averages = np.array([[_average(values[np.ix_(r, c)]) for c in across] for r in down])
    printed = np.reshape(phrases.number_words(averages), averages.shape)
    if values.size > averages.size:
        yield "  Averages over blocks"
    yield f"  Columns: {' | '.join(_block_name(columns, block) for block in across)}"
    for block, entries in zip(down, printed, strict=True):
        yield f"  {_block_name(rows, block)}: {' '.join(entries)}"


def _blocks(size: int) -> list[np.ndarray]:
    return np.array_split(np.arange(size), min(size, phrases.FEW))


def _block_name(names: list[str], block: np.ndarray) -> str:
    return names[block[0]] if len(block) == 1 else f"{names[block[0]]} to {names[block[-1]]}"


def _average(block: np.ndarray) -> float:
    return np.nan if np.isnan(block).all() else np.nanmean(block)
