"""What a modern layer is made of, what its parts share and keep, and what that costs."""

from collections.abc import Mapping, Sequence

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from transformer_lab.course.figures.base import (
    canvas,
    check_above_zero,
    check_axes,
    check_curves,
    check_few,
    check_labels,
    check_named,
    check_pairs,
    finished,
    line_styles,
    literal,
    numbers_of,
)
from transformer_lab.course.figures.boxes import arrow, box, plus
from transformer_lab.validation import check_number, check_positive

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
MOST_STEPS = 12  # more would be too small to read
STATE_COLOURS = ("#ffffff", "#a6cee3", "#f4b6d2", "#fdbf6f")

GROUP_COLOURS = ("#a6cee3", "#fdbf6f", "#cccccc", "#f4b6d2")  # pale: black text reads well on each
WEIGHTS_COLOUR, CACHE_COLOUR, LIMIT_COLOUR = "#bdbdbd", "#d95f02", "black"
GIB = 2**30
STYLES = ("--", "-.", ":", "-")
AREA_COLOURS = ("#a6cee3", "#bdbdbd", "#d95f02")


def then_and_now(*, title: str) -> Figure:
    """Draw the layer of 2017 above the layer of today; what has changed is lit."""
    figure, axes = canvas(2, 1, (9.6, 3.9))
    for ax, (name, steps) in zip(axes.flat, LAYERS.items(), strict=True):
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
    check_labels("tokens", tokens)
    check_few(len(tokens), MOST_STEPS, "tokens")
    length = len(tokens)
    new = np.diag(np.full(length, STATES.index("new")))
    earlier = np.tri(length, k=-1, dtype=int)
    panels = {
        "without a cache": new + STATES.index("again") * earlier,
        "with a cache": new + STATES.index("kept") * earlier,
    }
    side = 1.0 + 0.5 * length
    figure, axes = canvas(1, 2, (2 * side, side))
    for ax, (name, states) in zip(axes.flat, panels.items(), strict=True):
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
        ValueError: more key heads than colours, or query heads that they cannot share equally.
    """
    check_named(n_kv_heads)
    check_positive(n_heads=n_heads)
    for count in n_kv_heads.values():
        check_positive(n_kv_heads=count)
    check_few(max(n_kv_heads.values()), len(GROUP_COLOURS), "key heads can be drawn")
    for name, count in n_kv_heads.items():
        if n_heads % count:
            raise ValueError(
                f"{name}: got {n_heads} query heads that cannot share {count} equally; take a divisor"
            )
    figure, axes = canvas(1, len(n_kv_heads), (0.75 * n_heads * len(n_kv_heads), 2.5))
    for ax, (name, count) in zip(axes.flat, n_kv_heads.items(), strict=True):
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
    check_axes(ax)
    check_named(models)
    check_number(tokens=tokens, room=room, limit=limit)
    if not 0 <= room <= limit or tokens < 0:
        raise ValueError(
            f"wanted room from 0 to limit, and no fewer tokens than 0, got {room}, {limit}, {tokens}"
        )
    sizes = check_pairs("bytes", list(models.values()), len(models)) / GIB  # (model, weights and one token)
    weights, cache = sizes[:, 0], sizes[:, 1] * tokens
    if sizes.min() < 0 or (weights + cache).max() > limit:
        raise ValueError(
            f"wanted bars from 0 to {limit:g} GiB, got weights {weights} with {cache} in the cache; "
            "raise the limit"
        )
    ax.barh(list(models), weights, color=WEIGHTS_COLOUR, label="weights")
    ax.barh(list(models), cache, left=weights, color=CACHE_COLOUR, label="cache")
    ax.axvline(room, color=LIMIT_COLOUR, linestyle="--", lw=1.2, label=f"{room:g} GiB")
    ax.invert_yaxis()
    ax.set(xlim=(0, limit), xlabel="GiB")
    ax.legend(loc="upper right", fontsize=8)
    literal(ax)


def cost_shares(
    lengths: Sequence[int], parts: Mapping[str, Sequence[float]], marks: Mapping[str, float], *, title: str
) -> Figure:
    """Draw which share of the work each part does, over the length of a text; `marks` names some lengths."""
    lengths = numbers_of(lengths, 1, name="lengths")
    check_above_zero("lengths", lengths)
    values = np.array(list(check_curves(parts, len(lengths), logarithmic=True).values()))
    check_few(len(parts), len(AREA_COLOURS), "parts")
    check_named(marks, empty=True)
    for name, length in marks.items():
        check_number(mark=length)
        if not lengths[0] <= length <= lengths[-1]:
            raise ValueError(f"the mark {name!r} at {length} lies outside the lengths; leave it out")
    shares = values / values.sum(axis=0)
    figure, ((ax,),) = canvas(1, 1, (7.6, 3.6))
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
    """Draw the errors of several runs for each name, one panel per task; each point is a mean over steps.

    The last point of a run is the mean over the steps that are left.
    """
    check_named(panels)
    check_positive(smooth=smooth)
    for named in panels.values():
        check_named(named, in_legend=True)
    styles = line_styles(dict.fromkeys(name for named in panels.values() for name in named), *STYLES)
    figure, axes = canvas(1, len(panels), (4.2 * len(panels), 3.4), sharey=True)
    entries = {}
    for ax, (task, named) in zip(axes.flat, panels.items(), strict=True):
        for name, runs in named.items():
            style, colour = styles[name]
            for run in runs:
                errors = numbers_of(run, 1, name=name)
                steps = np.minimum(np.arange(smooth, len(errors) + smooth, smooth), len(errors))
                means = [errors[max(0, step - 1) // smooth * smooth : step].mean() for step in steps]
                (line,) = ax.plot(steps, means, linestyle=style, color=colour, linewidth=2, label=name)
                entries[name] = line
        ax.set(title=task, xlabel="step")
        ax.grid(alpha=0.3)
    axes[0, 0].set_ylim(min(0, *(ax.dataLim.y0 for ax in axes.flat)), None)
    axes[0, 0].set_ylabel("error")
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(title)
    return finished(figure)
