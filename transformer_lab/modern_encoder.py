"""Lesson 12. Modern encoder parts: RMSNorm, grouped-query attention and a key-value cache.

SwiGLU is `GatedFeedForward` from lesson 06, rotary position embedding is `RotaryEmbedding` from lesson 02.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lab.encoder import Encoder, EncoderConfig
from transformer_lab.encoder_layer import PreNormEncoderLayer
from transformer_lab.feed_forward import GatedFeedForward
from transformer_lab.masking import causal_mask
from transformer_lab.multi_head_attention import check_divisible, merge_heads, split_heads
from transformer_lab.rotary_embedding import RotaryEmbedding
from transformer_lab.scaled_dot_product_attention import scaled_dot_product_attention


class RMSNorm(nn.Module):
    """x / √(mean(x²) + eps) · weight: Eq. 4 of arXiv:1910.07467. A LayerNorm without mean and bias.

    Args:
        d_model: number of features of each token vector.
        eps: added to the mean square; the paper has no eps.

    In float16 and bfloat16 it is computed in float32; the result has the dtype of x.
    """

    def __init__(self, d_model: int, *, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Scale each vector to a root mean square of 1, then each feature by its weight."""
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


class KeyValueCache:
    """The keys and values of all previous tokens in one layer, kept so that they are computed only once."""

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    @property
    def length(self) -> int:
        """Number of cached tokens."""
        return 0 if self.keys is None else self.keys.shape[-2]

    def concatenate(
        self,
        keys: Float[Tensor, "batch n_kv_heads new d_head"],
        values: Float[Tensor, "batch n_kv_heads new d_head"],
    ) -> tuple[Float[Tensor, "batch n_kv_heads all d_head"], Float[Tensor, "batch n_kv_heads all d_head"]]:
        """Return the cached keys and values followed by the new ones, without changing the cache."""
        if self.keys is None:
            return keys, values
        return torch.cat([self.keys, keys], dim=-2), torch.cat([self.values, values], dim=-2)


class GroupedQueryAttention(nn.Module):
    """Grouped-query attention: n_heads / n_kv_heads query heads share one KV head (arXiv:2305.13245).

    With n_kv_heads = n_heads it is multi-head attention, with n_kv_heads = 1 multi-query attention
    (arXiv:1911.02150).

    Args:
        d_model: number of features of each token vector, in the input and in the output.
        n_heads: number of query heads; must divide d_model.
        n_kv_heads: number of KV heads (key and value heads); must divide n_heads; if None, n_heads.
        bias: whether the projections have biases.
        dropout: probability of dropping an attention weight during training.
        rotary: if given, rotates queries and keys by their positions (`RotaryEmbedding(d_head)`).
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int | None = None,
        *,
        bias: bool = False,
        dropout: float = 0.0,
        rotary: RotaryEmbedding | None = None,
    ) -> None:
        super().__init__()
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        check_divisible(d_model, n_heads)
        if n_heads % n_kv_heads:
            raise ValueError(
                f"n_heads ({n_heads}) must be divisible by n_kv_heads ({n_kv_heads}); "
                "each group of query heads shares one KV head"
            )
        self.n_heads, self.n_kv_heads, self.d_head = n_heads, n_kv_heads, d_model // n_heads
        self.dropout = dropout
        self.query_projection = nn.Linear(d_model, d_model, bias=bias)
        self.key_projection = nn.Linear(d_model, n_kv_heads * self.d_head, bias=bias)
        self.value_projection = nn.Linear(d_model, n_kv_heads * self.d_head, bias=bias)
        self.output_projection = nn.Linear(d_model, d_model, bias=bias)
        self.rotary = rotary

    def forward(
        self,
        x: Float[Tensor, "batch position d_model"],
        *,
        may_attend: Bool[Tensor, "..."] | None = None,
        need_weights: bool = True,
        cache: KeyValueCache | None = None,
        attend: Callable = scaled_dot_product_attention,
    ) -> tuple[Float[Tensor, "batch position d_model"], Float[Tensor, "batch n_heads position all"] | None]:
        """Return the output and the attention weights of x attending to itself and to the cached tokens.

        Args:
            x: the tokens; with a cache, only the new tokens, whose positions follow the cached tokens.
            may_attend: (batch or 1, heads or 1, position or 1, all or 1), True = may attend; `all` includes
                the cached tokens, as in `causal_mask(new, all)`.
            need_weights: if False, the fused kernel is used and None is returned for the weights.
            cache: keys and values of the tokens before x; those of x are appended unless the call fails.
            attend: the attention function, with the interface of `scaled_dot_product_attention`.
        """
        offset = 0 if cache is None else cache.length
        queries = self.apply_rotary(split_heads(self.query_projection(x), self.n_heads), offset)
        keys = self.apply_rotary(split_heads(self.key_projection(x), self.n_kv_heads), offset)
        values = split_heads(self.value_projection(x), self.n_kv_heads)
        if cache is not None:
            keys, values = cache.concatenate(keys, values)  # (batch, n_kv_heads, all, d_head)
        dropout = self.dropout if self.training else 0.0
        heads, weights = attend(
            queries,
            self.repeat_kv(keys),
            self.repeat_kv(values),
            may_attend,
            dropout=dropout,
            need_weights=need_weights,
        )
        output = self.output_projection(merge_heads(heads))
        if cache is not None:  # last, so that a failed call leaves the cache unchanged
            cache.keys, cache.values = keys, values
        return output, weights

    def apply_rotary(self, heads: Tensor, offset: int) -> Tensor:
        """Rotate queries or keys by their positions, the first of which is `offset`."""
        return heads if self.rotary is None else self.rotary(heads, offset=offset)

    def repeat_kv(
        self, heads: Float[Tensor, "batch n_kv_heads all d_head"]
    ) -> Float[Tensor, "batch n_heads all d_head"]:
        """Repeat each KV head for the query heads of its group, which are adjacent."""
        return heads.repeat_interleave(self.n_heads // self.n_kv_heads, dim=-3)


def modern_encoder(config: EncoderConfig, n_kv_heads: int | None = None) -> Encoder:
    """Build an encoder like Llama: pre-norm, RMSNorm, SwiGLU, RoPE, grouped-query attention, no biases.

    The sizes and dropout probabilities are those of `config`; d_ff is the hidden size of the gated network.
    """
    config = replace(config, norm_first=True, positions="rotary", scale_embedding=False)

    def build_layer(config: EncoderConfig) -> PreNormEncoderLayer:
        rotary = RotaryEmbedding(config.d_head, config.max_length)
        return PreNormEncoderLayer(
            GroupedQueryAttention(
                config.d_model, config.n_heads, n_kv_heads, dropout=config.attention_dropout, rotary=rotary
            ),
            GatedFeedForward(config.d_model, config.d_ff, dropout=config.dropout),
            RMSNorm(config.d_model, eps=config.norm_eps),
            RMSNorm(config.d_model, eps=config.norm_eps),
            dropout=config.dropout,
        )

    encoder = Encoder(config, build_layer)
    encoder.final_norm = RMSNorm(config.d_model, eps=config.norm_eps)
    return encoder


def continue_text(
    encoder: Encoder, token_ids: Int[Tensor, "batch new"], caches: Sequence[KeyValueCache]
) -> Float[Tensor, "batch new d_model"]:
    """Return the hidden states of new tokens in a causal encoder, with one key-value cache per layer.

    They are equal to the last positions of one pass over the whole sequence with a causal mask.

    Raises:
        ValueError: if there is not a separate cache for each layer, or the caches differ in length.
    """
    different = len({id(cache) for cache in caches})
    if different < len(encoder.layers):
        raise ValueError(
            f"expected a separate cache for each of {len(encoder.layers)} layers, got {different}; "
            "start with [KeyValueCache() for _ in encoder.layers]"
        )
    if len({cache.length for cache in caches}) > 1:  # for example after a call that failed in some layer
        lengths = [cache.length for cache in caches]
        raise ValueError(f"the caches must have the same length, got {lengths}; start with new caches")
    old = caches[0].length
    x = encoder.embed(token_ids, offset=old)
    may_attend = causal_mask(x.shape[1], old + x.shape[1], device=x.device)
    for layer, cache in zip(encoder.layers, caches, strict=True):
        x, _ = layer(x, may_attend=may_attend, need_weights=False, cache=cache)
    return encoder.final_norm(x)


def cache_bytes_per_token(n_layers: int, n_kv_heads: int, d_head: int, bytes_per_number: int = 2) -> int:
    """Return the number of bytes that one token needs in the caches of all layers (2 bytes in bfloat16).

    >>> cache_bytes_per_token(n_layers=32, n_kv_heads=32, d_head=128)  # Llama 2 7B
    524288
    """
    return 2 * n_layers * n_kv_heads * d_head * bytes_per_number
