"""Of positions: the digits of a number, and the waves that take their place."""

import numpy as np
from matplotlib.figure import Figure

from transformer_course.figures.layout import COMPONENTS, HERO, canvas, finished


def digits_and_waves(count: int, *, title: str) -> Figure:
    """Draw the last `count` binary digits of each position, and on each a wave that goes the same way."""
    positions = np.arange(2**count)
    figure, panels = canvas(count, (8.4, 0.95), (0, 0.6), columns=1, sharex=True)
    for row, ax in enumerate(panels):
        period = 2 ** (count - row)
        digits = positions // (period // 2) % 2
        ax.bar(positions, digits, width=1, color=COMPONENTS["positions"], edgecolor="none")
        fine = np.linspace(-0.5, positions[-1] + 0.5, 400)
        ax.plot(fine, 0.5 - 0.5 * np.sin(2 * np.pi * (fine + 0.5) / period), color=HERO, linewidth=2)
        for position, digit in zip(positions, digits, strict=True):
            ax.text(position, 1.22, digit, ha="center", size=9)
        ax.set(ylim=(-0.1, 1.75), yticks=[])
        ax.set_ylabel(f"{period // 2}s", rotation=0, ha="right", va="center")
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
    panels[-1].set_xticks(positions)
    panels[-1].set_xlabel("position")
    see = "A row for each binary digit, slowest above: filled where it is 1, and there its wave is high."
    return finished(figure, title, see)
