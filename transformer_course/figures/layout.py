"""Lay out and finish figures, format numbers, and mark cells of heatmaps."""

from collections.abc import Iterable, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter, LogLocator, NullFormatter

from transformer_course.figures.colours import GREY, HIDDEN

Size = tuple[float, float]  # width and height, in inches

WIDEST = 9.4  # inches; a page is 900 pixels wide, at 90 pixels per inch, minus a margin
BADGE = {"facecolor": "white", "edgecolor": "black", "pad": 1.5}  # the background of text on a map


def canvas(
    count: int, cell: Size, room: Size = (0.0, 0.0), *, columns: int | None = None, **options: object
) -> tuple[Figure, np.ndarray]:
    """Return a figure and this many empty panels; unused panels of the last row are blank.

    The figure is unknown to matplotlib.pyplot, so a call that fails later leaves no unfinished figure.

    Args:
        cell: size of a panel.
        room: additional width and height of the figure.
        columns: panels in a row; all of them if None.
        options: options of `subplots` in matplotlib.
    """
    columns = columns or count
    rows = -(-count // columns)
    size = cell[0] * columns + room[0], cell[1] * rows + room[1]
    figure = Figure(figsize=size, layout="constrained")
    figure.get_layout_engine().set(h_pad=0.06, w_pad=0.06)
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False, **options).flatten()
    for ax in panels[count:]:
        ax.set_axis_off()
    return figure, panels[:count]


def finished(figure: Figure, title: str | None, alt: str) -> Figure:
    """Return the figure with its title; text between two $ is not a formula.

    `alt` describes the figure in a sentence, for its alternative text.
    """
    figure.set_label(alt)
    if title:
        _write_title(figure, title)
    for axis in (axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)):
        _write_numbers(axis)
    for text in figure.findobj(Text):
        text.set_parse_math(False)
    return figure


def _write_title(figure: Figure, title: str) -> None:
    """Write the title above all panels, in two lines if it is wider than the figure."""
    text = figure.suptitle(title, size=12, weight="bold", parse_math=False)
    if text.get_window_extent().width > figure.bbox.width and " " in title and "\n" not in title:
        spaces = [place for place, letter in enumerate(title) if letter == " "]
        middle = min(spaces, key=lambda place: abs(2 * place - len(title)))
        text.set_text(f"{title[:middle]}\n{title[middle + 1 :]}")


def sign_before(ax: Axes, sign: str, height: float = 0.5) -> None:
    """Write an operator, such as + or =, between a panel and its left neighbour."""
    ax.text(-0.08, height, sign, transform=ax.transAxes, ha="right", va="center", size=16)


# Numbers: 0.67, −3.5, 1,024


def number(value: float, digits: int = 3) -> str:
    """Format a number as all figures do: 0.67, −3.5, 1,024, 1e−6."""
    text = f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"
    return text.replace("-", "−").replace("e−0", "e−")


def cell_texts(values: np.ndarray, *, whole: bool = True) -> np.ndarray:
    """Format each value with two decimals, or without decimals if `whole` and all are integers."""
    are_whole = whole and (values == values.round()).all()
    return np.vectorize(lambda value: f"{value:.0f}" if are_whole else two_decimals(value))(values)


def two_decimals(value: float, digits: int = 2) -> str:
    """Format a value with two decimals, 0.67 or −0.50, or with `digits` of them; never −0.00."""
    text = f"{abs(value):.{digits}f}"
    return f"−{text}" if value < 0 and float(text) else text


class _PlainPowers(LogFormatter):
    """Formatter of a logarithmic axis: plain numbers, or powers of ten if the axis reaches tiny ones."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Format one value."""
        power = f"{np.log10(x):.0f}".translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return number(x) if x == 1 or self.axis.get_view_interval()[0] > 1e-4 else f"10{power}"


def _write_numbers(axis: Axis) -> None:
    """Format the ticks of a logarithmic axis; on a short axis, label more than the powers of ten."""
    if isinstance(axis.get_major_formatter(), LogFormatter):
        low, high = axis.get_view_interval()
        axis.set_major_locator(LogLocator(subs=(1.0,) if high > 100 * low else (1.0, 2.0, 5.0)))
        axis.set_major_formatter(_PlainPowers())
        axis.set_minor_formatter(NullFormatter())


# Cells of a heatmap


def outline_cells(ax: Axes, cells: Iterable[tuple[float, ...]], **style: object) -> None:
    """Draw a thin outline around light cells, given as (row, column) or (row, column, width, height)."""
    style = {"edgecolor": "black", "linewidth": 1.6, "fill": False, "zorder": 3, "clip_on": False} | style
    for cell in cells:
        row, column, width, height = (*map(float, cell), 1, 1)[:4]
        ax.add_patch(Rectangle((column, row), width, height, **style))


def frame_cells(ax: Axes, cells: Iterable[tuple[float, ...]] | Mapping[tuple[float, ...], str]) -> None:
    """Draw a frame around cells, in the format of `outline_cells`, with its name at a corner.

    The part of the name after a space is written on its right.
    """
    edge = [withStroke(linewidth=4, foreground="black")]
    outline_cells(ax, cells, edgecolor="white", linewidth=2, path_effects=edge)
    style = {"weight": "bold", "va": "center", "zorder": 5}
    for (row, column, *size), words in cells.items() if isinstance(cells, Mapping) else ():
        name, _, more = words.partition(" ")
        ax.text(
            column, row, name, ha="center", size=9, bbox={**BADGE, "boxstyle": "circle,pad=0.15"}, **style
        )
        right = column + (*size, 1)[0] + 0.25
        ax.text(right, row + 0.5, more, size=8.5, bbox=BADGE if more else None, **style)


def hide_cells(ax: Axes, cells: Iterable[tuple[int, int]]) -> None:
    """Draw cells (row, column) as hidden: grey and hatched, unlike any weight."""
    for row, column in cells:
        ax.add_patch(Rectangle((int(column), int(row)), 1, 1, zorder=2, label="hidden", **HIDDEN))


def legend_of_cells(figure: Figure, words: Mapping[str, Mapping[str, object]]) -> None:
    """Draw a legend of the kinds of cells below the figure; a kind is a dict of patch options."""
    patches = [
        Patch(label=word, **{"edgecolor": GREY, "linewidth": 0.6} | style) for word, style in words.items()
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), frameon=False)
