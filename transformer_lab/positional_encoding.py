"""Lesson 01. Positional encoding: tell the encoder where each token is, by adding a vector to it."""

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
    """Return the table of sinusoidal position vectors, one row per position.

    PE(pos, 2i) = sin(pos / base^(2i/d_model)) and PE(pos, 2i+1) = cos(pos / base^(2i/d_model)):
    Section 3.5 of arXiv:1706.03762. Sine and cosine alternate along the features.

    Args:
        length: number of positions, counted from 0.
        d_model: features per position; even.
        base: the longest wavelength is 2π·base positions.
        dtype: of the result; the default dtype if None. Computed in float64 and rounded once.
        device: of the result.

    >>> sinusoidal_encoding(2, 4).round(decimals=4).tolist()[0]
    [0.0, 1.0, 0.0, 1.0]
    """
    check_even(d_model=d_model)
    position = torch.arange(length, dtype=torch.float64, device="cpu")[:, None]  # (length, 1)
    angle = position * angular_frequencies(d_model, base)  # (length, d_model/2)
    table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)  # (length, d_model)
    return table.to(device=device or torch.get_default_device(), dtype=dtype or torch.get_default_dtype())


def angular_frequencies(width: int, base: float = 10_000.0) -> Float[Tensor, " {width}//2"]:
    """Return ω_i = base^(−2i/width) for i = 0 … width/2 − 1, in radians per position, float64.

    The first is the fastest (one radian per position); each next one is slower by the same factor.

    Raises:
        ValueError: a base that is not positive.
    """
    check_number(base=base, above=0)
    # always on the CPU: some devices have no float64
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / width)


class SinusoidalEncoding(nn.Module):
    """Add the fixed sinusoidal table to token vectors (Section 3.5 of arXiv:1706.03762).

    The table is a buffer, so `.to(device, dtype)` moves it; it is not in the state dict, so models with
    different `max_length` exchange weights.

    Args:
        d_model: features of each token vector; even.
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
            offset: position of the first one, when a text comes in pieces.
        """
        return x + position_rows(self.table, x, offset)


class LearnedEncoding(nn.Module):
    """Add a trained vector for each position: row (E) of Table 3 of arXiv:1706.03762, and BERT's way."""

    def __init__(self, d_model: int, max_length: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_length, d_model))
        nn.init.normal_(self.weight, std=0.02)  # BERT's choice: small compared with the token vectors

    def forward(
        self, x: Float[Tensor, "batch position d_model"], *, offset: int = 0
    ) -> Float[Tensor, "batch position d_model"]:
        """Return x plus the vectors of its positions, as `SinusoidalEncoding` does."""
        return x + position_rows(self.weight, x, offset)


def position_rows(
    table: Float[Tensor, "length d_model"], x: Tensor, offset: int = 0
) -> Float[Tensor, "position d_model"]:
    """Return the rows of the table for the positions offset, offset + 1, … of x.

    Raises:
        ValueError: x goes beyond the table, or the offset is negative.
        TypeError: another dtype than the table's, because `x + table` would silently take the wider one.
    """
    check_integer(offset=offset, at_least=0)
    end = offset + x.shape[-2]
    if end > len(table):
        after = f" from position {offset} on" if offset else ""
        raise ValueError(
            f"x has {x.shape[-2]} positions{after} but the table has only {len(table)}; "
            f"shorten x, or build with max_length={end}"
        )
    if x.dtype != table.dtype and not torch.is_autocast_enabled(x.device.type):
        raise TypeError(f"x is {x.dtype} but the table is {table.dtype}; move one: .to({table.dtype})")
    return table[offset:end]
