"""Attention and rotation for the bug museum: right until one says otherwise."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from transformer_lab import causal_mask
from transformer_lab.multi_head_attention import split_heads
from transformer_lab.rotary_embedding import rotate_half_split, rotations

TEXTS, POSITIONS, HEADS, D_HEAD = 3, 5, 2, 14  # sizes that cannot be mistaken for each other
WIDTH = HEADS * D_HEAD


def attend(
    x: Tensor,
    keep: Tensor | None = None,
    *,
    scale: float | None = None,
    axis: int = -1,
    cut: Callable[[Tensor, int], Tensor] = split_heads,
) -> Tensor:
    """Self-attention of x with itself, in HEADS heads; `keep` is laid over the scores as it comes."""
    heads = cut(x, HEADS)
    scores = heads @ heads.mT * (heads.shape[-1] ** -0.5 if scale is None else scale)
    if keep is not None:
        scores = scores.masked_fill(~keep, -math.inf)
    return (scores.softmax(dim=axis).nan_to_num() @ heads).transpose(1, 2).flatten(-2)


def by_view(x: Tensor, n_heads: int) -> Tensor:
    """(batch, position, width) → (batch, head, position, d_head), as nobody should cut."""
    return x.reshape(len(x), n_heads, x.shape[1], -1)


def causal(x: Tensor, **otherwise) -> Tensor:
    """Causal attention: no token sees a later one."""
    return attend(x, causal_mask(x.shape[1]), **otherwise)


def turned(x: Tensor, position: Tensor | None = None, *, base: float = 10_000.0) -> Tensor:
    """(batch, position, heads, d_head) → the same, turned by positions that broadcast to all but d_head."""
    position = torch.arange(x.shape[1])[:, None] if position is None else position
    return rotate_half_split(x, rotations(position, x.shape[-1], base))
