"""Drawings of lesson 12: MiniLM and ModernBERT, sequence packing, receptive fields."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from transformer_course.figures import inputs
from transformer_course.figures.colours import COMPONENTS, DARK, HERO, HIDDEN, NO, OPEN, PALE, YES, YES_OR_NO
from transformer_course.figures.encoder_layer import ROAD, SIDE, draw_residual_streams, residual_branch
from transformer_course.figures.heatmaps import lay_maps, write_words
from transformer_course.figures.inputs import Labels, Matrix
from transformer_course.figures.layout import WIDEST, canvas, finished, legend_of_cells
from transformer_course.figures.shapes import DASHED, FRAME, Point, box, line, way

CLEAR = {"fill": False, "edgecolor": "black"}
MOVED, CAME = {"linewidth": 2.5}, {"edgecolor": HERO, "linewidth": 1.8}


def _stage(label: str, place: float, height: float = ROAD, **style: object) -> tuple:
    part = {"LayerNorm": "norm", "positions": "positions", "padding": ""}
    (part,) = [part[word] for word in part if word in label] or ["embedding"]
    return partial(box, letters=8, **style), (place, height), label, (1.6, 0.9), COMPONENTS.get(part, "white")


def _inside(outer: str, inner: Sequence[str], place: float, width: float, **style: object) -> tuple:
    """The element for a part that contains others."""

    def draw(ax: Axes, middle: Point, label: str, size: Point) -> None:
        tall = [0.1 + 0.36 * (1 + name.count("\n")) for name in inner]
        top, high = middle[1] + 0.5, 0.53 + sum(tall) + 0.08 * len(inner)
        whole = {"colour": COMPONENTS[label], "letters": 8.5, "label_up": high / 2 - 0.25}
        box(ax, (middle[0], top - high / 2), label, (size[0], high), **whole)
        for row, name in enumerate(inner):
            down = 0.5 + sum(tall[:row]) + 0.08 * row + tall[row] / 2
            mine = {"colour": COMPONENTS["positions"]} if "rotary" in name else {}
            box(ax, (middle[0], top - down), name, (size[0] - 0.2, tall[row]), letters=8, **mine, **style)

    return draw, (place, SIDE), outer, (width, 0.9)


def _note(words: str, middle: Point, width: float, **style: object) -> tuple:
    return partial(box, letters=8, **style), middle, words, (width, 0.4)


def _frame(ax: Axes, right: float, low: float) -> None:
    style = {"boxstyle": "round,pad=0", "facecolor": FRAME, "linewidth": 0.8, "zorder": -1}
    ax.add_patch(FancyBboxPatch((5.85, low), right - 5.85, 2.2 - low, **style))
    ax.text(5.95, 1.83, "layer, repeated", va="bottom", size=8)


def minilm_and_modernbert(*, title: str) -> Figure:
    """Draw MiniLM above ModernBERT: the parts that were removed, moved and added."""
    aside = partial(Axes.text, ha="center", va="center", size=8)
    then = [
        _stage("embedding", 1.1),
        _stage("+ positions\n(a table)", 2.95, **DASHED),
        _stage("LayerNorm", 4.8),
        _note("padding is computed, too", (2.95, SIDE), 4.5, **DASHED),
        (_frame, 16.3, -0.8),
        _note("biases", (14.9, -0.5), 1.6, **DASHED),
        *residual_branch(6.1, 9.3, _inside("attention", ["every layer\nis global"], 7.75, 2.4, **DASHED)),
        _stage("LayerNorm", 10.4, **MOVED),
        _stage("LayerNorm", 15.25, **MOVED),
        *residual_branch(11.5, 14.15, _inside("feed-forward", ["no gate"], 12.85, 2.0, **DASHED)),
    ]
    attends, gates = ["rotary: q and k", "2 of 3 layers:\nsliding window"], ["GeGLU: a gate\nwith GELU"]
    norm = partial(_stage, "LayerNorm", height=SIDE, **MOVED)
    now = [
        _stage("unpadding", 1.1, **CAME),
        _stage("embedding", 2.95),
        _stage("LayerNorm", 4.8),
        (_frame, 17.35, -1.3),
        (aside, 7.2, -0.3, "not in layer 0"),  # layer 0 needs no norm, since the embedding has one
        *residual_branch(6.1, 11.55, norm(7.2), _inside("attention", attends, 9.8, 2.9, **CAME)),
        *residual_branch(11.9, 17.0, norm(13.0), _inside("feed-forward", gates, 15.4, 2.6, **CAME)),
        _stage("final\nLayerNorm", 18.35, **CAME),
        (aside, 18.5, 0.75, "then padding\nis restored"),
    ]
    roads = {
        "MiniLM, built like BERT: norms on the residual stream (post-norm)": (then, 17.3),
        "ModernBERT: norms on the branches (pre-norm)": (now, 19.6),
    }
    figure = draw_residual_streams(roads, (9.4, 2.15), "ids", 0.3)
    for ax in figure.axes:
        ax.set_ylim(-1.4, 2.3)
    legend_of_cells(figure, {"removed": CLEAR | DASHED, "moved": CLEAR | MOVED, "added": CLEAR | CAME})
    alt = "MiniLM: embedding, positions (removed), norm; in a layer, x + attention (always global: removed), "
    alt += (
        "norm, x + feed-forward, norm; biases (removed). ModernBERT: unpadding (new), embedding, norm; in a "
    )
    alt += (
        "layer, x + attention of the norm (moved), with RoPE and in 2 of 3 layers a window (new); x + GeGLU "
    )
    alt += "(new) of the norm (moved); a final norm (new)"
    return finished(figure, title, alt)


SEES = {"facecolor": OPEN, "edgecolor": DARK, "linewidth": 0.3}  # what a token attends to in a layer, and
HEARD = {"facecolor": YES, "edgecolor": YES, "linewidth": 0.6}  # its receptive field after the layer
PLACE = 0.28  # the side length of a cell
AROUND = {"fill": False, "edgecolor": DARK, "linewidth": 1.4, "zorder": 4}
APART = {"fill": False, "edgecolor": HERO, "linewidth": 2.2, "zorder": 5}


def packing(lengths: Sequence[int], *, title: str) -> Figure:
    """Draw texts as a padded batch, as one sequence without padding, and their outputs back in the batch.

    In the second text, two tokens at a distance of 3 have frames.
    """
    count, width = len(lengths), max(lengths)
    figure, (ax,) = canvas(1, (WIDEST, 3.8))
    tops, row = (0.0, -2.6), -1.7
    names = (
        f"batch: {count} × {width}; the numbers are positions",
        "batch of output vectors, restored; 0 at the padding",
    )
    for top, name in zip(tops, names, strict=True):
        ax.text(0, top + 0.1, name, va="bottom", size=9.5, weight="bold")
        for text, length in enumerate(lengths):
            y = top - PLACE * (text + 1)
            ax.text(-0.1, y + PLACE / 2, f"sequence {text + 1}", ha="right", va="center", size=8.5)
            _lay_text(ax, y, text, range(length))
            ax.add_patch(Rectangle((PLACE * length, y), PLACE * (width - length), PLACE, **HIDDEN))
        ax.add_patch(Rectangle((0, top), PLACE * width, -PLACE * count, **AROUND))
    for text, (end, length) in enumerate(zip(np.cumsum(lengths), lengths, strict=True)):
        _lay_text(ax, row, text, range(end - length, end))
    ax.add_patch(Rectangle((0, row), PLACE * sum(lengths), PLACE, **AROUND))
    words = f"packed row of {sum(lengths)} tokens, through all layers; a mask separates the sequences"
    ax.text(0, row + PLACE + 0.1, words, va="bottom", size=9.5, weight="bold")
    edge, end = PLACE * width + 0.16, PLACE * sum(lengths)
    above, below = (top - PLACE * count / 2 for top in tops)
    for top, foot in ((top, top - PLACE * count) for top in tops):  # a bracket around the whole batch
        line(ax, (edge - 0.08, top), (edge, top), (edge, foot), (edge - 0.08, foot))
    enters, leaves, beside = row + 0.75 * PLACE, row + 0.25 * PLACE, end + 0.35
    way(ax, (edge, above), (beside, above), (beside, enters), (end, enters))
    way(ax, (end, leaves), (beside, leaves), (beside, below), (edge, below))
    ax.set(xlim=(-0.6, WIDEST - 0.5), ylim=(-2.65 - PLACE * count, 0.35))
    ax.set_axis_off()
    apart = "two tokens, 3 positions apart in the batch and in the row"
    legend_of_cells(figure, {"padding": HIDDEN, apart: APART})
    alt = f"Top: {count} sequences of {', '.join(map(str, lengths))} tokens, padded to {width}. An arrow "
    alt += f"leads to the middle: their {sum(lengths)} tokens as one row, without padding, which goes "
    alt += "through all layers. An arrow leads to the bottom: the batch again, of output vectors, with 0 at "
    alt += "the padding. Two framed tokens of sequence 2 are 3 positions apart in all of them"
    return finished(figure, title, alt)


def _lay_text(ax: Axes, y: float, text: int, places: range) -> None:
    """Draw the tokens of a text as cells with their positions; in the second text, two have frames."""
    for place in places:
        style = {"facecolor": PALE[text], "edgecolor": "white"}
        ax.add_patch(Rectangle((PLACE * place, y), PLACE, PLACE, **style))
        ax.text(PLACE * (place + 0.5), y + PLACE / 2, place, ha="center", va="center", size=8)
    for place in places[2:6:3] if text == 1 else ():
        ax.add_patch(Rectangle((PLACE * place, y), PLACE, PLACE, **APART))


def receptive_field(
    named: Mapping[str, Sequence[int | None]], length: int, place: int, *, title: str
) -> Figure:
    """Draw what one token attends to in each layer, and its receptive field after that layer.

    A model is a list with the window of each layer, in tokens to each side; None for a global layer.
    """
    count = len(named)
    style = {"columns": count, "height_ratios": (7, 1), "sharey": "row"}
    figure, panels = canvas(2 * count, (WIDEST / count, 0), (0, 6.2), **style)
    of_all = {}
    for ax, (name, windows) in zip(panels, named.items(), strict=False):
        wide = np.array([length if window is None else window for window in windows])
        for up, distances, style in ((-0.23, wide, SEES), (0.2, np.cumsum(wide), HEARD)):
            low, high = np.maximum(place - distances, 0), np.minimum(place + distances, length - 1)
            ax.barh(np.arange(len(wide)) + up, high - low + 1, 0.4, low, **style)
        heard = min(place + wide.sum(), length - 1) - max(place - wide.sum(), 0) + 1
        of_all[ax] = sum(length**2 - far * (far + 1) for far in np.maximum(length - 1 - wide, 0)) / 1e6
        ax.set(title=f"{name}\nreceptive field {heard:,}", xlabel="position", xlim=(0, length))
        ax.set(xticks=(0, place, length), yticks=range(len(wide)))
        ax.xaxis.set_major_formatter("{x:,.0f}")
        for label, side in zip(ax.get_xticklabels(), ("left", "center", "right"), strict=True):
            label.set_horizontalalignment(side)  # away from the next panel
        ax.axvline(place, color=HERO, linewidth=0.8, zorder=0)
        ax.text(place, -0.8, "this token", color=HERO, ha="center", va="bottom", size=8.5)
        if windows[0] is not None:
            ax.text(place + 2.5 * wide[0], -0.2, f"window {2 * wide[0] + 1}", va="center", size=8)
    for ax, pairs in zip(panels[count:], of_all.values(), strict=True):
        ax.barh(0, pairs, 0.8, color=COMPONENTS["scores"])
        ax.text(0, -0.5, f"{pairs:,.0f} million scores", va="bottom", size=9)
        ax.set(xlim=(0, max(of_all.values())), ylim=(0.5, -1.4), xticks=[], yticks=[])
    for ax in panels:
        ax.tick_params(axis="y", length=0, labelsize=8)
        ax.spines[["left", "right", "top"]].set_visible(False)
    panels[0].set(ylabel="layer", ylim=(max(map(len, named.values())) - 0.4, -1.6))
    panels[count].set_ylabel("scores", rotation=0, ha="right")
    scored = {
        "scores of one head in all layers, hidden ones not counted": {"facecolor": COMPONENTS["scores"]}
    }
    kinds = {"attended to in this layer": SEES, "receptive field after this layer": HEARD}
    legend_of_cells(figure, kinds | scored)
    alt = "For each layer: what one token attends to, and its receptive field. Below: the number of scores."
    return finished(figure, title, alt)


def spread_of_a_change(named: Mapping[str, Matrix], tokens: Labels, source: int, *, title: str) -> Figure:
    """Draw the tokens that a change has reached at each stage, with their distance from its source.

    A stage has a name and says which tokens have changed (position,).
    """
    changed = inputs.labelled(np.array([np.asarray(row) for row in named.values()]), list(named), tokens)
    style = {"unit": 0.28, "below": 0.3, "colours": YES_OR_NO, "labels": ("token", "")}
    figure, (ax,) = lay_maps([("", changed)], list(named), tokens, **style)
    distances = np.broadcast_to(np.abs(np.arange(len(tokens)) - source), changed.shape)
    write_words(ax, np.where(changed, np.vectorize(str)(distances), ""), changed, YES)
    kinds = {"changed; distance from the change": {"facecolor": YES}, "unchanged": {"facecolor": NO}}
    legend_of_cells(figure, kinds)
    alt = "A row for each layer, a column for each token. Dark: changed, with its distance; light: unchanged."
    return finished(figure, title, alt)
