"""Build a Transformer encoder by hand, and understand every line of it.

Each module belongs to the lesson of the same name in `notebooks/`,
and imports only modules of earlier lessons.
"""

from transformer_lab.encoder import Encoder, EncoderConfig, SequenceHead, TokenHead, mean_pool
from transformer_lab.encoder_layer import EncoderLayer, PreNormEncoderLayer
from transformer_lab.feed_forward import FeedForward, GatedFeedForward
from transformer_lab.masking import (
    causal_mask,
    combine_masks,
    local_mask,
    padding_mask,
    padding_mask_from_lengths,
)
from transformer_lab.multi_head_attention import MultiHeadAttention
from transformer_lab.positional_encoding import LearnedEncoding, SinusoidalEncoding, sinusoidal_encoding
from transformer_lab.rotary_embedding import RotaryEmbedding, rotate_half_split, rotate_interleaved
from transformer_lab.scaled_dot_product_attention import scaled_dot_product_attention

__all__ = [
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
    "TokenHead",
    "causal_mask",
    "combine_masks",
    "local_mask",
    "mean_pool",
    "padding_mask",
    "padding_mask_from_lengths",
    "rotate_half_split",
    "rotate_interleaved",
    "scaled_dot_product_attention",
    "sinusoidal_encoding",
]
