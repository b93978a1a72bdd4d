"""Lesson 12. ModernBERT: an encoder with alternating local and global attention (arXiv:2412.13663).

RoPE is `RotaryEmbedding` from lesson 02, GeGLU is `GatedFeedForward` from lesson 06, and the layers are
`PreNormEncoderLayer` from lesson 07. Sliding-window attention is new here; `packing` removes the padding.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from jaxtyping import Bool, Float
from torch import Tensor, nn

from transformer_lab.encoder import Encoder, EncoderConfig
from transformer_lab.encoder_layer import PreNormEncoderLayer, Weights
from transformer_lab.feed_forward import GatedFeedForward
from transformer_lab.masking import local_mask
from transformer_lab.multi_head_attention import MultiHeadAttention
from transformer_lab.rotary_embedding import RotaryEmbedding
from transformer_lab.scaled_dot_product_attention import scaled_dot_product_attention
from transformer_lab.validation import check_integer, check_may_attend, check_positive


@dataclass(frozen=True)
class ModernBertConfig(EncoderConfig):
    """The hyperparameters of a ModernBERT; the defaults are those of the base model in Hugging Face.

    Attributes:
        window: number of positions on each side that a local layer attends to; half of `local_attention` in
            Hugging Face.
        global_every: every layer whose index is divisible by it has global attention.
        global_base, local_base: base of RoPE in global and in local layers.
    """

    vocab_size: int = 50_368
    d_model: int = 768
    n_heads: int = 12
    d_ff: int = 1152
    n_layers: int = 22
    max_length: int = 8192
    dropout: float = 0.0
    window: int = 64
    global_every: int = 3
    global_base: float = 160_000.0
    local_base: float = 10_000.0
    # The architecture of ModernBERT is fixed.
    activation: str = field(default="gelu", init=False)
    norm_first: bool = field(default=True, init=False)
    positions: str = field(default="rotary", init=False)
    scale_embedding: bool = field(default=False, init=False)
    embedding_norm: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer(window=self.window, at_least=0)
        check_positive(global_every=self.global_every)

    def is_global(self, number: int) -> bool:
        """Whether the layer with this index, counted from 0, has global attention."""
        return number % self.global_every == 0


class LocalAttention(MultiHeadAttention):
    """Sliding-window attention: a token attends only to tokens at most `window` positions away.

    A mask hides the other tokens, so all scores are computed nevertheless; only `encode_packed` (lesson 13)
    avoids the computation.

    Args:
        window: number of positions on each side that a token attends to.
        d_model, n_heads, bias, dropout, rotary: as in `MultiHeadAttention`.
    """

    def __init__(self, d_model: int, n_heads: int, window: int, **options) -> None:
        super().__init__(d_model, n_heads, **options)
        check_integer(window=window, at_least=0)
        self.window = window

    def forward(
        self, *inputs: Float[Tensor, "batch _ d_model"], attend: Callable | None = None, **options
    ) -> tuple[Float[Tensor, "batch query_pos d_model"], Weights | None]:
        """Return output and weights as `MultiHeadAttention` does; `attend` also receives `window=`."""
        near = partial(attend_nearby if attend is None else attend, window=self.window)
        return super().forward(*inputs, attend=near, **options)


def attend_nearby(
    query: Float[Tensor, "batch heads query_pos d_head"],
    key: Float[Tensor, "batch heads key_pos d_head"],
    value: Float[Tensor, "batch heads key_pos d_value"],
    may_attend: Bool[Tensor, "..."] | None = None,
    *,
    window: int,
    **options,
) -> tuple[
    Float[Tensor, "batch heads query_pos d_value"], Float[Tensor, "batch heads query_pos key_pos"] | None
]:
    """Return `scaled_dot_product_attention` of each query and the keys at most `window` positions away."""
    near = local_mask(query.shape[-2], window, key.shape[-2], device=query.device)
    if may_attend is not None:
        check_may_attend(may_attend, (*query.shape[:-1], key.shape[-2]))
        near = may_attend & near
    return scaled_dot_product_attention(query, key, value, near, **options)


def modern_bert(config: ModernBertConfig) -> Encoder:
    """Build the encoder of arXiv:2412.13663: pre-norm, RoPE, GeGLU, local and global layers, no biases.

    It has LayerNorm and multi-head attention, without grouped queries. The language modelling head, which
    pretraining adds, is not included.
    """
    numbers = count()  # `Encoder` builds its layers in order
    encoder = Encoder(config, lambda config: modern_bert_layer(config, next(numbers)))
    encoder.embedding_norm = norm_without_bias(config)
    encoder.final_norm = norm_without_bias(config)
    return encoder


def modern_bert_layer(config: ModernBertConfig, number: int) -> PreNormEncoderLayer:
    """Build the layer with this index, global or local."""
    dropout = config.attention_dropout
    if config.is_global(number):
        rotary = RotaryEmbedding(config.d_head, config.max_length, base=config.global_base)
        attention = MultiHeadAttention(
            config.d_model, config.n_heads, bias=False, dropout=dropout, rotary=rotary
        )
    else:
        rotary = RotaryEmbedding(config.d_head, config.max_length, base=config.local_base)
        attention = LocalAttention(
            config.d_model, config.n_heads, config.window, bias=False, dropout=dropout, rotary=rotary
        )
    return PreNormEncoderLayer(
        attention,
        GatedFeedForward(config.d_model, config.d_ff, activation=nn.GELU(), dropout=config.dropout),
        # The embedding norm directly precedes layer 0, which therefore has no attention norm.
        norm_without_bias(config) if number else nn.Identity(),
        norm_without_bias(config),
        dropout=config.dropout,
    )


def norm_without_bias(config: ModernBertConfig) -> nn.LayerNorm:
    """Build a LayerNorm with a weight and no bias."""
    return nn.LayerNorm(config.d_model, eps=config.norm_eps, bias=False)


# --- published weights ----------------------------------------------------------------------------

# Names: in Hugging Face's `ModernBertModel` → in our encoder. Some tensors are split into several by rows.
CORRESPONDENCE = {
    "embeddings.tok_embeddings.weight": ["embedding.weight"],
    "embeddings.norm.weight": ["embedding_norm.weight"],
    "layers.{layer}.attn_norm.weight": ["layers.{layer}.attention_norm.weight"],
    "layers.{layer}.attn.Wqkv.weight": [
        "layers.{layer}.attention.query_projection.weight",
        "layers.{layer}.attention.key_projection.weight",
        "layers.{layer}.attention.value_projection.weight",
    ],
    "layers.{layer}.attn.Wo.weight": ["layers.{layer}.attention.output_projection.weight"],
    "layers.{layer}.mlp_norm.weight": ["layers.{layer}.feed_forward_norm.weight"],
    # Hugging Face calls the half with the activation the input, and the other half the gate.
    "layers.{layer}.mlp.Wi.weight": [
        "layers.{layer}.feed_forward.gate_projection.weight",
        "layers.{layer}.feed_forward.up_projection.weight",
    ],
    "layers.{layer}.mlp.Wo.weight": ["layers.{layer}.feed_forward.down_projection.weight"],
    "final_norm.weight": ["final_norm.weight"],
}


def load_hugging_face(encoder: Encoder, published: dict[str, Tensor]) -> None:
    """Load a state dict of a `ModernBertModel` into `encoder`; every tensor is used.

    Raises:
        ValueError: if a tensor is missing, unknown, or contains integers, as in a quantised model.
        RuntimeError: if a tensor has another shape.
    """
    names = parameter_names(encoder.config.n_layers)
    if published.keys() ^ names.keys() or not all(map(Tensor.is_floating_point, published.values())):
        raise ValueError(
            f"expected the floating-point weights of a ModernBertModel without heads, and its own config; "
            f"missing {sorted(names.keys() - published.keys())}, "
            f"unknown {sorted(published.keys() - names.keys())}"
        )
    state = {}
    for theirs, parts in names.items():
        state |= zip(parts, published[theirs].chunk(len(parts)), strict=True)
    encoder.load_state_dict(state)


def parameter_names(n_layers: int) -> dict[str, list[str]]:
    """Return the names for every layer: in Hugging Face → in our encoder; layer 0 has no attention norm."""
    names = {
        theirs.format(layer=layer): [part.format(layer=layer) for part in parts]
        for theirs, parts in CORRESPONDENCE.items()
        for layer in range(n_layers)
    }
    del names["layers.0.attn_norm.weight"]
    return names
