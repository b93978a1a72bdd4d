"""Draw calculations as on paper: rows of matrices with operators and arrows between them."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from transformer_course.figures.colours import (
    COMPONENTS,
    EDGE,
    GREY,
    HERO,
    HIDDEN,
    LIT,
    NO,
    PALE,
    SILVER,
    pale,
)
from transformer_course.figures.inputs import Labels
from transformer_course.figures.layout import canvas, finished, legend_of_cells, number, two_decimals
from transformer_course.figures.shapes import Point, arrow

# Sizes in inches

CELL, LETTER, BETWEEN = 0.3, 0.075, 0.2  # height of a cell, width of a letter, gap between columns
Piece = str | tuple[Sequence[Sequence[float | str]], Sequence[str]]
COLOURS = {"": "white", "part": NO, "head 0": PALE[0], "head 1": PALE[1], "result": LIT}  # of a cell
WHERE_NOT_ZERO = {"A": COMPONENTS["attention"], "x": SILVER, "target": PALE[0]}  # x is grey, as in drawings
SIGNS = {"above 0": "#f3a98c", "below 0": "#92c5de"}  # as in SIGNED, and paler towards 0
PADDING = "padding: equalises the lengths, not counted"
HATCHED = {PADDING: HIDDEN}
KINDS = {kind: {"facecolor": colour} for kind, colour in (COLOURS | WHERE_NOT_ZERO | SIGNS).items()} | HATCHED
KINDS["ablated"] = {"facecolor": HIDDEN["facecolor"]}
KINDS["gradient"] = {"facecolor": PALE[1], "edgecolor": HERO}  # like the arrow of the gradient


def arithmetic_table(
    rows: Sequence[Sequence[Piece]], names: Labels, *, wide: float = 0.42, title: str, alt: str
) -> Figure:
    """Draw rows of words and tables, aligned in columns with names.

    A table comes with the kind, from `KINDS`, of each of its columns or cells. Some kinds have no colour
    where the value is 0, and a "sign" is one of `SIGNS`. A word in a cell has no frame, except for a "part"
    of the model, which is as wide as its column. `wide` is the width of a cell. Words after → are written
    above an arrow. The arrows ← and ↓, the path of the gradient, are thick, and so are ⇓ and ⇑.
    """
    columns = [*zip(names, *rows, strict=True)]
    widths = [
        BETWEEN + max(1.2 * _wide(name, wide), *(_wide(piece, wide) for piece in column))
        for name, *column in columns
    ]
    sizes = [max(1 if isinstance(piece, str) else len(piece[0]) for piece in row) for row in rows]
    feet = np.cumsum([0.16 + CELL * size for size in sizes])
    tables = [piece for row in rows for piece in row if not isinstance(piece, str)]
    arrays = [(np.array(table, dtype=object), [*kinds]) for table, kinds in tables]
    signed = [values[np.broadcast_to(kinds, values.shape) == "sign"] for values, kinds in arrays]
    reach = max(abs(value) for value in np.concatenate([[1e-9], *signed]) if not isinstance(value, str))
    figure, (ax,) = canvas(1, (sum(widths) + 0.1, feet[-1] + 1.0))
    for row, top, foot in zip([names, *rows], [-0.45, 0, *feet], [0, *feet], strict=False):
        for piece, left, width in zip(row, np.cumsum([0, *widths]), widths, strict=False):
            middle = left + width / 2, (top + foot) / 2
            if isinstance(piece, str):
                _write(ax, piece, middle, width, "bold" if row is names else "normal")
            else:
                _draw_cells(ax, *piece, middle, wide, width - BETWEEN, reach)
    ax.set(xlim=(0, sum(widths)), ylim=(feet[-1], -0.45), aspect="equal")
    ax.set_axis_off()
    used = {kind for _, kinds in tables for kind in np.ravel([*kinds])}
    used |= set(SIGNS) if "sign" in used else set()
    legend_of_cells(figure, {kind: KINDS[kind] for kind in KINDS if kind in used - {"", "part"}})
    return finished(figure, title, alt)


def _wide(piece: Piece, wide: float) -> float:
    if isinstance(piece, str):
        return 0 if piece[:1] in "↓⇓⇑" else LETTER * max(map(len, piece.split("\n")))
    return wide * len(piece[0][0])


def _write(ax: Axes, words: str, middle: Point, width: float, weight: str) -> None:
    style, end = {"ha": "center", "va": "center", "size": 9, "weight": weight}, width / 2 - 0.06
    ways = {"→": (end, 0), "←": (-end, 0), "↓": (0, 0.2), "⇓": (0, 0.2), "⇑": (0, -0.2)}
    if words[:1] in ways:
        way = np.array(ways[words[0]])
        thick = {} if words[0] == "→" else {"width": 2.2, "colour": "black" if words[0] in "⇓⇑" else HERO}
        arrow(ax, middle - way, middle + way, gap=0, **thick)
        middle = middle + np.array([0, -0.06] if way[0] else [0.15, 0])
        style |= {"va": "bottom"} if way[0] else {"ha": "left"}
    ax.text(*middle, words.strip("→←↓⇓⇑ "), **style)


def _draw_cells(
    ax: Axes, table: Sequence, kinds: Labels, middle: Point, wide: float, room: float, reach: float
) -> None:
    values = np.array(table, dtype=object)
    for (row, column), kind in np.ndenumerate(np.broadcast_to([*kinds], values.shape)):
        value, is_word = values[row, column], isinstance(values[row, column], str)
        wide = room if kind == "part" else wide
        left = middle[0] + wide * (column - values.shape[1] / 2)
        top = middle[1] + CELL * (row - len(table) / 2)
        if kind == "part" or not is_word or (kind in HATCHED and value == ""):
            shown = kind if value or kind not in WHERE_NOT_ZERO else ""
            style = KINDS[list(SIGNS)[value < 0] if kind == "sign" else shown]
            if kind == "sign":
                style = {"facecolor": pale(style["facecolor"], 0.1 * bool(value) + 0.9 * abs(value) / reach)}
            ax.add_patch(Rectangle((left, top), wide, CELL, **{"edgecolor": GREY, "linewidth": 0.8} | style))
        edge = EDGE if kind in HATCHED and not is_word else []
        style = {"ha": "center", "va": "center", "size": 9, "path_effects": edge}
        ax.text(left + wide / 2, top + CELL / 2, value if is_word else short_number(value), **style)


def short_number(value: float) -> str:
    """Format a value with two digits, or with two decimals between .1 and 1."""
    return two_decimals(value) if 0.1 <= abs(round(value, 2)) < 1 else number(value, 2)
