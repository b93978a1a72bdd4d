"""What a head looks at, and what the model loses without it. Used in lessons 09 and 10."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from transformer_lab.multi_head_attention import MultiHeadAttention
from transformer_lab.validation import check_floating, check_integer, check_readable, check_same_device


@contextmanager
def without_head(attention: MultiHeadAttention, head: int) -> Iterator[None]:
    """Within, one head adds nothing to the output; afterwards all is as before, also after an error.

    What it hands to W^O is zero: the other heads and the bias stay as they are. This is called ablation.

    Args:
        attention: a `MultiHeadAttention`, or a part with the same n_heads, d_head and output_projection.
        head: its number, from 0.

    Raises:
        TypeError: another kind of module, or a head that is no integer.
        ValueError: there is no head of that number.
    """
    check_heads(attention)
    check_integer(head=head)
    if not 0 <= head < attention.n_heads:
        raise ValueError(f"heads go from 0 to {attention.n_heads - 1}, got {head}; heads count from 0")
    projection = attention.output_projection
    project, kept = projection.forward, vars(projection).get("forward")

    def project_others(heads: Float[Tensor, "batch position d_model"]) -> Tensor:
        feature = torch.arange(heads.shape[-1], device=heads.device)
        return project(heads.masked_fill(feature // attention.d_head == head, 0.0))

    # Not its weights, which may be computed at each call; not a hook, which compiled code would not notice.
    projection.forward = project_others
    try:
        yield
    finally:
        del projection.forward
        if kept is not None:  # another head is gone as well
            projection.forward = kept


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
    check_weights(weights)
    if not isinstance(wanted, Tensor) or wanted.dtype != torch.bool:
        got = wanted.dtype if isinstance(wanted, Tensor) else type(wanted).__name__
        raise TypeError(f"wanted must be a boolean tensor, got {got}; compare with ==, or use .bool()")
    check_same_device(weights=weights, wanted=wanted)
    if weights.dim() < 2:
        raise ValueError(
            f"weights need at least the axes (query_pos, key_pos), got shape {tuple(weights.shape)}; "
            "take the weights of a whole head"
        )
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


def check_weights(weights: Tensor) -> None:
    """Raise unless they can be attention weights: scores, say, would give a number as well."""
    check_floating(weights=weights)
    check_readable(weights=weights)
    sums = weights.sum(dim=-1)
    if not ((weights >= 0).all() and (sums <= 1.01).all()):
        got = f"{weights.min().item():.3g} to {weights.max().item():.3g}, {sums.max().item():.3g} in sum"
        raise ValueError(
            f"weights must be from 0 to 1, and 1 in sum for each query, got {got}; take those behind the "
            "softmax over the keys, not scores"
        )


def check_heads(attention: nn.Module) -> None:
    """Raise unless the heads of an attention can be told apart behind it."""
    missing = [name for name in ("n_heads", "d_head", "output_projection") if not hasattr(attention, name)]
    if missing or not isinstance(attention, nn.Module):
        raise TypeError(
            f"attention must be a MultiHeadAttention, got {type(attention).__name__}"
            f"{' without ' * bool(missing)}{' and '.join(missing)}; take encoder.layers[0].attention"
        )
