"""Lesson 02. Rotary position embedding (RoPE): rotate feature pairs by angles that grow with the position."""

from collections.abc import Callable

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor, nn

from transformer_lab.positional_encoding import angular_frequencies
from transformer_lab.validation import check_even, check_integer, described


def rotate_half_split(
    x: Float[Tensor, "*batch position d_head"],
    cos: Float[Tensor, "*#batch position pair"],
    sin: Float[Tensor, "*#batch position pair"],
) -> Float[Tensor, "*batch position d_head"]:
    """Rotate the feature pairs (i, i + d_head/2), as GPT-NeoX and the Llama of Hugging Face pair them."""
    first, second = x.chunk(2, dim=-1)  # each (*batch, position, d_head/2)
    # addcmul adds a product in one pass over memory, whose bandwidth limits the speed here.
    rotated_first = torch.addcmul(first * cos, second, sin, value=-1)  # first · cos − second · sin
    rotated_second = torch.addcmul(first * sin, second, cos)  # first · sin + second · cos
    return torch.cat([rotated_first, rotated_second], dim=-1)


def rotate_interleaved(
    x: Float[Tensor, "*batch position d_head"],
    cos: Float[Tensor, "*#batch position pair"],
    sin: Float[Tensor, "*#batch position pair"],
) -> Float[Tensor, "*batch position d_head"]:
    """Rotate the feature pairs (2i, 2i + 1), as the RoFormer paper pairs them: Eq. 34 of arXiv:2104.09864."""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())  # (*batch, position, d_head/2)
    return torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2)


class RotaryEmbedding(nn.Module):
    """Rotate queries and keys so that their dot products depend on positions only by their distance.

    Pair i at position m is multiplied, as a complex number, by e^{i·m·ω_i} with ω_i = base^(−2i/d_head):
    Eq. 13–15 of arXiv:2104.09864. The module has no parameters. The last axis but one is always the position;
    transpose tensors of the layout (batch, position, heads, d_head) first.

    Args:
        d_head: number of features per head; must be even.
        max_length: number of positions whose cosines and sines are precomputed in buffers, which are not in
            the state dict; those of later positions are computed at each call.
        base: the slowest pair completes one rotation in about 2π · base positions.
        rotate: which features form a pair: `rotate_half_split` or `rotate_interleaved`.
    """

    def __init__(
        self,
        d_head: int,
        max_length: int = 512,
        *,
        base: float = 10_000.0,
        rotate: Callable = rotate_half_split,
    ) -> None:
        super().__init__()
        check_even(d_head=d_head)
        self.d_head = d_head
        self.base = base
        self.rotate = rotate
        rotation = rotations(torch.arange(max_length, device="cpu"), d_head, base)  # (max_length, pair)
        like = {"dtype": torch.get_default_dtype(), "device": torch.get_default_device()}
        self.register_buffer("cos", rotation.real.contiguous().to(**like), persistent=False)
        self.register_buffer("sin", rotation.imag.contiguous().to(**like), persistent=False)

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
            offset: position of the first vector, if the positions are consecutive.
            positions: explicit positions instead: one row for all sequences, or one row for each entry of the
                first axis of x.

        Raises:
            ValueError: if the width is wrong, positions do not fit x, the offset is negative, or both offset
                and positions are given.
        """
        if x.shape[-1] != self.d_head or not x.is_floating_point():
            raise ValueError(
                f"x must be a floating-point tensor with d_head={self.d_head} features, got {described(x)}"
            )
        check_integer(offset=offset, at_least=0)
        end = offset + x.shape[-2]
        if positions is None and end <= len(self.cos):
            cos, sin = self.cos[offset:end], self.sin[offset:end]  # (position, pair)
        else:
            cos, sin = self.computed(x, offset, positions)
        # bfloat16 has 8 significant bits: rotate in float32 at least, and round once at the end.
        wide = torch.promote_types(x.dtype, torch.float32)
        return self.rotate(x.to(wide), cos.to(wide), sin.to(wide)).to(x.dtype)

    def computed(
        self, x: Float[Tensor, "*batch position d_head"], offset: int, positions: Tensor | None
    ) -> tuple[Float[Tensor, "*#batch position pair"], Float[Tensor, "*#batch position pair"]]:
        """Compute the cosines and sines of explicit positions, or of positions beyond the buffers."""
        if positions is None:
            positions = torch.arange(offset, offset + x.shape[-2], device="cpu")
        elif offset:
            raise ValueError("expected offset or positions, got both; add the offset to the positions")
        one_row, row_each = (x.shape[-2],), (x.shape[0], x.shape[-2])
        if positions.shape != one_row and (x.dim() < 3 or positions.shape != row_each):
            raise ValueError(
                f"positions have shape {tuple(positions.shape)}, expected {one_row} or {row_each} "
                f"for x of shape {tuple(x.shape)}; the last axis but one of x is the position"
            )
        rotation = rotations(positions, self.d_head, self.base)  # (position, pair) or (batch, position, pair)
        if positions.dim() == 2:  # broadcast over the axes between batch and position, usually the heads
            rotation = rotation.unflatten(0, (-1, *[1] * (x.dim() - 3)))
        dtype = torch.promote_types(x.dtype, torch.float32)
        return rotation.real.to(x.device, dtype), rotation.imag.to(x.device, dtype)

    def extra_repr(self) -> str:
        rotate = getattr(self.rotate, "__name__", self.rotate)
        return f"d_head={self.d_head}, base={self.base:g}, rotate={rotate}"


def rotations(
    positions: Int[Tensor, "*batch position"], d_head: int, base: float = 10_000.0
) -> Complex[Tensor, "*batch position pair"]:
    """Return e^{i·m·ω} for every position m and every frequency ω, in complex128.

    The angles are computed in float64 from integer positions, because bfloat16 does not represent every
    integer above 256.

    Raises:
        TypeError: if the positions are not integers.
    """
    if positions.is_floating_point():
        raise TypeError(f"positions must be integers, got {positions.dtype}; use torch.int64")
    angle = positions.cpu().double()[..., None] * angular_frequencies(d_head, base)
    return torch.polar(torch.ones_like(angle), angle)


def interleaved_to_half_split(d_head: int) -> Int[Tensor, " d_head"]:
    """Return the feature order that converts the interleaved pairing to the half-split pairing.

    `rotate_half_split(x[..., order])` equals `rotate_interleaved(x)[..., order]`; the inverse order is
    `order.argsort()`.

    >>> interleaved_to_half_split(8).tolist()
    [0, 2, 4, 6, 1, 3, 5, 7]
    """
    return torch.arange(d_head).reshape(-1, 2).T.flatten()
