"""Input validation, for inputs from which PyTorch would silently compute a wrong result.

Each error message states what was expected, what it got, and what to do. Inputs that Python or PyTorch
already reject with a clear message are not checked here.
"""

import math
from numbers import Integral, Real

import torch
from torch import Tensor


def check_integer(at_least: int | None = None, at_most: int | None = None, **integers: int) -> None:
    """Raise unless every named value is an integer (of Python or NumPy) within the bounds."""
    for name, number in integers.items():
        if isinstance(number, bool) or not isinstance(number, Integral | torch.SymInt):
            kind = type(number).__name__
            raise TypeError(f"{name} must be an integer, got {number!r:.40} ({kind}); try int({name})")
        if at_least is not None and number < at_least:
            raise ValueError(f"{name} must be at least {at_least}, got {number}")
        if at_most is not None and number > at_most:
            raise ValueError(f"{name} must be at most {at_most:,}, got {number}")


def check_positive(**sizes: int) -> None:
    """Raise unless every named size is an integer and at least 1."""
    check_integer(at_least=1, **sizes)


def check_even(**sizes: int) -> None:
    """Raise unless every named size is positive and even, as paired features require."""
    check_positive(**sizes)
    for name, size in sizes.items():
        if size % 2:
            raise ValueError(f"{name} must be even (features form pairs), got {size}; try {name}={size + 1}")


def check_number(above: float | int = -math.inf, **numbers: float | int) -> None:
    """Raise unless every named value is a finite number greater than `above`."""
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, Real | torch.SymFloat):
            kind = type(number).__name__
            raise TypeError(f"{name} must be a number, got {number!r:.40} ({kind}); try float({name})")
        if not above < number < math.inf:
            expected = "finite" if above == -math.inf else f"above {above} and finite"
            raise ValueError(f"{name} must be {expected}, got {number}")


def check_may_attend(may_attend: Tensor, scores_shape: tuple[int, ...]) -> None:
    """Raise unless `may_attend` is boolean and has the same axes as the scores, each full or of length 1.

    The number of axes must match exactly. Broadcasting would otherwise accept a (batch, key_pos) mask as
    (query_pos, key_pos) whenever the two lengths happen to be equal.
    """
    if may_attend.dtype != torch.bool:
        raise TypeError(
            f"may_attend must be boolean (True = may attend), got {may_attend.dtype}; "
            "convert it: mask == 1 for a mask of 0 and 1, bias == 0 for a mask of 0 and −inf"
        )
    if may_attend.dim() != len(scores_shape) or any(
        size != full and size != 1 for size, full in zip(may_attend.shape, scores_shape, strict=True)
    ):
        expected = ", ".join(f"{size} or 1" for size in scores_shape)
        raise ValueError(
            f"may_attend has shape {tuple(may_attend.shape)}, expected the axes ({expected}); "
            "a (batch, key_pos) mask becomes mask[:, None, None, :], "
            "a (query_pos, key_pos) mask becomes mask[None, None]"
        )


def described(thing: object) -> str:
    """Return a short description: dtype and shape of a tensor, the type name of anything else."""
    if isinstance(thing, Tensor):
        return f"{thing.dtype} of shape {tuple(thing.shape)}"
    return type(thing).__name__
