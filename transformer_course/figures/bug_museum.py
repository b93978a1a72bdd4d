"""Drawing of lesson 14: five kinds of tests."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_course.figures.colours import HERO, LIT, NO, YES
from transformer_course.figures.layout import WIDEST, canvas, finished
from transformer_course.figures.shapes import FRAME, arrow, box

# Five kinds of tests before one bug: what goes in, who computes, what comes out; what is asked; who notices.
# A star stands before a number that differs from what is beside it, or promised, a ring before a changed one.
SUSPECT, HAND = "softmax down\nthe columns", "0  log 3\nlog 2  0"  # the bug; the scores of lesson 14, by hand
LOOP = [
    (HAND, SUSPECT, "*.33  .75\n.67  *.25"),
    (HAND, "the formula,\ntrusted", "*.25  .75\n.67  *.33"),
]
NUDGE = [(HAND, SUSPECT, ".33  .75\n*.67  *.25"), ("°log 3  °0\nlog 2  0", SUSPECT, ".60  .50\n*.40  *.50")]
SUMS = ".33+.75 =  *1.08\n.67+.25 =  *.92"
KINDS_OF_TESTS = {
    "sizes": ([("shape (3, 5)", SUSPECT, "shape (3, 5)")], "the shape as\npromised? yes", "missed"),
    "loop": (LOOP, "all numbers\nequal? no", "noticed"),
    "promise": ([(HAND, SUSPECT, SUMS)], "rows add up\nto 1? no", "noticed"),
    "count": ([("", SUSPECT, "0 parameters")], "as many as counted\nby hand, 0? yes", "missed"),
    "nudge": (NUDGE, "only row 0 was changed:\nrow 1 as before? no", "noticed"),
}


def kinds_of_tests(*, title: str) -> Figure:
    """Draw for each of the five kinds of tests what the suspect is given, and what is asked of its answer."""
    figure, panels = canvas(5, (0, 0), (WIDEST, 3.5), width_ratios=[1.1, 2.4, 1.95, 1.15, 2.4])
    for ax, (name, (runs, question, verdict)) in zip(panels, KINDS_OF_TESTS.items(), strict=True):
        for x, stages in enumerate(runs):
            for y, word in zip((2, 1, 0), stages, strict=True):
                computes = y == 1
                colour = "white" if word == SUSPECT else FRAME if computes else LIT
                if word:
                    box(ax, (x, y), word if computes else "", (0.94, 0.56), colour, letters=8, rounding=0.04)
                for row, line_of in enumerate("" if computes else word.splitlines()):
                    _write_row(ax, x, y + 0.13 * (1 - 2 * row) * ("\n" in word), line_of.split("  "))
                if y and stages[2 - y]:
                    arrow(ax, (x, y - 0.28), (x, y - 0.72))
                for place in (0, 1) if y == 2 and "\n" in word else ():
                    ax.text(x + 0.44 * place - 0.22, 2.31, f"key {place}", ha="center", va="bottom", size=8)
                    if x == 0:  # they are those of all at its right
                        ax.text(-0.5, 2.13 - 0.26 * place, f"query {place}", ha="right", va="center", size=8)
        middle, is_seen = (len(runs) - 1) / 2, verdict == "noticed"
        ax.text(middle, -0.4, question, ha="center", va="top", size=9, weight="bold")
        box(ax, (middle, -1.13), "", (0.94, 0.26), YES if is_seen else NO, rounding=0.04)
        style = {"color": "white" if is_seen else "black", "zorder": 4}
        ax.text(middle, -1.13, verdict, ha="center", va="center", size=9, weight="bold", **style)
        ax.set(
            xlim=(-0.55 if name in ("sizes", "count") else -0.85, len(runs) - 0.45),
            ylim=(-1.3, 2.52),
            title=name,
        )
        ax.set_axis_off()
    caption = "the bug: softmax down the columns, not along the rows\n"
    caption += "framed: should be equal, and is not (promise: should be 1); dotted: changed for the test"
    figure.supxlabel(caption, size=9)
    alt = "For each test, from above: what goes in, who computes, what comes out; framed: what differs."
    return finished(figure, title, alt)


def _write_row(ax: Axes, x: float, y: float, words: Sequence[str]) -> None:
    """Write the numbers of a row side by side, a frame round those with a star, a dashed one with a ring."""
    for place, word in enumerate(words):
        frame = {"facecolor": "white", "edgecolor": HERO, "pad": 0.8}
        edge = {"*": {"bbox": frame}, "°": {"bbox": frame | {"edgecolor": "black", "linestyle": ":"}}}
        right = 0.44 * (place - (len(words) - 1) / 2)
        ax.text(
            x + right,
            y,
            word.lstrip("*°"),
            ha="center",
            va="center",
            size=8,
            zorder=4,
            **edge.get(word[0], {}),
        )
