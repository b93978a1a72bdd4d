"""Drawings of lesson 11: the paper's layer and head compared with the tutorial's."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

from transformer_course.figures import inputs
from transformer_course.figures.colours import COMPONENTS, DARK, ROLES, SILVER, pale
from transformer_course.figures.layout import canvas, finished, two_decimals
from transformer_course.figures.shapes import arrow, box, cells, line, plus, way

LANES, SHOWN = 1.3, 6  # distance of two lanes from the centre; number of drawn features


def two_blocks(
    layer: nn.Module, block: nn.Module, x: torch.Tensor, tokens: Mapping[str, int], *, title: str
) -> Figure:
    """Draw the path of two tokens through the paper's layer and through the tutorial's block.

    `x` is the input of both, (1, position, d_model); `tokens` maps each drawn token to its position.
    """
    joined = torch.cat([block.attention(block.norm(x))[0], x], dim=-1)  # [A ‖ x]
    tables = x, joined, block.feed_forward(joined), layer(x)[0], block(x)[0]
    drawn = (table[0, list(tokens.values())] for table in tables)
    weight, x, *more = (inputs.numbers_of(table, 2) for table in (block.output_projection.weight, *drawn))
    first, d_model = _typical(x, more[2:]), x.shape[1]
    # Move the drawn features to the front, in each half of a concatenation, and likewise the rows of W.
    rolled = (np.roll(table.reshape(len(table), -1, d_model), -first, axis=2) for table in (x, weight, *more))
    x, weight, *more = (table.reshape(len(table), -1) for table in rolled)
    weight, joined, ends = np.roll(weight, -first, axis=0), more[:2], more[2:]
    figure, panels = canvas(2, (9.2, 2.75), columns=1)
    names = (
        "The paper's layer: x goes on, and the output of each part is added to it",
        "The tutorial's block: A and x are concatenated, and everything goes through W",
    )
    for ax, name, end, parts in zip(panels, names, ends, (_draw_added, _draw_beside), strict=True):
        table = zip(tokens, (LANES, -LANES), x, end, _cosines(x, end), strict=True)
        for token, lane, one, other, cosine in table:
            ax.text(0.05, lane, token, ha="right", va="center", size=10, weight="bold")
            cells(ax, (0.2, lane + 0.36), (0.3, 0.72), _shown(one)[:, None], 0.12)
            cells(ax, (12.6, lane + 0.36), (0.3, 0.72), _shown(other)[:, None], 0.12)
            ax.text(
                13.1, lane, f"cosine with x\n(all {d_model}): {two_decimals(cosine)}", va="center", size=9
            )
        parts(ax, joined, weight)
        ax.set_title(name, loc="left", size=10)
        ax.set(xlim=(-0.9, 14.6), ylim=(-1.8, 1.8), aspect="equal")
        ax.set_axis_off()
    kept = " and ".join(map(two_decimals, _cosines(x, joined[1][:, d_model:])))
    panels[1].text(9.75, 0, f"x's half: cosine\nstill {kept}", ha="center", va="center", size=8.5)
    caption = "randomly initialised weights, the same for both tokens; "
    caption += f"{SHOWN} of {d_model} features are drawn, chosen so that their cosines are typical\n"
    caption += "red: positive, blue: negative; each vector scaled to length 1, W on its own scale; "
    caption += "thick: x, or [A ‖ x]\n"
    caption += "not drawn: the other tokens, the norm inside the feed-forward of the block, and the bias of W"
    figure.supxlabel(caption, size=9)
    of = [" and ".join(map(two_decimals, _cosines(x, end))) for end in ends]
    alt = f"Above: attention reads the lanes of {' and '.join(tokens)} and is added to each, norm; "
    alt += f"feed-forward is added, norm; cosine with x: {of[0]}. Below: norm, attention A, [A ‖ x]; "
    alt += f"feed-forward is added (cosine of x's half: {kept}); then the random W; cosine with x: {of[1]}"
    return finished(figure, title, alt)


def _typical(x: np.ndarray, ends: Sequence[np.ndarray]) -> int:
    """Return the first of SHOWN features whose cosines with x are closest to the cosines of all features."""
    wanted, starts = [_cosines(x, end) for end in ends], range(max(1, x.shape[1] - SHOWN + 1))
    parts = [[_cosines(*(v[:, start : start + SHOWN] for v in (x, end))) for end in ends] for start in starts]
    return int(np.abs(np.array(parts) - wanted).sum(axis=(1, 2)).argmin())


def _cosines(x: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return the cosine similarity of two vectors, for each token."""
    return (x * end).sum(axis=1) / np.linalg.norm(x, axis=1) / np.linalg.norm(end, axis=1)


def _shown(vector: np.ndarray) -> np.ndarray:
    """Return some features of a vector scaled to length 1."""
    return (vector / np.linalg.norm(vector))[:SHOWN]


def _draw_added(ax: Axes, *_: object) -> None:
    """Draw the parts of the paper's layer on both lanes."""
    box(ax, (3.4, 0), "attention", (1.5, 0.9), COMPONENTS["attention"], letters=8.5)
    for lane, side in ((LANES, 1), (-LANES, -1)):
        box(ax, (8.6, 0.4 * side), "feed-forward", (1.5, 0.6), COMPONENTS["feed-forward"], letters=8.5)
        for read, back, low in ((1.7, 5.1, 0.25 * side), (7.2, 10.0, 0.4 * side)):
            middle = (read + back) / 2
            way(ax, (read, lane), (read, low), (middle - 0.75, low))
            way(ax, (middle + 0.75, low), (back, low), (back, lane - 0.22 * side))
            plus(ax, (back, lane), 0.22)
            box(ax, (back + 1.1, lane), "norm", (0.85, 0.55), COMPONENTS["norm"], letters=8.5)
        arrow(ax, (0.6, lane), (12.5, lane), width=5, colour=DARK)


def _draw_beside(ax: Axes, joined: Sequence[np.ndarray], weight: np.ndarray) -> None:
    """Draw the parts of the tutorial's block on both lanes."""
    d_model, tall, thick = len(weight), 0.22, {"color": DARK, "linewidth": 5}
    columns = np.r_[:SHOWN, d_model : d_model + SHOWN]
    box(ax, (3.05, 0), "attention", (1.2, 1.1), COMPONENTS["attention"], letters=8.5)
    for token, (lane, side) in enumerate(((LANES, 1), (-LANES, -1))):
        row, low, inner = 0.75 * side, 0.3 * side, 0.33 * side
        ax.plot([0.6, 5.71, 5.71], [lane, lane, row + 0.35 * side], **thick, zorder=1)
        arrow(ax, (5.71, row + 0.5 * side), (5.71, row + 0.1 * side), width=5, colour=DARK)
        way(ax, (1.0, lane), (1.0, low), (1.36, low))
        box(ax, (1.75, low), "norm", (0.75, 0.5), COMPONENTS["norm"], letters=8.5)
        arrow(ax, (2.13, low), (2.44, low))
        way(ax, (3.65, low), (3.9, low), (3.9, row), (4.2, row))
        pink = COMPONENTS["feed-forward"]
        box(ax, (7.45, row - 0.19 * side), "", (2.08, 0.92), pink, zorder=1)
        ax.text(7.46, inner, "feed-forward", ha="center", va="center", size=7.5)
        way(ax, (6.54, row), (6.54, inner), (6.82, inner))
        way(ax, (8.12, inner), (8.28, inner), (8.28, row - 0.14 * side))
        arrow(ax, (6.2, row), (8.73, row), width=5, colour=DARK)
        plus(ax, (8.28, row), 0.14)
        for left, vector in zip((4.25, 8.75), joined, strict=True):
            shown = (vector[token] / np.linalg.norm(vector[token]))[columns % vector.shape[1]]
            cells(ax, (left, row + tall / 2), (1.92, tall), shown[None], 0.1)
            line(ax, (left + 0.96, row - tall / 2), (left + 0.96, row + tall / 2), width=2, zorder=4)
        arrow(ax, (10.7, row), (11.1, row), width=5, colour=DARK)
        corner = weight[:SHOWN, columns[columns < 2 * d_model]]
        cells(ax, (11.15, row + 0.3), (0.9, 0.6), corner, np.abs(weight).max())  # both lanes use the same W
        way(ax, (12.05, row), (12.25, row), (12.25, lane), (12.55, lane))
    ax.text(11.6, 0, "the same W,\nrandom", ha="center", va="center", size=8.5)
    for left, word in zip((4.15, 4.73, 5.21, 5.69, 6.27), "[A‖x]", strict=True):
        ax.text(left, 0, word, ha="center", va="center", size=10, weight="bold")


def two_heads_inside(d_model: int, n_heads: int, *, title: str) -> Figure:
    """Draw how the paper's head computes query, key and value from x, and the tutorial's from norm(x)."""
    figure, panels = canvas(2, (9.2, 2.5), columns=1)
    d_head = d_model // n_heads
    names = (
        f"A head of the paper's layer, 1 of {n_heads}: a Linear each computes q, k and v, {d_head} features",
        f"A head of the tutorial's block: a Linear computes c, {d_model} features; q, k and v: c + a unit",
    )
    for ax, name, is_copy in zip(panels, names, (False, True), strict=True):
        wide = 1.3 if is_copy else 1.3 / n_heads
        enters = f"norm(x):\n{d_model}" if is_copy else f"x: {d_model}"
        box(ax, (0.75, 0), enters, (1.3, 0.5), SILVER, letters=8.5, rounding=0.02)
        start = 1.45
        if is_copy:
            arrow(ax, (1.4, 0), (1.75, 0))
            box(ax, (2.1, 0), "Linear", (0.7, 0.5), COMPONENTS["attention"], letters=8.5)
            arrow(ax, (2.45, 0), (2.8, 0))
            box(ax, (3.45, 0), f"c: {d_model}", (1.3, 0.42), SILVER, letters=9, weight="bold", rounding=0.02)
            start = 4.1
        for lane, role in zip((1.0, 0, -1.0), ROLES, strict=True):
            _make_role(ax, start, lane, role, wide, is_copy=is_copy)
        words = f"softmax of\nq · all k ÷ √{d_model if is_copy else d_head},\ntimes all v"
        box(ax, (10.47, 0), words, (1.66, 1.3), COMPONENTS["attention"], letters=8)
        arrow(ax, (11.3, 0), (11.7, 0))
        ax.set_title(name, loc="left", size=10)
        ax.set(xlim=(0, 11.8), ylim=(-1.65, 1.3), aspect="equal")
        ax.set_axis_off()
    words = "thick: c, the output of this head's linear layer; the norm inside each network is not drawn\n"
    words += "rotate: by the position, q and k only; the widths of the vectors are to scale"
    figure.supxlabel(words, size=9)
    alt = "Above: x goes through W_Q, W_K and W_V to q, k and v; q and k are rotated; then softmax(q · k), "
    alt += "times v. Below: norm(x), a linear layer, c; from c in three lanes q, k and v, each c plus the "
    alt += "output of a small network; q and k are rotated; then the same softmax, times v"
    return finished(figure, title, alt)


def _make_role(ax: Axes, start: float, lane: float, role: str, wide: float, *, is_copy: bool) -> None:
    """Draw a lane that computes a query, key or value: with a linear layer, or by adding to c."""
    if is_copy:
        ax.plot([start, start + 0.25, start + 0.25], [0, 0, lane], color=DARK, linewidth=4, zorder=1)
        arrow(ax, (start + 0.25, lane), (7.0, lane), width=4, colour=DARK)
        way(ax, (start + 0.45, lane), (start + 0.45, lane - 0.36), (start + 0.75, lane - 0.36), width=1)
        network = start + 1.45, lane - 0.36
        box(ax, (start + 1.45, lane - 0.14), "", (2.3, 0.82), pale(COMPONENTS["feed-forward"], 0.4), zorder=0)
        ax.text(start + 1.45, lane + 0.16, "unit", ha="center", va="center", size=8)
        box(ax, network, f"network of {role[0]}", (1.4, 0.3), COMPONENTS["feed-forward"], letters=8)
        way(ax, (start + 2.15, lane - 0.36), (start + 2.4, lane - 0.36), (start + 2.4, lane - 0.14), width=1)
        plus(ax, (start + 2.4, lane), 0.13)
    else:
        way(ax, (start, 0), (start + 0.3, 0), (start + 0.3, lane), (3.6, lane), width=1.2)
        box(ax, (4.2, lane), f"W_{role[0].upper()}", (1.1, 0.42), COMPONENTS["attention"], letters=8.5)
        arrow(ax, (4.8, lane), (7.0, lane))
    box(ax, (7.1 + wide / 2, lane), "", (wide, 0.36), pale(ROLES[role], 0.5), rounding=0.02)
    words = f"{role[0]} = c + …" if is_copy else role[0]
    place = (7.1 + wide / 2, "center") if is_copy else (7.2 + wide, "left")
    ax.text(place[0], lane, words, ha=place[1], va="center", size=8.5, zorder=5)
    edge = wide + (7.1 if is_copy else 7.45)  # the right edge of the vector or of its name
    if role != "value":
        arrow(ax, (edge, lane), (8.68, lane))
        box(ax, (8.98, lane), "rotate", (0.6, 0.36), COMPONENTS["positions"], letters=8)
        edge = 9.28
    way(ax, (edge, lane), (9.4, lane), (9.4, 0.4 * lane), (9.64, 0.4 * lane), width=1.2)
