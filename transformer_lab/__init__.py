"""A Transformer encoder in PyTorch, with every part written out by hand.

The first line of each module names its lesson, and a module imports only modules of earlier lessons.
`training` and `diagnostics` build on the encoder; the encoder imports neither of them.
"""

from transformer_lab.encoder import (
    Encoder,
    EncoderConfig,
    SequenceHead,
    TokenEmbedding,
    TokenHead,
    mean_pool,
    standard_layer,
)
from transformer_lab.encoder_layer import EncoderLayer, PreNormEncoderLayer, to_torch_layer
from transformer_lab.feed_forward import FeedForward, GatedFeedForward
from transformer_lab.masking import causal_mask, local_mask, padding_mask, padding_mask_from_lengths
from transformer_lab.multi_head_attention import MultiHeadAttention, merge_heads, split_heads
from transformer_lab.positional_encoding import LearnedEncoding, SinusoidalEncoding, sinusoidal_encoding
from transformer_lab.pretrained_encoder import MINILM, attention_maps, load_minilm, sentence_embeddings
from transformer_lab.rotary_embedding import (
    RotaryEmbedding,
    interleaved_to_half_split,
    rotate_half_split,
    rotate_interleaved,
)
from transformer_lab.scaled_dot_product_attention import attention_weights

__all__ = [
    "MINILM",
    "Encoder",
    "EncoderConfig",
    "EncoderLayer",
    "FeedForward",
    "GatedFeedForward",
    "LearnedEncoding",
    "MultiHeadAttention",
    "PreNormEncoderLayer",
    "RotaryEmbedding",
    "SequenceHead",
    "SinusoidalEncoding",
    "TokenEmbedding",
    "TokenHead",
    "attention_maps",
    "attention_weights",
    "causal_mask",
    "interleaved_to_half_split",
    "load_minilm",
    "local_mask",
    "mean_pool",
    "merge_heads",
    "padding_mask",
    "padding_mask_from_lengths",
    "rotate_half_split",
    "rotate_interleaved",
    "sentence_embeddings",
    "sinusoidal_encoding",
    "split_heads",
    "standard_layer",
    "to_torch_layer",
]
