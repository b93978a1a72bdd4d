"""Bar plots: each row has a bar with its value."""

from collections.abc import Sequence
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_course.figures import inputs
from transformer_course.figures.colours import COMPONENTS, GREY, HERO, MARK, SILVER
from transformer_course.figures.inputs import Labels, Tables
from transformer_course.figures.layout import (
    WIDEST,
    canvas,
    finished,
    legend_of_cells,
    sign_before,
    two_decimals,
)

# Bars in columns


def bar_plot(
    quantities: Sequence[Tables],
    rows: Labels,
    signs: str = "",
    *,
    title: str,
    alt: str = "",
    highlight: Sequence[Labels] = (),
    legend: Labels = (),
    paired: bool = False,
) -> Figure:
    """Draw columns of bars, each bar with its value; columns of one quantity share a scale.

    With `paired`, the first columns of all quantities are next to each other, then the second ones. The
    strong colour marks the last quantity, or in each column the rows in `highlight`, which the `legend`
    explains; 0.00 is not written there. `signs` are written between the columns.
    """
    columns = [(quantity, *column) for quantity, named in enumerate(quantities) for column in named.items()]
    count = len(quantities[0])
    columns = [column for first in range(count) for column in columns[first::count]] if paired else columns
    size = min(2.6, (WIDEST - 0.9) / len(columns)), 0
    figure, panels = canvas(len(columns), size, (0.9, 0.7 + 0.24 * len(rows)), sharey=True)
    for place, (ax, (quantity, name, lengths)) in enumerate(zip(panels, columns, strict=True)):
        sign = f" {signs}".ljust(len(columns))[place]
        colours = [MARK if quantity == len(quantities) - 1 else COMPONENTS["attention"]]
        if highlight:
            colours = [MARK if row in highlight[place] else SILVER for row in rows]
        # a factor is not written as 0.00
        digits = 3 if sign in " ×" and signs and 0 < min(lengths) < 0.005 else 2
        numbers = inputs.numbers_of(lengths, 1, name=name, gaps=True)
        draw_bars(ax, rows, numbers, colours, sign.strip(), digits)
        ax.spines["left"].set_visible(bool(highlight))
        for text, row in zip(ax.texts, rows, strict=False) if highlight else ():
            is_highlighted = row in highlight[place]
            if text.get_text() == "0.00":
                text.set_text("< 0.01" if legend[1:] else "")
            text.set(color=HERO if is_highlighted else GREY, weight="bold" if is_highlighted else "normal")
        if len(quantities[quantity]) > 1:
            ax.set_xlim(0, 1.3 * max(map(max, quantities[quantity].values())))
        ax.set_title(name)
    if legend:
        kinds = [{"edgecolor": "black", "facecolor": colour} for colour in (MARK, SILVER)]
        legend_of_cells(figure, dict(zip(legend, kinds, strict=False)))
    return finished(figure, title, alt or "A row of bars for each name, a column for each measure.")


def draw_bars(
    ax: Axes, names: Labels, lengths: np.ndarray, colours: Labels, sign: str, digits: int = 2
) -> None:
    """Draw a bar with its value for each name, the first on top, none for nan; `sign` precedes the panel."""
    import seaborn

    places = np.arange(len(names))  # by index, because names may repeat
    style = {"width": 0.7, "edgecolor": "black", "linewidth": 0.5, "saturation": 1}
    seaborn.barplot(x=lengths, y=places, order=places, orient="h", errorbar=None, ax=ax, **style)
    for bar, colour in zip(ax.containers[0], cycle(colours), strict=False):
        bar.set_facecolor(colour)
    numbers = [two_decimals(length, digits) for length in lengths[~np.isnan(lengths)]]
    ax.bar_label(ax.containers[0], numbers, padding=3, size=9)
    ax.set_yticks(places, names)
    ax.set(xticks=[], xlabel="", ylim=(len(names) - 0.5, -0.5))
    ax.margins(x=0.2)
    ax.spines[["bottom", "left"]].set_visible(False)
    ax.tick_params(length=0)
    sign_before(ax, sign, 2 / 3)  # between the first two of three rows
