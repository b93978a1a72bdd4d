"""Lesson 11: a tutorial's RoFormer-style encoder, its counts, and its arithmetic once more by loops."""

import pytest
import torch
from torch import nn

from tests.reference_loops import (
    BATCH,
    assert_equal,
    attend_by_loops,
    both_paths,
    layer_norm_by_loops,
    linear_by_loops,
    numbers,
    randn,
    random_mask,
    rotated_by_loops,
)
from tests.third_party import randomised
from transformer_lab import causal_mask, padding_mask_from_lengths
from transformer_lab.roformer import (
    ExpandingMultiHeadAttention,
    FeedForwardUnit,
    RoFormerEncoder,
    summary,
)

D_MODEL, N_HEADS, POSITIONS, KEYS = 6, 3, 5, 7
MASKS = {
    "none": None,
    "padding": padding_mask_from_lengths(torch.tensor([3, POSITIONS]), POSITIONS),
    "causal": causal_mask(POSITIONS),
    "per head": random_mask(BATCH, N_HEADS, POSITIONS, POSITIONS, seed=1),
}


def build():
    """Return an encoder none of whose parameters is zero or one, in eval mode."""
    torch.set_default_dtype(torch.float64)
    return randomised(RoFormerEncoder(D_MODEL, N_HEADS, ffn_layers=2, ffn_expansion=1.5)).eval()


def stream(positions=POSITIONS, seed=5):
    return randn(BATCH, positions, D_MODEL, seed=seed)


# --- the same by loops, from the parameters alone -------------------------------------------------


def stack_by_loops(stack, x):
    """One vector through the units of a feed-forward stack, one after the other."""
    for unit in stack:
        hidden = linear_by_loops(unit.feed_forward.up_projection, layer_norm_by_loops(unit.norm, x, 1e-9))
        slope = unit.feed_forward.activation.weight.item()
        hidden = [number if number > 0 else slope * number for number in hidden]
        update = linear_by_loops(unit.feed_forward.down_projection, hidden)
        x = [number + change for number, change in zip(x, update, strict=True)]
    return x


def attention_by_loops(attention, x, y, allowed):
    """Attend from the vectors x to the vectors y; allowed[h][i][j]: may query i of head h look at key j?"""
    wide = [[linear_by_loops(attention.expand_projection, token) for token in text] for text in (x, y)]
    merged, maps = [[] for _ in x], []
    for h, head in enumerate(attention.heads):
        own_x, own_y = ([token[h * D_MODEL : (h + 1) * D_MODEL] for token in text] for text in wide)
        queries = [rotated_by_loops(stack_by_loops(head.to_query, token), m) for m, token in enumerate(own_x)]
        keys = [rotated_by_loops(stack_by_loops(head.to_key, token), n) for n, token in enumerate(own_y)]
        values = [stack_by_loops(head.to_value, token) for token in own_y]
        rows = [attend_by_loops(query, keys, values, allowed[h][i]) for i, query in enumerate(queries)]
        merged = [left + output for left, (output, _) in zip(merged, rows, strict=True)]
        maps.append([weights for _, weights in rows])
    return [linear_by_loops(attention.output_projection, token) for token in merged], maps


def encoder_by_loops(encoder, text, allowed):
    calm = [layer_norm_by_loops(encoder.norm, token, 1e-9) for token in text]
    attended, maps = attention_by_loops(encoder.attention, calm, calm, allowed)
    beside = [stack_by_loops(encoder.feed_forward, a + x) for a, x in zip(attended, text, strict=True)]
    return [linear_by_loops(encoder.output_projection, token) for token in beside], maps


@pytest.mark.parametrize("may_attend", MASKS.values(), ids=MASKS)
@both_paths
def test_encoder_equals_plain_loops(may_attend, need_weights):
    encoder, x, shape = build(), stream(), (BATCH, N_HEADS, POSITIONS, POSITIONS)
    allowed = (torch.ones(shape) if may_attend is None else may_attend.expand(shape)).tolist()
    output, weights = encoder(x, may_attend=may_attend, need_weights=need_weights)
    wanted = [encoder_by_loops(encoder, *each) for each in zip(x.tolist(), allowed, strict=True)]
    assert_equal(output, numbers([outputs for outputs, _ in wanted]))
    if need_weights:
        assert_equal(weights, numbers([maps for _, maps in wanted]))
    else:
        assert weights is None


def test_attention_reads_another_text():
    torch.set_default_dtype(torch.float64)
    attention = randomised(ExpandingMultiHeadAttention(D_MODEL, N_HEADS))
    x, y = stream(), stream(KEYS, seed=6)
    allowed = [[[True] * KEYS] * POSITIONS] * N_HEADS
    texts = zip(x.tolist(), y.tolist(), strict=True)
    wanted = [attention_by_loops(attention, *both, allowed) for both in texts]
    output, weights = attention(x, y)
    assert_equal(output, numbers([outputs for outputs, _ in wanted]))
    assert_equal(weights, numbers([maps for _, maps in wanted]))


# --- counts, printed or from the tutorial's printed code -----------------------------------------


def count(module):
    return sum(p.numel() for p in module.parameters())


def test_parameter_counts():
    with torch.device("meta"):
        assert count(RoFormerEncoder(512, 1, ffn_layers=4, ffn_expansion=4)) == 40_936_455
        assert count(RoFormerEncoder(512, 12, ffn_layers=4, ffn_expansion=4)) == 116_033_576


def test_the_summary_has_the_fields_that_the_tutorial_prints():
    encoder = build()
    encoder.norm.requires_grad_(False)
    text, total = summary(encoder), count(encoder)
    for line in (
        "name              RoFormerEncoder",
        "in features       6",
        "out features      6",
        "device            cpu",
        "dtype             torch.float64",
        f"total parameters  {total:,}",
        f"trainable         {total - 12:,}",
        "not trainable     12",
        "(expand_projection): Linear(in_features=6, out_features=18, bias=True)",
    ):
        assert line in text


def test_what_nobody_chooses_is_as_in_the_tutorial():
    encoder = RoFormerEncoder(D_MODEL, N_HEADS)
    units = [module for module in encoder.modules() if isinstance(module, FeedForwardUnit)]
    assert [unit.feed_forward.activation.weight.item() for unit in units] == [pytest.approx(5e-3)] * 10
    assert {module.p for module in encoder.modules() if isinstance(module, nn.Dropout)} == {0.02}
    # 2 · d_model features in a head's stacks as in the encoder's own, 1.5 where the attention stands alone
    widths = [unit.feed_forward.up_projection.out_features for unit in units]
    assert widths == [2 * D_MODEL] * 3 * N_HEADS + [4 * D_MODEL]
    alone = ExpandingMultiHeadAttention(10, expansion=1.25)
    assert alone.heads[0].to_key[0].feed_forward.up_projection.out_features == 12  # 12.12, rounded down
