"""Drawing of lesson 14: five kinds of tests."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_course.figures.colours import HERO, LIT, NO, YES
from transformer_course.figures.layout import WIDEST, canvas, finished
from transformer_course.figures.shapes import FRAME, arrow, box

# For each kind of test of one bug: the input, the code, the output, the question, the verdict.
# A star marks a value that differs from the expected one, a ring an input that the test changes.
BUG, SCORES = "softmax over\nthe queries", "0  log 3\nlog 2  0"  # the scores are from the section By hand
REFERENCE = [
    (SCORES, BUG, "*0.33  0.75\n0.67  *0.25"),
    (SCORES, "reference:\nover the keys", "*0.25  0.75\n0.67  *0.33"),
]
PERTURBATION = [
    (SCORES, BUG, "0.33  0.75\n*0.67  *0.25"),
    ("°log 3  °0\nlog 2  0", BUG, "0.60  0.50\n*0.40  *0.50"),
]
SUMS = "0.33+0.75=  *1.08\n0.67+0.25=  *0.92"
KINDS_OF_TESTS = {
    "shape test": ([("shape (3, 5)", BUG, "shape (3, 5)")], "is the shape\n(3, 5)? yes", "survives"),
    "reference test": (REFERENCE, "are all numbers\nequal? no", "killed"),
    "property test": ([(SCORES, BUG, SUMS)], "do the rows add\nup to 1? no", "killed"),
    "parameter count": ([("", BUG, "0 parameters")], "is it 0, as\ncounted by hand? yes", "survives"),
    "perturbation test": (PERTURBATION, "only row 0 was changed:\nis row 1 unchanged? no", "killed"),
}


def kinds_of_tests(*, title: str) -> Figure:
    """Draw the input, the code under test, the output and the verdict of each of the five kinds of tests."""
    figure, panels = canvas(5, (0, 0), (WIDEST, 3.5), width_ratios=[1.1, 2.45, 2.2, 1.15, 2.45])
    for ax, (name, (runs, question, verdict)) in zip(panels, KINDS_OF_TESTS.items(), strict=True):
        for x, stages in enumerate(runs):
            for y, word in zip((2, 1, 0), stages, strict=True):
                computes = y == 1
                colour = "white" if word == BUG else FRAME if computes else LIT
                if word:
                    box(ax, (x, y), word if computes else "", (0.94, 0.56), colour, letters=8, rounding=0.04)
                for row, line_of in enumerate("" if computes else word.splitlines()):
                    _write_row(ax, x, y + 0.13 * (1 - 2 * row) * ("\n" in word), line_of.split("  "))
                if y and stages[2 - y]:
                    arrow(ax, (x, y - 0.28), (x, y - 0.72))
                for place in (0, 1) if y == 2 and "\n" in word else ():
                    ax.text(x + 0.44 * place - 0.22, 2.31, f"key {place}", ha="center", va="bottom", size=8)
                    if x == 0:  # the next panel has the same queries
                        ax.text(-0.5, 2.13 - 0.26 * place, f"query {place}", ha="right", va="center", size=8)
        middle, kills = (len(runs) - 1) / 2, verdict == "killed"
        ax.text(middle, -0.4, question, ha="center", va="top", size=9, weight="bold")
        box(ax, (middle, -1.13), "", (0.94, 0.26), YES if kills else NO, rounding=0.04)
        style = {"color": "white" if kills else "black", "zorder": 4}
        ax.text(middle, -1.13, verdict, ha="center", va="center", size=9, weight="bold", **style)
        ax.set(
            xlim=(-0.55 if name in ("shape test", "parameter count") else -0.85, len(runs) - 0.45),
            ylim=(-1.3, 2.52),
            title=name,
        )
        ax.set_axis_off()
    caption = "the bug: softmax over the queries (down the columns), not over the keys (along the rows)\n"
    caption += "solid frame: should be equal, and isn't (property test: should be 1); "
    caption += "dotted frame: input changed by the test"
    figure.supxlabel(caption, size=9)
    said = (f"{name}: {question} ({verdict})" for name, (_, question, verdict) in KINDS_OF_TESTS.items())
    alt = "For each test, arrows lead down from its input to the code, and to the output that it checks. "
    alt += ". ".join(said).replace("\n", " ")
    return finished(figure, title, alt)


def _write_row(ax: Axes, x: float, y: float, words: Sequence[str]) -> None:
    """Write the values of a row next to each other; a star gives a frame, a ring a dotted frame."""
    for place, word in enumerate(words):
        frame = {"facecolor": "white", "edgecolor": HERO, "pad": 0.8}
        edge = {"*": {"bbox": frame}, "°": {"bbox": frame | {"edgecolor": "black", "linestyle": ":"}}}
        right = 0.44 * (place - (len(words) - 1) / 2) + 0.08 * ("=" in words[0])  # a sum is wider
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
