"""A step of training, number by number: there, back with the gradient, and there again."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from transformer_course.figures import given
from transformer_course.figures.attention import draw_grid
from transformer_course.figures.colours import HERO, PALE
from transformer_course.figures.drawings import arrow
from transformer_course.figures.given import Matrix
from transformer_course.figures.layout import WIDEST, canvas, finished, legend_of_cells, number, two_decimals

TALL, WIDE = 4.1, 1.3  # from row to row; a cell
LEFT = {"x": 1.4, "W": 5.0, "logits": 10.6, "probabilities": 14.6, "loss": 19.4}
BACK = {"clipped": 5.0, "gradient for W": 10.0, "gradient for the logits": 14.6}
LOOKS = {"above 0": PALE[0], "below 0": PALE[1], "share": PALE[2], "thick: the gradient's way": HERO}


def one_step(
    weights: Matrix, x: Sequence[float], right: int, *, rate: float, allowed: float, title: str
) -> Figure:
    """Draw a step of gradient descent, each number of it: for weights (class, feature), one input x (2,).

    Two classes, of which the one `right` is; the gradient is cut to the length `allowed`.
    """
    weights, x = given.numbers_of(weights, 2), given.numbers_of(x, 1)
    before, truth = _answer(weights, x, right), np.arange(len(weights)) == right
    for_logits = before["probabilities"] - truth[:, None]
    for_weights = for_logits * x
    shorter = max(1.0, np.linalg.norm(for_weights) / allowed)
    clipped = for_weights / shorter
    after = _answer(weights - rate * clipped, x, right)
    figure, (ax,) = canvas(1, (WIDEST, 5.0))
    back = dict(zip(BACK, (clipped, for_weights, for_logits), strict=True))
    for row, (what, tables) in enumerate({"answer": before, "gradient": back, "answer again": after}.items()):
        look = {"rotation": 90, "ha": "center", "va": "center", "size": 9.5, "weight": "bold"}
        ax.text(-0.5, TALL * row + 1, what, **look)
        for name, table in tables.items():
            words = f"new {name}" if row == 2 and name != "x" else name
            top = TALL * row + (right if name == "loss" else 0)
            _draw_table(ax, ((LEFT | BACK)[name], top), table, words)
    for height in (1, 2 * TALL + 1):
        for start, end, words in ((2.8, 4.9, "W times x"), (7.7, 10.5, ""), (12.0, 14.5, "softmax")):
            _way(ax, (start, height), (end, height), words)
        level = height - 0.5 + right
        _way(ax, (16.0, level), (19.3, level), "")
        ax.text(17.6, level + 0.15, "−log of the\nright class's", ha="center", va="top", size=8.5)
    minus = f"probabilities\nminus truth ({', '.join(f'{each:d}' for each in truth)})"
    ax.plot([20.05, 20.05], [right + 1.1, TALL + 1], color=HERO, linewidth=2)
    _way(ax, (20.05, TALL + 1), (16.0, TALL + 1), minus, gradient=True)
    _way(ax, (14.5, TALL + 1), (12.7, TALL + 1), "times x", gradient=True)
    clip = f"÷ {number(shorter)}, to\nlength {number(allowed)}" if shorter > 1 else "short\nenough"
    _way(ax, (9.9, TALL + 1), (7.7, TALL + 1), clip, gradient=True)
    step = f"step: W − learning rate {number(rate)} × clipped"
    _way(ax, (6.3, TALL + 2.1), (6.3, 2 * TALL - 0.8), step, gradient=True)
    _way(ax, (20.05, 2 * TALL + right + 1.1), (20.05, 2 * TALL + right + 1.9), "", gradient=True)
    ax.text(20.05, 2 * TALL + right + 2, "again, for\nevery batch", ha="center", va="top", size=9)
    ax.set(xlim=(-1, 21.8), ylim=(2 * TALL + right + 2.9, -0.9))
    ax.set_axis_off()
    legend_of_cells(figure, {word: {"facecolor": colour} for word, colour in LOOKS.items()})
    see = "From above: from x to the loss; back to W, which moves against its gradient; from x again."
    return finished(figure, title, see)


def _answer(weights: np.ndarray, x: np.ndarray, right: int) -> dict[str, np.ndarray]:
    logits = (weights @ x)[:, None]
    grown = np.exp(logits - logits.max())
    shares = grown / grown.sum()
    return dict(zip(LEFT, (x[:, None], weights, logits, shares, -np.log(shares[[right]])), strict=True))


def _draw_table(ax: Axes, corner: tuple[float, float], table: np.ndarray, name: str) -> None:
    """Draw a table with its name above; a cell is filled by its sign, a probability's as far as it goes."""
    left, top = corner
    shares = name.endswith("probabilities")
    for (row, column), value in np.ndenumerate(table):
        colour = LOOKS["share" if shares else "above 0" if value > 0 else "below 0"]
        width = WIDE * (value if shares else abs(np.sign(value)))
        if value:
            ax.add_patch(Rectangle((left + WIDE * column, top + row), width, 1, facecolor=colour, zorder=1))
    draw_grid(ax, left, top, table, two_decimals if shares or "loss" in name else _written, WIDE)
    look = {"ha": "center", "va": "bottom", "size": 9, "weight": "bold"}
    ax.text(left + WIDE * table.shape[1] / 2, top - 0.15, name, **look)


def _written(value: float) -> str:
    return number(value, 2)


def _way(
    ax: Axes, start: tuple[float, float], end: tuple[float, float], words: str, gradient: bool = False
) -> None:
    """Draw an arrow with its words above, or beside it if it goes down; a thick one carries the gradient."""
    arrow(ax, start, end, width=2 if gradient else 1.2, colour=HERO if gradient else "black", gap=0)
    down = start[0] == end[0]
    place = (
        start[0] + 0.3 if down else (start[0] + end[0]) / 2,
        (start[1] + end[1]) / 2 - (0 if down else 0.15),
    )
    ax.text(*place, words, ha="left" if down else "center", va="center" if down else "bottom", size=8.5)
