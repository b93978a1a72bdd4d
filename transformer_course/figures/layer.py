"""Inside a layer: tokens as lanes of a road, who hears whom, and what layer norm does to a token."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from transformer_course.figures import given
from transformer_course.figures.colours import COMPONENTS, GREY, HERO, LIT, SILVER
from transformer_course.figures.drawings import arrow, box, line
from transformer_course.figures.given import Labels, Matrix
from transformer_course.figures.layout import canvas, finished, two_decimals
from transformer_course.figures.ways import draw_ways

LANE = 0.4  # inches
LEAST, WIDTH = 0.04, 5.0  # a thinner line would not be seen; points, of a share of 1


def lanes(weights: Matrix, tokens: Labels, *, lit: int, title: str) -> Figure:
    """Draw a post-norm layer with a lane for each token, and weights (query, key) as lines between lanes."""
    weights = given.labelled(weights, tokens, tokens)
    figure, (ax,) = canvas(1, (9.2, LANE * len(tokens) + 0.9))
    row = 2 * np.eye(len(tokens), dtype=int)[lit][:, None]
    draw_ways(ax, weights, (1.2, 3.3), row, step=-1, others=COMPONENTS["scores"])
    for place, token in enumerate(tokens):
        height = -place
        ax.text(0, height, token, ha="right", va="center", size=9.5)
        arrow(ax, (0.1, height), (9.6, height), width=2.5, colour=SILVER, zorder=1)
        for norm in (4.2, 8.7):
            box(ax, (norm, height), "norm", (0.7, 0.5), COMPONENTS["norm"], letters=8)
        line(ax, (5.0, height), (5.2, height - 0.42), (7.6, height - 0.42), (7.8, height), width=1)
        box(ax, (6.4, height - 0.42), "feed-forward", (1.3, 0.42), COMPONENTS["feed-forward"], letters=8)
        for sum_of in (3.3, 7.8):
            ax.plot(sum_of, height, "o", markersize=10, mfc="white", mec="black", zorder=4)
            ax.plot(sum_of, height, "+", markersize=7, color="black", zorder=5)
    across = f"attention: across the lanes\none head; width: weight; lit: what “{tokens[lit]}” takes"
    for middle, words in (
        (2.2, across),
        (6.4, "feed-forward: each lane by itself,\nall with the same weights"),
    ):
        head, _, note = words.partition("\n")
        ax.text(middle, 1.0, head, ha="center", va="bottom", size=9.5, weight="bold")
        ax.text(middle, 0.6, note, ha="center", va="bottom", size=9)
    ax.set(xlim=(-0.9, 9.7), ylim=(0.3 - len(tokens), 1.5))
    ax.set_axis_off()
    see = "A lane for each token. A line between lanes is attention: the thicker, the more."
    return finished(figure, title, see)


def norm_steps(steps: Mapping[str, Matrix], tokens: Labels, *, title: str) -> Figure:
    """Draw features (token, feature) as bars: a row for a token, a column for a step; dashed, the mean.

    Each row has a scale of its own; what is divided in the last step is on one scale again.
    """
    tables = given.tables_of(steps)
    *before, last = tables.values()
    figure, panels = canvas(len(tokens) * len(tables), (2.9, 1.35), columns=len(tables))
    for number, ax in enumerate(panels):
        row, column = divmod(number, len(tables))
        name, table = [*tables.items()][column]
        features = [str(feature) for feature in range(table.shape[1])]
        bars = ax.bar(features, table[row], color=COMPONENTS["norm"], edgecolor="black", linewidth=0.6)
        words = [two_decimals(each) if each % 1 else f"{each:.0f}".replace("-", "−") for each in table[row]]
        edge = [withStroke(linewidth=3, foreground="white")]
        ax.bar_label(bars, words, padding=1, size=8.5, zorder=4, path_effects=edge)
        ax.axhline(0, color="black", linewidth=0.8)
        ax.axhline(table[row].mean(), color=HERO, linewidth=1.2, linestyle="--", zorder=3)
        shared = last if table is last else np.stack([each[row] for each in before])
        room = 0.2 * np.ptp(shared)
        ax.set_ylim(min(0, shared.min()) - room, max(0, shared.max()) + room)
        ax.locator_params(axis="y", nbins=4)
        ax.tick_params(labelbottom=row == len(tokens) - 1, bottom=False)
        ax.spines[["top", "right", "bottom"]].set_visible(False)
        names = {"title": "" if row else name, "ylabel": "" if column else tokens[row]}
        ax.set(xlabel="feature" if row == len(tokens) - 1 else "", **names)
    see = "A row for each token, with its own scale, a bar for each feature; only the last column shares one."
    return finished(figure, title, see)


def draw_network(
    ax: Axes,
    features: Mapping[str, float],
    up: Mapping[str, tuple[Sequence[float], float]],
    down: Mapping[str, Sequence[float]],
) -> None:
    """Draw what a feed-forward with ReLU makes of one token: what each neuron asks, answers, and writes.

    `up` has for each neuron, by what it asks, its weights and its bias; `down` for each output its weights.
    """
    given_in = np.array(list(features.values()), dtype=float)
    asked = np.array([given_in @ weights + bias for weights, bias in up.values()])
    bent = np.maximum(asked, 0)
    results = [bent @ weights for weights in down.values()]
    ends = [_spread_out(len(each)) for each in (features, up, down)]
    for neuron, (weights, _) in enumerate(up.values()):
        _wires(ax, (0.75, ends[0]), (2.6, ends[1][neuron]), weights, given_in)
    for output, weights in enumerate(down.values()):
        _wires(ax, (5.6, ends[1]), (7.25, ends[2][output]), weights, bent)
    for height, (name, value) in zip(ends[0], features.items(), strict=True):
        box(ax, (0, height), f"{name}\n{value:g}", (1.5, 0.7), "white" if value == 0 else LIT, letters=9)
    for height, question, before, after in zip(ends[1], up, asked, bent, strict=True):
        words = f"{question}\n{before:g}, bent: {after:g}".replace("-", "−")
        look = {"linewidth": 2.0, "weight": "bold"} if after else {"edgecolor": GREY}
        box(ax, (4.1, height), words, (3.0, 0.72), COMPONENTS["feed-forward"] if after else "white", **look)
    for height, name, value in zip(ends[2], down, results, strict=True):
        box(ax, (8, height), f"{name}\n{value:g}", (1.5, 0.7), LIT if value else "white", letters=9)
    for place, words in ((0, "the token"), (4.1, "neurons: what they ask"), (8, "what is written")):
        ax.text(place, 1.75, words, ha="center", size=9.5, weight="bold")
    ax.set(xlim=(-1, 9), ylim=(-1.6, 2.1))
    ax.set_axis_off()


def one_neuron(
    answers: Sequence[float],
    bent: Sequence[float],
    tokens: Labels,
    asks: Mapping[str, float],
    writes: Mapping[str, float],
    *,
    title: str,
) -> Figure:
    """Draw what a neuron asks each token, the answers before and after the bend, and what it adds for them.

    `asks` and `writes` are the words whose vectors are most like its question and what it adds: cosines.
    """
    asked, bent = (given.numbers_of(each, 1) for each in (answers, bent))
    foot, scale = 0.55 - len(tokens), 0.75 / np.abs([asked, bent]).max()
    figure, (ax,) = canvas(1, (9.2, 0.3 * len(tokens) + 1.1))
    for place, token in enumerate(tokens):
        ax.text(0, -place, token, ha="right", va="center", size=9.5)
        arrow(ax, (0.1, -place), (9.7, -place), width=1.5, colour=SILVER)
        for zero, value, colour in ((4.2, asked[place], "white"), (6.1, bent[place], HERO)):
            look = {"color": colour, "edgecolor": "black", "linewidth": 0.7, "zorder": 3}
            ax.barh(-place, scale * value, 0.62, zero, **look)
            side = np.sign(value) or 1.0
            look = {"ha": "right" if side > 0 else "left", "bbox": {"fc": "white", "ec": "none", "pad": 1}}
            ax.text(zero - 0.06 * side, -place, two_decimals(value), va="center", size=8, **look)
        if scale * bent[place] > LEAST:
            for start, end in ((6.1 + scale * bent[place], 7.3), (9.0, 9.55)):
                ax.plot([start, end], [-place] * 2, color=HERO, linewidth=WIDTH * scale * bent[place])
    for middle, words in ((1.75, asks), (8.1, writes)):
        near = "\n".join(f"{word}  {two_decimals(cosine)}" for word, cosine in words.items())
        words = f"most like the\nvectors of\n\n{near}"
        size, colour = (1.8, 0.6 - foot), COMPONENTS["feed-forward"]
        box(ax, (middle, foot / 2 + 0.25), words, size, colour, letters=9.5)
    heads = "its question", "question · token + bias", "bent", "× what it adds"
    for middle, words in zip((1.75, 4.2, 6.1, 8.1), heads, strict=True):
        ax.text(middle, 0.75, words, ha="center", va="bottom", size=9.5, weight="bold")
    for zero in (4.2, 6.1):
        ax.plot([zero, zero], [0.5, foot], color="black", linewidth=0.8, zorder=4)
    ax.set(xlim=(-0.9, 9.8), ylim=(foot - 0.1, 1.3))
    ax.set_axis_off()
    see = "Bars are the answers to one question, before and after the bend; lines are what is added."
    return finished(figure, title, see)


def _spread_out(count: int) -> np.ndarray:
    """Heights of boxes, from above to below, around 0."""
    return 1.05 * ((count - 1) / 2 - np.arange(count))


def _wires(
    ax: Axes,
    start: tuple[float, np.ndarray],
    end: tuple[float, float],
    weights: Sequence[float],
    values: np.ndarray,
) -> None:
    """A line for each weight that is not 0, with the weight on it; one that carries nothing is pale."""
    for height, weight, value in zip(start[1], weights, values, strict=True):
        if weight:
            carries = bool(value)
            ways = [start[0], end[0]], [height, end[1]]
            ax.plot(*ways, color=HERO if carries else SILVER, linewidth=1.3 * abs(weight), zorder=2 + carries)
            place = start[0] + 0.2 * (end[0] - start[0]), height + 0.2 * (end[1] - height)
            ground = {"facecolor": "white", "edgecolor": "none", "pad": 1}
            label = f"{weight:g}".replace("-", "−")
            ax.text(*place, label, size=8.5, ha="center", va="center", bbox=ground, zorder=5)
