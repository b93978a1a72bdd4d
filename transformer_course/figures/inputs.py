"""Convert the inputs of figures to NumPy, and reject inputs that a figure could not show."""

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

Matrix = Tensor | np.ndarray | Sequence[Sequence[float]]
Limits = tuple[float, float]
Labels = Sequence[str]
Tables = Mapping[str, Matrix]  # matrices by name


def numbers_of(
    values: Matrix | Sequence[float], rank: int | None = None, *, name: str = "the values", gaps: bool = False
) -> np.ndarray:
    """Return the values as a NumPy array, without gradients, on the CPU.

    Raises:
        ValueError: the rank differs from `rank`, an axis is empty, or a value is not finite and `gaps` is
            False.
    """
    held = values.detach().cpu().double().numpy() if isinstance(values, Tensor) else values
    numbers = np.asarray(held, dtype=float)
    if rank is not None and (numbers.ndim != rank or not numbers.size):
        raise ValueError(
            f"{name} must have {rank} axes, none of them empty, got shape {numbers.shape}; "
            "pick one head and one sentence first, for example weights[0, 3]"
        )
    if not gaps and not np.isfinite(numbers).all():
        raise ValueError(f"{name} must be finite, got nan or inf, which cannot be drawn; leave them out")
    return numbers


def tables_of(named: Tables) -> dict[str, np.ndarray]:
    """Return the matrices as NumPy arrays, by name."""
    return {name: numbers_of(table, 2, name=name) for name, table in named.items()}


def labelled(matrix: Matrix, rows: Labels, columns: Labels) -> np.ndarray:
    """Return the matrix as a NumPy array; raise unless there is a label for every row and column."""
    values = numbers_of(matrix, name="the matrix")
    if values.shape != (len(rows), len(columns)):
        raise ValueError(
            f"got a matrix of shape {values.shape}, the labels fit {(len(rows), len(columns))}; "
            "pick one head and one sentence first, for example weights[0, 3]"
        )
    return values
