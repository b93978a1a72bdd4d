"""Lesson 04. This package's `may_attend` as a mask of other libraries.

==============================================  ==========================  ========================
convention                                      shape                       a hidden place is
==============================================  ==========================  ========================
this package, `F.scaled_dot_product_attention`  (batch, heads, query, key)  False
`nn.MultiheadAttention(key_padding_mask=)`      (batch, key)                True
`nn.MultiheadAttention(attn_mask=)`             (query, key), or per head   True
Hugging Face `attention_mask`                   (batch, key)                0
additive: added to the scores                   that of the scores          −inf
==============================================  ==========================  ========================
"""

import math

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from transformer_lab.masking import check_padding_mask

Mask = Bool[Tensor, "batch heads query_pos key_pos"]


def to_key_padding_mask(may_attend: Bool[Tensor, "batch 1 1 key_pos"]) -> Bool[Tensor, "batch key_pos"]:
    """Return nn.MultiheadAttention's `key_padding_mask`, where True means *ignore*."""
    check_padding_mask(may_attend, may_attend[:, 0, 0])
    return ~may_attend[:, 0, 0]


def to_attn_mask(may_attend: Mask, n_heads: int) -> Bool[Tensor, "..."]:
    """Return nn.MultiheadAttention's `attn_mask` (True = *ignore*), which needs a row for each query.

    (query_pos, key_pos) if all sequences and heads share it, else (batch·heads, query_pos, key_pos).
    """
    if may_attend.shape[:2] == (1, 1):
        return ~may_attend[0, 0]
    return ~may_attend.expand(-1, n_heads, -1, -1).flatten(0, 1)


def to_attention_mask(may_attend: Bool[Tensor, "batch 1 1 key_pos"]) -> Integer[Tensor, "batch key_pos"]:
    """Return Hugging Face's `attention_mask`: 1 for a real token, 0 for padding."""
    check_padding_mask(may_attend, may_attend[:, 0, 0])
    return may_attend[:, 0, 0].long()


def to_additive_mask(
    may_attend: Mask, dtype: torch.dtype | None = None
) -> Float[Tensor, "batch heads query_pos key_pos"]:
    """Return a mask that is added to the scores: 0 where attention is allowed, −inf elsewhere."""
    bias = torch.zeros(may_attend.shape, dtype=dtype, device=may_attend.device)
    return bias.masked_fill(~may_attend, -math.inf)
