"""How every figure is laid out and finished, and the one palette of them all."""

from collections.abc import Iterable

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter

MARK = "#d95f02"  # what the reader should look at: seen on every colour of viridis
LIT = "#ffc425"  # the part of a drawing that its title speaks of
PALE = ("#a6cee3", "#fdbf6f", "#cccccc", "#f4b6d2")  # blue, orange, grey, rose: black text reads well on each
SILVER, GREY, DARK = "#bdbdbd", "#6b6b6b", "#404040"
YES_OR_NO = "cividis"  # the colour map of what is True, light, or False, dark

Size = tuple[float, float]  # width and height, in inches

LONGEST = 120.0  # inches; a larger picture needs more memory than a lesson has


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
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False, **options).flatten()
    for ax in panels[count:]:
        ax.set_axis_off()
    return figure, panels[:count]


def finished(figure: Figure, title: str | None = None) -> Figure:
    """Return the figure under its title, every text drawn as it stands: between two $ is no formula."""
    if title is not None:
        figure.suptitle(title)
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


def literal(ax: Axes) -> None:
    """Let what is written in one panel be drawn as it stands, as `finished` does for a whole figure."""
    for text in ax.findobj(Text):
        text.set_parse_math(False)


def frame_cells(ax: Axes, cells: Iterable[tuple[int, int]], thick: float = 2.5) -> None:
    """Draw a frame around cells (row, column) of a heatmap."""
    for row, column in cells:
        corner = int(column), int(row)
        ax.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=MARK, linewidth=thick))


def light_and_dark(figure: Figure, light: str, dark: str) -> None:
    """Say below the figure what the light and the dark cells of a boolean matrix mean."""
    colours = matplotlib.colormaps[YES_OR_NO]
    patches = [Patch(facecolor=colours(1.0), label=light), Patch(facecolor=colours(0.0), label=dark)]
    figure.legend(handles=patches, loc="outside lower center", ncols=2, frameon=False)
