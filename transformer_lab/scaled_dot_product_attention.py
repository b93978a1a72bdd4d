"""Lesson 03. Scaled dot-product attention: each query receives a weighted sum of the values."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from transformer_lab.validation import check_may_attend


def scaled_dot_product_attention(
    query: Float[Tensor, "*batch query_pos d_head"],
    key: Float[Tensor, "*batch key_pos d_head"],
    value: Float[Tensor, "*batch key_pos d_value"],
    may_attend: Bool[Tensor, "..."] | None = None,
    *,
    dropout: float = 0.0,
    need_weights: bool = True,
) -> tuple[Float[Tensor, "*batch query_pos d_value"], Float[Tensor, "*batch query_pos key_pos"] | None]:
    """Return softmax(Q Kᵀ / √d_head) V and the attention weights: Eq. 1 of arXiv:1706.03762.

    Differs from the paper in one case: a query that may attend to no key has an output
    of zeros, and attention weights of zero.

    Args:
        query, key, value: tensors with the same leading axes (batch, heads, …), dtype
            and device.
        may_attend: True where query i may attend to key j; it has the axes of the
            attention weights, each full or of length 1.
        dropout: probability of dropping an attention weight; the returned weights are
            those before dropout.
        need_weights: if False, PyTorch's own function is used and None is returned
            for the weights; for (batch, heads, position, features) it has a fused
            kernel, which never stores them.

    Raises:
        ValueError: if an input has fewer than two axes, key and value differ in length, or leading axes
            differ; if the mask does not fit the shape of the attention weights.
        TypeError: if the mask is not boolean.
    """
    # Without this check, the fused kernel would broadcast leading axes, and ignore keys that have no value.
    if not (
        2 <= query.dim() == key.dim() == value.dim()
        and query.shape[:-2] == key.shape[:-2] == value.shape[:-2]
        and key.shape[-2] == value.shape[-2]
    ):
        raise ValueError(
            "query, key and value must have at least two axes and the same leading axes, "
            "and key and value the same length, "
            f"got query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
        )
    if need_weights:
        weights = attention_weights(query, key, may_attend)
        return F.dropout(weights, dropout) @ value, weights
    if may_attend is not None:
        check_may_attend(may_attend, (*query.shape[:-1], key.shape[-2]))
    return F.scaled_dot_product_attention(query, key, value, attn_mask=may_attend, dropout_p=dropout), None


def attention_weights(
    query: Float[Tensor, "*batch query_pos d_head"],
    key: Float[Tensor, "*batch key_pos d_head"],
    may_attend: Bool[Tensor, "..."] | None = None,
) -> Float[Tensor, "*batch query_pos key_pos"]:
    """Return softmax(Q Kᵀ / √d_head) over the keys; zeros for a query that may attend to no key."""
    if query.dtype in (torch.float16, torch.bfloat16):
        # The largest float16 is 65,504, and bfloat16 has 8 significant bits: compute the scores in float32.
        return attention_weights(query.float(), key.float(), may_attend).to(query.dtype)
    # Dividing by √d_head keeps the variance of the scores near 1. Scaling the query instead of the scores
    # is cheaper as soon as there are more keys than features.
    scores = (query / math.sqrt(query.shape[-1])) @ key.mT  # (*batch, query_pos, key_pos)
    if may_attend is None:
        return scores.softmax(dim=-1)
    check_may_attend(may_attend, scores.shape)
    # The softmax of a row that is all −inf is NaN (0 / 0): leave such a row unmasked here,
    # and set its weights to zero afterwards.
    sees_nothing = ~may_attend.any(dim=-1, keepdim=True)  # (*batch, query_pos, 1)
    scores = scores.masked_fill(~(may_attend | sees_nothing), -math.inf)
    return scores.softmax(dim=-1).masked_fill(sees_nothing, 0.0)
