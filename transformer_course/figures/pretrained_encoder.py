"""Drawings of lesson 09: the key mapping of a checkpoint, mean pooling, the cosine of two texts."""

from collections.abc import Mapping, Sequence
from itertools import pairwise, product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from transformer_course.figures import inputs
from transformer_course.figures.arithmetic import CELL, PADDING, SIGNS, arithmetic_table, short_number
from transformer_course.figures.colours import DARK, GREY, HERO, LINES, LIT, NO, ROLES
from transformer_course.figures.inputs import Labels, Matrix
from transformer_course.figures.label_placement import place_names
from transformer_course.figures.layout import WIDEST, canvas, finished, two_decimals
from transformer_course.figures.shapes import FRAME, arrow, box

# Which tensors of a file match which parameters


def matching_shapes(
    fits: Mapping[tuple[int, ...], tuple[Labels, Labels]],
    added: Mapping[str, str],
    left: str,
    pairs: tuple[str, str, str],
    *,
    title: str,
) -> Figure:
    """Draw which names of a checkpoint could be mapped to which names of an encoder, by shape.

    `fits` has for each shape the names in the file and in the encoder. Where several share a shape, their
    lines are highlighted. `added` says what is added to a tensor, and `left` which tensors are not drawn. Of
    the `pairs`, the first is a name in the file; a thick line leads to the second, a dashed one to the third.
    """
    count = sum(len(places) for _, places in fits.values())
    figure, (ax,) = canvas(1, (WIDEST, 0.4 * count + 1.8))
    top = 0.0
    for shape, (names, places) in fits.items():
        heights, many = top - 0.4 * np.arange(len(places)), len(places) > 1
        for name, start in zip(sorted(names), heights, strict=True):
            box(ax, (1.75, start), name, (3.3, 0.3), rounding=0.03)
            for place, end in zip(places, heights, strict=True):
                is_highlighted = name == pairs[0] and place in pairs[1:]
                colour = ROLES["query"] if is_highlighted else HERO if many else "black"
                dashes = "--" if is_highlighted and place != pairs[1] else "-"
                style = {"color": colour, "linewidth": 2.2 if is_highlighted else 1.1, "linestyle": dashes}
                ax.plot((3.4, 5.55), (start, end), zorder=2 + is_highlighted, **style)
        for place, height in zip(places, heights, strict=True):
            box(ax, (7.1, height), place, (3.1, 0.3), FRAME, rounding=0.03)
            if place in added:
                ax.text(4.47, height - 0.05, f"+ {added[place]}", ha="center", va="top", size=8)
        words = " × ".join(map("{:,}".format, shape))
        ax.text(4.47, top + 0.04, words, ha="center", va="bottom", size=8.5)
        top -= 0.4 * len(places) + 0.14 + 0.2 * (places[0] in added)
    for place, words in ((1.75, "names in the file"), (4.4, "shape"), (7.1, "names in your encoder")):
        ax.text(place, 0.4, words, ha="center", weight="bold", size=9.5)
    one = f"thick: {pairs[0]} and its partner; dashed: a wrong partner of the same shape"
    rest = f"drawn: weights of the tables, the first norm, and layer 0; {left}"
    several = "orange: several names with one shape; if two are exchanged, all keys still match"
    for up, words, colour in ((0.12, several, HERO), (-0.12, one, ROLES["query"]), (-0.46, rest, DARK)):
        ax.text(0.1, top + up, words, va="center", size=8.5, color=colour)
    ax.set(xlim=(0, 9.0), ylim=(top - 0.75, 0.7))
    ax.set_axis_off()
    one = [f"{names[0]} to {places[0]}" for names, places in fits.values() if len(names) == 1]
    many = [
        f"{len(names)} of shape {' × '.join(map(str, shape))}"
        for shape, (names, _) in fits.items()
        if names[1:]
    ]
    alt = "Lines lead from the names in the file, left, to the names in the encoder that have the same "
    alt += f"shape. One line each: {'; '.join(one)}. Every name to every other: {'; '.join(many)}. "
    alt += f"{pairs[0]} belongs to {pairs[1]}"
    return finished(figure, title, f"{alt}, not to {pairs[2]}")


def text_cosine(
    hidden: Tensor, may_attend: Tensor, named: Mapping[str, Labels], *, features: Sequence[int], title: str
) -> Figure:
    """Draw how two texts are compared: hidden states (text, position, d_model), means, embeddings, cosine.

    `named` has the tokens of each text; cosines are drawn between neighbouring texts. Two features have
    values. `may_attend` (text, 1, 1, position) is False for padding.
    """
    vectors, real = inputs.numbers_of(hidden, 3), inputs.numbers_of(may_attend, 4)[:, 0, 0] > 0
    shown_features, units, rows = [*features], [], []
    for (name, words), text, is_real in zip(named.items(), vectors, real, strict=True):
        mean = text[is_real].mean(axis=0)
        length = np.linalg.norm(mean)
        units.append(mean / length)
        table = (
            [*text.T[shown_features].round(2), ["⋮"] * len(words)],
            ["sign" if yes else PADDING for yes in is_real],
        )
        rows += [["", "", "", "", "", "⇓"]] if rows else []
        rows += [
            [name, ([words], [""] * len(words)), "", "", "", ""],
            ["encoder: tokens\nattend to all\nreal tokens", ([[""], [""]], ["part"]), "", "", "", ""],
            [
                f"features {shown_features[0]},\n{shown_features[1]} of {vectors.shape[2]},\nrounded",
                table,
                "→ mean, no\npadding",
            ],
        ]
        mean, unit = ([*column[shown_features, None], ["⋮"]] for column in (mean, units[-1]))
        rows[-1] += [
            (mean, ["sign"]),
            f"→ ÷ {length:.2f},\nits length",
            (unit, ["sign"]),
        ]
    sums = []  # for each neighbouring pair: the written products, the positive and the negative sum
    for place, (one, other) in enumerate(pairwise(units), 1):
        products = one * other
        shown = "\n+ ".join(
            f"({short_number(a)}) · ({short_number(b)})"
            for a, b in zip(one[shown_features], other[shown_features], strict=True)
        )
        sums.append((shown, np.maximum(products, 0).sum(), np.minimum(products, 0).sum()))
        rows[4 * place][4:] = "", ([[one @ other]], ["result"])
        rows[4 * place + 1][5] = "⇑"
    names = ["", "hidden state of each token", "", "mean", "", "embedding"]
    alt = f"From the top: {', '.join(named)}. In each, from left to right: the tokens, the encoder, a hidden "
    alt += "state for each token, their mean without padding, and the mean divided by its length, the "
    alt += "embedding. Between two texts, the products of their embeddings"
    for (_, above, below), pair in zip(sums, pairwise(named), strict=True):
        alt += f"; {' and '.join(pair)}: above 0 {two_decimals(above)}, below 0 {two_decimals(below)}, "
        alt += f"cosine {two_decimals(above + below)}"
    figure = arithmetic_table(rows, names, wide=0.49, title=title, alt=alt)
    _draw_attention(figure.axes[0], real)
    _draw_sums(figure.axes[0], sums, vectors.shape[2])
    return figure


def _draw_sums(ax: Axes, sums: Sequence[tuple[str, float, float]], count: int) -> None:
    """Draw the sums of the positive and of the negative products, on the left of each result."""
    results = [patch for patch in ax.patches if to_hex(patch.get_facecolor()) == LIT]
    for result, (shown, above, below) in zip(results, sums, strict=True):
        zero, middle, inch = result.get_x() - 2.6, result.get_y() + CELL / 2, 2.2
        ends = (0, above, "above 0"), (above, below, "below 0")
        for up, (start, length, words), colour in zip((-0.3, 0.02), ends, SIGNS.values(), strict=True):
            corner = zero + inch * start, middle + up
            ax.add_patch(Rectangle(corner, inch * length, 0.26, facecolor=colour, edgecolor=GREY, lw=0.8))
            label = f"{words}: {two_decimals(length)}"
            ax.text(zero + inch * above + 0.06, middle + up + 0.13, label, va="center", size=9)
        ax.plot([zero] * 2, [middle - 0.36, middle + 0.34], color=DARK, lw=1.2)
        rest = zero + inch * (above + below)
        ax.plot([rest] * 2, [middle - 0.3, middle + 0.42], color=DARK, lw=1.2, ls="--")
        ax.text(rest, middle + 0.44, f"{two_decimals(above + below)} is left", ha="center", va="top", size=9)
        ax.text(zero, middle - 0.42, f"cosine: {shown} + … {count} products", va="bottom", size=9)


def _draw_attention(ax: Axes, real: np.ndarray) -> None:
    """Draw a line from each real token to every token, across the box of the encoder."""
    parts = [patch for patch in ax.patches if to_hex(patch.get_facecolor()) == NO]
    for part, below, is_real in zip(parts[::2], parts[1::2], real, strict=True):
        below.remove()
        part.set_height(2 * CELL)
        at = part.get_x() + part.get_width() * (np.arange(len(is_real)) + 0.5) / len(is_real)
        top, foot = part.get_y(), part.get_y() + 2 * CELL
        lines = [[(start, top), (end, foot)] for start, end in product(at[is_real], at)]
        ax.add_collection(LineCollection(lines, colors=GREY, linewidths=0.3, antialiased=False))


def mean_pooling(texts: Mapping[str, tuple[Matrix, Matrix]], *, title: str) -> Figure:
    """Draw the tokens of texts in a plane, and their means as arrows, without and with padding.

    A text has real tokens and padding, each (token, 2). Cosines with the first mean are below the panels.
    """
    figure, panels = canvas(2, (3.4, 4.5), sharey=True)
    placed = []
    for ax, name in zip(panels, ("mean of the real tokens", "mean with padding"), strict=True):
        means = {}
        for (text, (real, pads)), colour in zip(texts.items(), LINES, strict=False):
            real, pads = np.reshape(real, (-1, 2)), np.reshape(pads, (-1, 2))
            counted = np.concatenate([real, pads]) if ax is panels[1] else real
            means[text] = counted.mean(axis=0)
            ax.plot(*real.T, "o", color=colour, markersize=5)
            ax.plot(*pads.T, "s", color=GREY, markersize=7, mfc="white" if ax is panels[0] else GREY)
            if len(counted) > len(real):
                arrow(ax, real.mean(axis=0), means[text], colour=GREY, gap=0)
        for text, colour in sorted(
            zip(texts, LINES, strict=False), key=lambda each: -np.hypot(*means[each[0]])
        ):
            ax.plot(*np.transpose([(0, 0), means[text]]), color=colour, linewidth=1.8)
            arrow(ax, (0, 0), means[text], width=1.8, colour=colour, gap=0, zorder=3)
        (first, mean), *others = means.items()
        cosines = {text: mean @ tip / np.hypot(*mean) / np.hypot(*tip) for text, tip in others}
        caption = ", ".join(f"{first} and {text} {two_decimals(cosine)}" for text, cosine in cosines.items())
        ax.set(title=name, xlabel=f"feature 0\ncosine: {caption}")
        ax.margins(0.12)
        ax.set_aspect("equal", adjustable="datalim")
        placed.append(means)
    panels[0].set_ylabel("feature 1")
    padded = " and ".join(text for text, (_, pads) in texts.items() if len(pads))
    caption = f"dots: tokens; square: padding of {padded}; arrows: means; grey arrows: effect of the padding"
    figure.supxlabel(caption, size=9)
    finished(figure, title, "A dot for each token, a square for padding, and an arrow for each mean.")
    for ax, means in zip(panels, placed, strict=True):
        place_names(ax, means, dict(zip(texts, LINES, strict=False)), weight="bold")
    return figure
