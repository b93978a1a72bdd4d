"""What every kind of figure needs."""

from collections.abc import Iterable, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

MARK = "#d95f02"  # what the reader should look at: seen on every colour of viridis

Matrix = Tensor | np.ndarray | Sequence[Sequence[float]]


def numbers_of(values: Matrix | Sequence[float]) -> np.ndarray:
    """As NumPy numbers, without gradients, on the CPU."""
    if isinstance(values, Tensor):
        return values.detach().cpu().double().numpy()
    return np.asarray(values, dtype=float)


def finished(figure: Figure) -> Figure:
    """Close the figure, or the notebook would show it a second time."""
    plt.close(figure)
    return figure


def frame_cells(ax: Axes, cells: Iterable[tuple[int, int]], *, linewidth: float = 2.5) -> None:
    """Draw a frame around cells (row, column) of a heatmap."""
    for row, column in cells:
        ax.add_patch(
            Rectangle((int(column), int(row)), 1, 1, fill=False, edgecolor=MARK, linewidth=linewidth)
        )
