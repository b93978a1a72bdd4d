"""Lesson 02. Rotary position embedding: turn each pair of features by an angle that grows with position."""

from collections.abc import Callable
from functools import lru_cache

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor, nn

from transformer_lab.positional_encoding import angular_frequencies
from transformer_lab.validation import (
    check_even,
    check_floating,
    check_integer,
    check_integers,
    check_shape_kept,
    check_vectors,
    described,
)


def rotate_half_split(
    x: Float[Tensor, "*batch position d_head"], rotation: Complex[Tensor, "*#batch position pair"]
) -> Float[Tensor, "*batch position d_head"]:
    """Turn the pairs (i, i + d_head/2): the pairing of GPT-NeoX and of Llama in Hugging Face."""
    check_pairs(x, rotation)
    real, imaginary = x.chunk(2, dim=-1)  # each (*batch, position, d_head/2)
    cos, sin = rotation.real.contiguous(), rotation.imag.contiguous()
    # (real + i·imaginary)(cos + i·sin); addcmul adds a product in one pass over memory, where the time goes
    turned_real = torch.addcmul(real * cos, imaginary, sin, value=-1)  # real · cos − imaginary · sin
    turned_imaginary = torch.addcmul(real * sin, imaginary, cos)  # real · sin + imaginary · cos
    return torch.cat([turned_real, turned_imaginary], dim=-1)


def rotate_interleaved(
    x: Float[Tensor, "*batch position d_head"], rotation: Complex[Tensor, "*#batch position pair"]
) -> Float[Tensor, "*batch position d_head"]:
    """Turn the pairs (2i, 2i + 1): the pairing of the RoFormer paper, Eq. 34 of arXiv:2104.09864."""
    check_pairs(x, rotation)
    pairs = x.unflatten(-1, (-1, 2)).contiguous()  # (*batch, position, d_head/2, 2)
    return torch.view_as_real(torch.view_as_complex(pairs) * rotation).flatten(-2)


TABLE_ROWS = 1 << 14  # as many positions are kept; those behind them are computed at each call


class RotaryEmbedding(nn.Module):
    """Rotate queries or keys so that their dot product depends on the distance between positions only.

    Pair i at position m is multiplied, as a complex number, by e^{i·m·ω_i} with ω_i = base^(−2i/d_head):
    Eq. 13–15 of arXiv:2104.09864. It has no parameters. The last axis but one is always the position;
    tensors laid out as (batch, position, heads, d_head) must be transposed first.

    Args:
        d_head: features per head; even.
        base: the slowest pair needs about 2π·base positions for one turn.
        rotate: which features form a pair: `rotate_half_split` or `rotate_interleaved`.
    """

    def __init__(self, d_head: int, *, base: float = 10_000.0, rotate: Callable = rotate_half_split) -> None:
        super().__init__()
        check_even(d_head=d_head)
        angular_frequencies(d_head, base)  # refuses a base here, not at the first call
        self.d_head = d_head
        self.base = base
        self.rotate = rotate

    def forward(
        self,
        x: Float[Tensor, "*batch position d_head"],
        *,
        offset: int = 0,
        positions: Int[Tensor, " position"] | Int[Tensor, "batch position"] | None = None,
    ) -> Float[Tensor, "*batch position d_head"]:
        """Rotate each vector of x by the angles of its position.

        Args:
            x: queries or keys; the last axis but one is the position.
            offset: position of the first vector, when the positions simply count on from there.
            positions: explicit positions instead: one row for all, or one row per entry of x's first axis.

        Raises:
            ValueError: wrong width, positions that do not fit x, a negative offset, or both given.
            TypeError: x is not floating-point or the positions are not integers.
        """
        check_vectors("x", x, self.d_head, rank=None)
        # bfloat16 keeps 8 bits, too few for an angle: turn in float32 at least, and round once at the end
        dtype = torch.complex128 if x.dtype == torch.float64 else torch.complex64
        if positions is None:
            rotation = counted_rotations(x, offset, self.base, dtype)  # (position, pair)
        else:
            rotation = self._explicit(x, offset, positions).to(device=x.device, dtype=dtype)
        turned = self.rotate(x.to(rotation.real.dtype), rotation)
        check_shape_kept("rotate", turned, x)
        return turned.to(x.dtype)

    def _explicit(self, x: Tensor, offset: int, positions: Tensor) -> Tensor:
        """Given positions: shaped so that they can only meet x's position axis, never its head axis."""
        check_positions(x, offset, positions)
        rotation = rotations(positions, self.d_head, self.base)  # (position, pair) or (batch, position, pair)
        if positions.dim() == 1:
            return rotation
        between = [1] * (x.dim() - 3)  # the axes between batch and position, usually heads
        return rotation.reshape(x.shape[0], *between, x.shape[-2], -1)

    def extra_repr(self) -> str:
        rotate = getattr(self.rotate, "__name__", self.rotate)
        return f"d_head={self.d_head}, base={self.base:g}, rotate={rotate}"


def rotations(
    positions: Int[Tensor, "*batch position"], d_head: int, base: float = 10_000.0
) -> Complex[Tensor, "*batch position pair"]:
    """Return e^{i·m·ω} for every position m and every frequency ω, in complex128.

    In float64 and from integers: positions kept in bfloat16 collide from 257 on.
    """
    check_integers("positions", positions)
    angle = positions.cpu().double()[..., None] * angular_frequencies(d_head, base)
    return torch.polar(torch.ones_like(angle), angle)


def counted_rotations(
    x: Float[Tensor, "*batch position d_head"], offset: int, base: float, dtype: torch.dtype
) -> Complex[Tensor, "position pair"]:
    """Return the rotations of the positions offset, offset + 1, … of x, from a table that is kept."""
    check_integer(offset=offset, at_least=0)
    end, d_head = offset + x.shape[-2], x.shape[-1]
    # A kept table is for real numbers, not for the stand-ins on which PyTorch compiles and exports.
    if torch.compiler.is_compiling() or type(x) not in (Tensor, nn.Parameter) or end > TABLE_ROWS:
        positions = torch.arange(offset, end, device="cpu")
        return rotations(positions, d_head, base).to(device=x.device, dtype=dtype)
    rows = 1 << (int(end) - 1).bit_length()  # a power of two: few tables serve all lengths
    table = rotation_table(rows, d_head, base, dtype, x.device)
    return table[offset:end].clone()  # a copy: whoever writes into it spoils nothing


@lru_cache(maxsize=64)
def rotation_table(
    length: int, d_head: int, base: float, dtype: torch.dtype, device: torch.device
) -> Complex[Tensor, "length pair"]:
    """Return the rotations of positions 0 … length − 1, built once for each set of arguments."""
    with torch.inference_mode(False):  # a table born in inference mode could not serve training later
        return rotations(torch.arange(length, device="cpu"), d_head, base).to(device=device, dtype=dtype)


def interleaved_to_half_split(d_head: int) -> Int[Tensor, " d_head"]:
    """Return the order of features that turns the interleaved pairing into the half-split one.

    `rotate_half_split(x[..., order])` equals `rotate_interleaved(x)[..., order]`; its argsort undoes it.

    >>> interleaved_to_half_split(8).tolist()
    [0, 2, 4, 6, 1, 3, 5, 7]
    """
    return torch.arange(d_head).reshape(-1, 2).T.flatten()


def check_pairs(x: Tensor, rotation: Tensor) -> None:
    """Raise unless the rotation has one complex number for each pair of x's features, at each position."""
    check_floating(x=x)
    # One row serves all only if the position stands on an axis before it, as in (position, 1, pair).
    rows = (x.shape[-2], 1) if rotation.dim() > 2 else (x.shape[-2],)
    one_each = 2 <= rotation.dim() <= x.dim() and rotation.shape[-2] in rows
    if not rotation.is_complex() or not one_each or rotation.shape[-1] * 2 != x.shape[-1]:
        wanted = f"complex, with the axes (position, pair) = {(x.shape[-2], x.shape[-1] // 2)} at its end"
        raise ValueError(
            f"rotation must be {wanted}, for x of shape {tuple(x.shape)}, got {described(rotation)}; "
            "rotations(positions, d_head) makes one"
        )


def check_positions(x: Tensor, offset: int, positions: Tensor) -> None:
    """Raise unless the positions are one row for all of x, or one per entry of its first axis."""
    if offset:
        raise ValueError(
            "give either offset or positions, not both; add the offset to the positions yourself"
        )
    one_row, row_each = (x.shape[-2],), (x.shape[0], x.shape[-2])
    if tuple(positions.shape) != one_row and (x.dim() < 3 or tuple(positions.shape) != row_each):
        raise ValueError(
            f"positions have shape {tuple(positions.shape)}, wanted {one_row} or {row_each} "
            f"for x of shape {tuple(x.shape)}; the last axis but one of x is the position"
        )
