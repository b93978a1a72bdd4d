"""Numbers, points, colours and names in words.

Numbers are rounded twice, first to ten digits. Machines differ in the last of sixteen, and have to agree on
which way 0.125 is rounded and on whether two entries are equally large.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from matplotlib import colors
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import Collection, PolyCollection
from matplotlib.container import BarContainer
from matplotlib.patches import FancyArrow, FancyArrowPatch, FancyBboxPatch
from matplotlib.typing import ColorType
from numpy.typing import ArrayLike

FEW = 12  # so many rows, bars or points are told one by one; more are averaged or sampled, in the table
SAMPLE = 40  # so many of them, at most, stand in the table
KINDS = {
    FancyBboxPatch: "block",
    FancyArrowPatch: "arrow",
    FancyArrow: "arrow",
    PolyCollection: "area",
}
PLAIN_COLOURS = {name.removeprefix("tab:"): colour for name, colour in colors.TABLEAU_COLORS.items()} | {
    "black": "black",
    "white": "white",
    "light grey": "lightgray",
    "yellow": "gold",
    "light blue": "lightblue",
    "light green": "lightgreen",
    "dark blue": "darkblue",
    "dark red": "darkred",
}

Item = TypeVar("Item")


def rounded_off(values: ArrayLike) -> np.ndarray:
    """Return the values to ten digits of the largest: beyond them, machines may differ."""
    values = np.asarray(values, dtype=float)
    return np.round(values, 9 - exponent_of(values))


def exponent_of(values: np.ndarray) -> int:
    """Return the exponent m of the largest value, a × 10^m with 1 ≤ a < 10."""
    largest = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    return int(np.floor(np.log10(largest))) if largest > 0 else 0


def number_words(values: ArrayLike, scale: str = "linear") -> list[str]:
    """Write values to three digits: of the largest on a linear scale, each of its own on another scale."""
    if scale != "linear":
        return [number_words([value])[0] for value in np.ravel(values)]
    settled = rounded_off(values).ravel()
    magnitude = exponent_of(settled)
    if np.array_equal(settled, np.round(settled), equal_nan=True):
        form = ".0f"
    elif -4 <= magnitude < 6:
        form = f".{max(0, 2 - magnitude)}f"
    else:
        form = ".2e"
    return [in_form(value, form) for value in settled]


def in_form(value: float, form: str) -> str:
    """Return a number in a format, and nan as blank."""
    return "blank" if np.isnan(value) else format(value, f"z{form}")  # z: no minus before a zero


def blank_filled(values: np.ndarray) -> np.ndarray:
    """Return the values, and nan where a mask hides them."""
    return np.ma.filled(np.ma.asarray(values, dtype=float), np.nan)


def point_words(x: ArrayLike, y: ArrayLike, axes: Axes) -> list[str]:
    """Return points in words, each coordinate on the scale of its axis."""
    across, up = number_words(x, axes.get_xscale()), number_words(y, axes.get_yscale())
    return [f"({a}, {b})" for a, b in zip(across, up, strict=True)]


def listed(what: str, items: list[str]) -> Iterator[str]:
    """Tell a few items; put a sample of more of them in the table."""
    if not items:
        yield f"{what}: nothing."
    elif len(items) <= FEW:
        yield f"{what}: {'; '.join(items)}."
    else:
        yield f"{what}."
        yield f"  {'; '.join(sampled(items, SAMPLE))}"


def in_table(lines: list[str]) -> list[str]:
    """Return lines that are not read aloud."""
    return [f"  {line}" for line in lines]


def sampled(items: Sequence[Item], most: int) -> list[Item]:
    """Return at most so many items, evenly spaced, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[i * (len(items) - 1) // (most - 1)] for i in range(most)]


def colour_words(given: Iterable[ColorType]) -> str:
    """Return up to three different colours in words, or how many there are."""
    different = list(dict.fromkeys(colour_word(colour) for colour in given))
    return " and ".join(different) if len(different) <= 3 else f"{len(different)} colours"


def face_colours(collection: Collection) -> str:
    """Return the colours of faces in words, or those of edges where there are no faces."""
    faces = collection.get_facecolor()
    return colour_words(faces if len(faces) else collection.get_edgecolor())


def colour_word(given: ColorType) -> str:
    """Return the name of the nearest plain colour, and the exact colour."""
    alpha = colors.to_rgba(given)[3]
    return f"{nearest_colour(given)} {colors.to_hex(given, keep_alpha=alpha < 1)}"


def nearest_colour(given: ColorType) -> str:
    """Return the name of the nearest plain colour."""
    *rgb, alpha = colors.to_rgba(given)
    if alpha == 0:
        return "empty"
    plain = {name: np.subtract(rgb, colors.to_rgb(colour)) for name, colour in PLAIN_COLOURS.items()}
    return min(plain, key=lambda name: np.square(plain[name]).sum())


def kind_of(artist: Artist) -> str:
    """Return what an artist is called."""
    names = (name for kind, name in KINDS.items() if isinstance(artist, kind))
    return next(names, type(artist).__name__.lower())


def label_of(artist: Artist | BarContainer) -> str:
    """Return an artist's label in quotation marks, if a lesson gave it one."""
    label = str(artist.get_label())
    return "" if label.startswith("_") else titled(label)  # matplotlib's own labels begin with _


def titled(name: str) -> str:
    """Return a name in quotation marks, with a space in front; nothing for no name."""
    return f" {quoted(name)}" if name else ""


def quoted(text: str) -> str:
    """Return a text in quotation marks, in one line."""
    return f"“{' '.join(text.split())}”"


def counted(number: int, thing: str) -> str:
    """Return a number and a noun."""
    return f"{number} {thing}{'' if number == 1 else 's'}"
