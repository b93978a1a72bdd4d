"""What a modern layer is made of, what its parts share and keep, and what that costs."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from transformer_lab.figures.base import finished, numbers_of
from transformer_lab.figures.boxes import arrow, box, plus

# A layer as a row of steps: (kind, label). A road leaves at "read" and comes back at the next "add".
LAYERS = {
    "2017": (
        ("part", "embedding\n× √d_model"),
        ("part", "add\nsinusoids"),
        ("read", ""),
        ("part", "attention\n8 query heads\n8 key heads"),
        ("add", ""),
        ("part", "LayerNorm"),
        ("read", ""),
        ("part", "feed-forward\nReLU"),
        ("add", ""),
        ("part", "LayerNorm"),
    ),
    "today": (
        ("part", "embedding"),
        ("read", ""),
        ("changed", "RMSNorm"),
        ("changed", "rotary attention\n8 query heads\n2 key heads"),
        ("add", ""),
        ("read", ""),
        ("changed", "RMSNorm"),
        ("changed", "feed-forward\nSwiGLU"),
        ("add", ""),
        ("changed", "RMSNorm\nat the end"),
    ),
}
WIDTHS = {"part": 2.0, "changed": 2.0, "add": 0.75, "read": 0.35}
LIT = "#ffc425"

STATES = ("", "kept", "again", "new")  # what becomes of a token's key and value in one step
STATE_COLOURS = ("#ffffff", "#a6cee3", "#f4b6d2", "#fdbf6f")

GROUP_COLOURS = ("#a6cee3", "#fdbf6f", "#cccccc", "#f4b6d2")  # pale: black text reads well on each
WEIGHTS_COLOUR, CACHE_COLOUR, LIMIT_COLOUR = "#bdbdbd", "#d95f02", "black"
GIB = 2**30
AREA_COLOURS = ("#a6cee3", "#bdbdbd", "#d95f02")


def then_and_now(*, title: str) -> Figure:
    """Draw the layer of 2017 above the layer of today; what has changed is lit."""
    figure, axes = plt.subplots(2, 1, figsize=(9.6, 3.9), layout="constrained")
    for ax, (name, steps) in zip(axes, LAYERS.items(), strict=True):
        _draw_layer(ax, steps)
        ax.set_title(name, loc="left")
    figure.suptitle(title)
    return finished(figure)


def _draw_layer(ax: Axes, steps: Sequence[tuple[str, str]]) -> None:
    place, start = 0.0, 0.0
    for kind, label in steps:
        width = WIDTHS[kind]
        middle = place + width / 2
        arrow(ax, (place - 0.12, 0), (place + 0.2, 0))
        if kind == "read":
            start = middle
            ax.plot([place, place + width], [0, 0], color="black", lw=1.2, zorder=0)
        elif kind == "add":
            ax.plot([start, start, middle], [0, -0.95, -0.95], color="black", lw=1.2, zorder=0)
            arrow(ax, (middle, -0.95), (middle, -0.2))
            plus(ax, (middle, 0))
        else:
            colour = LIT if kind == "changed" else "white"
            box(ax, (middle, 0), label, (width - 0.3, 1.2), colour, letters=8)
        place += width
    arrow(ax, (place - 0.12, 0), (place + 0.25, 0))
    ax.set(xlim=(-0.3, 14.7), ylim=(-1.05, 0.75), aspect="equal")
    ax.set_axis_off()


def cache_steps(tokens: Sequence[str], *, title: str) -> Figure:
    """Draw, for a text that grows by one token a step, whose keys and values are computed, or kept."""
    length = len(tokens)
    new = np.diag(np.full(length, STATES.index("new")))
    earlier = np.tri(length, k=-1, dtype=int)
    panels = {
        "without a cache": new + STATES.index("again") * earlier,
        "with a cache": new + STATES.index("kept") * earlier,
    }
    side = 1.0 + 0.5 * length
    figure, axes = plt.subplots(1, 2, figsize=(2 * side, side), layout="constrained")
    for ax, (name, states) in zip(axes, panels.items(), strict=True):
        sns.heatmap(
            states,
            ax=ax,
            vmin=-0.5,
            vmax=len(STATES) - 0.5,
            cmap=ListedColormap(STATE_COLOURS),
            annot=np.array(STATES)[states],
            fmt="",
            annot_kws={"size": 8, "color": "black"},
            linewidths=0.8,
            linecolor="white",
            cbar=False,
            square=True,
            xticklabels=list(tokens),
            yticklabels=[str(step) for step in range(length)],
        )
        ax.set(title=name, xlabel="key and value of", ylabel="step")
        ax.tick_params(length=0, rotation=0)
        ax.set_xticklabels(ax.get_xticklabels(), rotation=90)
    figure.suptitle(title)
    return finished(figure)


def key_sharing(n_heads: int, n_kv_heads: Mapping[str, int], *, title: str) -> Figure:
    """Draw which query head reads which key and value head, one panel for each way to share them.

    Raises:
        ValueError: more key heads than colours.
    """
    if max(n_kv_heads.values()) > len(GROUP_COLOURS):
        raise ValueError(
            f"at most {len(GROUP_COLOURS)} key heads can be drawn, got {max(n_kv_heads.values())}; draw fewer"
        )
    figure, axes = plt.subplots(
        1, len(n_kv_heads), figsize=(0.75 * n_heads * len(n_kv_heads), 2.5), layout="constrained"
    )
    for ax, (name, count) in zip(np.atleast_1d(axes), n_kv_heads.items(), strict=True):
        group = n_heads // count
        for head in range(n_heads):
            middle = (head // group + 0.5) * group - 0.5
            colour = GROUP_COLOURS[head // group]
            ax.plot([head, middle], [1.2, 0], color="black", lw=1.2, zorder=0)
            box(ax, (head, 1.2), f"q{head}", (0.7, 0.5), colour, letters=8)
            if head % group == 0:
                box(ax, (middle, 0), f"k{head // group} v{head // group}", (0.9, 0.5), colour, letters=8)
        ax.set(xlim=(-0.7, n_heads - 0.3), ylim=(-0.4, 1.6), aspect="equal", title=name)
        ax.set_axis_off()
    figure.suptitle(title)
    return finished(figure)


def draw_memory(
    ax: Axes, models: Mapping[str, tuple[float, float]], tokens: float, *, room: float, limit: float
) -> None:
    """Draw a bar for each model, in GiB: its weights, and the cache of `tokens` tokens behind them.

    Args:
        ax: where to draw.
        models: bytes of the weights, and of one token in the cache, by name.
        tokens: how many tokens the cache holds.
        room: a line at so many GiB.
        limit: where the axis ends.
    """
    weights = np.array([bytes_of / GIB for bytes_of, _ in models.values()])
    cache = np.array([per_token * tokens / GIB for _, per_token in models.values()])
    ax.barh(list(models), weights, color=WEIGHTS_COLOUR, label="weights")
    ax.barh(list(models), cache, left=weights, color=CACHE_COLOUR, label="cache")
    ax.axvline(room, color=LIMIT_COLOUR, linestyle="--", lw=1.2, label=f"{room:g} GiB")
    ax.invert_yaxis()
    ax.set(xlim=(0, limit), xlabel="GiB")
    ax.legend(loc="upper right", fontsize=8)


def cost_shares(
    lengths: Sequence[int], parts: Mapping[str, Sequence[float]], marks: Mapping[str, float], *, title: str
) -> Figure:
    """Draw which share of the work each part does, over the length of a text; `marks` names some lengths."""
    values = np.array([numbers_of(part) for part in parts.values()])
    shares = values / values.sum(axis=0)
    figure, ax = plt.subplots(figsize=(7.6, 3.6), layout="constrained")
    ax.stackplot(lengths, shares, labels=list(parts), colors=AREA_COLOURS)
    for name, length in marks.items():
        ax.axvline(length, color="black", linestyle="--", lw=1.2)
        ax.text(length, 1.01, name, ha="center", va="bottom", size=9)
    ax.set_xscale("log", base=2)
    ax.set_xticks(lengths, [f"{length:g}" for length in lengths])
    ax.minorticks_off()
    ax.set(xlim=(lengths[0], lengths[-1]), ylim=(0, 1), xlabel="tokens", ylabel="share of the operations")
    ax.set_title(title, pad=20)
    figure.legend(loc="outside lower center", ncols=len(parts), frameon=False)
    return finished(figure)


def error_curves(
    panels: Mapping[str, Mapping[str, Sequence[Sequence[float]]]], *, title: str, smooth: int = 10
) -> Figure:
    """Draw the errors of several runs for each name, one panel per task; each point is a mean over steps."""
    figure, axes = plt.subplots(
        1, len(panels), figsize=(4.2 * len(panels), 3.4), sharey=True, layout="constrained", squeeze=False
    )
    colours = plt.rcParams["axes.prop_cycle"].by_key()["color"]
    entries = {}
    for ax, (task, named) in zip(axes.flat, panels.items(), strict=True):
        for (name, runs), style, colour in zip(named.items(), ("--", "-.", ":", "-"), colours, strict=False):
            for run in runs:
                means = numbers_of(run)[: len(run) // smooth * smooth].reshape(-1, smooth).mean(axis=1)
                steps = smooth * np.arange(1, len(means) + 1)
                (line,) = ax.plot(steps, means, linestyle=style, color=colour, linewidth=2, label=name)
                entries[name] = line
        ax.set(title=task, xlabel="step", ylim=(0, None))
        ax.grid(alpha=0.3)
    axes[0, 0].set_ylabel("error")
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(title)
    return finished(figure)
