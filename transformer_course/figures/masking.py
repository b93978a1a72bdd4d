"""Figures of lesson 04: a masked row of scores, a leak map, and the receptive field of a token."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path

from transformer_course.figures import inputs
from transformer_course.figures.colours import (
    COMPONENTS,
    DARK,
    GREY,
    HERO,
    HIDDEN,
    NO,
    OPEN,
    OPEN_OR_NOT,
    SILVER,
    YES,
    YES_OR_NO,
)
from transformer_course.figures.heatmaps import FRAMED, draw_matrix, lay_maps, write_words
from transformer_course.figures.inputs import Labels, Matrix
from transformer_course.figures.layout import (
    canvas,
    cell_texts,
    finished,
    frame_cells,
    legend_of_cells,
    outline_cells,
    sign_before,
    two_decimals,
)
from transformer_course.figures.shapes import FAINT, FAINT_IN_WEB, Point, draw_weight_lines

# A row of scores and its mask

SHORT = "no mask", "mask"
FROM = "no mask:\nscaled scores", "mask:\nscores + M"
BLANK = ListedColormap(["white", "white"], name="blank")  # scores have no weight colour
ON_HATCHES = {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1}, "zorder": 5}


def masked_row(scores: Matrix, may_attend: Matrix, tokens: Labels, query: str, *, title: str = "") -> Figure:
    """Draw scores (query_pos, key_pos), the mask, one row before and after masking, and all weights."""
    table, mask = (inputs.labelled(row_sum, tokens, tokens) for row_sum in (scores, may_attend))
    row = list(tokens).index(query)
    powers, after = np.exp(table), np.where(mask, np.exp(table), 0)
    weights = after / after.sum(axis=1, keepdims=True)
    figure, panels = canvas(6, (2.9, 2.2), (0.4, 1.0), columns=3)
    figure.get_layout_engine().set(hspace=0.08)
    left, added, summed, grown, shared, last = panels
    style = {"limits": (table.min(), table.max()), "labels": ("key", "query"), "colours": BLANK}
    draw_matrix(left, table, tokens, tokens, title="scaled scores", **style)
    gone = {"hidden": 1 - mask, "labels": ("key", "")}
    draw_matrix(added, 0 * mask, tokens, tokens, title="mask M", **gone, limits=(0, 1), colours=OPEN_OR_NOT)
    draw_matrix(summed, table, tokens, tokens, title="scores + M", **style | gone)
    draw_matrix(last, weights, tokens, tokens, title="attention weights", **gone, limits=(0, 1), whole=False)
    for ax, word in ((added, "−∞"), (summed, "−∞"), (last, "0")):
        for place in np.argwhere(mask == 0):
            ax.text(place[1] + 0.5, place[0] + 0.5, word, ha="center", va="center", size=8, **ON_HATCHES)
    for ax in (left, summed):
        ax.collections[0].set(edgecolor=SILVER, linewidth=0.8)
    for ax in (left, added, summed, last):
        frame_cells(ax, [(row, 0, len(tokens), 1)])
        ax.tick_params(labelleft=ax is left)  # all panels have the labels of the scores
    for place, (token, row_sum) in enumerate(zip(tokens, weights.sum(axis=1), strict=True)):
        last.text(len(tokens) + 0.2, place + 0.5, f"{token}: sum {row_sum:g}", va="center", size=9)
    both = [powers[row], after[row]]
    names = [f"{words}; sum {two_decimals(sum(row_sum))}" for words, row_sum in zip(FROM, both, strict=True)]
    _draw_rows(grown, dict(zip(names, both, strict=True)), tokens, f"row {query}: exp(score)")
    names = [f"{words}: ÷ {two_decimals(sum(row_sum))}" for words, row_sum in zip(SHORT, both, strict=True)]
    shares = [row_sum / sum(row_sum) for row_sum in both]
    _draw_rows(shared, dict(zip(names, shares, strict=True)), tokens, f"row {query}: divided by the sum")
    for ax, sign in zip(panels[1:], "+= →→", strict=True):
        sign_before(ax, sign)
    legend_of_cells(figure, {"may attend": {"facecolor": OPEN}, "hidden": HIDDEN})
    alt = "Scores plus mask, one row's softmax as bars, without and with the mask, and all attention weights."
    return _carried_back(finished(figure, title, alt), summed, (len(tokens), row + 0.5), grown)


def _carried_back(figure: Figure, start: Axes, point: Point, end: Axes) -> Figure:
    """Draw a bent arrow from a point in a panel to the left edge of a panel in the next row."""
    for _ in range(2):  # the layout is final after two passes
        figure.draw_without_rendering()
    (x, y), (left, low) = start.transData.transform(point), end.transAxes.transform((-0.04, 0.12))
    step, between = 0.16 * figure.dpi, end.title.get_window_extent().y1 + 0.1 * figure.dpi
    corners = [(x + 0.05 * figure.dpi, y), (x + 2 * step, y), (x + 2 * step, between)]
    corners += [(left - 2 * step, between), (left - 2 * step, low), (left, low)]
    path = Path(figure.transFigure.inverted().transform(corners))
    style = {"arrowstyle": "-|>", "mutation_scale": 11, "linewidth": 1.4, "color": DARK}
    figure.add_artist(FancyArrowPatch(path=path, transform=figure.transFigure, **style))
    return figure


def _draw_rows(ax: Axes, rows: Mapping[str, np.ndarray], tokens: Labels, title: str) -> None:
    """Draw two rows of bars on one scale, each with its name above it; the second one is coloured."""
    high, places = max(map(np.max, rows.values())), np.arange(len(tokens))
    colours = SILVER, COMPONENTS["scores"]
    for (name, values), foot, colour in zip(rows.items(), (1.8, 0), colours, strict=True):
        bars = ax.bar(places, values / high, 0.6, foot, color=colour, edgecolor="black", linewidth=0.5)
        ax.bar_label(bars, np.where(values == 0, "0", cell_texts(values)), padding=2, size=9)
        ax.text(-0.5, foot + 1.62, name, size=9, va="top")
        ax.axhline(foot, color=DARK, linewidth=0.8)
    ax.set_xticks(places, tokens, rotation=90)
    ax.set(xlabel="key", yticks=[], title=title, xlim=(-0.5, len(tokens) - 0.5), ylim=(0, 3.5))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def draw_attention_web(
    ax: Axes, layers: Sequence[Matrix], tokens: Labels, highlight: int, *, upright: bool = False
) -> None:
    """Draw a line from each token up to each token that attends to it, layer by layer; wider for more weight.

    All paths to the token at position `highlight` are highlighted. `layers` are weights or masks (query_pos,
    key_pos), lowest layer first; all lines of a mask have the same width. `upright` rotates the token labels.
    """
    tables = [inputs.labelled(layer, tokens, tokens) for layer in layers]
    places = np.arange(len(tokens))
    reached = places == highlight
    for level, table in reversed(list(enumerate(tables))):
        shares = table / np.maximum(table.sum(axis=1).max(), 1)  # the sum of a row of a mask may exceed 1
        drawn = np.where(reached[:, None] | (shares > FAINT_IN_WEB), shares, 0)
        draw_weight_lines(ax, drawn, (level, level + 1), 2 * reached[:, None], upright=True, others=SILVER)
        _draw_dots(ax, level + 1, reached)
        reached = (shares[reached] > FAINT).any(axis=0)
    _draw_dots(ax, 0, reached)
    turned = 90 * upright
    ax.set_xticks(places, tokens, rotation=turned)
    top = ax.secondary_xaxis("top")
    top.set_xticks(places, tokens, rotation=turned)
    for side, bold in ((ax, reached), (top, places == highlight)):
        side.tick_params(length=0)
        for label, is_bold in zip(side.get_xticklabels(), bold, strict=True):
            label.set(**({"color": HERO, "weight": "bold"} if is_bold else {"color": GREY}))
        side.spines[:].set_visible(False)
    ax.set(xlim=(-0.6, len(tokens) - 0.4), ylim=(-0.05, len(tables) + 0.05), yticks=[])
    ax.set_ylabel("from the input up to the output")
    depends = f"“{tokens[highlight]}” depends on {reached.sum()} of {len(tokens)} tokens"
    ax.set_xlabel(depends)
    ax.set_label(f"{depends}: {', '.join(np.array(tokens)[reached])}")


def _draw_dots(ax: Axes, height: int, highlight: np.ndarray) -> None:
    style = {"color": np.where(highlight, HERO, GREY), "zorder": 3, "clip_on": False}
    ax.scatter(np.arange(len(highlight)), np.full(len(highlight), height), s=12, **style)


def leak_map(
    name: str, mask: Matrix, moves: Matrix, tokens: Labels, boxed: Sequence[tuple[int, int]], *, title: str
) -> Figure:
    """Draw a mask (query, key) and its leak map: which outputs change when one token is changed.

    In the `boxed` cells (output, changed token), the mask hides the token, but the output changes.
    """
    mask, moves = (inputs.labelled(table, tokens, tokens) for table in (mask, moves))
    leak = {"labels": ("changed token", "output"), "colours": YES_OR_NO}
    style = {"unit": 0.36 if len(tokens) < 8 else 0.23, "below": 0.3}
    style["per_panel"] = [{"hidden": 1 - mask, "colours": OPEN_OR_NOT}, leak]
    named = [(f"mask: {name}", mask), ("leak map", moves)]
    figure, panels = lay_maps(named, tokens, tokens, **style)
    for ax in panels:
        outline_cells(ax, boxed)
    write_words(panels[0], np.where(mask, "✓", ""), mask, OPEN)
    kinds = {"may attend": {"facecolor": OPEN}, "hidden": HIDDEN}
    kinds |= {"output moves": {"facecolor": YES}, "output stays": {"facecolor": NO}}
    kinds["hidden, but moves:\nits own query changed"] = FRAMED
    legend_of_cells(figure, kinds)
    return finished(figure, title, "Left, which keys each query may attend to; right, which outputs move.")
