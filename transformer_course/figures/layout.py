"""How every figure is laid out and finished, and the one declaration of what a colour means."""

from collections.abc import Iterable, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter

# Colour maps: one for one quantity
ATTENTION = "viridis"  # weights, and other numbers that are never negative
SIGNED = "RdBu_r"  # from −1 to 1 for every cosine

YES, NO = "#31688e", "#f2f2f2"  # the cells of what is True or False
YES_OR_NO = ListedColormap([NO, YES], name="yes or no")
HIDDEN = {"facecolor": "#e4e4e4", "edgecolor": "#8c8c8c", "hatch": "////", "linewidth": 0.0}

# One colour for each component of the encoder; black text reads well on each
COMPONENTS = {
    "embedding": "#cccccc",
    "positions": "#fdbf6f",
    "attention": "#86bbdd",
    "scores": "#4a90c2",  # the part of attention in which every token meets every other
    "feed-forward": "#f9cfe0",
    "norm": "#cbe5a5",
}
PALE = ("#a6cee3", "#fdbf6f", "#cccccc", "#f4b6d2")  # of heads, pairs and groups, where no component is meant
FREE = ("#e8dcb0", "#d9c3ea", "#d9d9d9")  # of what is no component
LIT = "#fff3c4"  # a group of boxes of which a title speaks

# Of lines and their names, which contrast with white by 4.5 to 1 at least; the claim is about the first
LINES = ("#b34700", "#1b6ca8", "#404040", "#1b7837", "#6a3d9a", "#a6266e", "#00707a")
HERO = LINES[0]
MARK = "#d95f02"  # a mark that is no text: a dot, a needle, a bar
SILVER, GREY, DARK = "#bdbdbd", "#6b6b6b", "#404040"

Size = tuple[float, float]  # width and height, in inches

WIDEST = 9.4  # inches; a page shows 900 pixels, 90 to an inch, with a margin
LONGEST = 120.0  # inches; a larger picture needs more memory than a lesson has
LINE = 11.0  # points from one written line to the next


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
    powers = {
        label
        for ax in figure.axes
        for axis in (ax.xaxis, ax.yaxis)
        if isinstance(axis.get_major_formatter(), LogFormatter)
        for label in axis.findobj(Text)
        if label is not axis.label
    }
    for text in figure.findobj(Text):
        text.set_parse_math(text in powers)
    return figure


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


# Names of lines


def name_lines(ax: Axes, ends: Mapping[str, tuple[float, float]], colours: Mapping[str, str]) -> None:
    """Write each name to the right of where its line ends, in its colour, no name on another one.

    Call it last: the limits of the axes must be what they will be.

    Args:
        ax: where the lines are.
        ends: for each name the last point of its line.
        colours: for each name that of its line.
    """
    ax.figure.get_layout_engine().execute(ax.figure)  # how high the panel is decides which names collide
    to_points = 72 / ax.figure.dpi
    low, high = ax.bbox.y0 * to_points, ax.bbox.y1 * to_points
    points = ax.transData.transform(list(ends.values())) * to_points
    heights = _spread(points[:, 1], low + LINE / 2, high - LINE / 2)
    for (name, end), point, height in zip(ends.items(), points, heights, strict=True):
        look = {"va": "center", "size": 9, "color": colours[name], "annotation_clip": False}
        look["path_effects"] = [withStroke(linewidth=3, foreground="white")]  # where it meets another line
        ax.annotate(name, end, (6, height - point[1]), textcoords="offset points", parse_math=False, **look)


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


def write_level(ax: Axes, height: float, name: str, *, style: str = "--") -> None:
    """Draw a level that a curve is compared with, chance or a theory, and write its name on it."""
    ax.axhline(height, color=GREY, linestyle=style, linewidth=1.2, zorder=1)
    look = {"ha": "left", "va": "bottom", "size": 8.5, "color": GREY, "parse_math": False}
    ax.annotate(
        name, (0, height), (4, 2), xycoords=ax.get_yaxis_transform(), textcoords="offset points", **look
    )


def component_colours(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for each part: its component's if it is called like one, else a pale one of its own.

    What stands behind a colon says more about the component: "attention: projections".
    """
    names = list(names)
    known = {name: COMPONENTS.get(name.partition(":")[0]) for name in names}
    free = [colour for colour in (*FREE, *COMPONENTS.values()) if colour not in known.values()]
    others = [name for name, colour in known.items() if not colour]
    return {name: colour or free[others.index(name) % len(free)] for name, colour in known.items()}
