"""What holds for every part of the encoder alike: each guarantee once, asked of all of them."""

import pytest
import torch
from torch import nn

from tests.tensors import assert_equal, randn
from tests.third_party import randomised
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
    TokenHead,
    rotate_interleaved,
)
from transformer_lab.low_rank_adaptation import LowRankLinear
from transformer_lab.modern_bert import LocalAttention
from transformer_lab.modern_encoder import GroupedQueryAttention, RMSNorm
from transformer_lab.roformer import RoFormerEncoder

BATCH, POSITIONS, D_MODEL, HEADS = 2, 5, 12, 3
DROPOUT = {"dropout": 0.5}


def layer(order):
    norms = nn.LayerNorm(D_MODEL), nn.LayerNorm(D_MODEL)
    return order(MultiHeadAttention(D_MODEL, HEADS), FeedForward(D_MODEL, 17), *norms, **DROPOUT)


PARTS = {
    "SinusoidalEncoding": lambda: SinusoidalEncoding(D_MODEL, 7),
    "LearnedEncoding": lambda: LearnedEncoding(D_MODEL, 7),
    "RotaryEmbedding": lambda: RotaryEmbedding(D_MODEL),
    "interleaved": lambda: RotaryEmbedding(D_MODEL, rotate=rotate_interleaved),
    "MultiHeadAttention": lambda: MultiHeadAttention(D_MODEL, HEADS, **DROPOUT),
    "rotary": lambda: MultiHeadAttention(D_MODEL, HEADS, rotary=RotaryEmbedding(4)),
    "LocalAttention": lambda: LocalAttention(D_MODEL, HEADS, 1, **DROPOUT),
    "GroupedQueryAttention": lambda: GroupedQueryAttention(D_MODEL, 6, 3, **DROPOUT),
    "FeedForward": lambda: FeedForward(D_MODEL, 17, **DROPOUT),
    "GatedFeedForward": lambda: GatedFeedForward(D_MODEL, 17, **DROPOUT),
    "RMSNorm": lambda: RMSNorm(D_MODEL),
    "EncoderLayer": lambda: layer(EncoderLayer),
    "PreNormEncoderLayer": lambda: layer(PreNormEncoderLayer),
    "RoFormerEncoder": lambda: RoFormerEncoder(D_MODEL, **DROPOUT),
    "TokenHead": lambda: TokenHead(D_MODEL, 19),
    "LowRankLinear": lambda: LowRankLinear(nn.Linear(D_MODEL, 11), 2),
    "Encoder": lambda: Encoder(EncoderConfig(23, D_MODEL, HEADS, 17, 2, max_length=7, **DROPOUT)),
}
of_every_part = pytest.mark.parametrize("name", PARTS)


def built(name, dtype=torch.float64):
    torch.manual_seed(0)
    return randomised(PARTS[name]().to(dtype)).eval()


def given(name, dtype=torch.float64):
    if name == "Encoder":
        return torch.arange(BATCH * POSITIONS).reshape(BATCH, POSITIONS) * 2
    return randn(BATCH, POSITIONS, D_MODEL, dtype=dtype)


def output(part, x):
    """What the part returns, without weights beside it."""
    result = part(x)
    return result[0] if isinstance(result, tuple) else result


@of_every_part
def test_input_is_left_unchanged_and_may_be_any_view(name):
    part, x = built(name), given(name)
    wanted = output(part, x.clone())
    assert_equal(output(part, x), wanted, 0)
    assert_equal(x, given(name), 0)
    view = x.mT.contiguous().mT
    assert not view.is_contiguous()
    assert_equal(output(part, view), wanted)


@of_every_part
def test_one_sequence_without_a_batch_gives_the_same(name):
    part, x = built(name), given(name)
    if name not in ("Encoder", "LocalAttention"):  # whose ids or whose mask have a batch
        assert_equal(output(part, x[0]), output(part, x)[0])


@of_every_part
def test_evaluation_repeats_itself_and_training_drops(name):
    part, x = built(name), given(name)
    assert_equal(output(part, x), output(part, x), 0)
    part.train()
    drops = any(isinstance(each, nn.Dropout) and each.p for each in part.modules())
    drops |= any(getattr(each, "dropout", 0.0) == 0.5 for each in part.modules())
    torch.manual_seed(0)
    assert torch.equal(output(part, x), output(part, x)) != drops


@of_every_part
def test_shapes_can_be_computed_on_the_meta_device(name):
    part, x = built(name), given(name)
    wanted = output(part, x).shape
    found = output(part.to("meta"), x.to("meta"))
    assert found.is_meta and found.shape == wanted


@of_every_part
def test_bfloat16_is_as_near_as_its_digits_allow_and_autocast_too(name):
    part, x = built(name), given(name)
    exact = output(part, x)
    size = exact.abs().mean()
    ids = name == "Encoder"
    small = output(built(name, torch.bfloat16), x if ids else x.bfloat16())
    assert small.dtype == torch.bfloat16
    with torch.autocast("cpu", torch.bfloat16):
        mixed = output(built(name, torch.float32), x if ids else x.float())
    assert mixed.dtype in (torch.bfloat16, torch.float32)
    for rounded in (small, mixed):
        assert (rounded - exact).abs().mean() < 0.05 * size
