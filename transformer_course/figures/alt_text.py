"""Describe a figure in words and numbers for readers, and in full for the test that detects changes.

The numbers of a plot are worth reading. Those of a drawing are places of boxes and arrows, so its text is a
sentence or two: `alt`, and the label of a panel (`ax.set_label`), where a panel says itself what it shows.

Numbers are rounded twice, first to ten digits, because machines differ in the sixteenth digit but have to
agree on how 0.125 is rounded and on whether two entries are equal.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple, TypeVar

import numpy as np
from matplotlib import colors
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import Collection, LineCollection, PathCollection, QuadMesh
from matplotlib.container import BarContainer, Container
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, Patch
from matplotlib.ticker import LogFormatter, ScalarFormatter
from numpy.typing import ArrayLike

LONGEST_ALT_TEXT = 600  # characters
FEW = 12  # the largest number of rows, columns or names that are listed one by one
SAMPLE = 40  # the largest number of similar items that are listed
RESIDUE = 1e-16  # rounding error after subtracting equal numbers: 0 on one machine, 9e-18 on another

Item = TypeVar("Item")


class Description(NamedTuple):
    """A figure as text: `alt` is one line, `words` adds the numbers of plots, `contents` has all numbers.

    Nobody reads the contents. The gate compares them, because it tolerates small differences between pictures
    and would miss a changed sign or a moved box.
    """

    alt: str
    words: str
    contents: str


def describe(figure: Figure) -> Description:
    """Return the figure as text, with rounded numbers."""
    figure.draw_without_rendering()  # tick labels exist only after drawing
    alt, panels = _read_aloud(figure), [axes for axes in figure.axes if not _is_colour_bar(axes)]
    numbers = [[f"  {line}" for line in _panel(axes, f"panel {i}")] for i, axes in enumerate(panels, 1)]
    plots = [lines for axes, lines in zip(panels, numbers, strict=True) if not is_drawing(axes)]
    size = f"  {' by '.join(number_words(figure.get_size_inches()))} inches"
    bars = [f"  colours: {name}" for name in _bars(figure)]
    words, contents = ([size, *chain(*listed), *bars] for listed in (plots, numbers))
    return Description(alt, "\n".join([alt, *(words if plots else [])]), "\n".join(contents))


def further(alt: str, read: str) -> str:
    """Return the sentences of an alternative text, after its first, that another one does not have."""
    return ". ".join(sentence for sentence in alt.removesuffix(".").split(". ")[1:] if sentence not in read)


def is_drawing(axes: Axes) -> bool:
    """Whether a panel shows boxes, arrows and tables, whose coordinates say nothing to a reader.

    A panel with a label says itself what it shows.
    """
    boxes = any(isinstance(patch, FancyBboxPatch) for patch in axes.patches)
    return bool(axes.get_label()) or boxes or not (axes.axison or len(_maps(axes)) == 1)


# The alternative text: the title, what there is to see, the panels, and as many details as fit


def _read_aloud(figure: Figure) -> str:
    claim, *notes = sorted((text.get_text() for text in figure.texts), key=figure.get_suptitle().__ne__) or [
        ""
    ]
    panels = [axes for axes in figure.axes if axes.axison or axes.has_data() or axes.texts]  # not blank
    panels = [axes for axes in panels if not _is_colour_bar(axes)]
    sentences = [": ".join(filter(None, [f"Figure {_quoted(claim)}".rstrip(), _panels(panels)]))]
    sentences += figure.get_label().split(". ")
    for axes in panels:
        name = f"{_title(axes).partition(':')[0]}: " if len(panels) > 1 and axes.get_label() else ""
        sentences.append(name + axes.get_label())
    named: list[tuple[str, str]] = []
    for label in (label for axes in panels if not is_drawing(axes) for label in _axes(axes)):
        if not any(label[0] == side and name.endswith(label[1]) for side, name in named):
            named.append(label)  # name shared labels only once
    sentences += [f"{side}: {name}" for side, name in named]
    sentences += [f"Colours: {name}" for name in _bars(figure) if name]
    sentences += [f"Note: {_quoted(note)}" for note in notes if note.strip()]
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes)]
    sentences += [f"Legend: {_entries(legend)}" for legend in legends if legend]
    sentences += [sentence for axes in panels if len(panels) == 1 for sentence in _panel_contents(axes)]
    read = ""
    for sentence in dict.fromkeys(filter(None, sentences)):
        if len(read) + len(sentence) + 2 <= LONGEST_ALT_TEXT:
            read += f" {sentence.removesuffix('.')}."
    return read[1:]


def _is_colour_bar(axes: Axes) -> bool:
    return hasattr(axes, "_colorbar")  # matplotlib sets this and checks it the same way


def _bars(figure: Figure) -> list[str]:
    return [axes.get_ylabel() or axes.get_xlabel() for axes in figure.axes if _is_colour_bar(axes)]


def _entries(legend: Legend) -> str:
    return ", ".join(text.get_text() for text in legend.get_texts())


def _panels(panels: list[Axes]) -> str:
    """The title and the type of each panel; the type only once if all panels have the same."""
    kinds, shared = [_kind(axes) for axes in panels], ""
    names = [_quoted(_title(axes)) for axes in panels]
    if len(panels) > 1 and len(set(kinds)) == 1 and kinds[0]:
        shared, kinds = f"each {kinds[0]}", [""] * len(kinds)
    parts = [", ".join(filter(None, both)) for both in zip(names, kinds, strict=True)]
    panel_names = "; ".join(filter(None, [*parts, shared]))
    return f"{len(panels)} panels: {panel_names}" if len(panels) > 1 else panel_names


def _title(axes: Axes) -> str:
    return axes.get_title() or axes.get_title("left")


def _kind(axes: Axes) -> str:
    if is_drawing(axes):
        return "a drawing"
    if len(maps := _maps(axes)) > 1:
        return f"{len(maps)} matrices"
    if maps:
        return f"a heatmap of {' × '.join(map(str, _cells(maps[0]).shape))} cells"
    counts = {"bar": len({place for group in axes.containers for place in _bar_places(group)})}
    counts["line"] = len(_named_lines(axes))
    return " and ".join(f"{count} {kind}{'s' * (count > 1)}" for kind, count in counts.items() if count)


def _maps(axes: Axes) -> list[QuadMesh | AxesImage]:
    return [
        artist for artist in (*axes.images, *axes.collections) if isinstance(artist, QuadMesh | AxesImage)
    ]


def _bar_places(group: Container) -> list[str]:
    """The centres of the bars; stacked or overlapping parts count as one bar."""
    if not isinstance(group, BarContainer):
        return []
    across = [bar.get_y() + bar.get_height() / 2 for bar in group]
    upright = [bar.get_x() + bar.get_width() / 2 for bar in group]
    return number_words(upright if group.orientation == "vertical" else across)


def _named_lines(axes: Axes) -> list[Line2D]:
    return [line for line in axes.lines if not str(line.get_label()).startswith("_")]


def _axes(axes: Axes) -> Iterator[tuple[str, str]]:
    """The labels of both axes, with their range if they are numeric, otherwise with a few tick labels."""
    for side, axis in (("Across", axes.xaxis), ("Upwards", axes.yaxis)) if axes.axison else ():
        if side == "Upwards" and axis.get_inverted():
            side = "Downwards"
        labels = [label for _, label in _ticks(axis) if label]
        words = ", ".join(labels[:FEW] + ["and so on"] * (len(labels) > FEW))
        if labels and _is_numeric(axis):
            words = f"{labels[0]} to {labels[-1]}"
        if axis.get_label_text():
            yield side, " ".join(axis.get_label_text().split()) + (f", {words}" if words else "")
        elif words and not _is_numeric(axis):
            yield side, words


def _panel_contents(axes: Axes) -> Iterator[str]:
    """The contents of a single panel: the largest cell of each row, the ends of each line, and its texts."""
    if is_drawing(axes) and (axes.get_label() or axes.figure.get_label()):
        return  # said already, in order
    maps = _maps(axes)
    for drawn in maps[:1]:
        values, rows, columns = _cells(drawn), _names(axes.yaxis, drawn, 1), _names(axes.xaxis, drawn, 0)
        values = rounded_off(values)
        largest = values == values.max(axis=1, keepdims=True)
        if len(rows) <= FEW and (largest.sum(axis=1) == 1).all():
            best = number_words(values.max(axis=1))
            names = (columns[place] for place in largest.argmax(axis=1))
            largest_by_row = (
                f"{row}: {name} {value}" for row, name, value in zip(rows, names, best, strict=True)
            )
            yield f"Largest in each row: {'; '.join(largest_by_row)}"
    for line in _named_lines(axes):
        y = np.asarray(line.get_ydata(), dtype=float)
        if np.isfinite(y).sum() > 1:
            first, last = number_words(y[np.isfinite(y)][[0, -1]], axes.get_yscale())
            yield f"{_quoted(line.get_label())} from {first} to {last}"
    known = {line.get_label() for line in _named_lines(axes)}
    written = [_quoted(text.get_text()) for text in axes.texts if text.get_text() not in known]
    if not maps and any(written):
        yield f"Written: {', '.join(filter(None, written))}"


# The contents as numbers


def _panel(axes: Axes, name: str) -> Iterator[str]:
    titles = [axes.get_title(where) for where in ("center", "left", "right")]
    yield f"{name}: {' '.join(map(_quoted, filter(None, titles)))}"
    for side, axis in (("x", axes.xaxis), ("y", axes.yaxis)) if axes.axison else ():
        ends = " to ".join(number_words(axis.get_view_interval(), axis.get_scale()))
        labels = [label for _, label in _ticks(axis) if label]
        yield f"{side} {_quoted(axis.get_label_text())} {axis.get_scale()} {ends}: {' | '.join(labels)}"
    for artists in (axes.images, axes.collections, axes.lines, axes.patches):
        for artist in sampled(artists, SAMPLE):
            yield from _describe_artist(artist, axes)
    yield f"written: {' '.join(_quoted(text.get_text()) for text in axes.texts)}"
    arrows = [[note.xyann, note.xy] for note in axes.texts if getattr(note, "arrow_patch", None)]
    yield from (f"arrow {_way(ends, axes)}" for ends in arrows)
    yield from (f"legend: {_entries(legend)}" for legend in [axes.get_legend()] if legend)


def _describe_artist(artist: Artist, axes: Axes) -> Iterator[str]:
    name = _label(artist)
    match artist:
        case QuadMesh() | AxesImage():
            yield from _describe_heatmap(artist, axes)
        case PathCollection():
            items = point_words(*np.ma.filled(artist.get_offsets(), np.nan).reshape(-1, 2).T, axes)
            yield f"{len(items)} points{name} {_colours(artist)}: {' '.join(sampled(items, SAMPLE))}"
            if artist.get_array() is not None:
                yield f"values: {' '.join(sampled(number_words(_filled(artist.get_array())), SAMPLE))}"
        case LineCollection():
            items = [_way(segment, axes) for segment in artist.get_segments()]
            yield f"{len(items)} lines{name} {_colours(artist)}: {'; '.join(sampled(items, SAMPLE))}"
        case Collection():
            yield f"{len(artist.get_paths())} shapes{name} {_colours(artist)}: {_corners(artist, axes)}"
        case Patch():
            style = f"{_hex(artist.get_facecolor())} {artist.get_hatch() or ''}".strip()
            yield f"{type(artist).__name__}{name} {style}: {_corners(artist, axes)}"
        case Line2D():
            items = point_words(artist.get_xdata(orig=False), artist.get_ydata(orig=False), axes)
            style = f"{_hex(artist.get_color())} {artist.get_linestyle()} {artist.get_marker()}"
            yield f"line{name} {style}, {len(items)} points: {' '.join(sampled(items, FEW))}"


def _describe_heatmap(drawn: QuadMesh | AxesImage, axes: Axes) -> Iterator[str]:
    values, rows, columns = _cells(drawn), _names(axes.yaxis, drawn, 1), _names(axes.xaxis, drawn, 0)
    yield f"heatmap {drawn.get_cmap().name} {' to '.join(number_words(drawn.get_clim()))}"
    down, across = (np.array_split(np.arange(size), min(size, FEW)) for size in values.shape)
    means = np.array([[_mean(values[np.ix_(r, c)]) for c in across] for r in down])
    printed = np.reshape(number_words(means), means.shape)
    yield f"columns: {' | '.join(_span(columns, block) for block in across)}"
    yield from (f"{_span(rows, block)}: {' '.join(row)}" for block, row in zip(down, printed, strict=True))


def _cells(drawn: QuadMesh | AxesImage) -> np.ndarray:
    """The values of a heatmap (rows, columns), with nan for hidden cells."""
    values = _filled(drawn.get_array())
    if isinstance(drawn, QuadMesh):
        return values.reshape([size - 1 for size in drawn.get_coordinates().shape[:2]])
    return values[..., :3].mean(axis=-1) if values.ndim == 3 else values  # the brightness of a colour image


def _names(axis: Axis, drawn: QuadMesh | AxesImage, side: int) -> list[str]:
    """The tick label of each row or column, or its index if it does not have exactly one label."""
    if isinstance(drawn, QuadMesh):
        corners = drawn.get_coordinates()  # (rows + 1, columns + 1, 2)
        edges = corners[:, 0, 1] if side else corners[0, :, 0]
    else:
        left, right, bottom, top = drawn.get_extent()
        ends = ((top, bottom) if drawn.origin == "upper" else (bottom, top)) if side else (left, right)
        edges = np.linspace(*ends, _cells(drawn).shape[1 - side] + 1)
    ticks = [] if _is_numeric(axis) else [(place, label) for place, label in _ticks(axis) if label]
    within = [[name for place, name in ticks if min(cell) < place < max(cell)] for cell in pairwise(edges)]
    return [names[0] if len(names) == 1 else str(number) for number, names in enumerate(within)]


def _span(names: Sequence[str], block: np.ndarray) -> str:
    return names[block[0]] if len(block) == 1 else f"{names[block[0]]} to {names[block[-1]]}"


def _mean(values: np.ndarray) -> float:
    shown = values[~np.isnan(values)]
    return float(shown.mean()) if shown.size else np.nan


# Helpers for both


def _is_numeric(axis: Axis) -> bool:
    return isinstance(axis.get_major_formatter(), ScalarFormatter | LogFormatter)


def _ticks(axis: Axis) -> list[tuple[float, str]]:
    """The position and the label of each visible tick, even if only a neighbouring panel shows the labels."""
    low, high = sorted(axis.get_view_interval())
    slack = 1e-6 * (high - low)
    places, formatter = axis.get_majorticklocs(), axis.get_major_formatter()
    labels = [str(label) for label in formatter.format_ticks(places)]
    if isinstance(formatter, LogFormatter):  # its labels are formulas such as 10^n
        labels = [f"{place:g}" if label else "" for place, label in zip(places, labels, strict=True)]
    both = zip(places, labels, strict=True)
    return [(place, label) for place, label in both if low - slack <= place <= high + slack]


def _label(artist: Artist) -> str:
    label = str(artist.get_label())
    return "" if label.startswith("_") or not label else f" {_quoted(label)}"  # reserved for matplotlib


def _quoted(text: str) -> str:
    return f"“{' '.join(text.split())}”" if text.strip() else ""


def _hex(colour: object) -> str:
    return colors.to_hex(colour, keep_alpha=colors.to_rgba(colour)[3] < 1)


def _colours(collection: Collection) -> str:
    faces = collection.get_facecolor()
    return " ".join(dict.fromkeys(map(_hex, faces if len(faces) else collection.get_edgecolor())))


def _corners(artist: Artist, axes: Axes) -> str:
    return _way(axes.transData.inverted().transform(artist.get_tightbbox()), axes)


def _way(points: ArrayLike, axes: Axes) -> str:
    return " to ".join(point_words(*np.transpose(points), axes))


def _filled(values: ArrayLike) -> np.ndarray:
    return np.ma.filled(np.ma.asarray(values, dtype=float), np.nan)


def rounded_off(values: ArrayLike) -> np.ndarray:
    """Return the values rounded to ten digits of the largest one, beyond which machines may differ."""
    values = np.asarray(values, dtype=float)
    return np.round(values, 9 - exponent_of(values))


def exponent_of(values: np.ndarray) -> int:
    """Return the exponent m of the largest value, a × 10^m with 1 ≤ a < 10; 0 for a rounding error."""
    largest = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    return int(np.floor(np.log10(largest))) if largest > RESIDUE else 0


def number_words(values: ArrayLike, scale: str = "linear") -> list[str]:
    """Format values with three digits: of the largest value on a linear scale, else of each value."""
    if scale != "linear":
        return [number_words([value])[0] for value in np.ravel(values)]
    settled = rounded_off(values).ravel()
    magnitude = exponent_of(settled)
    if np.array_equal(settled, np.round(settled), equal_nan=True):
        form = ".0f"
    elif -4 <= magnitude < 6:
        form = f".{max(0, 2 - magnitude)}f"
    else:
        form = ".2e"
    # z: no minus sign before zero
    return ["blank" if np.isnan(value) else format(value, f"z{form}") for value in settled]


def point_words(x: ArrayLike, y: ArrayLike, axes: Axes) -> list[str]:
    """Return points as text, with each coordinate formatted for the scale of its axis."""
    across, up = number_words(x, axes.get_xscale()), number_words(y, axes.get_yscale())
    return [f"({a}, {b})" for a, b in zip(across, up, strict=True)]


def sampled(items: Sequence[Item], most: int) -> list[Item]:
    """Return at most `most` items, evenly spaced, including the first and the last."""
    if len(items) <= most:
        return list(items)
    return [items[i * (len(items) - 1) // (most - 1)] for i in range(most)]
