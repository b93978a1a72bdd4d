"""What a figure is given, as numbers, names and labels; what cannot be drawn is refused in words."""

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral

import numpy as np
from matplotlib.axes import Axes
from torch import Tensor

from transformer_lab.validation import check_number, described

ROUNDING = 1e-6  # a number may lie so far off its scale

Matrix = Tensor | np.ndarray | Sequence[Sequence[float]]
Limits = tuple[float, float]
Labels = Sequence[str]
Tables = Mapping[str, Matrix]  # by name
Curves = Mapping[str, Sequence[float]]  # by name


# Numbers


def numbers_of(
    values: Matrix | Sequence[float], rank: int | None = None, *, name: str = "the values", gaps: bool = False
) -> np.ndarray:
    """Return the values as NumPy numbers, without gradients, on the CPU.

    Args:
        values: numbers.
        rank: how many axes they must have, none of them empty; any number if None.
        name: what an error calls them.
        gaps: whether nan is allowed, where nothing is drawn, among other numbers.

    Raises:
        TypeError: something else than real numbers.
        ValueError: another rank, an empty axis, a number that is not finite.
    """
    try:
        held = values.detach().cpu() if isinstance(values, Tensor) else values
        is_real = isinstance(held, Tensor) and not held.is_complex()
        held = held.double().numpy() if is_real else np.asarray(held)
    except (TypeError, ValueError, RuntimeError, NotImplementedError):
        held = np.array(None)
    if held.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be real numbers, got {described(values)}; try torch.tensor(…)")
    if rank is not None and (held.ndim != rank or not held.size):
        raise ValueError(
            f"{name} must have {rank} axes, none of them empty, got shape {held.shape}; "
            "pick one head and one sentence first, for example weights[0, 3]"
        )
    gaps = gaps and not np.isnan(held).all()
    if not (np.isfinite(held) | (gaps & np.isnan(held))).all():
        raise ValueError(f"{name} must be finite, got nan or inf, which cannot be drawn; leave them out")
    return held.astype(float)


def tables_of(named: Tables, limits: Limits | None = None) -> dict[str, np.ndarray]:
    """Return matrices as numbers, by name; raise where one lies beyond the limits, if there are any."""
    check_named(named)
    tables = {name: numbers_of(table, 2, name=name) for name, table in named.items()}
    for table in tables.values() if limits is not None else ():
        check_scale(table, limits)
    return tables


def labelled(matrix: Matrix, rows: Labels, columns: Labels) -> np.ndarray:
    """Return the matrix as numbers; raise unless there is a label for every row and column."""
    check_labels("rows", rows)
    check_labels("columns", columns)
    values = numbers_of(matrix, name="the matrix")
    if values.shape != (len(rows), len(columns)):
        raise ValueError(
            f"got a matrix of shape {values.shape}, the labels fit {(len(rows), len(columns))}; "
            "pick one head and one sentence first, for example weights[0, 3]"
        )
    return values


def booleans_of(name: str, values: Matrix) -> np.ndarray:
    """Return a boolean matrix as numbers; raise if it holds anything but 0 and 1."""
    numbers = numbers_of(values, 2, name=name)
    if not np.isin(numbers, (0, 1)).all():
        raise ValueError(
            f"{name} must hold only True and False, got {numbers.min():g} to {numbers.max():g}; compare"
        )
    return numbers


def pairs_of(name: str, values: Matrix, count: int | None = None) -> np.ndarray:
    """Return pairs of numbers (pair, 2); raise unless they are, and `count` of them if it is given."""
    numbers = numbers_of(values, 2, name=name)
    if numbers.shape != (count or len(numbers), 2):
        raise ValueError(
            f"{name} must be {count or 'some'} pairs of numbers, got shape {numbers.shape}; give (pair, 2)"
        )
    return numbers


def curves_of(
    named: Curves, length: int | None = None, *, gaps: bool = False, logarithmic: bool = False
) -> dict[str, np.ndarray]:
    """Return the curves as numbers, by name; raise unless they can be drawn, over `length` places."""
    check_named(named, in_legend=True)
    curves = {name: numbers_of(values, 1, name=name, gaps=gaps) for name, values in named.items()}
    for name, values in curves.items():
        if length is not None and len(values) != length:
            raise ValueError(
                f"{name} has {len(values)} points, wanted {length}, one for each x; cut the longer one"
            )
        if logarithmic:
            check_above_zero(name, values)
    return curves


# Scales


def check_limits(limits: Limits) -> Limits:
    """Return the pair of numbers; raise unless it is one, the lower one first."""
    if not isinstance(limits, tuple | list) or len(limits) != 2:
        raise TypeError(f"limits must be two numbers, got {limits!r}; try (0, 1)")
    check_number(lower=limits[0], upper=limits[1])
    if limits[0] >= limits[1]:
        raise ValueError(f"limits must be a lower and a larger upper number, got {limits}; try (0, 1)")
    return limits


def check_scale(values: np.ndarray, limits: Limits) -> None:
    """Raise unless every number lies on the colour scale: beyond its ends all look alike."""
    (low, high), least, most = check_limits(limits), values.min(), values.max()
    if least < low - ROUNDING or most > high + ROUNDING:
        raise ValueError(
            f"wanted numbers on the scale from {low:g} to {high:g}, got {least:g} to {most:g}; "
            "widen the limits, or, for attention, give the weights after the softmax"
        )


def check_above_zero(name: str, values: np.ndarray) -> None:
    """Raise where a logarithmic axis would leave a number out."""
    if (values <= 0).any():
        raise ValueError(
            f"{name} holds {values.min():g}, wanted numbers above 0 on a logarithmic axis; use a linear one"
        )


def from_zero(*tables: np.ndarray) -> Limits:
    """Return a scale from 0 to the largest number, or to 1 if none is above 0."""
    return 0.0, max(0.0, *(float(table.max()) for table in tables)) or 1.0


# Names, labels and places


def check_named(named: Mapping[str, object], *, in_legend: bool = False, empty: bool = False) -> None:
    """Raise unless it has entries by their names: at least one, unless it may be empty."""
    if not isinstance(named, Mapping):
        raise TypeError(f"wanted a dict by name, got {described(named)}; try {{'name': …}}")
    if not named and not empty:
        raise ValueError("wanted at least one entry by its name, got an empty dict; there is nothing to draw")
    for name in named:
        if not isinstance(name, str):
            raise TypeError(f"names must be strings, got {name!r}; try str(name)")
        if in_legend and name.startswith("_"):
            raise ValueError(f"got the name {name!r}, which a legend hides; leave out the _ in front")


def check_labels(what: str, labels: Labels, count: int | None = None) -> None:
    """Raise unless the labels are strings, at least one, and `count` of them if it is given."""
    if isinstance(labels, str | Tensor | Mapping) or not isinstance(labels, Iterable):
        raise TypeError(f"{what} must be a list of strings, got {labels!r}; try a list")
    if wrong := [label for label in labels if not isinstance(label, str)]:
        raise TypeError(f"{what} must be a list of strings, got {wrong[0]!r} in it; try str(…)")
    if len(labels) == 0 or count not in (None, len(labels)):
        wanted = "at least one" if count is None else count
        raise ValueError(f"got {len(labels)} {what}, wanted {wanted}; give one for each")


def check_maps(maps: Sequence[Matrix]) -> None:
    """Raise unless there is at least one map."""
    if not isinstance(maps, list | tuple | np.ndarray | Tensor):
        raise TypeError(
            f"maps must be a list of matrices, got {described(maps)}; put a single one in brackets"
        )
    if len(maps) == 0:
        raise ValueError("wanted at least one map, got none; there is nothing to draw")


def check_few(count: int, most: int, of: str) -> None:
    """Raise if more is given than can be told apart."""
    if count > most:
        raise ValueError(f"at most {most} {of}, got {count}; draw fewer")


def check_axes(ax: Axes) -> None:
    """Raise unless it is a panel that can be drawn into."""
    if not isinstance(ax, Axes):
        raise TypeError(f"ax must be matplotlib Axes, got {described(ax)}; try figure, ax = plt.subplots()")


def check_places(what: str, places: Iterable[tuple[int, ...]], shape: tuple[int, ...]) -> None:
    """Raise unless every place lies within the shape."""
    if isinstance(places, str | Tensor) or not isinstance(places, Iterable):
        raise TypeError(f"{what} must be a list of places, got {places!r}; try [(0, 0)]")
    for place in places:
        if not isinstance(place, tuple | list | np.ndarray) or len(place) != len(shape):
            raise TypeError(f"{what} must be tuples of {len(shape)} numbers, got {place!r}; try (0, 0)")
        for number in place:
            if not isinstance(number, Integral | np.floating) or number != int(number):
                raise TypeError(f"{what} must be tuples of integers, got {place!r}; try (0, 0)")
        if any(not 0 <= number < size for number, size in zip(place, shape, strict=True)):
            raise ValueError(f"{what} must lie within {shape}, got {tuple(place)}; numbers count from 0")


def check_marked(marked: Mapping[tuple[int, int], str], shape: tuple[int, int]) -> None:
    """Raise unless it gives strings as names to heads (layer, head) that are there."""
    if not isinstance(marked, Mapping):
        raise TypeError(
            f"marked must be a dict from (layer, head) to a name, got {marked!r}; try {{(0, 1): 'name'}}"
        )
    check_places("marked heads", marked, shape)
    if marked:
        check_labels("names of marked heads", list(marked.values()))


def check_functions(named: Mapping[str, object]) -> None:
    """Raise unless each entry can be called."""
    check_named(named)
    for name, function in named.items():
        if not callable(function) or isinstance(function, type):
            raise TypeError(f"{name} must be a function, got {described(function)}; write one, or a lambda")
