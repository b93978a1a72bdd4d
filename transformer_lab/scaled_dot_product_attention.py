"""Lesson 03. Scaled dot-product attention: every query takes a weighted mean of the values."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from transformer_lab.validation import check_alike, check_flag, check_may_attend, check_not_empty


def scaled_dot_product_attention(
    query: Float[Tensor, "*batch query_pos d_head"],
    key: Float[Tensor, "*batch key_pos d_head"],
    value: Float[Tensor, "*batch key_pos d_value"],
    may_attend: Bool[Tensor, "..."] | None = None,
    *,
    dropout: float = 0.0,
    need_weights: bool = True,
) -> tuple[Float[Tensor, "*batch query_pos d_value"], Float[Tensor, "*batch query_pos key_pos"] | None]:
    """Return softmax(Q Kᵀ / √d_head) V and the weights: Eq. 1 of arXiv:1706.03762.

    Differs from the paper in one case: a query that may attend to nothing gets zeros,
    and zero weights.

    Args:
        query, key, value: the same leading axes (batch, heads, …), dtype and device.
        may_attend: True where query i may attend to key j; the axes of the weights,
            each full or of length 1.
        dropout: probability of dropping a weight; those returned are from before it.
        need_weights: False leaves the work to PyTorch's own function and returns None
            for the weights; for (batch, heads, position, features) it has a fused
            kernel, which never builds them.

    Raises:
        ValueError: shapes that do not fit each other, an empty axis, a mask of another
            rank or size than the weights.
        TypeError: mixed dtypes, or a mask that is not boolean.
    """
    check_inputs(query, key, value, may_attend)
    check_flag(need_weights=need_weights)
    if not need_weights:
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=may_attend, dropout_p=dropout
        ), None
    weights = attention_weights(query, key, may_attend)
    return F.dropout(weights, dropout) @ value, weights


def attention_weights(
    query: Float[Tensor, "*batch query_pos d_head"],
    key: Float[Tensor, "*batch key_pos d_head"],
    may_attend: Bool[Tensor, "..."] | None = None,
) -> Float[Tensor, "*batch query_pos key_pos"]:
    """Return softmax(Q Kᵀ / √d_head), over the keys; rows that see nothing are zero."""
    check_inputs(query, key, key, may_attend)
    if query.dtype == torch.float16:
        # A score above 65,504 has no float16. The fused kernel computes in float32 as well.
        return attention_weights(query.float(), key.float(), may_attend).half()
    # √d_head keeps the variance of the scores near 1. The query is scaled, not the scores:
    # it has fewer numbers as soon as there are more keys than features.
    scores = (query / math.sqrt(query.shape[-1])) @ key.mT  # (*batch, query_pos, key_pos)
    if may_attend is None:
        return scores.softmax(dim=-1)
    # In a row of nothing but −inf, softmax divides 0 by 0: such a row is left open here,
    # and zeroed afterwards.
    sees_nothing = ~may_attend.any(dim=-1, keepdim=True)  # (*batch, query_pos, 1)
    scores = scores.masked_fill(~(may_attend | sees_nothing), -math.inf)
    return scores.softmax(dim=-1).masked_fill(sees_nothing, 0.0)


def check_inputs(query: Tensor, key: Tensor, value: Tensor, may_attend: Tensor | None = None) -> None:
    """Raise unless query, key, value and mask fit each other, which the fused kernel does not ask."""
    check_alike(query=query, key=key, value=value)
    check_not_empty("query", query)
    check_not_empty("key", key)
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
        raise ValueError(f"the leading axes (batch, heads) must be equal, got {shapes}; expand them yourself")
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(
            f"key and value must have one row for each token, got {shapes}; take both from one sequence"
        )
    if may_attend is not None:
        check_may_attend(may_attend, (*query.shape[:-1], key.shape[-2]), query)
