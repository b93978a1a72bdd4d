"""Boxes, arrows, cells and weighted lines: the elements of drawings."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.colors import to_rgba
from matplotlib.patches import Circle, FancyBboxPatch, Rectangle
from matplotlib.text import Annotation

from transformer_course.figures.colours import DARK, GREY, HERO, SIGNED

FAINT, FAINT_IN_WEB = 0.035, 0.1  # smaller weights have no line; in a web, unless highlighted
WIDTH = 6.0  # the line width of a weight of 1, in points


def draw_weight_lines(
    ax: Axes,
    weights: np.ndarray,
    ends: tuple[float, float],
    highlight: np.ndarray,
    *,
    at: np.ndarray | None = None,
    upright: bool = False,
    others: str = GREY,
    faint: float = 0.3,
    drop: float = 0.0,
    least: float = 0.0,
) -> None:
    """Draw a line from each key to each query, with a width proportional to the weight (query, key).

    Keys are at x = ends[0] and queries at ends[1], in lanes `at`, by default 0, 1, …; with `upright`, lines
    go up. Lines end `drop` below the lane of the query. `highlight` is 2 for highlighted lines, which have at
    least the width `least`, 1 for other lines of the same query, and otherwise 0. Lines with 0 are drawn
    first, with the opacity `faint`, so that overlapping lines can be distinguished.
    """
    highlight = np.broadcast_to(highlight, weights.shape)
    drawn = sorted(np.argwhere(weights > FAINT).tolist(), key=lambda place: highlight[*place])
    at = np.arange(len(weights)) if at is None else at
    lines = [[(ends[0], at[key]), (ends[1], at[query] - drop)] for query, key in drawn]
    style = {
        "linewidths": [max(WIDTH * weights[*place], least * (highlight[*place] == 2)) for place in drawn]
    }
    style["colors"] = [(to_rgba(others, faint), DARK, HERO)[highlight[*place]] for place in drawn]
    ax.add_collection(LineCollection(np.flip(lines, axis=2) if upright else lines, **style))


Point = tuple[float, float]


# Elements of drawings


def box(
    ax: Axes,
    middle: Point,
    label: str,
    size: Point,
    colour: str = "white",
    *,
    letters: float = 9,
    weight: str = "normal",
    label_up: float = 0.0,
    rounding: float = 0.1,
    **edge: object,
) -> None:
    """Draw a box of size (width, height) around its centre, with its label there, or `label_up` above it."""
    corner = middle[0] - size[0] / 2, middle[1] - size[1] / 2
    style = {"edgecolor": "black", "boxstyle": f"round,pad=0,rounding_size={rounding}", "zorder": 3} | edge
    ax.add_patch(FancyBboxPatch(corner, *size, facecolor=colour, **style))
    place = middle[0], middle[1] + label_up
    ax.text(*place, label, ha="center", va="center", size=letters, weight=weight, zorder=4)


def arrow(
    ax: Axes,
    start: Point,
    end: Point,
    *,
    width: float = 1.2,
    colour: str = "black",
    zorder: int = 1,
    gap: float = 2.0,
    first_gap: float | None = None,
) -> Annotation:
    """Draw an arrow from start to end, with gaps in points at both ends, below boxes and sums."""
    first = gap if first_gap is None else first_gap
    properties = {"arrowstyle": "-|>", "color": colour, "lw": width, "shrinkA": first, "shrinkB": gap}
    return ax.annotate("", end, start, arrowprops=properties, zorder=zorder)


def plus(ax: Axes, middle: Point, radius: float = 0.2) -> None:
    """Draw an addition: a plus sign in a circle."""
    ax.add_patch(Circle(middle, radius, facecolor="white", edgecolor="black", zorder=3))
    ax.text(*middle, "+", ha="center", va="center", size=8 + 20 * radius, zorder=4)


def cells(
    ax: Axes, corner: Point, size: Point, table: np.ndarray, reach: float = 1.0, **style: object
) -> QuadMesh:
    """Draw the cells of a table with a frame, from its upper left corner; colours go from −reach to reach."""
    rows, columns = table.shape
    across = corner[0] + np.linspace(0, size[0], columns + 1)
    down = corner[1] - np.linspace(0, size[1], rows + 1)
    style = {"cmap": SIGNED, "vmin": -reach, "vmax": reach, "zorder": 2} | style
    mesh = ax.pcolormesh(across, down, table, **style)
    ax.add_patch(Rectangle((across[0], down[-1]), *size, fill=False, linewidth=0.7, zorder=3))
    return mesh


def line(ax: Axes, *points: Point, width: float = 1.4, zorder: int = 2) -> None:
    """Draw a line through the points."""
    ax.plot(*zip(*points, strict=True), color="black", lw=width, zorder=zorder)


def way(ax: Axes, *points: Point, width: float = 1.4, zorder: int = 4) -> None:
    """Draw a line through the points that ends in an arrow."""
    line(ax, *points[:-1], width=width, zorder=zorder)
    arrow(ax, points[-2], points[-1], width=width, zorder=zorder, first_gap=0 if points[2:] else None)


# MiniLM and ModernBERT

FRAME = "#f4f4f4"  # the background of a layer
DASHED = {"linestyle": "--"}
