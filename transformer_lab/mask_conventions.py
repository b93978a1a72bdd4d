"""Lesson 04. Mask conventions: convert this package's `may_attend` to the mask formats of other libraries.

==============================================  ==========================  ========================
convention                                      shape                       value for a hidden key
==============================================  ==========================  ========================
this package, `F.scaled_dot_product_attention`  (batch, heads, query, key)  False
`nn.MultiheadAttention(key_padding_mask=)`      (batch, key)                True
`nn.MultiheadAttention(attn_mask=)`             (query, key), or per head   True
Hugging Face `attention_mask`                   (batch, key)                0
additive: added to the scores                   broadcastable to scores     −inf
==============================================  ==========================  ========================
"""

import math

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from transformer_lab.masking import check_padding_mask

Mask = Bool[Tensor, "batch heads query_pos key_pos"]


def to_key_padding_mask(may_attend: Bool[Tensor, "batch 1 1 key_pos"]) -> Bool[Tensor, "batch key_pos"]:
    """Return the `key_padding_mask` of nn.MultiheadAttention, in which True means *ignore*."""
    check_padding_mask(may_attend, may_attend[:, 0, 0])
    return ~may_attend[:, 0, 0]


def to_attn_mask(may_attend: Mask, n_heads: int) -> Bool[Tensor, "..."]:
    """Return the `attn_mask` of nn.MultiheadAttention, in which True means *ignore*.

    Its shape is (query_pos, key_pos) if all sequences and heads share one mask, otherwise
    (batch · heads, query_pos, key_pos).
    """
    if may_attend.shape[:2] == (1, 1):
        return ~may_attend[0, 0]
    return ~may_attend.expand(-1, n_heads, -1, -1).flatten(0, 1)


def to_attention_mask(may_attend: Bool[Tensor, "batch 1 1 key_pos"]) -> Integer[Tensor, "batch key_pos"]:
    """Return the `attention_mask` of Hugging Face: 1 for a real token, 0 for padding."""
    check_padding_mask(may_attend, may_attend[:, 0, 0])
    return may_attend[:, 0, 0].long()


def to_additive_mask(
    may_attend: Mask, dtype: torch.dtype | None = None
) -> Float[Tensor, "batch heads query_pos key_pos"]:
    """Return an additive mask: 0 where a query may attend to a key, −inf elsewhere."""
    bias = torch.zeros(may_attend.shape, dtype=dtype, device=may_attend.device)
    return bias.masked_fill(~may_attend, -math.inf)
