"""Which test notices which bug."""

from collections.abc import Sequence

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from transformer_lab.course.figures.base import Matrix, canvas, check_boolean, check_labels, finished
from transformer_lab.course.figures.heatmaps import draw_matrix

COLOURS = "cividis"


def catch_map(noticed: Matrix, bugs: Sequence[str], tests: Sequence[str], *, title: str = "") -> Figure:
    """Draw a boolean matrix (bug, test), light where the test notices the bug; below, how many each notices.

    Args:
        noticed: one row for each bug, one column for each test.
        bugs: their names, from top to bottom.
        tests: their names, from left to right.
        title: says what to see.
    """
    check_labels("bugs", bugs)
    values = check_boolean("noticed", noticed)
    check_labels("tests", tests, values.shape[1])
    height, longest = 0.3 * len(bugs), max(map(len, bugs))
    size = (0.085 * longest + 0.42 * len(tests) + 1.2, height + 2.2)
    figure, ((ax,),) = canvas(1, 1, size)
    columns = [f"{name}: {int(count)}" for name, count in zip(tests, values.sum(axis=0), strict=True)]
    draw_matrix(ax, values, bugs, columns, limits=(0, 1), colours=COLOURS, numbers=False)
    ax.set(xlabel="test: how many bugs it notices", ylabel="bug")
    light, dark = (matplotlib.colormaps[COLOURS](end) for end in (1.0, 0.0))
    patches = [Patch(facecolor=light, label="notices it"), Patch(facecolor=dark, label="does not")]
    figure.legend(handles=patches, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(title)
    return finished(figure)
