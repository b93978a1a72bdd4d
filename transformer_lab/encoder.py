"""Lesson 08. The full encoder: token embedding, positions, a stack of encoder layers, and output heads."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lab.encoder_layer import EncoderLayer, PreNormEncoderLayer, Weights
from transformer_lab.feed_forward import FeedForward
from transformer_lab.masking import check_padding_mask
from transformer_lab.multi_head_attention import MultiHeadAttention, check_divisible
from transformer_lab.positional_encoding import LearnedEncoding, SinusoidalEncoding
from transformer_lab.rotary_embedding import RotaryEmbedding
from transformer_lab.validation import check_even, check_number, check_positive, described

ACTIVATIONS = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "gelu_tanh": partial(nn.GELU, approximate="tanh"),
    "silu": nn.SiLU,
}
POSITIONS = ("sinusoidal", "learned", "rotary", "none")


@dataclass(frozen=True)
class EncoderConfig:
    """The hyperparameters of an `Encoder`; the default sizes are those of the paper's base model.

    Attributes:
        vocab_size: number of different token ids.
        d_model, n_heads, d_ff, n_layers: as in Table 3 of arXiv:1706.03762 (h, N there).
        max_length: maximum sequence length of the position table.
        dropout: dropout probability after the embedding, inside the feed-forward network, and on each
            sublayer's output.
        attention_dropout: dropout probability of the attention weights; separate, because the fused kernel
            may not be available with it.
        activation: one of `ACTIVATIONS`.
        norm_first: pre-norm layers and a final norm, instead of the paper's post-norm.
        norm_eps: added to the variance in every LayerNorm.
        positions: one of `POSITIONS`.
        scale_embedding: multiply token vectors by √d_model (Section 3.4 of the paper); BERT does not.
        embedding_norm: a LayerNorm after the positions are added, as in BERT.
    """

    vocab_size: int
    d_model: int = 512
    n_heads: int = 8
    d_ff: int = 2048
    n_layers: int = 6
    max_length: int = 512
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation: str = "relu"
    norm_first: bool = False
    norm_eps: float = 1e-5
    positions: str = "sinusoidal"
    scale_embedding: bool = True
    embedding_norm: bool = False

    def __post_init__(self) -> None:
        for field in fields(EncoderConfig):
            value = getattr(self, field.name)
            if field.type is int:
                check_positive(**{field.name: value})
            if field.type is bool and not isinstance(value, bool):  # a string such as "post" would be truthy
                raise TypeError(f"{field.name} must be True or False, got {value!r}")
        for name, allowed in (("activation", tuple(ACTIVATIONS)), ("positions", POSITIONS)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}")
        for name in ("dropout", "attention_dropout"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be a probability from 0 to 1, got {getattr(self, name)}")
        check_divisible(self.d_model, self.n_heads)
        check_number(norm_eps=self.norm_eps, above=0)
        if self.positions == "sinusoidal":
            check_even(d_model=self.d_model)
        if self.positions == "rotary":
            check_even(d_head=self.d_head)

    @property
    def d_head(self) -> int:
        return self.d_model // self.n_heads


class TokenEmbedding(nn.Module):
    """Look up a vector for each token id, times √d_model if `scale` (Section 3.4 of arXiv:1706.03762).

    The parameters are initialised such that the output has a standard deviation of 1, scaled or not.
    """

    def __init__(self, vocab_size: int, d_model: int, *, scale: bool = True) -> None:
        super().__init__()
        self.scale = math.sqrt(d_model) if scale else 1.0
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        nn.init.normal_(self.weight, std=1 / self.scale)

    def forward(self, token_ids: Int[Tensor, "batch position"]) -> Float[Tensor, "batch position d_model"]:
        """Return one vector per token.

        Raises:
            ValueError: if ids are outside the vocabulary, or their shape is not (batch, position) with at
                least one position.
        """
        if token_ids.dim() != 2 or not token_ids.shape[1]:
            raise ValueError(
                f"token_ids must be integers of shape (batch, position), got {described(token_ids)}; "
                "add the batch axis to a single sequence with ids[None]"
            )
        try:
            return nn.functional.embedding(token_ids, self.weight) * self.scale
        except IndexError as error:
            raise ValueError(
                f"token ids must be from 0 to {len(self.weight) - 1}, got {int(token_ids.min())} to "
                f"{int(token_ids.max())}; does the tokenizer belong to this model?"
            ) from error


def standard_layer(config: EncoderConfig) -> EncoderLayer:
    """Build one encoder layer with the hyperparameters of `config`."""
    rotary = RotaryEmbedding(config.d_head, config.max_length) if config.positions == "rotary" else None
    layer = PreNormEncoderLayer if config.norm_first else EncoderLayer
    return layer(
        MultiHeadAttention(config.d_model, config.n_heads, dropout=config.attention_dropout, rotary=rotary),
        FeedForward(
            config.d_model, config.d_ff, activation=ACTIVATIONS[config.activation](), dropout=config.dropout
        ),
        nn.LayerNorm(config.d_model, eps=config.norm_eps),
        nn.LayerNorm(config.d_model, eps=config.norm_eps),
        dropout=config.dropout,
    )


def position_part(config: EncoderConfig) -> nn.Module:
    """Build the module that adds positions to token vectors; nn.Identity() for "rotary" and "none".

    Rotary positions act inside attention instead.
    """
    if config.positions == "sinusoidal":
        return SinusoidalEncoding(config.d_model, config.max_length)
    if config.positions == "learned":
        return LearnedEncoding(config.d_model, config.max_length)
    return nn.Identity()


class Encoder(nn.Module):
    """A Transformer encoder: the left half of Figure 1 of arXiv:1706.03762.

    Args:
        config: the hyperparameters.
        build_layer: called with the config once per layer; pass another function to use other layers.
    """

    def __init__(
        self, config: EncoderConfig, build_layer: Callable[[EncoderConfig], nn.Module] = standard_layer
    ) -> None:
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(config.vocab_size, config.d_model, scale=config.scale_embedding)
        self.positions = position_part(config)
        self.embedding_norm = maybe_norm(config.embedding_norm, config)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(build_layer(config) for _ in range(config.n_layers))
        self.final_norm = maybe_norm(config.norm_first, config)

    def forward(
        self,
        token_ids: Int[Tensor, "batch position"],
        may_attend: Bool[Tensor, "..."] | None = None,
        need_weights: bool = True,
    ) -> tuple[Float[Tensor, "batch position d_model"], list[Weights] | None]:
        """Return the hidden states after the last layer, and the attention weights of each layer.

        Args:
            token_ids: integers from 0 to vocab_size − 1.
            may_attend: (batch or 1, heads or 1, query_pos or 1, key_pos or 1), True = may attend.
            need_weights: if False, the fused kernel is used and None is returned for the weights.

        Raises:
            ValueError: if ids are out of range, a sequence is empty or too long, or the mask does not fit.
            TypeError: if the mask is not boolean.
        """
        x = self.embed(token_ids)
        weights = []
        for layer in self.layers:
            x, layer_weights = layer(x, may_attend=may_attend, need_weights=need_weights)
            weights.append(layer_weights)
        return self.final_norm(x), weights if need_weights else None

    def embed(
        self, token_ids: Int[Tensor, "batch position"], *, offset: int = 0
    ) -> Float[Tensor, "batch position d_model"]:
        """Return the input of the first layer: token vectors with positions, the first at `offset`."""
        x = self.embedding(token_ids)
        adds_positions = not isinstance(self.positions, nn.Identity)
        x = self.positions(x, offset=offset) if offset and adds_positions else self.positions(x)
        return self.dropout(self.embedding_norm(x))


class TokenHead(nn.Module):
    """Token classification head: one linear layer, applied to every token.

    Returns logits, because the loss includes the softmax.
    """

    def __init__(self, d_model: int, n_classes: int) -> None:
        super().__init__()
        self.projection = nn.Linear(d_model, n_classes)

    def forward(
        self, hidden: Float[Tensor, "batch position d_model"]
    ) -> Float[Tensor, "batch position n_classes"]:
        return self.projection(hidden)


class SequenceHead(TokenHead):
    """Sequence classification head: one linear layer, applied to the mean of the real tokens."""

    def forward(
        self,
        hidden: Float[Tensor, "batch position d_model"],
        may_attend: Bool[Tensor, "batch 1 1 position"] | None = None,
    ) -> Float[Tensor, "batch n_classes"]:
        return self.projection(mean_pool(hidden, may_attend))


def mean_pool(
    hidden: Float[Tensor, "batch position d_model"],
    may_attend: Bool[Tensor, "batch 1 1 position"] | None = None,
) -> Float[Tensor, "batch d_model"]:
    """Return the mean over the real tokens of each sequence; zeros for a sequence without real tokens.

    Raises:
        ValueError: if `may_attend` is not a padding mask (batch, 1, 1, position) of the same batch and
            sequence length.
    """
    if may_attend is None:
        return hidden.mean(dim=-2)
    check_padding_mask(may_attend, hidden)
    real = may_attend[:, 0, 0, :, None]  # (batch, position, 1)
    # The sum may overflow in float16 even if the mean does not.
    wide = torch.promote_types(hidden.dtype, torch.float32)
    total = hidden.masked_fill(~real, 0.0).sum(dim=1, dtype=wide)  # (batch, d_model)
    return (total / real.sum(dim=1).clamp(min=1)).to(hidden.dtype)


def maybe_norm(wanted: bool, config: EncoderConfig) -> nn.Module:
    """Build a LayerNorm if `wanted`, otherwise nn.Identity()."""
    return nn.LayerNorm(config.d_model, eps=config.norm_eps) if wanted else nn.Identity()
