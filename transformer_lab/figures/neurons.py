"""Neurons: the bends they are made of, what they answer to, and where a model keeps its parameters."""

from collections.abc import Callable, Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from transformer_lab.figures.base import Matrix, finished, numbers_of
from transformer_lab.figures.heatmaps import draw_matrix

OWN, OTHERS = "#d95f02", "#6b6b6b"
SHARE_SHOWN = 0.04  # a smaller part of a bar has no room for its number
BAR_COLOURS = ("#bdbdbd", "#fdbf6f", "#a6cee3", "#404040")  # pale where a number stands on them


def activation_curves(
    functions: Mapping[str, Callable[[Tensor], Tensor]],
    *,
    title: str,
    limits: tuple[float, float] = (-4.0, 4.0),
) -> Figure:
    """Draw functions of one number side by side with their slopes, which `torch.autograd` finds."""
    x = torch.linspace(*limits, 401, dtype=torch.float64, requires_grad=True)
    figure, (values, slopes) = plt.subplots(1, 2, figsize=(9.2, 3.5), layout="constrained")
    for (name, function), style in zip(functions.items(), ("-", "--", "-.", ":", "-"), strict=False):
        y = function(x)
        (slope,) = torch.autograd.grad(y.sum(), x)
        values.plot(numbers_of(x), numbers_of(y), style, label=name)
        slopes.plot(numbers_of(x), numbers_of(slope), style, label=name)
    values.set(title="the function", xlabel="before the activation", ylabel="after it")
    slopes.set(title="its slope", xlabel="before the activation", ylabel="what the gradient is multiplied by")
    for ax in (values, slopes):
        ax.grid(alpha=0.3)
    values.legend()
    figure.suptitle(title)
    return finished(figure)


def planes(
    functions: Mapping[str, Callable[[Tensor, Tensor], Tensor]],
    *,
    xlabel: str,
    ylabel: str,
    title: str,
    bar: str,
    limits: tuple[float, float] = (-3.0, 3.0),
    reach: float | None = None,
    points: Mapping[str, tuple[float, float]] | None = None,
) -> Figure:
    """Draw functions of two numbers on one signed scale, as far as `reach`; `points` are marked and named."""
    line = torch.linspace(*limits, 61, dtype=torch.float64)
    x, y = torch.meshgrid(line, line, indexing="xy")
    values = {name: numbers_of(function(x, y).expand(x.shape)) for name, function in functions.items()}
    reach = reach or max(np.abs(each).max() for each in values.values())
    figure, axes = plt.subplots(
        1, len(values), figsize=(1.2 + 3.1 * len(values), 3.5), layout="constrained", squeeze=False
    )
    for ax, (name, each) in zip(axes.flat, values.items(), strict=True):
        image = ax.imshow(
            each, cmap="RdBu_r", vmin=-reach, vmax=reach, extent=(*limits, *limits), origin="lower"
        )
        ax.set(title=name, xlabel=xlabel, ylabel=ylabel)
        ax.locator_params(nbins=4)
        for word, (across, up) in (points or {}).items():
            ax.plot(across, up, "o", color="black", markersize=5)
            ground = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}
            ax.annotate(
                word, (across, up), (0, 7), textcoords="offset points", ha="center", size=8, bbox=ground
            )
    figure.colorbar(image, ax=axes, label=bar, shrink=0.8)
    figure.suptitle(title)
    return finished(figure)


def word_strips(
    named: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, legend: tuple[str, str], title: str
) -> Figure:
    """Draw one row per name: a neuron's activation for words of its own kind, and for all the others."""
    figure, ax = plt.subplots(figsize=(7.4, 0.9 + 0.34 * len(named)), layout="constrained")
    for kind, colour, marker in ((1, OTHERS, "|"), (0, OWN, "o")):
        rows = [numbers_of(words[kind]) for words in named.values()]
        y = np.concatenate([np.full(len(row), place) for place, row in enumerate(rows)])
        ax.scatter(np.concatenate(rows), y, s=26, color=colour, marker=marker, label=legend[kind], zorder=2)
    ax.set_yticks(range(len(named)), list(named))
    ax.invert_yaxis()
    ax.set(xlabel="activation", title=title)
    ax.grid(alpha=0.3, axis="x")
    ax.legend(loc="lower right")
    return finished(figure)


def neuron_map(activations: Matrix, names: Sequence[str], tokens: Sequence[str], *, title: str) -> Figure:
    """Draw activations (neuron, token), neurons down and tokens across; below zero is shown as zero."""
    values = np.maximum(numbers_of(activations), 0.0)
    size = (2.8 + 0.33 * len(tokens), 1.5 + 0.33 * len(names))
    figure, ax = plt.subplots(figsize=size, layout="constrained")
    limits = (0.0, float(values.max()))
    draw_matrix(ax, values, names, tokens, title=title, limits=limits, numbers=False, bar="activation")
    ax.set(xlabel="token", ylabel="neuron")
    return finished(figure)


def parameter_bars(models: Mapping[str, Mapping[str, int]], *, title: str) -> Figure:
    """Draw for each model which share of its parameters each part has; all have the same parts."""
    parts = list(next(iter(models.values())))
    counts = np.array([[model[part] for part in parts] for model in models.values()], dtype=float)
    shares = counts / counts.sum(axis=1, keepdims=True)
    starts = np.cumsum(shares, axis=1) - shares
    figure, ax = plt.subplots(figsize=(8.4, 1.3 + 0.5 * len(models)), layout="constrained")
    for column, (part, colour) in enumerate(zip(parts, BAR_COLOURS, strict=False)):
        bars = ax.barh(list(models), shares[:, column], left=starts[:, column], color=colour, label=part)
        room = [f"{share:.0%}" if share >= SHARE_SHOWN else "" for share in shares[:, column]]
        ax.bar_label(bars, labels=room, label_type="center", color="black")
    ax.invert_yaxis()
    ax.set(xlim=(0, 1), xlabel="share of the parameters", title=title)
    ax.legend(ncols=len(parts), loc="upper center", bbox_to_anchor=(0.5, -0.28), frameon=False)
    return finished(figure)
