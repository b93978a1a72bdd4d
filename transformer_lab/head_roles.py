"""What a head looks at, and what the model loses without it. Used in lessons 09 and 10."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transformer_lab.checks import check_floating, check_same_device
from transformer_lab.multi_head_attention import MultiHeadAttention


@contextmanager
def without_head(attention: MultiHeadAttention, head: int) -> Iterator[None]:
    """Within, one head adds nothing to the output; afterwards all is as before, also after an error.

    Its columns of W^O are zero: the other heads and the bias stay as they are. This is called ablation.

    Raises:
        ValueError: there is no head of that number.
    """
    if not 0 <= head < attention.n_heads:
        raise ValueError(f"heads go from 0 to {attention.n_heads - 1}, got {head}; heads count from 0")
    weight = attention.output_projection.weight.data  # (d_model, heads · d_head)
    columns = slice(head * attention.d_head, (head + 1) * attention.d_head)
    kept = weight[:, columns].clone()
    weight[:, columns] = 0.0
    try:
        yield
    finally:
        weight[:, columns] = kept


def attention_on(
    weights: Float[Tensor, "*heads query_pos key_pos"], wanted: Bool[Tensor, "query_pos key_pos"]
) -> Float[Tensor, "*heads"]:
    """Return how much of its weight each head puts on the wanted keys: 1 if all, for every query.

    The mean is over the queries that have a wanted key; a first token, say, has no previous one.

    Args:
        weights: attention weights of one text; the leading axes may be (layers, heads).
        wanted: True where query i ought to look at key j.

    Raises:
        TypeError: weights that are not floating-point, or `wanted` that is not boolean.
        ValueError: shapes that differ, or no query with a wanted key.
    """
    check_floating(weights=weights)
    if not isinstance(wanted, Tensor) or wanted.dtype != torch.bool:
        got = wanted.dtype if isinstance(wanted, Tensor) else type(wanted).__name__
        raise TypeError(f"wanted must be a boolean tensor, got {got}; compare with ==, or use .bool()")
    check_same_device(weights=weights, wanted=wanted)
    if wanted.shape != weights.shape[-2:]:
        raise ValueError(
            f"wanted has shape {tuple(wanted.shape)}, wanted (query_pos, key_pos) = "
            f"{tuple(weights.shape[-2:])}; make it for the tokens of this very text"
        )
    asked = wanted.any(dim=-1)  # (query_pos)
    if not asked.any():
        raise ValueError("wanted is False everywhere: no query has a wanted key; choose another text")
    on_wanted = (weights * wanted).sum(dim=-1)  # (*heads, query_pos)
    return on_wanted[..., asked].mean(dim=-1)
