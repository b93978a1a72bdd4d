"""Bad calls of the encoder's parts: each is refused by us, in words, before a library meets it."""

import math
import traceback

import pytest
import torch
from torch import nn

from tests.references import randn
from transformer_lab import mask_conventions as c
from transformer_lab import masking as m
from transformer_lab.encoder import Encoder, EncoderConfig, SequenceHead, TokenEmbedding, TokenHead, mean_pool
from transformer_lab.encoder_layer import EncoderLayer, from_torch_layer, to_torch_layer
from transformer_lab.feed_forward import FeedForward, GatedFeedForward
from transformer_lab.multi_head_attention import MultiHeadAttention, merge_heads, split_heads
from transformer_lab.positional_encoding import (
    LearnedEncoding,
    SinusoidalEncoding,
    angular_frequencies,
    sinusoidal_encoding,
)
from transformer_lab.rotary_embedding import (
    RotaryEmbedding,
    half_split_to_interleaved,
    interleaved_to_half_split,
    rotate_half_split,
    rotate_interleaved,
    rotations,
)
from transformer_lab.scaled_dot_product_attention import attention_weights, scaled_dot_product_attention

IDS = torch.tensor([[3, 1, 2], [4, 0, 0]])
MASK = m.padding_mask(IDS)
X = randn(2, 3, 8)
CONFIG = EncoderConfig(vocab_size=5, d_model=8, n_heads=2, d_ff=12, n_layers=1)
NOT_SIZES = ("8", None, 8.0, True, [8], -8, 0, torch.tensor(8))
NOT_NUMBERS = ("0.1", None, [0.1], True, math.nan, torch.tensor(0.1))
NOT_TENSORS = ("a text", None, [[1.0, 2.0]], 3)


def parts(**changes):
    built = {
        "attention": MultiHeadAttention(8, 2),
        "feed_forward": FeedForward(8, 12),
        "attention_norm": nn.LayerNorm(8),
        "feed_forward_norm": nn.LayerNorm(8),
    }
    return EncoderLayer(**{**built, **changes})


def torch_layer(**changes):
    return nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, **changes)


class Derived(nn.TransformerEncoderLayer):
    def forward(self, *inputs, **options):
        return 2 * super().forward(*inputs, **options)


class Bare(nn.Module):
    def forward(self, x, **options):
        return x


def with_uneven_dropout():
    layer = torch_layer()
    layer.dropout2.p = 0.5
    return layer


def with_keys_of_its_own(**which):
    layer = torch_layer()
    layer.self_attn = nn.MultiheadAttention(8, 2, batch_first=True, **which)
    return layer


BAD = {
    **{
        f"{name}({bad!r})": lambda build=build, bad=bad: build(bad)
        for name, build in {
            "sinusoidal_encoding": lambda bad: sinusoidal_encoding(bad, 4),
            "sinusoidal_encoding d_model": lambda bad: sinusoidal_encoding(3, bad),
            "angular_frequencies": angular_frequencies,
            "SinusoidalEncoding": SinusoidalEncoding,
            "LearnedEncoding": lambda bad: LearnedEncoding(8, bad),
            "RotaryEmbedding": RotaryEmbedding,
            "interleaved_to_half_split": interleaved_to_half_split,
            "half_split_to_interleaved": half_split_to_interleaved,
            "causal_mask": m.causal_mask,
            "local_mask": lambda bad: m.local_mask(bad, 1),
            "to_attn_mask": lambda bad: c.to_attn_mask(MASK, bad),
            "from_attn_mask": lambda bad: c.from_attn_mask(randn(4, 3, 3) > 0, bad),
            "padding_mask_from_lengths": lambda bad: (
                m.padding_mask_from_lengths(torch.tensor([0, 0]), bad)
                if bad is not None
                else m.padding_mask_from_lengths(bad)
            ),
            "MultiHeadAttention": lambda bad: MultiHeadAttention(bad, 2),
            "MultiHeadAttention heads": lambda bad: MultiHeadAttention(8, bad),
            "split_heads": lambda bad: split_heads(X, bad),
            "FeedForward": lambda bad: FeedForward(bad, 12),
            "GatedFeedForward": lambda bad: GatedFeedForward(8, bad),
            "TokenEmbedding": lambda bad: TokenEmbedding(bad, 8),
            "EncoderConfig": lambda bad: EncoderConfig(vocab_size=bad),
            "EncoderConfig n_layers": lambda bad: EncoderConfig(vocab_size=5, n_layers=bad),
            "TokenHead": lambda bad: TokenHead(bad, 2),
            "SequenceHead": lambda bad: SequenceHead(8, bad),
        }.items()
        for bad in NOT_SIZES
    },
    **{
        f"{name}({bad!r})": lambda build=build, bad=bad: build(bad)
        for name, build in {
            "base": lambda bad: sinusoidal_encoding(3, 4, base=bad),
            "RotaryEmbedding base": lambda bad: RotaryEmbedding(4, base=bad),
            "dropout": lambda bad: FeedForward(8, 12, dropout=bad),
            "attention dropout": lambda bad: scaled_dot_product_attention(X, X, X, dropout=bad),
            "layer dropout": lambda bad: parts(dropout=bad),
            "norm_eps": lambda bad: EncoderConfig(vocab_size=5, norm_eps=bad),
            "window": lambda bad: m.local_mask(4, bad),
            "pad_id": lambda bad: m.padding_mask(IDS, bad),
            "hidden": lambda bad: c.to_additive_mask(MASK, hidden=bad),
            "offset": lambda bad: RotaryEmbedding(8)(X, offset=bad),
            "table offset": lambda bad: LearnedEncoding(8, 9)(X, offset=bad),
        }.items()
        for bad in (*NOT_NUMBERS, math.inf, -0.5)
    },
    **{
        f"{name}({bad!r})": lambda call=call, bad=bad: call(bad)
        for name, call in {
            "SinusoidalEncoding()": SinusoidalEncoding(8),
            "LearnedEncoding()": LearnedEncoding(8, 9),
            "RotaryEmbedding()": RotaryEmbedding(8),
            "rotate_half_split": lambda bad: rotate_half_split(bad, rotations(torch.arange(3), 8)),
            "rotate_interleaved": lambda bad: rotate_interleaved(X, bad),
            "rotations": lambda bad: rotations(bad, 8),
            "query": lambda bad: scaled_dot_product_attention(bad, X, X),
            "attention_weights": lambda bad: attention_weights(X, bad),
            "padding_mask": m.padding_mask,
            "combine_masks": m.combine_masks,
            "to_key_padding_mask": c.to_key_padding_mask,
            "from_key_padding_mask": c.from_key_padding_mask,
            "from_attn_mask": c.from_attn_mask,
            "from_attention_mask": c.from_attention_mask,
            "from_additive_mask": c.from_additive_mask,
            "MultiHeadAttention()": MultiHeadAttention(8, 2),
            "merge_heads": merge_heads,
            "split_heads": lambda bad: split_heads(bad, 2),
            "FeedForward()": FeedForward(8, 12),
            "EncoderLayer()": parts(),
            "from_torch_layer": from_torch_layer,
            "to_torch_layer": to_torch_layer,
            "Encoder": Encoder,
            "Encoder()": Encoder(CONFIG),
            "TokenEmbedding()": TokenEmbedding(5, 8),
            "TokenHead()": TokenHead(8, 2),
            "SequenceHead()": SequenceHead(8, 2),
            "mean_pool": mean_pool,
        }.items()
        for bad in NOT_TENSORS
    },
    "hidden above": lambda: c.to_additive_mask(MASK, hidden=5.0),
    "hidden that float16 cannot hold": lambda: c.to_additive_mask(MASK, torch.float16, -1e9),
    "integer additive mask": lambda: c.to_additive_mask(MASK, torch.int64),
    "integer table": lambda: sinusoidal_encoding(3, 4, dtype=torch.int64),
    "table past its end": lambda: SinusoidalEncoding(8, 4)(X, offset=2),
    "a device that is none": lambda: m.causal_mask(3, device="gpu"),
    "a pad_id that uint8 cannot hold": lambda: m.padding_mask(IDS.to(torch.uint8), 259),
    "masks on two devices": lambda: m.combine_masks(MASK, MASK.to("meta")),
    "a batch of half a sequence": lambda: c.to_attn_mask(MASK, 2, 0.5),
    "an activation that narrows": lambda: GatedFeedForward(8, 12, activation=nn.Linear(12, 1))(X),
    "a rotation that narrows": lambda: RotaryEmbedding(8, rotate=lambda x, r: x[..., :2])(X),
    "one rotation for all positions": lambda: rotate_interleaved(X, rotations(torch.arange(1), 8)),
    "odd width": lambda: rotate_half_split(randn(2, 3), rotations(torch.arange(2), 2)),
    "too few pairs": lambda: rotate_interleaved(X, rotations(torch.arange(3), 6)),
    "other positions": lambda: rotate_half_split(X, rotations(torch.arange(2), 8)),
    "a vector alone": lambda: rotate_half_split(X[0, 0], rotations(torch.arange(3), 8)),
    "rotate is no function": lambda: RotaryEmbedding(8, rotate="half"),
    "rotary is no part": lambda: MultiHeadAttention(8, 2, rotary=True),
    "rotary is a class": lambda: MultiHeadAttention(8, 2, rotary=RotaryEmbedding),
    "activation by name": lambda: FeedForward(8, 12, activation="gelu"),
    "activation as a class": lambda: GatedFeedForward(8, 12, activation=nn.GELU),
    "a part as a class": lambda: parts(feed_forward=FeedForward),
    "a part as text": lambda: parts(attention="attention"),
    "a norm that is missing": lambda: parts(attention_norm=None),
    "a sublayer without a tensor": lambda: parts(feed_forward=lambda x: (x, None))(X),
    "heads of three axes": lambda: merge_heads(X),
    "heads that do not divide": lambda: split_heads(X, 3),
    "a config as a dict": lambda: Encoder({"vocab_size": 5}),
    "no build_layer": lambda: Encoder(CONFIG, None),
    "build_layer as text": lambda: Encoder(CONFIG, "standard"),
    "build_layer without a module": lambda: Encoder(CONFIG, lambda config: None),
    "a layer without weights": lambda: Encoder(CONFIG, lambda config: Bare())(IDS),
    "scale as text": lambda: TokenEmbedding(5, 8, scale="no"),
    "pooling nothing": lambda: mean_pool(randn(2, 0, 8)),
    "pooling a matrix": lambda: mean_pool(randn(2, 8)),
    "a derived layer": lambda: from_torch_layer(Derived(8, 2, 12)),
    "another dropout2": lambda: from_torch_layer(with_uneven_dropout()),
    "add_zero_attn": lambda: from_torch_layer(with_keys_of_its_own(add_zero_attn=True)),
    "add_bias_kv": lambda: from_torch_layer(with_keys_of_its_own(add_bias_kv=True)),
    "two eps": lambda: to_torch_layer(parts(attention_norm=nn.LayerNorm(8, eps=0.1))),
    "two kinds of bias": lambda: to_torch_layer(parts(feed_forward=FeedForward(8, 12, bias=False))),
    "a norm without weight": lambda: to_torch_layer(
        parts(attention_norm=nn.LayerNorm(8, elementwise_affine=False))
    ),
}


@pytest.mark.parametrize("call", BAD.values(), ids=BAD)
def test_is_refused_in_words(call):
    with pytest.raises((TypeError, ValueError)) as refused:
        call()
    raised_in = traceback.extract_tb(refused.value.__traceback__)[-1].filename
    assert "transformer_lab" in raised_in, f"from the depths: {refused.value}"
    assert ";" in str(refused.value), f"no remedy: {refused.value}"
