"""What drawings of encoders are made of: boxes with a label, arrows, sums, and the road that carries x."""

from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyBboxPatch

Point = tuple[float, float]


def box(ax: Axes, middle: Point, label: str, size: Point, colour: str = "white", *, letters: int = 9) -> None:
    """Draw a box of (width, height) around its middle."""
    width, height = size
    ax.add_patch(
        FancyBboxPatch(
            (middle[0] - width / 2, middle[1] - height / 2),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=0.1",
            facecolor=colour,
            edgecolor="black",
            zorder=3,
        )
    )
    ax.text(*middle, label, ha="center", va="center", size=letters, zorder=4)


def arrow(
    ax: Axes, start: Point, end: Point, *, width: float = 1.2, colour: str = "black", zorder: int = 1
) -> None:
    """Draw an arrow from start to end, below boxes and sums."""
    style = {"arrowstyle": "-|>", "color": colour, "lw": width}
    ax.annotate("", end, start, arrowprops=style, zorder=zorder)


def plus(ax: Axes, middle: Point) -> None:
    """Draw a sum: a plus in a circle."""
    ax.add_patch(Circle(middle, 0.2, facecolor="white", edgecolor="black", zorder=3))
    ax.text(*middle, "+", ha="center", va="center", size=12, zorder=4)
