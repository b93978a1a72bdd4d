"""Lesson 11: a tutorial's RoFormer-style encoder, its arithmetic once more in PyTorch's functions."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.tensors import BATCH, assert_equal, both_paths, randn, random_mask
from tests.third_party import randomised
from transformer_lab import RotaryEmbedding, padding_mask_from_lengths
from transformer_lab.roformer import ExpandingMultiHeadAttention, FeedForwardUnit, RoFormerEncoder, summary

D_MODEL, N_HEADS, POSITIONS, KEYS = 6, 3, 5, 7
MASKS = {
    "none": None,
    "padding": padding_mask_from_lengths(torch.tensor([3, POSITIONS]), POSITIONS),
    "per head": random_mask(BATCH, N_HEADS, POSITIONS, POSITIONS, seed=1),
}


@pytest.fixture(autouse=True)
def in_float64():
    torch.set_default_dtype(torch.float64)


def text(positions=POSITIONS, seed=5):
    return randn(BATCH, positions, D_MODEL, seed=seed)


# --- the same from the parameters alone -----------------------------------------------------------


def norm(module, x):
    return F.layer_norm(x, x.shape[-1:], module.weight, module.bias, eps=1e-9)


def linear(module, x):
    return F.linear(x, module.weight, module.bias)


def stack(units, x):
    for unit in units:
        network = unit.feed_forward
        hidden = F.prelu(linear(network.up_projection, norm(unit.norm, x)), network.activation.weight)
        x = x + linear(network.down_projection, hidden)
    return x


def attention(module, x, y, may_attend):
    """Head i attends in the i-th of three copies, each as wide as the model."""
    rotate, outputs, maps = RotaryEmbedding(D_MODEL), [], []
    wide_x, wide_y = (linear(module.expand_projection, z).split(D_MODEL, dim=-1) for z in (x, y))
    for i, head in enumerate(module.heads):
        query, key = rotate(stack(head.to_query, wide_x[i])), rotate(stack(head.to_key, wide_y[i]))
        scores = query @ key.mT / D_MODEL**0.5
        if may_attend is not None:
            scores = scores.masked_fill(~may_attend[:, i % may_attend.shape[1]], -torch.inf)
        maps.append(scores.softmax(dim=-1).nan_to_num(0.0))
        outputs.append(maps[-1] @ stack(head.to_value, wide_y[i]))
    return linear(module.output_projection, torch.cat(outputs, dim=-1)), torch.stack(maps, dim=1)


@pytest.mark.parametrize("may_attend", MASKS.values(), ids=MASKS)
@both_paths
def test_encoder_equals_pytorchs_functions(may_attend, need_weights):
    encoder = randomised(RoFormerEncoder(D_MODEL, N_HEADS, ffn_layers=2, ffn_expansion=1.5)).eval()
    x = text()
    normed = norm(encoder.norm, x)
    attended, wanted_weights = attention(encoder.attention, normed, normed, may_attend)
    wanted = linear(encoder.output_projection, stack(encoder.feed_forward, torch.cat([attended, x], dim=-1)))
    output, weights = encoder(x, may_attend=may_attend, need_weights=need_weights)
    assert_equal(output, wanted)
    if need_weights:
        assert_equal(weights, wanted_weights)
    else:
        assert weights is None


def test_attention_reads_another_text():
    module = randomised(ExpandingMultiHeadAttention(D_MODEL, N_HEADS))
    x, y = text(), text(KEYS, seed=6)
    assert_equal(module(x, y), attention(module, x, y, None))


# --- what the tutorial's printed code says; its two parameter counts are printed in the lesson ----


def test_the_summary_counts_what_is_not_trained():
    encoder = RoFormerEncoder(D_MODEL, N_HEADS)
    encoder.norm.requires_grad_(False)
    assert "not trainable     12\n" in summary(encoder)


def test_what_nobody_chooses_is_as_in_the_tutorial():
    encoder = RoFormerEncoder(D_MODEL, N_HEADS)
    units = [module for module in encoder.modules() if isinstance(module, FeedForwardUnit)]
    assert [unit.feed_forward.activation.weight.item() for unit in units] == [pytest.approx(5e-3)] * 10
    assert {module.p for module in encoder.modules() if isinstance(module, nn.Dropout)} == {0.02}
    assert FeedForwardUnit(10, 1.25).feed_forward.up_projection.out_features == 12  # 12.5, rounded down
