"""What is found among many, a row for each question; shares of parts, a bar for each model."""

from collections.abc import Iterable, Mapping

import numpy as np
from matplotlib.figure import Figure

from transformer_course.figures import given
from transformer_course.figures.colours import COMPONENTS, DARK, EDGE, FREE, GREY, HERO, LINES
from transformer_course.figures.given import Labels, Matrix
from transformer_course.figures.layout import WIDEST, canvas, finished, two_decimals

SHARE_SHOWN = 0.04  # a smaller part of a bar has no room for its number
SEEN = 0.01  # a smaller share is a sliver that nobody sees


def searches(cosines: Matrix, answers: Mapping[str, int], texts: Labels, *, title: str) -> Figure:
    """Draw a row for each question: its cosine with the right text, and the others; beside it what is found.

    `cosines` are (question, text); `answers` has for each question the place of its text.
    """
    table = given.labelled(cosines, [*answers], texts)
    count, rights, nearest = len(answers), [*answers.values()], table.argmax(axis=1)
    is_right = np.arange(len(texts)) == np.array(rights)[:, None]
    figure, (ax,) = canvas(1, (WIDEST, 1.1 + 0.34 * count))
    for here, marker, colour, name in (
        (~is_right, "|", GREY, "the other notices"),
        (is_right, "o", LINES[1], "the right notice"),
    ):
        look = {"marker": marker, "color": colour, "label": name, "s": 26, "zorder": 2}
        ax.scatter(table[here], np.nonzero(here)[0], **look)
    wrong = np.flatnonzero(nearest != rights)
    look = {"color": HERO, "marker": "D", "label": "found, and wrong", "zorder": 3}
    ax.scatter(table.max(axis=1)[wrong], wrong, **look)
    ax.set_yticks(range(count), [*answers])
    ax.set(xlabel="cosine with the question", ylim=(count - 0.5, -0.5))
    ax.set_xlim(right=np.ceil(10 * ax.dataLim.x1) / 10)
    ax.grid(alpha=0.3, axis="x")
    for row, (place, right) in enumerate(zip(nearest, rights, strict=True)):
        look = {"transform": ax.get_yaxis_transform(), "size": 9}
        words = f" {two_decimals(table[row, place])}  {texts[place]} "
        if place == right:
            ax.text(1, row, f"{words}✓", va="center", **look)
        else:
            ax.text(1, row, f"{words}✗", va="bottom", color=HERO, **look)
            ax.text(1, row, f" should be: {texts[right]}", va="top", color=DARK, **look | {"size": 8.5})
    see = "A row for each question: a dot is the right notice, a stroke another; beside it what is found."
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return finished(figure, title, see)


def parameter_bars(
    models: Mapping[str, dict[str, float]],
    *,
    title: str,
    of: str = "parameters",
    together: str = "",
    ends: Iterable[str] = (),
) -> Figure:
    """Draw for each model which share of its parameters, or else, each part has; all have the same parts.

    A part that is called like a component of the encoder, maybe with more behind a colon, has its colour. The
    legend leaves out what is too small to be seen. The parts in `ends`, the last, are hatched, and what they
    have `together` is written.
    """
    parts, ends = list(next(iter(models.values()))), list(ends)
    counts = np.array([[model[part] for part in parts] for model in models.values()])
    shares = counts / counts.sum(axis=1, keepdims=True)
    starts = np.cumsum(shares, axis=1) - shares
    figure, (ax,) = canvas(1, (8.4, 1.5 + (0.8 if ends else 0.5) * len(models)))
    known = {part: COMPONENTS.get(part.partition(":")[0]) for part in parts}
    free = (colour for colour in (*FREE, *COMPONENTS.values()) if colour not in known.values())
    colours = {part: colour or next(free) for part, colour in known.items()}
    for part, share, start in zip(parts, shares.T, starts.T, strict=True):
        look = {"label": part} if share.max() >= SEEN else {}
        look |= {"hatch": "////"} if part in ends else {}
        bars = ax.barh(
            list(models), share, 0.5 if ends else 0.8, start, color=colours[part], edgecolor="white", **look
        )
        written = [f"{each:.{int(bool(ends))}%}" if each >= SHARE_SHOWN else "" for each in share]
        ax.bar_label(bars, labels=written, label_type="center", color="black", path_effects=EDGE * bool(ends))
    for row, start in enumerate(starts[:, -len(ends)] if ends else ()):
        ax.plot((start, start, 1, 1), row + np.array((0.29, 0.35, 0.35, 0.29)), color=DARK, clip_on=False)
        ax.text(start - 0.01, row + 0.37, f"{together}: {1 - start:.1%}", ha="right", va="center", size=9)
    ax.set(xlim=(0, 1), ylim=(len(models) - 0.35, -0.4), xlabel=f"share of the {of}")
    figure.legend(loc="outside lower center", ncols=3 if ends else len(parts), frameon=False)
    return finished(figure, title, "A bar for each model, cut into the shares of its parts.")
