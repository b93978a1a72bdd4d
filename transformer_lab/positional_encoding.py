"""Lesson 01. Positional encodings: vectors that are added to token vectors and depend on the position."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lab.validation import check_even, check_integer, check_number


def sinusoidal_encoding(
    length: int,
    d_model: int,
    *,
    base: float = 10_000.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Float[Tensor, "length d_model"]:
    """Return the sinusoidal positional encoding, one row per position.

    PE(pos, 2i) = sin(pos / base^(2i/d_model)) and PE(pos, 2i+1) = cos(pos / base^(2i/d_model)):
    Section 3.5 of arXiv:1706.03762. Sine and cosine alternate along the features.

    Args:
        length: number of positions, counted from 0.
        d_model: number of features per position; must be even.
        base: the longest wavelength is close to 2π · base positions.
        dtype: dtype of the result; if None, the default dtype. Computed in float64 and rounded once.
        device: device of the result; if None, the default device.

    >>> sinusoidal_encoding(2, 4).round(decimals=4).tolist()[0]
    [0.0, 1.0, 0.0, 1.0]
    """
    check_even(d_model=d_model)
    position = torch.arange(length, dtype=torch.float64, device="cpu")[:, None]  # (length, 1)
    angle = position * angular_frequencies(d_model, base)  # (length, d_model/2)
    table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)  # (length, d_model)
    return table.to(device=device or torch.get_default_device(), dtype=dtype or torch.get_default_dtype())


def angular_frequencies(width: int, base: float = 10_000.0) -> Float[Tensor, " {width}//2"]:
    """Return ω_i = base^(−2i/width) for i = 0 … width/2 − 1, in radians per position, in float64.

    The first frequency is the highest, one radian per position; each next one is lower by a constant factor.

    Raises:
        ValueError: if the base is not positive.
    """
    check_number(base=base, above=0)
    # Always on the CPU, because some devices do not support float64.
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / width)


class SinusoidalEncoding(nn.Module):
    """Add the sinusoidal positional encoding to token vectors (Section 3.5 of arXiv:1706.03762).

    The table is a buffer, so `.to(device, dtype)` moves it. It is not in the state dict, so that models with
    different values of `max_length` can exchange state dicts.

    Args:
        d_model: number of features of each token vector; must be even.
        max_length: number of positions in the table.
        base: as in `sinusoidal_encoding`.
    """

    def __init__(self, d_model: int, max_length: int = 5000, *, base: float = 10_000.0) -> None:
        super().__init__()
        self.register_buffer("table", sinusoidal_encoding(max_length, d_model, base=base), persistent=False)

    def forward(
        self, x: Float[Tensor, "batch position d_model"], *, offset: int = 0
    ) -> Float[Tensor, "batch position d_model"]:
        """Return x + PE.

        Args:
            x: one vector per token.
            offset: position of the first token, if a sequence is processed in parts.
        """
        return x + position_rows(self.table, x, offset)


class LearnedEncoding(nn.Module):
    """Add a learned vector for each position, as in BERT: row (E) of Table 3 of arXiv:1706.03762."""

    def __init__(self, d_model: int, max_length: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_length, d_model))
        nn.init.normal_(self.weight, std=0.02)  # as in BERT: small compared with the token vectors

    def forward(
        self, x: Float[Tensor, "batch position d_model"], *, offset: int = 0
    ) -> Float[Tensor, "batch position d_model"]:
        """Return x plus the learned vectors of its positions; arguments as in `SinusoidalEncoding`."""
        return x + position_rows(self.weight, x, offset)


def position_rows(
    table: Float[Tensor, "length d_model"], x: Tensor, offset: int = 0
) -> Float[Tensor, "position d_model"]:
    """Return the rows of the table for the positions offset, offset + 1, … of x.

    Raises:
        ValueError: if a position is not in the table, or the offset is negative.
        TypeError: if x and the table differ in dtype, because `x + table` would silently upcast.
    """
    check_integer(offset=offset, at_least=0)
    end = offset + x.shape[-2]
    if end > len(table):
        start = f" from position {offset} on" if offset else ""
        raise ValueError(
            f"x has {x.shape[-2]} positions{start} but the table has only {len(table)}; "
            f"shorten x, or build with max_length={end}"
        )
    if x.dtype != table.dtype and not torch.is_autocast_enabled(x.device.type):
        raise TypeError(f"x is {x.dtype} but the table is {table.dtype}; convert one: .to({table.dtype})")
    return table[offset:end]
