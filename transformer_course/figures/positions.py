"""Of positions: curves over them, the waves in a table of them, and what a model makes of more of them."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_course.figures import given
from transformer_course.figures.curves import LABEL, log_ticks, looks_of
from transformer_course.figures.given import Curves, Limits, Matrix
from transformer_course.figures.layout import (
    COMPONENTS,
    GREY,
    HERO,
    MARK,
    canvas,
    finished,
    name_lines,
    write_level,
)

# Curves over positions, one below the other


def curves_apart(
    x: Sequence[float],
    named: Curves,
    *,
    xlabel: str,
    ylabel: str,
    title: str,
    places: Mapping[str, float] | None = None,
    tops: bool = False,
) -> Figure:
    """Draw curves over the same x in panels one below the other, on one scale; where a curve is nan is a gap.

    Args:
        x: where each point is.
        named: the curves; a panel is called as its curve.
        places: names of places on x, each marked by an upright line in every panel.
        tops: whether the highest point of each curve is marked.
    """
    x, curves = given.numbers_of(x, 1, name="x"), given.curves_of(named)
    height = 1.35 if len(curves) > 1 else 2.6
    figure, panels = canvas(len(curves), (6.6, height), (0, 0.7), columns=1, sharex=True, sharey=True)
    for ax, (name, y) in zip(panels, curves.items(), strict=True):
        ax.plot(x, y, color=HERO, linewidth=1.5, label=name)
        ax.grid(alpha=0.3)
        ax.set_title(name, loc="left", size=10)
        if tops:
            _mark_top(ax, x, y)
    for ax in panels:
        _mark_places(ax, places or {}, named=ax is panels[0])
    panels[-1].set_xlabel(xlabel)
    figure.supylabel(ylabel, size=10)
    see = "Panels one below the other share both scales; an upright line marks a place."
    return finished(figure, title, see)


def digits_and_waves(count: int, *, title: str) -> Figure:
    """Draw the last `count` binary digits of each position, and on each a wave that goes the same way."""
    positions = np.arange(2**count)
    figure, panels = canvas(count, (8.4, 0.95), (0, 0.6), columns=1, sharex=True)
    for row, ax in enumerate(panels):
        period = 2 ** (count - row)
        digits = positions // (period // 2) % 2
        ax.bar(positions, digits, width=1, color=COMPONENTS["positions"], edgecolor="none")
        fine = np.linspace(-0.5, positions[-1] + 0.5, 400)
        ax.plot(fine, 0.5 - 0.5 * np.sin(2 * np.pi * (fine + 0.5) / period), color=HERO, linewidth=2)
        for position, digit in zip(positions, digits, strict=True):
            ax.text(position, 1.22, digit, ha="center", size=9)
        ax.set(ylim=(-0.1, 1.75), yticks=[])
        ax.set_ylabel(f"{period // 2}s", rotation=0, ha="right", va="center")
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
    panels[-1].set_xticks(positions)
    panels[-1].set_xlabel("position")
    see = "A row for each binary digit, slowest above: filled where it is 1, and there its wave is high."
    return finished(figure, title, see)


def _mark_top(ax: Axes, x: np.ndarray, y: np.ndarray) -> None:
    """Mark the highest point, and write beside it where it is."""
    top = int(np.nanargmax(y))
    ax.plot(x[top], y[top], "o", color=MARK, markersize=5)
    place = f"{x[top]:g}".replace("-", "−")
    ax.annotate(place, (x[top], y[top]), (6, 0), textcoords="offset points", va="center", size=9)


def _mark_places(ax: Axes, places: Mapping[str, float], *, named: bool) -> None:
    """Draw an upright line at each place, and write its name above it."""
    for name, place in places.items():
        ax.axvline(place, color=GREY, linestyle="--", linewidth=1.2, zorder=1)
        if named:
            look = {"ha": "center", "va": "bottom", "size": 9, "color": GREY}
            look |= {"xycoords": ax.get_xaxis_transform(), "textcoords": "offset points"}
            ax.annotate(name, (place, 1), (0, 2), **look)


# Waves


def spectrum(strength: Sequence[float], length: float, bands: Mapping[str, Limits], *, title: str) -> Figure:
    """Draw how strong each wave of a table is, as an area over its wavelength: equal areas, equal strengths.

    Args:
        strength: of the waves that come 1, 2, … times.
        length: positions of the table, and so the wavelength of the first.
        bands: names of groups of waves, the wavelengths of each from more than a lower to an upper one. Each
            name stands above its band; the strongest has the strong colour.
    """
    strength = given.numbers_of(strength, 1, name="strength")
    number = np.arange(1, len(strength) + 1)
    edges = length / (np.arange(len(strength) + 1) + 0.5)  # from one wave to the next, the longest first
    height = strength / np.log(edges[:-1] / edges[1:])
    wavelength = length / number
    inside = {name: (low < wavelength) & (wavelength <= high) for name, (low, high) in bands.items()}
    strongest = max(inside, key=lambda name: strength[inside[name]].sum())
    figure, (ax,) = canvas(1, (7.0, 3.2))
    ax.stairs(height[::-1], edges[::-1], fill=True, color=GREY)
    peaks = []
    for name, waves in inside.items():
        first, last = np.flatnonzero(waves)[[0, -1]]
        peak = first + int(height[first : last + 1].argmax())
        if name == strongest:
            ax.stairs(height[first : last + 1][::-1], edges[first : last + 2][::-1], fill=True, color=HERO)
        colour = HERO if name == strongest else GREY
        look = {"ha": "center", "va": "bottom", "size": 9, "color": colour}
        peaks.append(wavelength[peak])
        ax.annotate(name, (peaks[-1], height[peak]), (0, 3), textcoords="offset points", **look)
    ax.set(xscale="log", ylim=(0, 1.15 * height.max()), yticks=[], xlabel="wavelength, in positions")
    ax.set_ylabel("strength (area)")
    ax.set_xticks(peaks, [f"{peak:.0f}" for peak in peaks])
    ax.minorticks_off()
    see = "Over the wavelengths, how strong each wave is in the table; shaded bands bear their share."
    return finished(figure, title, see)


# Lengths that a model was not trained on


def length_curves(
    lengths: Sequence[float],
    runs: Mapping[str, Matrix],
    *,
    trained: float,
    chance: float,
    title: str,
    before: Mapping[str, Matrix] | None = None,
) -> Figure:
    """Draw the share of right answers over the length of a text: each run thin, the mean of a kind thick.

    Args:
        lengths: of the texts.
        runs: for each kind of model a share for each run and length (run, length).
        trained: the length of the training's texts, marked.
        chance: the share of guessing, marked.
        before: shares of the same kinds, in the same order, in an earlier try: their means are drawn dashed.
    """
    lengths = given.numbers_of(lengths, 1, name="lengths")
    shares, earlier = given.tables_of(runs, (0, 1)), given.tables_of(before or {}, (0, 1))
    figure, (ax,) = canvas(1, (6.4 + LABEL * max(map(len, [*shares, *earlier])), 3.5))
    looks = looks_of(shares, "-") | looks_of(earlier, ["--"])
    for name, table in shares.items():
        ax.plot(lengths, table.T, linewidth=0.9, alpha=0.5, **looks[name])
    for name, table in (shares | earlier).items():
        more = {"linewidth": 2.4, "marker": "o"} if name in shares else {"linewidth": 1.4}
        ax.plot(lengths, table.mean(axis=0), label=name, **looks[name], **more)
    log_ticks(ax, lengths)
    ax.set(ylim=(0, 1.05), xlabel="symbols in the text", ylabel="share of right answers")
    ax.set_xlim(lengths.min() / 1.5, lengths.max() * 1.06)
    ax.grid(alpha=0.3)
    write_level(ax, chance, "chance", style=":")
    _mark_places(ax, {"length in training": trained}, named=True)
    ends = {name: (lengths[-1], table[:, -1].mean()) for name, table in (shares | earlier).items()}
    name_lines(ax, ends, {name: look["color"] for name, look in looks.items()})
    see = (
        "The share of right answers over the length of the text; an upright line marks the "
        "length in training."
    )
    return finished(figure, title, see)
