"""Bad input that PyTorch would accept and compute something wrong with is refused, with what was wanted."""

import dataclasses
import math
import re

import numpy as np
import pytest
import torch
from torch import nn

from tests.tensors import randn
from transformer_lab import (
    Encoder,
    EncoderConfig,
    EncoderLayer,
    FeedForward,
    GatedFeedForward,
    LearnedEncoding,
    MultiHeadAttention,
    PreNormEncoderLayer,
    RotaryEmbedding,
    SinusoidalEncoding,
    attention_weights,
    causal_mask,
    local_mask,
    mean_pool,
    sinusoidal_encoding,
    to_torch_layer,
)
from transformer_lab.encoder_layer import from_torch_layer
from transformer_lab.low_rank_adaptation import LowRankLinear
from transformer_lab.mask_conventions import to_key_padding_mask
from transformer_lab.modern_bert import LocalAttention, ModernBertConfig
from transformer_lab.modern_encoder import GroupedQueryAttention
from transformer_lab.packing import encode_packed
from transformer_lab.roformer import RoFormerEncoder
from transformer_lab.scaled_dot_product_attention import scaled_dot_product_attention
from transformer_lab.validation import check_integer, check_may_attend, check_number, check_positive

X = randn(2, 3, 8, dtype=torch.float32)
IDS = torch.tensor([[3, 1, 2], [4, 0, 0]])
CONFIG = EncoderConfig(vocab_size=5, d_model=8, n_heads=2, d_ff=12, n_layers=1, max_length=9)
ENCODER = Encoder(CONFIG)


def layer(order=EncoderLayer, attention=None, feed_forward=None, norm=None):
    return order(
        attention or MultiHeadAttention(8, 2),
        feed_forward or FeedForward(8, 12),
        norm or nn.LayerNorm(8),
        nn.LayerNorm(8),
    )


# --- masks ----------------------------------------------------------------------------------------

SCORES = (2, 3, 5, 7)
FITTING = [SCORES, (1, 1, 1, 1), (2, 1, 1, 7), (1, 3, 5, 1), (1, 1, 5, 7)]
OTHER_SHAPES = [(7,), (5, 7), (3, 5, 7), (1, *SCORES)]
OTHER_SHAPES += [(*SCORES[:axis], size, *SCORES[axis + 1 :]) for axis in range(4) for size in (0, 11)]


def test_a_mask_is_boolean_and_has_the_axes_of_the_scores_each_full_or_1():
    for shape in FITTING:
        check_may_attend(torch.ones(shape).bool(), SCORES)
    for shape in OTHER_SHAPES:
        words = r"expected the axes \(2 or 1, 3 or 1, 5 or 1, 7 or 1\); .*mask\[None, None\]$"
        with pytest.raises(ValueError, match=words):
            check_may_attend(torch.ones(shape).bool(), SCORES)
    for mask in (torch.ones(SCORES), torch.ones(SCORES).long()):
        with pytest.raises(TypeError, match=rf"must be boolean .*{mask.dtype}; convert it: mask == 1"):
            check_may_attend(mask, SCORES)


# As many sequences as heads, queries and keys: PyTorch would broadcast any of the smaller masks.
SHORT = X[:, :2]
HEADS = SHORT.unflatten(-1, (2, 4)).transpose(1, 2)
ATTENDS = {
    "attention": lambda mask, **path: scaled_dot_product_attention(HEADS, HEADS, HEADS, mask, **path),
    "attention_weights": lambda mask, need_weights: attention_weights(HEADS, HEADS, mask),
    "Encoder": lambda mask, **path: ENCODER(IDS[:, :2], mask, **path),
    "pre-norm": lambda mask, **path: layer(PreNormEncoderLayer)(SHORT, may_attend=mask, **path),
    "grouped": lambda mask, **path: GroupedQueryAttention(8, 2)(SHORT, may_attend=mask, **path),
    "local": lambda mask, **path: LocalAttention(8, 2, 1)(SHORT, may_attend=mask, **path),
    "RoFormerEncoder": lambda mask, **path: RoFormerEncoder(8, 2)(SHORT, may_attend=mask, **path),
}
WRONG_MASKS = {
    "floats": torch.ones(2, 1, 1, 2),
    "two axes": torch.ones(2, 2).bool(),
    "other sequences": torch.ones(3, 1, 1, 2).bool(),
}


@pytest.mark.parametrize("mask", WRONG_MASKS.values(), ids=WRONG_MASKS)
@pytest.mark.parametrize("need_weights", [True, False], ids=["explicit", "fused"])
@pytest.mark.parametrize("part", ATTENDS)
def test_every_part_that_attends_refuses_them(part, need_weights, mask):
    with pytest.raises((TypeError, ValueError), match=r"^may_attend (must be boolean|has shape)"):
        ATTENDS[part](mask, need_weights=need_weights)


@pytest.mark.parametrize(
    "mask", [*WRONG_MASKS.values(), torch.ones(2, 1, 2, 2).bool()], ids=[*WRONG_MASKS, "full"]
)
def test_what_needs_a_padding_mask_refuses_others(mask):
    shape = re.escape(str(tuple(mask.shape)))
    words = rf"padding mask, .*\(2, 1, 1, 2\), got {mask.dtype} of shape {shape}; build"
    for call in (lambda: mean_pool(SHORT, mask), lambda: encode_packed(ENCODER, IDS[:, :2], mask)):
        with pytest.raises(ValueError, match=words):
            call()


# --- one by one -----------------------------------------------------------------------------------


class Derived(nn.TransformerEncoderLayer):
    """It might compute anything."""


REFUSED = [
    # sizes and numbers
    (lambda: check_positive(d_model=2, d_ff=0), "d_ff must be at least 1, got 0$"),
    (lambda: check_positive(d_model=True), "d_model must be an integer, got True .*int"),
    (lambda: check_number(rate=-math.inf), "rate must be finite, got -inf$"),
    (lambda: check_number(eps=0, above=0), "eps must be above 0 and finite, got 0$"),
    (lambda: check_number(eps=None), r"eps must be a number, got None .*; try float\(eps\)$"),
    (lambda: sinusoidal_encoding(3, 7), r"d_model must be even .*, got 7; try d_model=8$"),
    (lambda: RotaryEmbedding(4, base=math.nan), "base must be above 0 and finite"),
    (lambda: MultiHeadAttention(512, 12), r"divisible by n_heads \(12\); try d_model=516"),
    (lambda: GroupedQueryAttention(12, 6, 4), r"divisible by n_kv_heads \(4\); each"),
    (lambda: LowRankLinear(nn.Linear(8, 8), 0), "rank must be at least 1"),
    (lambda: local_mask(4, -1), "window must be at least 0, got -1"),
    (lambda: causal_mask(5, 3), r"\(3\) must be at least query_length \(5\): .*swap"),
    # the config
    (lambda: EncoderConfig(5, n_layers=0), "n_layers must be at least 1"),
    (lambda: EncoderConfig(5, 30, 2, positions="rotary"), "d_head must be even"),
    (lambda: EncoderConfig(5, norm_first="post"), "norm_first must be True or False, got 'post'"),
    (lambda: EncoderConfig(5, norm_eps=-0.5), "norm_eps must be above 0"),
    (lambda: EncoderConfig(5, attention_dropout=2.0), "attention_dropout must be a probability"),
    (lambda: EncoderConfig(5, dropout=math.nan), "^dropout must be a probability"),
    (lambda: EncoderConfig(5, activation="tanh"), r"one of relu, .*, silu, got 'tanh'"),
    (lambda: ModernBertConfig(global_every=0), "global_every must be at least 1"),
    # token ids
    (lambda: ENCODER(IDS + 1), r"^token ids must be from 0 to 4, got 1 to 5; does the tokenizer"),
    (lambda: ENCODER(IDS - 1), r"^token ids must be from 0 to 4, got -1 to 3; does"),
    (lambda: ENCODER(IDS[0]), r"\(batch, position\), got .* \(3,\); add the batch axis .*ids\[None\]"),
    (lambda: ENCODER(IDS[:, :0]), r"\(batch, position\), got .*int64 of shape \(2, 0\)"),
    # vectors
    (lambda: SinusoidalEncoding(8)(X.double()), r"x is torch\.float64 but the table is .*32"),
    (lambda: LearnedEncoding(8, 9)(X, offset=-1), "offset must be at least 0"),
    (lambda: RotaryEmbedding(8)(X, offset=-1), "offset must be at least 0"),
    (
        lambda: RotaryEmbedding(8)(X, offset=1, positions=torch.arange(3)),
        "expected offset or positions, got both",
    ),
    (lambda: RotaryEmbedding(8)(X, positions=torch.arange(3.0)), "positions must be integers"),
    (lambda: MultiHeadAttention(8, 4, rotary=RotaryEmbedding(8))(X), r"d_head=8 features, got .*2\)"),
    (lambda: RotaryEmbedding(8)(X.long()), "x must be a floating-point tensor"),
    (
        lambda: scaled_dot_product_attention(X, X, X[:, :2], need_weights=False),
        r"and value the same length, got query \(2, 3, 8\), key .*, value \(2, 2, 8\)$",
    ),
    (lambda: scaled_dot_product_attention(X[0, 0], X[0], X[0]), "at least two axes"),
    (lambda: scaled_dot_product_attention(X[0], X[0, 0], X[0, 0]), "at least two axes"),
    (
        lambda: scaled_dot_product_attention(X[None], X[None, :1], X[None, :1]),
        r"the same leading axes, .*, got query \(1, 2, 3, 8\), key \(1, 1, 3, 8\)",
    ),
    (lambda: layer(feed_forward=nn.Linear(8, 1))(X), r"got .* of shape \(2, 3, 1\); an att"),
    (lambda: EncoderLayer(nn.Identity(), nn.Identity(), *[nn.LayerNorm(8)] * 2), "the same module"),
    # PyTorch's and other libraries'
    (lambda: to_key_padding_mask(torch.ones(2, 1, 5, 7).bool()), r"\(2, 1, 1, 7\), got"),
    (lambda: from_torch_layer(Derived(8, 2, 12)), "not a subclass, got Derived"),
    (lambda: to_torch_layer(layer(type("Own", (EncoderLayer,), {}))), "the layer is a Own, which"),
    (
        lambda: to_torch_layer(layer(attention=MultiHeadAttention(8, 2, rotary=RotaryEmbedding(4)))),
        "rotary positions, which PyTorch's layer does not",
    ),
    (lambda: to_torch_layer(layer(attention=LocalAttention(8, 2, 1))), "attention is a LocalAttention"),
    (lambda: to_torch_layer(layer(feed_forward=GatedFeedForward(8, 12))), "is a GatedFeedForward"),
    (lambda: to_torch_layer(layer(norm=nn.LayerNorm(8, eps=0.1))), "one dropout and one eps, got .*0.1"),
    (lambda: LowRankLinear(LowRankLinear(nn.Linear(8, 8), 2), 2), "must be an nn.Linear"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_refuses(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()


@pytest.mark.parametrize("order", [EncoderLayer, PreNormEncoderLayer])
def test_refuses_an_attention_that_returns_its_output_alone(order):
    # With a batch of two, unpacking would take the first sequence for the output, the second for the weights.
    class Bare(nn.Module):
        def forward(self, x, **options):
            return x

    with pytest.raises(ValueError, match=r"got .*\(3, 8\); an attention module returns \(output, weights\)"):
        layer(order, attention=Bare())(X)


def test_numpy_integers_and_what_is_rare_but_right_pass():
    check_positive(d_model=1, n_heads=np.int32(2))
    check_integer(offset=np.int64(0), pad_id=-100)
    assert dataclasses.replace(CONFIG, dropout=1.0).dropout == 1
    assert ModernBertConfig(window=0).window == 0
