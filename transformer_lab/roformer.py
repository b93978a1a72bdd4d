"""Lesson 11. The "RoFormer" encoder block of a tutorial, rebuilt from this package's modules.

The tutorial, whose author calls the block a variant:
https://vortezwohl.github.io/dl/2025/07/30/BuildTransformerEncoderFromScratch.html

The parameter counts are equal. The block is not the RoFormer of arXiv:2104.09864, which is an `Encoder` with
positions="rotary". The differences: every head has d_model features; queries, keys and values are computed by
small feed-forward networks; and instead of residual connections around its two sublayers, the block
concatenates the output of the attention with its input.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from transformer_lab.encoder_layer import Weights
from transformer_lab.feed_forward import FeedForward
from transformer_lab.rotary_embedding import RotaryEmbedding
from transformer_lab.scaled_dot_product_attention import scaled_dot_product_attention
from transformer_lab.validation import check_may_attend

EPS = 1e-9  # of every layer norm, as in the tutorial; lesson 11 measures the effect of so small a value
SLOPE = 5e-3  # initial slope of PReLU for negative inputs


class FeedForwardUnit(nn.Module):
    """x + FFN(LayerNorm(x)): the pre-norm feed-forward sublayer of an encoder layer, with a PReLU.

    Args:
        d_model: number of features of each token vector, in the input and in the output.
        expansion: d_ff is expansion · d_model, rounded down.
        dropout: probability of dropping a hidden feature during training.
    """

    def __init__(self, d_model: int, expansion: int | float = 2, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=EPS)
        d_ff = math.floor(expansion * d_model)
        self.feed_forward = FeedForward(d_model, d_ff, activation=nn.PReLU(init=SLOPE), dropout=dropout)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Apply the unit to each vector separately."""
        return x + self.feed_forward(self.norm(x))


def feed_forward_stack(
    d_model: int, n_layers: int, expansion: int | float, *, dropout: float
) -> nn.Sequential:
    """Build a stack of `n_layers` units with separate parameters.

    `[unit] * n_layers` would repeat the same module n_layers times, with shared parameters.
    """
    return nn.Sequential(*(FeedForwardUnit(d_model, expansion, dropout=dropout) for _ in range(n_layers)))


class FullWidthHead(nn.Module):
    """One attention head over all features; feed-forward stacks compute q(x), k(y) and v(y).

    The residual connections of the stacks add x to the queries and y to the keys, so before training a token
    attends mostly to itself.
    """

    def __init__(
        self, d_model: int, rotary: RotaryEmbedding, *, expansion: int | float, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.to_query = feed_forward_stack(d_model, 1, expansion, dropout=dropout)
        self.to_key = feed_forward_stack(d_model, 1, expansion, dropout=dropout)
        self.to_value = feed_forward_stack(d_model, 1, expansion, dropout=dropout)
        self.rotary = rotary

    def forward(
        self,
        x: Float[Tensor, "batch query_pos d_model"],
        y: Float[Tensor, "batch key_pos d_model"],
        may_attend: Bool[Tensor, "..."] | None = None,
        *,
        need_weights: bool = True,
    ) -> tuple[Float[Tensor, "batch query_pos d_model"], Float[Tensor, "batch 1 query_pos key_pos"] | None]:
        """Return the output and the attention weights of queries from x, and keys and values from y.

        The mask is (batch or 1, 1, query_pos or 1, key_pos or 1), True = may attend.
        """
        query, key = self.rotary(self.to_query(x)), self.rotary(self.to_key(y))
        output, weights = scaled_dot_product_attention(
            query.unsqueeze(-3),  # (batch, 1 head, query_pos, d_model)
            key.unsqueeze(-3),
            self.to_value(y).unsqueeze(-3),
            may_attend,
            need_weights=need_weights,
        )
        return output.squeeze(-3), weights


class ExpandingMultiHeadAttention(nn.Module):
    """Concat(head_1, …, head_h) W^O, where each head attends in its own projection of x to d_model features.

    One linear layer computes all projections (d_model → h · d_model), so h does not have to divide d_model.

    Args:
        d_model: number of features of each token vector, in the input and in the output; must be even.
        n_heads: number of heads.
        expansion: expansion of the stacks that compute queries, keys and values.
        dropout: dropout probability in these stacks during training.
    """

    def __init__(
        self, d_model: int, n_heads: int = 1, *, expansion: int | float = 1.5, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.expand_projection = nn.Linear(d_model, n_heads * d_model)
        rotary = RotaryEmbedding(d_model)
        self.heads = nn.ModuleList(
            FullWidthHead(d_model, rotary, expansion=expansion, dropout=dropout) for _ in range(n_heads)
        )
        self.output_projection = nn.Linear(n_heads * d_model, d_model)

    def forward(
        self,
        query: Float[Tensor, "batch query_pos d_model"],
        key: Float[Tensor, "batch key_pos d_model"] | None = None,
        *,
        may_attend: Bool[Tensor, "..."] | None = None,
        need_weights: bool = True,
    ) -> tuple[Float[Tensor, "batch query_pos d_model"], Weights | None]:
        """Return the attention output and the attention weights; self-attention if only `query` is given.

        Args:
            query: vectors from which the queries are computed; one output vector is returned for each.
            key: vectors from which keys and values are computed; if None, `query`.
            may_attend: (batch or 1, heads or 1, query_pos or 1, key_pos or 1), True = may attend.
            need_weights: if False, the fused kernel is used and None is returned for the weights.
        """
        key = query if key is None else key
        n_heads = len(self.heads)
        masks = split_mask(may_attend, (len(query), n_heads, query.shape[-2], key.shape[-2]))
        # One (batch, query_pos, d_model) tensor per head
        queries = self.expand_projection(query).chunk(n_heads, dim=-1)
        keys = queries if key is query else self.expand_projection(key).chunk(n_heads, dim=-1)
        results = [
            head(*parts, need_weights=need_weights)
            for head, *parts in zip(self.heads, queries, keys, masks, strict=True)
        ]
        outputs, weights = zip(*results, strict=True)
        merged = torch.cat(outputs, dim=-1)  # (batch, query_pos, n_heads · d_model)
        return self.output_projection(merged), torch.cat(weights, dim=-3) if need_weights else None


class RoFormerEncoder(nn.Module):
    """W · FFNs([A ‖ x]) with A = Attention(LayerNorm(x)): the tutorial's block.

    Where an encoder layer adds the attention output to x, this block concatenates both (‖, 2 · d_model
    features), and a linear layer projects the result back to d_model.

    Args:
        d_model: number of features of each token vector, in the input and in the output; must be even.
        n_heads: number of heads, each with d_model features.
        ffn_layers: number of units in the feed-forward stack, whose width is 2 · d_model.
        ffn_expansion: expansion of every stack, including the stacks in the heads.
        dropout: dropout probability in every stack during training.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int = 2,
        *,
        ffn_layers: int = 1,
        ffn_expansion: int | float = 2,
        dropout: float = 0.02,
    ) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=EPS)
        self.attention = ExpandingMultiHeadAttention(
            d_model, n_heads, expansion=ffn_expansion, dropout=dropout
        )
        self.feed_forward = feed_forward_stack(2 * d_model, ffn_layers, ffn_expansion, dropout=dropout)
        self.output_projection = nn.Linear(2 * d_model, d_model)

    def forward(
        self,
        x: Float[Tensor, "batch position d_model"],
        *,
        may_attend: Bool[Tensor, "..."] | None = None,
        need_weights: bool = True,
    ) -> tuple[Float[Tensor, "batch position d_model"], Weights | None]:
        """Return the output of this block, and its attention weights, as `EncoderLayer` does."""
        attended, weights = self.attention(self.norm(x), may_attend=may_attend, need_weights=need_weights)
        joined = torch.cat([attended, x], dim=-1)  # (batch, position, 2 · d_model)
        return self.output_projection(self.feed_forward(joined)), weights


def split_mask(may_attend: Tensor | None, scores_shape: tuple[int, int, int, int]) -> list[Tensor | None]:
    """Split a mask into one mask per head: (batch or 1, 1, query_pos or 1, key_pos or 1)."""
    n_heads = scores_shape[1]
    if may_attend is None:
        return [None] * n_heads
    check_may_attend(may_attend, scores_shape)
    return [may_attend[:, i % may_attend.shape[1], None] for i in range(n_heads)]


def summary(encoder: RoFormerEncoder) -> str:
    """Return the tutorial's summary of the encoder: sizes, device, dtype, parameter counts, module tree."""
    parameters = list(encoder.parameters())
    total = sum(p.numel() for p in parameters)
    trainable = sum(p.numel() for p in parameters if p.requires_grad)
    weight = encoder.output_projection.weight
    fields = {
        "name": type(encoder).__name__,
        "in features": encoder.norm.normalized_shape[0],
        "out features": encoder.output_projection.out_features,
        "device": weight.device,
        "dtype": weight.dtype,
        "total parameters": f"{total:,}",
        "trainable": f"{trainable:,}",
        "not trainable": f"{total - trainable:,}",
    }
    width = max(map(len, fields))
    return "\n".join([*(f"{name:{width}}  {value}" for name, value in fields.items()), str(encoder)])
