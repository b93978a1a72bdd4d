"""Which tokens a head attends to, and what the model loses without the head. Used in lessons 09 and 10."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transformer_lab.multi_head_attention import MultiHeadAttention


@contextmanager
def without_head(attention: MultiHeadAttention, head: int) -> Iterator[None]:
    """Zero ablation: within the block, the output of one head is zero before it reaches W^O.

    The other heads and the bias stay as they are. Afterwards, also after an error, the head is back.

    Args:
        attention: a `MultiHeadAttention`, or a part with the same n_heads, d_head and output_projection.
        head: its number, from 0.

    Raises:
        ValueError: there is no head of that number.
    """
    if not 0 <= head < attention.n_heads:
        raise ValueError(f"heads go from 0 to {attention.n_heads - 1}, got {head}; heads count from 0")
    project = attention.output_projection.forward

    def project_others(heads: Float[Tensor, "batch position d_model"]) -> Tensor:
        feature = torch.arange(heads.shape[-1], device=heads.device)
        return project(heads.masked_fill(feature // attention.d_head == head, 0.0))

    # Not its weights, which may be computed at each call; not a hook, which compiled code would not notice.
    with patch.object(attention.output_projection, "forward", project_others):
        yield


def attention_on(
    weights: Float[Tensor, "*heads query_pos key_pos"], wanted: Bool[Tensor, "query_pos key_pos"]
) -> Float[Tensor, "*heads"]:
    """The attention weight that each head puts on the wanted keys: 1 if all of it, for every query.

    The mean is over the queries that have a wanted key; a first token, say, has no previous one.

    Args:
        weights: attention weights of one text; the leading axes may be (layers, heads).
        wanted: True where query i is expected to attend to key j.

    Raises:
        ValueError: scores in place of weights, shapes that differ, or no query with a wanted key.
    """
    check_weights(weights, wanted)
    asked = wanted.any(dim=-1)  # (query_pos)
    on_wanted = (weights * wanted).sum(dim=-1)  # (*heads, query_pos)
    return on_wanted[..., asked].mean(dim=-1)


def check_weights(weights: Tensor, wanted: Tensor) -> None:
    """Raise unless these are attention weights, and some key is wanted: scores would give a number too."""
    sums = weights.sum(dim=-1)
    if not ((weights >= 0).all() and (sums <= 1.01).all()):
        got = f"{weights.min().item():.3g} to {weights.max().item():.3g}, {sums.max().item():.3g} in sum"
        raise ValueError(
            f"weights must be from 0 to 1, and 1 in sum for each query, got {got}; take those after the "
            "softmax over the keys, not scores"
        )
    if wanted.shape != weights.shape[-2:]:
        raise ValueError(
            f"wanted has shape {tuple(wanted.shape)}, wanted (query_pos, key_pos) = "
            f"{tuple(weights.shape[-2:])}; make it for the tokens of this very text"
        )
    if not wanted.any():
        raise ValueError("wanted is False everywhere: no query has a wanted key; choose another text")
