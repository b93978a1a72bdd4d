"""Drawings of lesson 01: binary digits and waves, clocks, tables of positions."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from transformer_course.figures import inputs, layout
from transformer_course.figures.colours import COMPONENTS, GREY, HERO, LINES, LIT, SIGNED
from transformer_course.figures.heatmaps import draw_matrix, lay_tables, mark_distance
from transformer_course.figures.inputs import Labels, Limits, Matrix, Tables
from transformer_course.figures.layout import canvas, finished, number, two_decimals
from transformer_course.figures.shapes import arrow

UNIT, WIDE, RADIUS = 0.68, 1.9, 0.46  # inches per row; a dial with its angle, its radius, in rows
SINE, COSINE = LINES[3], LINES[4]  # the vertical and the horizontal coordinate of a hand


def digits_and_waves(count: int, highlight: tuple[int, int], *, title: str) -> Figure:
    """Draw the last `count` binary digits of each position with matching waves, two of them highlighted."""
    positions = np.arange(2**count)
    figure, panels = canvas(count, (9.2, 0.95), (0, 0.9), columns=1, sharex=True)
    for row, ax in enumerate(panels):
        period = 2 ** (count - row)
        digits = positions // (period // 2) % 2
        ax.bar(positions, digits, width=1, color=COMPONENTS["positions"], edgecolor="none")
        fine = np.linspace(-0.5, positions[-1] + 0.5, 400)
        wave, heights = (
            0.5 - 0.5 * np.sin(2 * np.pi * (x + 0.5) / period) for x in (fine, np.array(highlight))
        )
        ax.plot(fine, wave, color=HERO, linewidth=2)
        ax.axvspan(highlight[0] - 0.5, highlight[1] + 0.5, color=LIT, zorder=0)
        ax.plot(highlight, heights, "o", color="black", markersize=6)
        for position, digit in zip(positions, digits, strict=True):
            ax.text(
                position, 1.22, digit, ha="center", size=9, weight="bold" if position in highlight else None
            )
        for place, words in ((17.2, map(str, digits[list(highlight)])), (19.5, map(two_decimals, heights))):
            ax.text(place, 0.5, " → ".join(words), ha="center", va="center", size=11)
        ax.set(ylim=(-0.1, 1.75), yticks=[], xlim=(-0.6, 20.6))
        ax.set_ylabel(f"{period // 2}s digit", rotation=0, ha="right", va="center")
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
    for place, words in (
        (np.mean(highlight), f"{highlight[0]} → {highlight[1]}"),
        (17.2, "digit"),
        (19.5, "wave"),
    ):
        panels[0].text(place, 1.9, words, ha="center", va="bottom", size=10)
    panels[-1].set(xticks=positions, xlabel="position")
    alt = "A row for each binary digit, filled where the digit is 1, with a wave that is high there."
    return finished(figure, title, alt)


def clock_table(positions: Sequence[int], speeds: Sequence[float], *, title: str) -> Figure:
    """Draw each clock's hand at each position, and next to it the table of the coordinates of its tip."""
    angles = np.outer(positions, speeds)
    length, count = angles.shape
    tips = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    size = UNIT * (WIDE + 2) * count + 1.6, UNIT * length + 1.5
    figure, (dials, cells) = canvas(2, (0, 0), size, width_ratios=(WIDE, 2))
    for (row, clock), angle in np.ndenumerate(angles):
        x, y = WIDE * (clock + 0.62), row + 0.5
        up, across = y - RADIUS * tips[row, clock, 0], x + RADIUS * tips[row, clock, 1]
        rim = dials.add_patch(Circle((x, y), RADIUS, facecolor="white", edgecolor=GREY))
        for ends, colour in (((x, across), (y, y)), COSINE), (((across, across), (y, up)), SINE):
            dials.plot(*ends, color=colour, linewidth=4, solid_capstyle="butt")[0].set_clip_path(rim)
        arrow(dials, (x, y), (across, up), width=1.5, zorder=3, gap=0)
        dials.text(x - 0.6, y, number(angle), ha="right", va="center")
    dials.set_yticks(np.arange(length) + 0.5, [f"pos {position}" for position in positions])
    labels = [f"clock {clock}:\n{number(speed)} per position" for clock, speed in enumerate(speeds)]
    dials.set_xticks(WIDE * (np.arange(count) + 0.55), labels)
    dials.set(
        xlim=(0, WIDE * count), ylim=(length, 0), aspect="equal", title="angle (radians, anticlockwise)"
    )
    dials.spines[:].set_visible(False)
    names = [f"clock {i}\n{way}" for i in range(count) for way in ("sin", "cos")]
    style = {"title": "the table", "limits": (-1, 1), "colours": SIGNED}
    draw_matrix(cells, tips.reshape(length, -1), [""] * length, names, **style)
    for ax in (dials, cells):
        ax.tick_params(length=0, labeltop=True, labelbottom=False, rotation=0)
    for row in 1 + np.flatnonzero(np.diff(positions) > 1):  # a dotted line where positions are skipped
        dials.axhline(row, color=GREY, linestyle=":")
        cells.axhline(row, color="white", linewidth=8)
    for label in cells.get_xticklabels():
        label.set(color=SINE if "sin" in label.get_text() else COSINE, weight="bold")
    return finished(figure, title, "Dials; next to them, as values, how high and how far right each hand is.")


def matrices(
    named: Tables,
    rows: Labels,
    columns: Labels,
    *,
    limits: Limits,
    xlabel: str = "",
    signs: str = "",
    boxed: Sequence[int] = (),
    title: str = "",
) -> Figure:
    """Draw small matrices with shared labels next to each other, on one scale, with their values.

    `signs` are written before all matrices but the first; rows in `boxed` have frames.
    """
    unit = min(0.52, (layout.WIDEST / len(named) - 0.75) / len(columns))
    figure, panels = layout.canvas(len(named), (0.75 + unit * len(columns), 0), (0, 1.25 + unit * len(rows)))
    style = {"limits": limits, "colours": SIGNED, "labels": (xlabel, "")}
    style["boxed"] = [(row, 0, len(columns), 1) for row in boxed]
    for ax, (name, table) in zip(panels, inputs.tables_of(named).items(), strict=True):
        draw_matrix(ax, table, rows, columns, title=name, numbers=True, whole=False, **style)
        ax.tick_params(labelleft=ax is panels[0])  # all panels have the labels of the first
        ax.tick_params(axis="x", rotation=0)  # cells are wide enough
    for ax, sign in zip(panels[1:], signs, strict=False):
        layout.sign_before(ax, sign)
    return layout.finished(figure, title, "Small matrices next to each other, each cell with its value.")


def sinusoidal_table(table: Matrix, clocks: Mapping[str, float], edge: float, *, title: str) -> Figure:
    """Draw the sinusoidal table (position, feature), with the `clocks` named above their columns.

    From the dashed line at column `edge` on, a clock turns by less than a quarter within the whole table.
    """
    across = "feature: sine and cosine of each clock, from the fastest to the slowest"
    figure, (ax,), _ = lay_tables({"": table}, (across, "position"), "value")
    ax.axvline(edge + 0.5, color="black", linewidth=1.8, linestyle="--")
    ax.secondary_xaxis("top").set_xticks([column + 0.5 for column in clocks.values()], clocks)
    alt = f"A row for each position, a column for each {across}; one scale, zero in its middle."
    return layout.finished(figure, title, alt)


def position_cosines(named: Tables, distance: int, *, title: str) -> Figure:
    """Draw the cosine similarity of all pairs of positions (position, position), marking one distance.

    Row 0 is not counted, because the first position of a model belongs to [CLS].
    """
    figure, panels, tables = lay_tables(named, ("position", "position"), "cosine")
    for ax, table in zip(panels, tables.values(), strict=True):
        mark_distance(ax, table, distance, first=1)
    alt = "A row for each position, a column for each position; one scale, zero in its middle."
    return layout.finished(figure, title, alt)
