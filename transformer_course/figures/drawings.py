"""Drawings: boxes on the road that carries x, and heads that share keys."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch

from transformer_course.figures.colours import COMPONENTS, DARK, GREY, LIT, PALE
from transformer_course.figures.given import Labels
from transformer_course.figures.layout import canvas, finished

Point = tuple[float, float]


# What drawings are made of


def box(
    ax: Axes,
    middle: Point,
    label: str,
    size: Point,
    colour: str = "white",
    *,
    letters: float = 9,
    weight: str = "normal",
    label_up: float = 0.0,
    rounding: float = 0.1,
    **edge: object,
) -> None:
    """Draw a box of (width, height) around its middle, with its label there, or so much further up."""
    corner = middle[0] - size[0] / 2, middle[1] - size[1] / 2
    look = {"edgecolor": "black", "boxstyle": f"round,pad=0,rounding_size={rounding}"} | edge
    ax.add_patch(FancyBboxPatch(corner, *size, facecolor=colour, zorder=3, **look))
    place = middle[0], middle[1] + label_up
    ax.text(*place, label, ha="center", va="center", size=letters, weight=weight, zorder=4)


def arrow(
    ax: Axes,
    start: Point,
    end: Point,
    *,
    width: float = 1.2,
    colour: str = "black",
    zorder: int = 1,
    gap: float = 2.0,
) -> None:
    """Draw an arrow from start to end but for a gap, in points; below boxes and sums."""
    style = {"arrowstyle": "-|>", "color": colour, "lw": width, "shrinkA": gap, "shrinkB": gap}
    ax.annotate("", end, start, arrowprops=style, zorder=zorder)


def plus(ax: Axes, middle: Point) -> None:
    """Draw a sum: a plus in a circle."""
    ax.add_patch(Circle(middle, 0.2, facecolor="white", edgecolor="black", zorder=3))
    ax.text(*middle, "+", ha="center", va="center", size=12, zorder=4)


def line(ax: Axes, *points: Point, width: float = 1.4, zorder: int = 2) -> None:
    """Draw a line through the points."""
    ax.plot(*zip(*points, strict=True), color="black", lw=width, zorder=zorder)


def way(ax: Axes, *points: Point, width: float = 1.4, zorder: int = 2) -> None:
    """Draw a line through the points, its last piece an arrow."""
    line(ax, *points[:-1], width=width, zorder=zorder)
    arrow(ax, points[-2], points[-1], width=width, zorder=zorder)


# The road through a layer, and what stands on it and beside it

ROAD, SIDE = 1.6, 0.45  # heights
ON_SUM = ROAD - 0.2  # where an arrow from below meets a sum


def _norm_or_sublayer(label: str, place: float, height: float = SIDE) -> tuple:
    size = (0.8, 0.6) if label == "norm" else (1.3, 0.75)
    return box, (place, height), label, size, COMPONENTS[label.replace("-\n", "-")]


def _added(start: float, end: float, *parts: tuple) -> list[tuple]:
    """The pieces where the road is read at `start`, and what the parts make of it is added at `end`."""
    read = line, (start, ROAD), (start, SIDE)
    return [read, *parts, (way, (start, SIDE), (end, SIDE), (end, ON_SUM)), (plus, (end, ROAD))]


POST_NORM = [
    *_added(0.8, 3.2, _norm_or_sublayer("attention", 2.0)),
    _norm_or_sublayer("norm", 4.3, ROAD),
    *_added(5.6, 8.0, _norm_or_sublayer("feed-\nforward", 6.8)),
    _norm_or_sublayer("norm", 9.1, ROAD),
]
PRE_NORM = [
    *_added(0.8, 4.4, _norm_or_sublayer("norm", 1.5), _norm_or_sublayer("attention", 3.0)),
    *_added(5.6, 9.2, _norm_or_sublayer("norm", 6.3), _norm_or_sublayer("feed-\nforward", 7.8)),
]
PAPER_END, TUTORIAL_END = 11.2, 4.45  # how far x gets
JOIN = LIT  # what lays two vectors beside each other, and chooses among them
TUTORIAL = [
    (way, (0.5, ROAD), (0.5, SIDE), (4.9, SIDE), (4.9, ROAD - 0.3)),
    (way, (5.35, ROAD), (PAPER_END, ROAD)),
    _norm_or_sublayer("norm", 1.5),
    _norm_or_sublayer("attention", 3.1),
    (box, (4.9, ROAD), "A ‖ x", (0.9, 0.7), JOIN),
    (box, (7.1, ROAD), "feed-forward\n2 · d_model wide", (2.0, 0.7), COMPONENTS["feed-forward"]),
    (box, (9.4, ROAD), "W", (0.8, 0.7), JOIN),
]


def _draw_road(ax: Axes, name: str, pieces: Sequence[tuple], end: float, *, x_at: float) -> None:
    """Draw the thick road from 0 to its end, and the pieces: what draws each, and where."""
    arrow(ax, (0, ROAD), (end, ROAD), width=4, colour=DARK)
    ax.text(x_at, ROAD, "x", ha="right", va="center", size=11)
    for draw, *where in pieces:
        draw(ax, *where)
    ax.set_title(name, loc="left")
    ax.set_axis_off()


def norm_orders(*, title: str = "") -> Figure:
    """Draw both orders of a layer: the road through it, what reads from it, and where the norms stand."""
    figure, (post, pre) = canvas(2, (8.6, 2.2), columns=1)
    _draw_road(post, "Post-norm: the norms stand on the road", POST_NORM, 10.6, x_at=-0.1)
    _draw_road(pre, "Pre-norm: the norms stand beside the road", PRE_NORM, 10.6, x_at=-0.1)
    for ax in (post, pre):
        ax.set(xlim=(-0.5, 10.8), ylim=(-0.15, 2.1), aspect="equal")
    see = (
        "The thick road carries x. Post-norm: norms stand on the road. Pre-norm: they stand "
        "beside it, before each part."
    )
    return finished(figure, title, see)


def two_blocks(*, title: str = "") -> Figure:
    """Draw the layer of a paper above the block of a tutorial, two encoders of one name.

    The thick line is x, as far as it can be found again behind nothing but norms.
    """
    figure, (paper, tutorial) = canvas(2, (8.6, 2.2), columns=1)
    _draw_road(paper, "The paper's layer: what is worked out is added to x", POST_NORM, PAPER_END, x_at=-0.15)
    name = "The tutorial's block: x is laid beside it, and one matrix chooses"
    _draw_road(tutorial, name, TUTORIAL, TUTORIAL_END, x_at=-0.15)
    for ax in (paper, tutorial):
        ax.set(xlim=(-0.6, PAPER_END + 0.2), ylim=(-0.1, 2.1), aspect="equal")
    see = "The thick line is x. Above, results are added to it; below, it ends where both lie side by side."
    return finished(figure, title, see)


# An encoder as a row of parts. A road leaves at READ and comes back at the next ADD; a layer is framed.
READ, ADD, BEGIN, END, GONE = "read", "add", "begin", "end", "(gone)"
ENCODERS = {
    "2017": (
        "embedding", f"× √d_model\n{GONE}", f"add sinusoids\n{GONE}", BEGIN,
        READ, "attention\n8 query heads\n8 key heads", ADD, f"LayerNorm\n{GONE}",
        READ, "feed-forward\nReLU", ADD, f"LayerNorm\n{GONE}", END,
    ),
    "today": (
        "embedding", BEGIN,
        READ, "RMSNorm", "rotary attention\n8 query heads\n2 key heads", ADD,
        READ, "RMSNorm", "feed-forward\nSwiGLU", ADD, END, "RMSNorm\nat the end",
    ),
}  # fmt: skip
WIDTHS = {READ: 0.35, ADD: 0.75, BEGIN: 0.25, END: 0.25}  # of a part 2.0
FRAME, FRAME_ENDS = "#f4f4f4", (-1.2, 1.15)  # of a layer; below and above it


def then_and_now(*, title: str) -> Figure:
    """Draw the encoder of 2017 above one of today: what is gone is dashed, what came has a colour."""
    figure, panels = canvas(2, (9.6, 1.95), columns=1)
    for ax, (name, steps) in zip(panels, ENCODERS.items(), strict=True):
        _draw_steps(ax, steps, came=steps[1:] if name == "today" else ())
        ax.set_title(name, loc="left")
    see = "Two rows of boxes, an encoder each; dashed boxes are gone today, filled ones are new."
    return finished(figure, title, see)


def _draw_steps(ax: Axes, steps: Labels, came: Labels) -> None:
    place, start, begin = 0.0, 0.0, 0.0
    for step in steps:
        width = WIDTHS.get(step, 2.0)
        middle = place + width / 2
        if step in (READ, BEGIN, END):  # nothing but road
            line(ax, (place - 0.12, 0), (place + width, 0), width=1.2, zorder=0)
        else:
            arrow(ax, (place - 0.12, 0), (place + 0.2, 0))
        if step == BEGIN:
            begin = middle
        elif step == END:
            _draw_frame(ax, begin, middle)
        elif step == READ:
            start = middle
        elif step == ADD:
            way(ax, (start, 0), (start, -0.95), (middle, -0.95), (middle, -0.2), width=1.2, zorder=0)
            plus(ax, (middle, 0))
        else:
            colour = _part_colour(step) if step in came else "white"
            edge = {"linestyle": "--"} if GONE in step else {}
            box(ax, (middle, 0), step, (width - 0.3, 1.2), colour, letters=7.5, **edge)
        place += width
    arrow(ax, (place - 0.12, 0), (place + 0.25, 0))
    ax.set(xlim=(-0.3, 17.2), ylim=(FRAME_ENDS[0] - 0.1, FRAME_ENDS[1] + 0.1), aspect="equal")
    ax.set_axis_off()


def _draw_frame(ax: Axes, left: float, right: float) -> None:
    """Frame a layer, behind everything."""
    low, high = FRAME_ENDS
    look = {"facecolor": FRAME, "edgecolor": "black", "linewidth": 0.8, "zorder": -1}
    ax.add_patch(FancyBboxPatch((left, low), right - left, high - low, boxstyle="round,pad=0", **look))
    ax.text(left + 0.15, high - 0.1, "layer, repeated", va="top", size=8)


def _part_colour(label: str) -> str:
    """The colour of the component that a label names, whatever its kind: LayerNorm, RMSNorm."""
    return next(colour for name, colour in COMPONENTS.items() if name in label.lower())


# The whole encoder: the road through it, and the parts beside it, as a post-norm layer has them

# lesson, label, component, left, bottom, width, height; outer boxes first, the others are drawn over them
MAP = (
    (8, "the full encoder", "", 1.4, -0.75, 11.9, 4.75),
    (0, "token\nids", "", 0.0, 1.9, 0.95, 1.2),
    (8, "embedding", "embedding", 1.65, 1.9, 1.3, 1.2),
    (1, "positional\nencoding", "positions", 3.3, 1.9, 1.45, 1.2),
    (7, "encoder layer, repeated", "", 5.05, -0.55, 8.0, 4.0),
    (5, "multi-head attention", "attention", 5.75, -0.35, 2.7, 2.0),
    (4, "mask", "attention", 5.88, 0.5, 1.0, 0.6),
    (2, "rotary", "positions", 7.0, 0.5, 1.32, 0.6),
    (3, "scaled dot-product\nattention", "attention", 5.88, -0.25, 2.44, 0.68),
    (7, "norm", "norm", 9.2, 2.05, 0.8, 0.9),
    (6, "feed-\nforward", "feed-forward", 10.55, 0.1, 0.95, 1.2),
    (7, "norm", "norm", 12.1, 2.05, 0.8, 0.9),
    (0, "vectors\nin context", "", 13.6, 1.9, 1.2, 1.2),
)
# What a lesson does that builds no box, and to which components, by the lessons that built them
LATER = {13: ("speeds up what is lit, where nearly all the work is done", (5, 6))}
ON_ROAD = 2.5  # the height of the road
TO_ROAD = ((0.95, 1.65), (2.95, 3.3))  # arrows before it begins
ROAD_BETWEEN = ((4.75, 9.2), (10.0, 12.1))  # the positions and the first norm, the two norms
# Where a part is read from the road and added to it, its own left and right end, and how high it is entered
BESIDE = ((5.4, 8.8, 5.75, 8.45, 0.95), (10.25, 11.75, 10.55, 11.5, 0.7))


def encoder_map(lesson: int = 0) -> Figure:
    """Draw the whole encoder and light what one lesson builds, or changes; a part bears its lesson's number.

    A lit component has its colour, a group of them is pale yellow.
    """
    does, changed = LATER.get(lesson, ("", ()))
    figure, (ax,) = canvas(1, (9.8, 3.5))
    for number, label, component, left, bottom, *size in MAP:
        is_lit = (number in changed and component != "") or 0 < lesson == number
        _map_box(ax, number, label, component, (left, bottom), size, is_lit=is_lit)
    for start, end in TO_ROAD:
        arrow(ax, (start, ON_ROAD), (end, ON_ROAD), zorder=4)
    for start, end in ROAD_BETWEEN:
        line(ax, (start, ON_ROAD), (end, ON_ROAD), width=4, zorder=3)
    arrow(ax, (12.9, ON_ROAD), (13.6, ON_ROAD), width=4, zorder=3)
    ax.text(4.92, ON_ROAD + 0.18, "x", ha="center", size=10, zorder=5)
    for read, added, left, right, height in BESIDE:
        way(ax, (read, ON_ROAD), (read, height), (left, height), zorder=4)
        way(ax, (right, height), (added, height), (added, ON_ROAD - 0.2), zorder=4)
        plus(ax, (added, ON_ROAD))
    ax.set(xlim=(-0.1, 14.9), ylim=(-0.85, 4.1), aspect="equal")
    ax.set_axis_off()
    built = next((label for number, label, *_ in MAP if lesson and number == lesson), "")
    if built:
        does = "builds the part that is lit: " + built.replace("-\n", "-").replace("\n", " ")
    title = f"Lesson {lesson:02d} {does}" if does else "The encoder, and its lessons"
    see = (
        "The thick road carries x, one vector for each token; each part reads it, and adds what it has found."
    )
    return finished(figure, title, see)


def _map_box(
    ax: Axes, number: int, label: str, component: str, corner: Point, size: Point, *, is_lit: bool
) -> None:
    width, height = size
    is_outer = height >= 2
    is_narrow = width < 1.4 and height > 0.8  # then its number stands on a line of its own
    gap = "\n" if is_narrow else " "
    text = f"{number:02d}{gap}{label}" if number else label
    look = {"linewidth": 2.0, "weight": "bold"} if is_lit else {"edgecolor": GREY}
    look |= {"label_up": height / 2 - 0.25 if is_outer else 0.0, "rounding": 0.12, "letters": 8.5}
    colour = COMPONENTS.get(component, LIT) if is_lit else FRAME if is_outer else "white"
    middle = corner[0] + width / 2, corner[1] + height / 2
    box(ax, middle, text, size, colour, **look)


STEP = 1.32  # from box to box of the flow


def data_flow(n_layers: int, *, title: str) -> Figure:
    """Draw what becomes of token ids, step by step, with the shape of what passes from box to box."""
    shown = ["layer 0", "layer 1", "…", f"layer {n_layers - 1}"] if n_layers > 3 else []
    layers = shown or [f"layer {number}" for number in range(n_layers)]
    kinds = {"look up": "embedding", "× √d_model": "", "+ positions": "positions"}
    kinds |= dict.fromkeys(layers, "layer") | {"final norm": "norm"}
    colours = COMPONENTS | {"": "white", "layer": LIT}
    figure, (ax,) = canvas(1, (0.98 * len(kinds) + 1.6, 2.9))
    left, right, high, low = -1.25, STEP * len(kinds), 1.15, -1.15
    for place, label in ((left, "token\nids"), (right, "vectors\nin context")):
        ax.text(place, 0, label, ha="center", va="center", size=9)
    for place in range(len(kinds) + 1):
        arrow(ax, (STEP * place - (0.8 if place else 0.9), 0), (STEP * place - 0.52, 0))
    for number, (label, kind) in enumerate(kinds.items()):
        box(ax, (STEP * number, 0), label, (1.04, 0.8), colours[kind], letters=8.5)
    reached = [STEP * number for number, label in enumerate(kinds) if label in layers and label != "…"]
    for height, start, end in ((high, high, 0.45), (low, -0.45, low)):
        line(ax, (reached[0], height), (reached[-1], height), width=1.2)
        for place in reached:
            arrow(ax, (place, start), (place, end))
    look = {"ha": "center", "size": 9}
    ax.text(
        (reached[0] + reached[-1]) / 2, high + 0.08, "may_attend goes to every layer", va="bottom", **look
    )
    ax.text((reached[0] + reached[-1]) / 2, low - 0.08, "weights come out of every layer", va="top", **look)
    for place, shape in (
        (left, "(batch,\nposition)"),
        (STEP, "(batch, position, d_model)\nfrom here to the end"),
        (STEP * (len(kinds) - 1), "in pre-norm"),
    ):
        ax.text(place, -0.6, shape, va="top", **look)
    ax.set(xlim=(left - 0.45, right + 0.65), ylim=(low - 0.45, high + 0.45))
    ax.set_axis_off()
    see = (
        "From left to right, token ids become vectors, and pass one layer after the other; "
        "shapes stand below."
    )
    return finished(figure, title, see)


def key_sharing(n_heads: int, n_kv_heads: Mapping[str, int], *, title: str) -> Figure:
    """Draw which query head reads which key and value head, one panel for each way to share them."""
    figure, panels = canvas(len(n_kv_heads), (0, 0), (0.75 * n_heads * len(n_kv_heads), 2.5))
    for ax, (name, count) in zip(panels, n_kv_heads.items(), strict=True):
        group = n_heads // count
        for head in range(n_heads):
            key, colour = head // group, PALE[head // group]
            middle = (key + 0.5) * group - 0.5
            line(ax, (head, 1.2), (middle, 0), width=1.2, zorder=0)
            box(ax, (head, 1.2), f"q{head}", (0.7, 0.5), colour, letters=8)
            if head % group == 0:
                box(ax, (middle, 0), f"k{key} v{key}", (0.9, 0.5), colour, letters=8)
        ax.set(xlim=(-0.7, n_heads - 0.3), ylim=(-0.4, 1.6), aspect="equal", title=name)
        ax.set_axis_off()
    see = "Query heads above, key and value heads below; a line leads from a query to the keys that it reads."
    return finished(figure, title, see)
