"""Heads: how features are cut into them, and all heads of a model at a glance."""

from collections.abc import Mapping, Sequence

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from transformer_lab.course.figures.base import (
    MARK,
    Matrix,
    canvas,
    check_labels,
    check_marked,
    check_named,
    check_scale,
    finished,
    numbers_of,
)
from transformer_lab.multi_head_attention import check_divisible

HEAD_COLOURS = ("#a6cee3", "#fdbf6f", "#cccccc", "#f4b6d2")  # pale: black text reads well on each


def head_blocks(
    panels: Mapping[str, Tensor], tokens: Sequence[str], d_model: int, n_heads: int, *, title: str = ""
) -> Figure:
    """Draw where each number of a small tensor came from: its token in words, its head as a colour.

    Args:
        panels: integer matrices; an entry t · d_model + f stands for feature f of token t.
        tokens: one for each t.
        d_model, n_heads: how the features belong to heads; at most four heads.
        title: says what to see.

    Raises:
        ValueError: more heads than colours, heads that cannot share the features, an entry of no token.
    """
    check_named(panels)
    check_divisible(d_model, n_heads)
    if n_heads > len(HEAD_COLOURS):
        raise ValueError(f"n_heads must be at most {len(HEAD_COLOURS)}, got {n_heads}; draw fewer heads")
    check_labels("tokens", tokens)
    origins = {name: _origin(name, entries, len(tokens) * d_model) for name, entries in panels.items()}
    check_labels("tokens", tokens, 1 + int(max(origin.max() for origin in origins.values())) // d_model)
    sizes = [origin.shape for origin in origins.values()]
    size = sum(0.35 + 0.68 * width for _, width in sizes), 1.0 + 0.42 * max(rows for rows, _ in sizes)
    figure, axes = canvas(1, len(panels), size, width_ratios=[width for _, width in sizes])
    for ax, (name, origin) in zip(axes.flat, origins.items(), strict=True):
        _draw_blocks(ax, origin, tokens, d_model, n_heads)
        ax.set_title(name)
    figure.suptitle(title)
    return finished(figure)


def _origin(name: str, entries: Tensor, count: int) -> np.ndarray:
    """The entries as integers; raise unless each belongs to a feature of a token."""
    numbers = numbers_of(entries, 2, name=name)
    if (numbers != numbers.round()).any() or numbers.min() < 0 or numbers.max() >= count:
        raise ValueError(f"{name} must hold integers from 0 to {count - 1}, got others; see torch.arange")
    return numbers.astype(int)


def _draw_blocks(ax: Axes, origin: np.ndarray, tokens: Sequence[str], d_model: int, n_heads: int) -> None:
    token, feature = origin // d_model, origin % d_model
    words = [
        [f"{tokens[t]} {f}" for t, f in zip(*row, strict=True)] for row in zip(token, feature, strict=True)
    ]
    sns.heatmap(
        feature // (d_model // n_heads),
        ax=ax,
        vmin=0,
        vmax=n_heads,
        cmap=ListedColormap(HEAD_COLOURS[:n_heads]),
        annot=np.array(words),
        fmt="",
        annot_kws={"size": 8, "color": "black"},
        linewidths=1.5,
        linecolor="white",
        cbar=False,
        xticklabels=False,
        yticklabels=False,
    )


def head_atlas(
    maps: Matrix, *, marked: Mapping[tuple[int, int], str] | None = None, title: str = ""
) -> Figure:
    """Draw every attention map (layer, head, query_pos, key_pos) of a model, small; `marked` names some.

    One picture of tiles, not one panel for each map: it is drawn faster, and told in fewer words.
    """
    values = numbers_of(maps, 4, name="the maps (layer, head, query_pos, key_pos)")
    n_layers, n_heads, length, width = values.shape
    if width != length:
        raise ValueError(f"each map must be square, got shape {values.shape}; take self-attention")
    marked = {} if marked is None else marked
    check_marked(marked, (n_layers, n_heads))
    check_scale(values, (0, 1))
    gap = 2 + length // 5  # room for the names
    pitch = length + gap
    tiles = np.full((n_layers * pitch, n_heads * pitch - gap), np.nan)
    corners = {(i, j): (i * pitch + gap, j * pitch) for i, j in np.ndindex(n_layers, n_heads)}
    for (layer, head), (top, left) in corners.items():
        tiles[top : top + length, left : left + length] = values[layer, head]
    figure, ((ax,),) = canvas(1, 1, (0.86 * n_heads + 0.9, 0.8 * n_layers + 0.7))
    image = ax.imshow(tiles, vmin=0, vmax=1, cmap="viridis", interpolation="nearest")
    for place, name in marked.items():
        _mark(ax, corners[place], length, name)
    middle = length / 2 - 0.5
    ax.set_xticks([j * pitch + middle for j in range(n_heads)], [f"head {j}" for j in range(n_heads)])
    ax.set_yticks(
        [i * pitch + gap + middle for i in range(n_layers)], [f"layer {i}" for i in range(n_layers)]
    )
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    figure.colorbar(image, label="attention weight", shrink=0.6)
    figure.suptitle(title)
    return finished(figure)


def _mark(ax: Axes, corner: tuple[int, int], length: int, name: str) -> None:
    """A frame around one tile, and its name above."""
    top, left = corner
    ax.add_patch(Rectangle((left - 0.5, top - 0.5), length, length, fill=False, color=MARK, linewidth=2.5))
    ax.text(left + length / 2 - 0.5, top - 1, name, size=7.5, ha="center", va="bottom")
