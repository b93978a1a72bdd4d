"""Which test notices which bug."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from transformer_lab.figures.base import Matrix, finished, numbers_of
from transformer_lab.figures.heatmaps import draw_matrix

COLOURS = "cividis"


def catch_map(noticed: Matrix, bugs: Sequence[str], tests: Sequence[str], *, title: str = "") -> Figure:
    """Draw a boolean matrix (bug, test), light where the test notices the bug; below, how many each notices.

    Args:
        noticed: one row for each bug, one column for each test.
        bugs: their names, from top to bottom.
        tests: their names, from left to right.
        title: says what to see.
    """
    values = numbers_of(noticed)
    height, longest = 0.3 * len(bugs), max(map(len, bugs))
    size = (0.085 * longest + 0.42 * len(tests) + 1.2, height + 2.2)
    figure, ax = plt.subplots(figsize=size, layout="constrained")
    columns = [f"{name}: {int(count)}" for name, count in zip(tests, values.sum(axis=0), strict=True)]
    draw_matrix(ax, values, bugs, columns, limits=(0, 1), colours=COLOURS, numbers=False)
    ax.set(xlabel="test: how many bugs it notices", ylabel="bug")
    light, dark = plt.get_cmap(COLOURS)(1.0), plt.get_cmap(COLOURS)(0.0)
    patches = [Patch(facecolor=light, label="notices it"), Patch(facecolor=dark, label="does not")]
    figure.legend(handles=patches, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(title)
    return finished(figure)
