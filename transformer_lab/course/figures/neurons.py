"""Neurons: the bends they are made of, what they answer to, and where a model keeps its parameters."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from transformer_lab.course.figures.base import (
    Matrix,
    canvas,
    check_few,
    check_functions,
    check_labels,
    check_limits,
    check_named,
    check_pairs,
    finished,
    from_zero,
    line_styles,
    numbers_of,
)
from transformer_lab.course.figures.heatmaps import draw_matrix
from transformer_lab.validation import check_number

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
    check_functions(functions)
    check_limits(limits)
    styles = line_styles(functions, "-", "--", "-.", ":", "-")
    x = torch.linspace(*limits, 401, dtype=torch.float64, requires_grad=True)
    figure, ((values, slopes),) = canvas(1, 2, (9.2, 3.5))
    for name, function in functions.items():
        style, colour = styles[name]
        y = function(x)
        if not isinstance(y, Tensor) or y.shape != x.shape or not y.requires_grad:
            raise TypeError(f"{name} must be a function of a tensor that autograd can follow, got {y!r:.60}")
        (slope,) = torch.autograd.grad(y.sum(), x)
        values.plot(numbers_of(x), numbers_of(y), style, color=colour, label=name)
        slopes.plot(numbers_of(x), numbers_of(slope), style, color=colour, label=name)
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
    check_functions(functions)
    check_limits(limits)
    points = {} if points is None else points
    _check_points(points, limits)
    line = torch.linspace(*limits, 61, dtype=torch.float64)
    x, y = torch.meshgrid(line, line, indexing="xy")
    values = {
        name: np.broadcast_to(numbers_of(function(x, y), name=name), x.shape)
        for name, function in functions.items()
    }
    if reach is None:
        reach = max(np.abs(each).max() for each in values.values()) or 1.0
    check_number(reach=reach, above=0)
    figure, axes = canvas(1, len(values), (1.2 + 3.1 * len(values), 3.5))
    for ax, (name, each) in zip(axes.flat, values.items(), strict=True):
        image = ax.imshow(
            each, cmap="RdBu_r", vmin=-reach, vmax=reach, extent=(*limits, *limits), origin="lower"
        )
        ax.set(title=name, xlabel=xlabel, ylabel=ylabel)
        ax.locator_params(nbins=4)
        for word, (across, up) in points.items():
            ax.plot(across, up, "o", color="black", markersize=5)
            ground = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}
            ax.annotate(
                word, (across, up), (0, 7), textcoords="offset points", ha="center", size=8, bbox=ground
            )
    figure.colorbar(image, ax=axes, label=bar, shrink=0.8)
    figure.suptitle(title)
    return finished(figure)


def _check_points(points: Mapping[str, tuple[float, float]], limits: tuple[float, float]) -> None:
    """Raise unless every point lies in the plane."""
    check_named(points, empty=True)
    for name, point in points.items():
        ((across, up),) = check_pairs(name, [point], 1)
        if not limits[0] <= min(across, up) <= max(across, up) <= limits[1]:
            raise ValueError(
                f"the point {name!r} at {point} lies outside the plane, got limits {limits}; widen them"
            )


def word_strips(
    named: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, legend: tuple[str, str], title: str
) -> Figure:
    """Draw one row per name: a neuron's activation for words of its own kind, and for all the others."""
    check_named(named)
    check_labels("words of the legend", legend, 2)
    for name, words in named.items():
        if not isinstance(words, tuple | list) or len(words) != 2:
            raise TypeError(f"{name} must be two lists of numbers, own words and others, got {words!r:.60}")
    figure, ((ax,),) = canvas(1, 1, (7.4, 0.9 + 0.34 * len(named)))
    for kind, colour, marker in ((1, OTHERS, "|"), (0, OWN, "o")):
        rows = [numbers_of(words[kind], 1, name=name) for name, words in named.items()]
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
    check_labels("names", names)
    check_labels("tokens", tokens)
    values = np.maximum(numbers_of(activations, 2, name="activations"), 0.0)
    size = (2.8 + 0.33 * len(tokens), 1.5 + 0.33 * len(names))
    figure, ((ax,),) = canvas(1, 1, size)
    scale = from_zero(values)
    draw_matrix(ax, values, names, tokens, title=title, limits=scale, numbers=False, bar="activation")
    ax.set(xlabel="token", ylabel="neuron")
    return finished(figure)


def parameter_bars(models: Mapping[str, Mapping[str, int]], *, title: str) -> Figure:
    """Draw for each model which share of its parameters each part has; all have the same parts."""
    check_named(models)
    for model in models.values():
        check_named(model, in_legend=True)
    parts = list(next(iter(models.values())))
    for name, model in models.items():
        if model.keys() != set(parts):
            raise ValueError(
                f"{name} has the parts {list(model)}, wanted {parts}; give 0 for one that it lacks"
            )
    check_few(len(parts), len(BAR_COLOURS), "parts")
    counts = numbers_of([[model[part] for part in parts] for model in models.values()], 2, name="the counts")
    if counts.min() < 0 or not counts.sum(axis=1).all():
        raise ValueError(
            f"the counts must not be negative, nor all 0, got {counts.tolist()}; leave that model out"
        )
    shares = counts / counts.sum(axis=1, keepdims=True)
    starts = np.cumsum(shares, axis=1) - shares
    figure, ((ax,),) = canvas(1, 1, (8.4, 1.3 + 0.5 * len(models)))
    for column, (part, colour) in enumerate(zip(parts, BAR_COLOURS[: len(parts)], strict=True)):
        bars = ax.barh(list(models), shares[:, column], left=starts[:, column], color=colour, label=part)
        room = [f"{share:.0%}" if share >= SHARE_SHOWN else "" for share in shares[:, column]]
        ax.bar_label(bars, labels=room, label_type="center", color="black")
    ax.invert_yaxis()
    ax.set(xlim=(0, 1), xlabel="share of the parameters", title=title)
    ax.legend(ncols=len(parts), loc="upper center", bbox_to_anchor=(0.5, -0.28), frameon=False)
    return finished(figure)
