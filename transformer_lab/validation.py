"""Checks of input that PyTorch would accept and compute something wrong with.

Each error says what came, what was wanted and what to do about it. What Python or PyTorch says clearly enough
is left to them.
"""

import math
from numbers import Integral, Real

import torch
from torch import Tensor


def check_integer(at_least: int | None = None, at_most: int | None = None, **integers: int) -> None:
    """Raise unless every named number is an integer, Python's or NumPy's, within the bounds."""
    for name, number in integers.items():
        if isinstance(number, bool) or not isinstance(number, Integral | torch.SymInt):
            kind = type(number).__name__
            raise TypeError(f"{name} must be an integer, got {number!r:.40} ({kind}); try int({name})")
        if at_least is not None and number < at_least:
            raise ValueError(f"{name} must be at least {at_least}, got {number}")
        if at_most is not None and number > at_most:
            raise ValueError(f"{name} must be at most {at_most:,}, got {number}")


def check_positive(**sizes: int) -> None:
    """Raise unless every named size is an integer of at least one."""
    check_integer(at_least=1, **sizes)


def check_even(**sizes: int) -> None:
    """Raise unless every named size is positive and even, because features are used in pairs."""
    check_positive(**sizes)
    for name, size in sizes.items():
        if size % 2:
            raise ValueError(f"{name} must be even (features go in pairs), got {size}; try {name}={size + 1}")


def check_number(above: float | int = -math.inf, **numbers: float | int) -> None:
    """Raise unless every named number is finite and larger than `above`."""
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, Real | torch.SymFloat):
            kind = type(number).__name__
            raise TypeError(f"{name} must be a number, got {number!r:.40} ({kind}); try float({name})")
        if not above < number < math.inf:
            wanted = "finite" if above == -math.inf else f"above {above} and finite"
            raise ValueError(f"{name} must be {wanted}, got {number}")


def check_may_attend(may_attend: Tensor, scores_shape: tuple[int, ...]) -> None:
    """Raise unless `may_attend` is boolean and has the axes of the scores, each full or of length 1.

    The number of axes must match exactly: broadcasting would let a (batch, key_pos) mask pass for
    (query_pos, key_pos) whenever the two lengths happen to be equal.
    """
    if may_attend.dtype != torch.bool:
        raise TypeError(
            f"may_attend must be boolean (True = may attend), got {may_attend.dtype}; "
            "compare first: ones == 1 for a mask of 0 and 1, bias == 0 for one of 0 and −inf"
        )
    if may_attend.dim() != len(scores_shape) or any(
        size != full and size != 1 for size, full in zip(may_attend.shape, scores_shape, strict=True)
    ):
        wanted = ", ".join(f"{size} or 1" for size in scores_shape)
        raise ValueError(
            f"may_attend has shape {tuple(may_attend.shape)}, wanted {len(scores_shape)} axes ({wanted}); "
            "a (batch, key_pos) mask becomes mask[:, None, None, :], "
            "a (query_pos, key_pos) mask becomes mask[None, None]"
        )


def described(thing: object) -> str:
    """Return what a thing is, in words: a tensor by its dtype and shape, anything else by its type."""
    if isinstance(thing, Tensor):
        return f"{thing.dtype} of shape {tuple(thing.shape)}"
    return type(thing).__name__
