"""Build a Transformer encoder by hand, and understand every line of it.

Each module says which lesson it belongs to, and imports only modules of earlier lessons. `training`
and `diagnostics` surround the encoder, which imports neither.
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
    "sinusoidal_encoding",
]
