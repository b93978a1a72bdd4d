"""Lesson 04. Masks of other libraries: converters from and to this package's `may_attend`.

==============================================  ==========================  ========================
convention                                      shape                       a hidden place is
==============================================  ==========================  ========================
this package, `F.scaled_dot_product_attention`  (batch, heads, query, key)  False
`nn.MultiheadAttention(key_padding_mask=)`      (batch, key)                True
`nn.MultiheadAttention(attn_mask=)`             (query, key), or per head   True
Hugging Face `attention_mask`                   (batch, key)                0
additive: added to the scores                   that of the scores          −inf, or a huge negative
==============================================  ==========================  ========================
"""

import math

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from transformer_lab.masking import AXES, Mask, check_boolean
from transformer_lab.validation import can_be_read, check_axes, check_floating, check_integers


def from_key_padding_mask(ignored: Bool[Tensor, "batch key_pos"]) -> Bool[Tensor, "batch 1 1 key_pos"]:
    """From nn.MultiheadAttention's `key_padding_mask`, where True means *ignore*."""
    check_boolean("key_padding_mask", ignored, "batch", "key_pos")
    return ~ignored[:, None, None, :]


def to_key_padding_mask(may_attend: Bool[Tensor, "batch 1 1 key_pos"]) -> Bool[Tensor, "batch key_pos"]:
    """To nn.MultiheadAttention's `key_padding_mask`, where True means *ignore*."""
    return ~_keys_only(may_attend)


def from_attn_mask(
    ignored: Bool[Tensor, "query_pos key_pos"] | Bool[Tensor, "batch_heads query_pos key_pos"],
    n_heads: int | None = None,
) -> Bool[Tensor, "..."]:
    """From nn.MultiheadAttention's `attn_mask` (True = *ignore*); `n_heads` unfolds a (batch·heads) axis."""
    if ignored.dim() == 2:
        check_boolean("attn_mask", ignored, "query_pos", "key_pos")
        return ~ignored[None, None]
    check_boolean("attn_mask", ignored, "batch·heads", "query_pos", "key_pos")
    return ~ignored.unflatten(0, (-1, n_heads))


def to_attn_mask(may_attend: Mask, n_heads: int) -> Bool[Tensor, "..."]:
    """To nn.MultiheadAttention's `attn_mask` (True = *ignore*), which needs a row for each query.

    (query_pos, key_pos) if all sequences and heads share it, else (batch·heads, query_pos, key_pos).
    """
    check_boolean("may_attend", may_attend, *AXES)
    if may_attend.shape[:2] == (1, 1):
        return ~may_attend[0, 0]
    return ~may_attend.expand(-1, n_heads, -1, -1).flatten(0, 1)


def from_attention_mask(ones: Integer[Tensor, "batch key_pos"]) -> Bool[Tensor, "batch 1 1 key_pos"]:
    """From Hugging Face's `attention_mask`: 1 for a real token, 0 for padding."""
    check_integers("attention_mask", ones, "batch", "key_pos")
    if can_be_read(ones) and not ((ones == 0) | (ones == 1)).all():
        raise ValueError(
            f"attention_mask must hold only 0 and 1, got {ones.unique().tolist()}; see from_additive_mask"
        )
    return ones.bool()[:, None, None, :]


def to_attention_mask(may_attend: Bool[Tensor, "batch 1 1 key_pos"]) -> Integer[Tensor, "batch key_pos"]:
    """To Hugging Face's `attention_mask`: 1 for a real token, 0 for padding."""
    return _keys_only(may_attend).long()


def from_additive_mask(bias: Float[Tensor, "batch heads query_pos key_pos"]) -> Mask:
    """From a mask that is added to the scores: 0 keeps, −10⁴ or less hides: exp(−10⁴) is 0 in every dtype.

    Raises:
        ValueError: any other value, because it would shift scores rather than hide them.
    """
    check_floating(bias=bias)
    check_axes("bias", bias, *AXES)
    hidden = bias <= -1e4
    if can_be_read(bias) and not (hidden | (bias == 0)).all():
        raise ValueError(
            "an additive mask holds 0 or a huge negative number, got others; add a score bias yourself"
        )
    return ~hidden


def to_additive_mask(
    may_attend: Mask, dtype: torch.dtype | None = None, hidden: float = -math.inf
) -> Float[Tensor, "batch heads query_pos key_pos"]:
    """To a mask that is added to the scores: 0 where attention is allowed, `hidden` elsewhere.

    Raises ValueError for a `hidden` above −10⁴, which would not hide.
    """
    check_boolean("may_attend", may_attend, *AXES)
    if not hidden <= -1e4:
        raise ValueError(f"hidden must be −inf, or −10⁴ or less, got {hidden}; leave it out")
    bias = torch.zeros(may_attend.shape, dtype=dtype, device=may_attend.device)
    return bias.masked_fill(~may_attend, hidden)


def _keys_only(may_attend: Mask) -> Bool[Tensor, "batch key_pos"]:
    check_boolean("may_attend", may_attend, *AXES)
    if may_attend.shape[1:3] != (1, 1):
        raise ValueError(
            f"only a padding mask (batch, 1, 1, key_pos) fits here, got shape {tuple(may_attend.shape)}; "
            "use to_attn_mask or to_additive_mask"
        )
    return may_attend[:, 0, 0, :]
