"""The map of the encoder that opens every lesson."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from transformer_lab.course.figures.base import canvas, finished
from transformer_lab.course.lessons import NAMES
from transformer_lab.validation import check_integer

# lesson, label, left, bottom, width, height; a box is drawn over those before it, so outer boxes come first
MAP = (
    (8, "the full encoder", 1.45, -0.1, 11.25, 4.1),
    (0, "token\nids", 0.0, 1.2, 0.95, 1.2),
    (8, "embedding", 1.7, 1.2, 1.35, 1.2),
    (1, "positional\nencoding", 3.4, 1.2, 1.5, 1.2),
    (7, "encoder layer, repeated", 5.25, 0.1, 7.25, 3.4),
    (5, "multi-head attention", 5.65, 0.55, 2.8, 2.45),
    (4, "mask", 5.8, 1.8, 1.0, 0.65),
    (2, "rotary", 6.95, 1.8, 1.35, 0.65),
    (3, "scaled dot-product\nattention", 5.8, 0.75, 2.5, 0.9),
    (7, "add &\nnorm", 8.85, 1.2, 0.9, 1.2),
    (6, "feed-\nforward", 10.15, 1.2, 0.9, 1.2),
    (7, "add &\nnorm", 11.45, 1.2, 0.9, 1.2),
    (0, "vectors\nin context", 13.05, 1.2, 1.2, 1.2),
)
ARROWS = ((0.95, 1.7), (3.05, 3.4), (4.9, 5.65), (8.45, 8.85), (9.75, 10.15), (11.05, 11.45), (12.35, 13.05))
# start, end and height of the detours around a part: what "add" adds to (the residual stream, lesson 07)
DETOURS = ((5.42, 9.3, 0.32), (9.95, 11.9, 0.85))


def encoder_map(lesson: int = 0) -> Figure:
    """Draw the whole encoder with the part of one lesson lit; each part bears the number of its lesson."""
    check_integer(lesson=lesson, at_least=0)
    if lesson not in range(len(NAMES)):
        raise ValueError(f"lesson must be from 0 to {len(NAMES) - 1}, got {lesson}; see the notebooks")
    figure, ((ax,),) = canvas(1, 1, (10.4, 3.2))
    for number, label, left, bottom, width, height in MAP:
        _map_box(ax, number, label, (left, bottom, width, height), lit=lesson > 0 and number == lesson)
    for start, end in ARROWS:
        ax.annotate(
            "", (end, 1.8), (start, 1.8), arrowprops={"arrowstyle": "-|>", "color": "black", "lw": 1.2}
        )
    for start, end, height in DETOURS:
        ax.plot([start, start, end], [1.8, height, height], color="black", lw=1.2)
        ax.annotate(
            "", (end, 1.2), (end, height), arrowprops={"arrowstyle": "-|>", "color": "black", "lw": 1.2}
        )
    ax.set(xlim=(-0.1, 14.35), ylim=(-0.2, 4.1), aspect="equal")
    ax.set_axis_off()
    lit = next((label for number, label, *_ in MAP if lesson and number == lesson), "")
    lit = lit.replace("-\n", "-").replace("\n", " ")
    ax.set_title(
        f"Lesson {lesson:02d} builds the part that is lit: {lit}" if lit else "The encoder, and its lessons"
    )
    return finished(figure)


def _map_box(ax: Axes, number: int, label: str, box: tuple[float, float, float, float], *, lit: bool) -> None:
    left, bottom, width, height = box
    is_outer = height > 2
    ax.add_patch(
        FancyBboxPatch(
            (left, bottom),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=0.12",
            facecolor="#ffc425" if lit else ("#f4f4f4" if is_outer else "white"),
            edgecolor="black" if lit else "#6b6b6b",
            linewidth=2.0 if lit else 1.0,
        )
    )
    is_narrow = width < 1.4 and height > 1  # then its number stands on a line of its own
    gap = "\n" if is_narrow else " "
    text = f"{number:02d}{gap}{label}" if number else label
    height_of_text = bottom + height - 0.25 if is_outer else bottom + height / 2
    ax.text(
        left + width / 2,
        height_of_text,
        text,
        ha="center",
        va="center",
        size=9,
        weight="bold" if lit else "normal",
    )
