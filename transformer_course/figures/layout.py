"""How every figure is laid out and finished, and the one declaration of what a colour means."""

import re
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.text import Annotation, Text
from matplotlib.ticker import LogFormatter, LogLocator, NullFormatter, ScalarFormatter

# Colour maps: one for one quantity
ATTENTION = "viridis"  # weights, and other numbers that are never negative
SIGNED = "RdBu_r"  # from −1 to 1 for every cosine

YES, NO = "#5c4033", "#f2f2f2"  # the cells of what is True or False; no colour of a weight
YES_OR_NO = ListedColormap([NO, YES], name="yes or no")
HIDDEN = {"facecolor": "#e4e4e4", "edgecolor": "#8c8c8c", "hatch": "////", "linewidth": 0.0}

# One colour for each component of the encoder; black text reads well on each. All in a group of colours are
# told from each other by every eye, which a test measures.
COMPONENTS = {
    "embedding": "#c3c1be",
    "positions": "#e79e42",
    "attention": "#84c4fe",
    "scores": "#3a86c6",  # the part of attention in which every token meets every other
    "feed-forward": "#f8cae9",
    "norm": "#c4e77c",
}
PALE = ("#b6d7ea", "#e6a88f", "#efe7b1", "#c1a1de")  # of heads, pairs and groups, where no component is meant
FREE = ("#c9bc8c", "#b299c6")  # of what is no component
LIT = "#fff3c4"  # a group of boxes of which a title speaks

# Of lines and their names, which contrast with white by 4.5 to 1 at least; the claim is about the first
LINES = ("#b74800", "#0e72c1", "#303030", "#08833c", "#603698", "#9b1761", "#02606d")
HERO = LINES[0]
MARK = "#d95f02"  # the same where it is no text: a dot, a needle, a bar
SILVER, GREY, DARK = "#bdbdbd", "#6b6b6b", "#404040"

Size = tuple[float, float]  # width and height, in inches

WIDEST = 9.4  # inches; a page shows 900 pixels, 90 to an inch, with a margin
LONGEST = 120.0  # inches; a larger picture needs more memory than a lesson has
LINE = 11.0  # points from one written line to the next
DOT = 3.5  # points from the middle of a dot to its edge
NEARNESS = (6, 9, 14, 20, 28, 38, 50)  # points from a dot to its name
TURNS = (
    2 * np.pi * np.array([0, 8, 1, 15, 7, 9, 2, 14, 6, 10, 4, 12, 3, 13, 5, 11]) / 16
)  # first to the right


def canvas(
    count: int, cell: Size, room: Size = (0.0, 0.0), *, columns: int | None = None, **options: object
) -> tuple[Figure, np.ndarray]:
    """Return a figure and its empty panels, one after another.

    matplotlib.pyplot does not know it: a call that is refused later leaves no half-drawn picture behind.

    Args:
        count: of the panels.
        cell: size of one.
        room: what the figure has beside all of them.
        columns: panels in a row; all of them if None. Panels without a use in the last row are blank.
        options: of matplotlib's `subplots`.
    """
    columns = columns or count
    rows = -(-count // columns)
    width, height = cell[0] * columns + room[0], cell[1] * rows + room[1]
    if max(width, height) > LONGEST:
        raise ValueError(
            f"the figure would be {width:.0f} by {height:.0f} inches, wanted at most {LONGEST:.0f} each; "
            "draw fewer tokens or panels"
        )
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.06, w_pad=0.06)
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False, **options).flatten()
    for ax in panels[count:]:
        ax.set_axis_off()
    return figure, panels[:count]


def finished(figure: Figure, title: str | None = None, see: str = "") -> Figure:
    """Return the figure under its claim, every text drawn as it stands: between two $ is no formula.

    `see` says in a sentence what there is to see, for whoever is told the figure in words.
    """
    figure.set_label(see)
    if title:
        _write_title(figure, title)
    for axis in (axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)):
        _write_numbers(axis)
    for text in figure.findobj(Text):
        text.set_parse_math(False)
    return figure


# Numbers


def number(value: float, digits: int = 3) -> str:
    """Write a number as all figures have it: .67, −3.5, 1,024."""
    text = f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"
    return _without_zero(text.replace("-", "−"))


def _without_zero(text: str) -> str:
    """Take away the zero in front of a point: .67 and not 0.67; 0.0 is 0."""
    return re.sub(r"^(−?)0(?=\.)", r"\1", text) if text.strip("−0.") else "0" if text else ""


class _Plain(ScalarFormatter):
    """Numbers along an axis, all with as many decimals."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Write one number."""
        return _without_zero(super().__call__(x, pos))


class _PlainPowers(LogFormatter):
    """Numbers along a logarithmic axis, written out."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Write one number."""
        return number(x)


def _write_numbers(axis: Axis) -> None:
    """Let an axis have its numbers written as all others; a short logarithmic one names more than powers."""
    if type(axis.get_major_formatter()) is ScalarFormatter:
        axis.set_major_formatter(_Plain())
    elif isinstance(axis.get_major_formatter(), LogFormatter):
        low, high = axis.get_view_interval()
        axis.set_major_locator(LogLocator(subs=(1.0,) if high > 100 * low else (1.0, 2.0, 5.0)))
        axis.set_major_formatter(_PlainPowers())
        axis.set_minor_formatter(NullFormatter())


def _write_title(figure: Figure, title: str) -> None:
    """Write the title above all panels, in two lines if it is wider than the figure."""
    text = figure.suptitle(title, size=12, weight="bold", parse_math=False)
    if text.get_window_extent().width > figure.bbox.width and " " in title and "\n" not in title:
        spaces = [place for place, letter in enumerate(title) if letter == " "]
        middle = min(spaces, key=lambda place: abs(2 * place - len(title)))
        text.set_text(f"{title[:middle]}\n{title[middle + 1 :]}")


def literal(ax: Axes) -> None:
    """Let what is written in one panel be drawn as it stands, as `finished` does for a whole figure."""
    for text in ax.findobj(Text):
        text.set_parse_math(False)


# Cells of a heatmap


def frame_cells(ax: Axes, cells: Iterable[tuple[int, int]]) -> None:
    """Draw a frame around cells (row, column): white with a dark edge, seen on every colour."""
    for row, column in cells:
        frame = Rectangle((int(column), int(row)), 1, 1, fill=False, edgecolor="white", linewidth=2)
        frame.set(path_effects=[withStroke(linewidth=4, foreground="black")], zorder=3)
        frame.set_clip_on(False)  # whole, at the edge of the map, too
        ax.add_patch(frame)


def hide_cells(ax: Axes, cells: Iterable[tuple[int, int]]) -> None:
    """Draw cells (row, column) as hidden: grey and hatched, no colour of any weight."""
    for row, column in cells:
        ax.add_patch(Rectangle((int(column), int(row)), 1, 1, zorder=2, label="hidden", **HIDDEN))


def legend_of_cells(figure: Figure, words: Mapping[str, Mapping[str, object]]) -> None:
    """Say below the figure what its kinds of cells mean; a kind is given as the options of a patch."""
    patches = [
        Patch(label=word, **{"edgecolor": GREY, "linewidth": 0.6} | look) for word, look in words.items()
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), frameon=False)


# Names


def place_names(
    ax: Axes,
    points: Mapping[str, tuple[float, float]],
    colours: Mapping[str, str] | None = None,
    **look: object,
) -> None:
    """Write each name near its point, where it covers no line, no dot and no other name, if there is room.

    Call it last, as the three functions below: the panel must be as large as it will be.
    """
    ax.figure.get_layout_engine().execute(ax.figure)
    for name, point in points.items():
        colour = (colours or {}).get(name, "black")
        text = _annotate(ax, name, point, ha="center", va="center", color=colour, **look)
        half = np.array(text.get_window_extent().size) / 2 * 72 / ax.figure.dpi
        offsets = [(half + far) * (np.cos(turn), np.sin(turn)) for far in NEARNESS for turn in TURNS]
        _settle(ax, text, ax.transData.transform(point), offsets)


def name_lines(ax: Axes, ends: Mapping[str, tuple[float, float]], colours: Mapping[str, str]) -> None:
    """Write each name where its line ends, in its colour; those of the longest lines stand to their right.

    Args:
        ax: where the lines are.
        ends: for each name the last point of its line.
        colours: for each name that of its line.
    """
    ax.figure.get_layout_engine().execute(ax.figure)  # how high the panel is decides which names collide
    to_points = 72 / ax.figure.dpi
    points = ax.transData.transform(list(ends.values())) * to_points
    last = {
        name: point[1]
        for name, point in zip(ends, points, strict=True)
        if point[0] > points[:, 0].max() - LINE
    }
    low, high = ax.bbox.y0 * to_points + LINE / 2, ax.bbox.y1 * to_points - LINE / 2
    heights = _spread(np.array(list(last.values())), low, high)
    for (name, wanted), height in zip(last.items(), heights, strict=True):
        _annotate(ax, name, ends[name], (6, height - wanted), va="center", color=colours[name])
    place_names(ax, {name: end for name, end in ends.items() if name not in last}, colours)


def write_level(ax: Axes, height: float, name: str) -> None:
    """Draw a level that a curve is compared with, chance or a theory, and write its name along it."""
    ax.axhline(height, color=GREY, linestyle="--", linewidth=1.2, zorder=1)
    text = _annotate(ax, name, (0, height), xycoords=ax.get_yaxis_transform(), color=GREY, va="center")
    room = ax.bbox.width * 72 / ax.figure.dpi - 6 * len(name)
    offsets = [(along, over) for along in np.linspace(4, max(4, room), 12) for over in (7, -7)]
    _settle(ax, text, ax.get_yaxis_transform().transform((0, height)), offsets)


def write_place(ax: Axes, place: float, name: str) -> None:
    """Draw an upright line at a place, and write its name above it."""
    ax.axvline(place, color=GREY, linestyle="--", linewidth=1.2, zorder=1)
    _annotate(ax, name, (place, 1), (0, 2), xycoords=ax.get_xaxis_transform(), ha="center", color=GREY)


def _annotate(ax: Axes, name: str, point: tuple, offset: tuple = (0, 0), **look: object) -> Annotation:
    """Write a name at an offset, in points, with a white edge where it meets a line."""
    edge = {"path_effects": [withStroke(linewidth=3, foreground="white")], "annotation_clip": False}
    look = {"size": 9, "parse_math": False} | edge | look
    return ax.annotate(name, point, offset, textcoords="offset points", **look)


def _settle(ax: Axes, text: Annotation, point: np.ndarray, offsets: Iterable[np.ndarray]) -> None:
    """Move a text from a point on the screen by the first offset at which it covers nothing, or the first."""
    size, scale = text.get_window_extent().size, ax.figure.dpi / 72
    dots = np.concatenate([np.zeros((0, 2)), *_drawn(ax)])
    others = np.array([each.get_window_extent().extents for each in ax.texts if each is not text]).reshape(
        -1, 4
    )
    lefts = {"left": 0.0, "center": 0.5}[text.get_ha()]
    for offset in offsets:
        low = point + np.multiply(offset, scale) - size * (lefts, 0.5) - 2
        high = low + size + 4
        meets = ((others[:, :2] < high) & (others[:, 2:] > low)).all(axis=1).any()
        covers = ((dots > low) & (dots < high)).all(axis=1).any()
        if not (meets or covers or (low < ax.bbox.min).any() or (high > ax.bbox.max).any()):
            break
    else:
        offset = next(iter(offsets))
    text.set_position(tuple(offset))


def _drawn(ax: Axes) -> Iterator[np.ndarray]:
    """Yield points of the screen, a few pixels apart, along all lines, and on all dots."""
    for line in ax.lines:
        path = line.get_transform().transform(line.get_xydata())
        path = path[np.isfinite(path).all(axis=1)]
        run = np.concatenate([[0], np.hypot(*np.diff(path, axis=0).T).cumsum()]) if len(path) else []
        even = np.arange(0, run[-1] + 3, 3) if len(run) else []
        yield np.stack([np.interp(even, run, side) for side in path.T], axis=1) if len(run) else path
    ring = DOT * ax.figure.dpi / 72 * np.stack([np.cos(TURNS), np.sin(TURNS)], axis=1)
    for dots in ax.collections:
        yield (ax.transData.transform(dots.get_offsets())[:, None] + ring).reshape(-1, 2)


def _spread(wanted: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return heights near those wanted, in their order, at least a line apart, between low and high."""
    order = np.argsort(wanted, kind="stable")
    steps = LINE * np.arange(len(wanted))
    # Without its steps each must not be lower than the one before: neighbours that would be take their mean.
    blocks: list[list[float]] = []
    for height in wanted[order] - steps:
        blocks.append([height])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    level = np.concatenate([[np.mean(block)] * len(block) for block in blocks])
    top = max(low, high - steps[-1])
    heights = np.empty(len(wanted))
    heights[order] = np.clip(level, low, top) + steps
    return heights


def component_colours(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for each part: its component's if it is called like one, else a pale one of its own.

    What stands behind a colon says more about the component: "attention: projections".
    """
    names = list(names)
    known = {name: COMPONENTS.get(name.partition(":")[0]) for name in names}
    free = [colour for colour in (*FREE, *COMPONENTS.values()) if colour not in known.values()]
    others = [name for name, colour in known.items() if not colour]
    return {name: colour or free[others.index(name) % len(free)] for name, colour in known.items()}
