"""Lessons 09 and 10. Head roles: which tokens a head attends to, and the model's output without the head."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transformer_lab.multi_head_attention import MultiHeadAttention


@contextmanager
def without_head(attention: MultiHeadAttention, head: int) -> Iterator[None]:
    """Zero-ablate a head: inside the block, its output is set to zero before it reaches W^O.

    The other heads and the bias are unchanged. After the block, even after an error, the head is restored.

    Args:
        attention: a `MultiHeadAttention`, or a module with the same n_heads, d_head and output_projection.
        head: index of the head, from 0.

    Raises:
        ValueError: if there is no head with this index.
    """
    if not 0 <= head < attention.n_heads:
        raise ValueError(f"head must be from 0 to {attention.n_heads - 1}, got {head}; heads count from 0")
    project = attention.output_projection.forward

    def project_others(heads: Float[Tensor, "batch position d_model"]) -> Tensor:
        feature = torch.arange(heads.shape[-1], device=heads.device)
        return project(heads.masked_fill(feature // attention.d_head == head, 0.0))

    # Do not patch the weights, which may be computed at each call. Compiled code would ignore a hook.
    with patch.object(attention.output_projection, "forward", project_others):
        yield


def attention_on(
    weights: Float[Tensor, "*heads query_pos key_pos"], wanted: Bool[Tensor, "query_pos key_pos"]
) -> Float[Tensor, "*heads"]:
    """Return the attention weight of each head on the wanted keys, averaged over queries: 1 is the maximum.

    The mean is over the queries with at least one wanted key: the first token, for example, has no previous
    token.

    Args:
        weights: attention weights of one sequence; leading axes such as (layers, heads) are allowed.
        wanted: True where query i is expected to attend to key j.

    Raises:
        ValueError: if `weights` are not attention weights, shapes differ, or no query has a wanted key.
    """
    check_weights(weights, wanted)
    asked = wanted.any(dim=-1)  # (query_pos)
    on_wanted = (weights * wanted).sum(dim=-1)  # (*heads, query_pos)
    return on_wanted[..., asked].mean(dim=-1)


def check_weights(weights: Tensor, wanted: Tensor) -> None:
    """Raise unless `weights` are attention weights, not scores, and at least one key is wanted."""
    sums = weights.sum(dim=-1)
    if not ((weights >= 0).all() and (sums <= 1.01).all()):
        got = f"{weights.min().item():.3g} to {weights.max().item():.3g}, sum {sums.max().item():.3g}"
        raise ValueError(
            f"weights must be from 0 to 1 and sum to 1 for each query, got {got}; pass the attention weights "
            "after the softmax over the keys, not the scores"
        )
    if wanted.shape != weights.shape[-2:]:
        raise ValueError(
            f"wanted has shape {tuple(wanted.shape)}, expected (query_pos, key_pos) = "
            f"{tuple(weights.shape[-2:])}; build it from the tokens of the same sequence"
        )
    if not wanted.any():
        raise ValueError("wanted is False everywhere, so no query has a wanted key; choose another sequence")
