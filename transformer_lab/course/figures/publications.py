"""Two encoders of one name: the layer of a paper, and the block of a tutorial, in one drawing."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_lab.course.figures.base import canvas, finished
from transformer_lab.course.figures.boxes import arrow, box, plus

ROAD, SIDE = 1.6, 0.45  # heights: of what carries x, and of what works beside it
X_COLOUR, NORM_COLOUR, JOIN_COLOUR = "#d95f02", "#ffc425", "#bdd7ee"
END = 11.2


@dataclass(frozen=True)
class Plan:
    """A block: its boxes (label, place, height, width, colour), its sums, its lines, and how far x gets."""

    name: str
    boxes: Sequence[tuple[str, float, float, float, str]]
    sums: Sequence[float]
    lines: Sequence[Sequence[tuple[float, float]]]
    x_ends: float


PAPER = Plan(
    "The paper's layer: what is worked out is added to x",
    boxes=(
        ("attention", 2.0, SIDE, 1.3, "white"),
        ("norm", 4.4, ROAD, 0.8, NORM_COLOUR),
        ("feed-\nforward", 7.0, SIDE, 1.3, "white"),
        ("norm", 9.4, ROAD, 0.8, NORM_COLOUR),
    ),
    sums=(3.3, 8.3),
    lines=(
        ((0.8, ROAD), (0.8, SIDE), (3.3, SIDE), (3.3, ROAD - 0.2)),
        ((5.8, ROAD), (5.8, SIDE), (8.3, SIDE), (8.3, ROAD - 0.2)),
    ),
    x_ends=END,
)
TUTORIAL = Plan(
    "The tutorial's block: x is laid beside it, and one matrix chooses",
    boxes=(
        ("norm", 1.5, SIDE, 0.8, NORM_COLOUR),
        ("attention", 3.1, SIDE, 1.3, "white"),
        ("A ‖ x", 4.9, ROAD, 0.9, JOIN_COLOUR),
        ("feed-forward\n2 · d_model wide", 7.1, ROAD, 2.0, "white"),
        ("W", 9.4, ROAD, 0.8, JOIN_COLOUR),
    ),
    sums=(),
    lines=(
        ((0.5, ROAD), (0.5, SIDE), (4.9, SIDE), (4.9, ROAD - 0.3)),
        ((5.35, ROAD), (END, ROAD)),
    ),
    x_ends=4.45,
)


def two_blocks(*, title: str = "") -> Figure:
    """Draw both blocks; the thick line is x, as far as it can be found again behind nothing but norms."""
    figure, axes = canvas(2, 1, (8.6, 4.4))
    for ax, plan in zip(axes.flat, (PAPER, TUTORIAL), strict=True):
        _draw(ax, plan)
    figure.suptitle(title)
    return finished(figure)


def _draw(ax: Axes, plan: Plan) -> None:
    arrow(ax, (0, ROAD), (plan.x_ends, ROAD), width=4, colour=X_COLOUR)
    ax.text(-0.15, ROAD, "x", ha="right", va="center", size=11)
    for points in plan.lines:
        *corners, last = points
        ax.plot(*zip(*corners, strict=True), color="black", lw=1.4, zorder=2)
        arrow(ax, corners[-1], last, width=1.4, zorder=2)
    for place in plan.sums:
        plus(ax, (place, ROAD))
    for label, place, middle, width, colour in plan.boxes:
        box(ax, (place, middle), label, (width, 0.7), colour)
    ax.set(xlim=(-0.6, END + 0.2), ylim=(-0.1, 2.1), aspect="equal")
    ax.set_title(plan.name, loc="left")
    ax.set_axis_off()
