"""Lesson 11: a tutorial's RoFormer-style encoder, its counts, and its arithmetic once more by loops."""

import math

import pytest
import torch
from torch import nn

from tests.peers import randomised
from tests.references import BATCH, assert_equal, randn, random_mask
from transformer_lab import causal_mask, padding_mask_from_lengths
from transformer_lab.diagnostics.certificates import (
    eval_determinism,
    leak_map,
    padding_invariance,
    permutation_equivariance,
)
from transformer_lab.roformer import (
    ExpandingMultiHeadAttention,
    FeedForwardUnit,
    FullWidthHead,
    RoFormerEncoder,
    feed_forward_stack,
    summary,
)

D_MODEL, N_HEADS, POSITIONS, KEYS = 6, 3, 5, 7
MASKS = {
    "none": None,
    "padding": padding_mask_from_lengths(torch.tensor([3, POSITIONS]), POSITIONS),
    "causal": causal_mask(POSITIONS),
    "per head": random_mask(BATCH, N_HEADS, POSITIONS, POSITIONS, seed=1),
}
both_paths = pytest.mark.parametrize("need_weights", [True, False], ids=["explicit", "fused"])
every_mask = pytest.mark.parametrize("may_attend", MASKS.values(), ids=MASKS)


def build(**options):
    """Return an encoder none of whose parameters is zero or one, in eval mode."""
    options = {
        "ffn_layers": 2,
        "ffn_expansion": 1.5,
        "attention_layers": 2,
        "attention_expansion": 2.5,
    } | options
    return randomised(RoFormerEncoder(D_MODEL, N_HEADS, **options)).double().eval()


def stream(positions=POSITIONS, seed=5):
    return randn(BATCH, positions, D_MODEL, seed=seed)


# --- the same by loops, from the parameters alone -------------------------------------------------


def linear(state, name, x):
    """One vector through one Linear."""
    return [
        sum(w * number for w, number in zip(row, x, strict=True))
        + (state[f"{name}.bias"][i] if f"{name}.bias" in state else 0.0)
        for i, row in enumerate(state[f"{name}.weight"])
    ]


def normalised(state, name, x):
    mean = sum(x) / len(x)
    variance = sum((number - mean) ** 2 for number in x) / len(x)
    return [
        (number - mean) / math.sqrt(variance + 1e-9) * state[f"{name}.weight"][i] + state[f"{name}.bias"][i]
        for i, number in enumerate(x)
    ]


def stack(state, name, x):
    """The units of one feed-forward stack, one after the other."""
    unit = 0
    while f"{name}.{unit}.norm.weight" in state:
        here = f"{name}.{unit}"
        hidden = linear(state, f"{here}.feed_forward.up_projection", normalised(state, f"{here}.norm", x))
        slope = state[f"{here}.feed_forward.activation.weight"][0]
        hidden = [number if number > 0 else slope * number for number in hidden]
        update = linear(state, f"{here}.feed_forward.down_projection", hidden)
        x = [number + change for number, change in zip(x, update, strict=True)]
        unit += 1
    return x


def turned(x, position):
    half = len(x) // 2
    result = list(x)
    for i in range(half):
        angle = position * 10_000 ** (-2 * i / len(x))
        result[i] = x[i] * math.cos(angle) - x[i + half] * math.sin(angle)
        result[i + half] = x[i] * math.sin(angle) + x[i + half] * math.cos(angle)
    return result


def head(state, name, x, y, allowed):
    """Outputs and weights of one head; allowed[i][j]: may query i look at key j?"""
    queries = [turned(stack(state, f"{name}.to_query", token), m) for m, token in enumerate(x)]
    keys = [turned(stack(state, f"{name}.to_key", token), n) for n, token in enumerate(y)]
    values = [stack(state, f"{name}.to_value", token) for token in y]
    outputs, weights = [], []
    for i, query in enumerate(queries):
        grown = [
            math.exp(sum(a * b for a, b in zip(query, key, strict=True)) / math.sqrt(len(query)))
            if allowed[i][j]
            else 0.0
            for j, key in enumerate(keys)
        ]
        weights.append([number / (sum(grown) or 1.0) for number in grown])
        outputs.append(
            [
                sum(w * value[c] for w, value in zip(weights[-1], values, strict=True))
                for c in range(len(query))
            ]
        )
    return outputs, weights


def attention(state, name, x, y, allowed):
    width = len(x[0])
    wide = [[linear(state, f"{name}.expand_projection", token) for token in text] for text in (x, y)]
    merged, maps = [[] for _ in x], []
    for h in range(len(allowed)):
        cut = [[token[h * width : (h + 1) * width] for token in text] for text in wide]
        outputs, weights = head(state, f"{name}.heads.{h}", *cut, allowed[h])
        merged = [left + right for left, right in zip(merged, outputs, strict=True)]
        maps.append(weights)
    return [linear(state, f"{name}.output_projection", token) for token in merged], maps


def encoder_by_loops(encoder, x, may_attend):
    state = {name: tensor.tolist() for name, tensor in encoder.state_dict().items()}
    shape = (BATCH, N_HEADS, x.shape[1], x.shape[1])
    allowed = (
        torch.ones(shape, dtype=torch.bool) if may_attend is None else may_attend.expand(shape)
    ).tolist()
    outputs, maps = [], []
    for text, mask in zip(x.tolist(), allowed, strict=True):
        calm = [normalised(state, "norm", token) for token in text]
        attended, weights = attention(state, "attention", calm, calm, mask)
        beside = [left + right for left, right in zip(attended, text, strict=True)]
        outputs.append(
            [linear(state, "output_projection", stack(state, "feed_forward", token)) for token in beside]
        )
        maps.append(weights)
    return torch.tensor(outputs, dtype=torch.float64), torch.tensor(maps, dtype=torch.float64)


@every_mask
@both_paths
def test_encoder_equals_plain_loops(may_attend, need_weights):
    encoder, x = build(), stream()
    output, weights = encoder(x, may_attend=may_attend, need_weights=need_weights)
    wanted, wanted_weights = encoder_by_loops(encoder, x, may_attend)
    assert_equal(output, wanted)
    if need_weights:
        assert_equal(weights, wanted_weights)
    else:
        assert weights is None


@pytest.mark.parametrize("bias", [True, False])
def test_attention_reads_another_text(bias):
    attention_ = randomised(ExpandingMultiHeadAttention(D_MODEL, N_HEADS, bias=bias)).double().eval()
    x, y = stream(), stream(KEYS, seed=6)
    state = {f"a.{name}": tensor.tolist() for name, tensor in attention_.state_dict().items()}
    allowed = [[[True] * KEYS] * POSITIONS] * N_HEADS
    wanted = [attention(state, "a", *texts, allowed) for texts in zip(x.tolist(), y.tolist(), strict=True)]
    output, weights = attention_(x, y)
    assert_equal(output, torch.tensor([out for out, _ in wanted], dtype=torch.float64))
    assert_equal(weights, torch.tensor([maps for _, maps in wanted], dtype=torch.float64))


# --- counts, printed or from the tutorial's printed code -----------------------------------------


def count(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("n_heads", "wanted"),
    [(1, 40_936_455), (2, 47_763_466), (4, 61_417_488), (8, 88_725_532), (12, 116_033_576)],
)
def test_parameter_counts(n_heads, wanted):
    with torch.device("meta"):
        assert count(RoFormerEncoder(512, n_heads, ffn_layers=4, ffn_expansion=4)) == wanted


def test_counts_of_the_parts():
    with torch.device("meta"):
        encoder = RoFormerEncoder(512, 12, ffn_layers=4, ffn_expansion=4)
    attention = encoder.attention
    assert {count(each) for each in attention.heads} == {6_302_211}
    assert count(attention.heads[0].to_key) == 2_100_737
    assert (count(attention.expand_projection), count(attention.output_projection)) == (3_151_872, 3_146_240)
    assert [count(unit) for unit in encoder.feed_forward] == [8_395_777] * 4
    assert (count(encoder.norm), count(encoder.output_projection)) == (1_024, 524_800)


def test_one_shared_unit_gives_the_count_of_the_printed_code():
    with torch.device("meta"):
        encoder = RoFormerEncoder(512, 12, ffn_layers=4, ffn_expansion=4)
        keys = encoder.feed_forward.state_dict().keys()
        encoder.feed_forward = nn.Sequential(*[encoder.feed_forward[0]] * 4)
    assert count(encoder) == 90_846_245
    assert len(keys) == 28 and encoder.feed_forward.state_dict().keys() == keys


def test_the_tutorials_input_keeps_its_shape():
    encoder = RoFormerEncoder(512, 2, ffn_layers=1, ffn_expansion=1).eval()
    assert encoder(torch.zeros(1, 32, 512), need_weights=False)[0].shape == (1, 32, 512)


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


# --- what follows from how it is built ------------------------------------------------------------


def test_a_token_looks_at_itself_before_any_training():
    """The residual connection in the stacks puts x into q and k (uniform: 1/32)."""
    torch.manual_seed(0)
    calm = nn.LayerNorm(128)(torch.randn(4, 32, 128))
    _, weights = FullWidthHead(128, expansion=1.5).eval()(calm, calm)
    assert weights.diagonal(dim1=-2, dim2=-1).mean() > 0.9


def test_six_blocks_make_all_tokens_alike():
    """Published: cosine .994 without residual connections, .049 with them."""
    torch.manual_seed(0)
    blocks = [RoFormerEncoder(64, 4).eval() for _ in range(6)]

    def cosine(residual):
        x = torch.randn(1, 32, 64, generator=torch.Generator().manual_seed(1))
        for block in blocks:
            x = block(x, need_weights=False)[0] + (x if residual else 0)
        alike = nn.functional.normalize(x[0], dim=-1)
        return ((alike @ alike.T).sum() - 32) / (32 * 31)

    with torch.no_grad():
        assert cosine(residual=False) > 0.97
        assert cosine(residual=True).abs() < 0.15


def test_certificates():
    encoder, x = build(), stream()
    assert padding_invariance(encoder, x).holds
    assert eval_determinism(build(dropout=0.5), x).holds
    assert not permutation_equivariance(encoder, x).holds
    assert not leak_map(lambda y: encoder(y, may_attend=causal_mask(POSITIONS)), x).triu(1).any()


def test_without_rotary_the_order_does_not_matter():
    attention_ = randomised(ExpandingMultiHeadAttention(D_MODEL, N_HEADS, rotary=False)).double()
    assert permutation_equivariance(attention_, stream()).holds


def test_dropout_acts_in_training_only_and_in_every_stack():
    encoder, x = build(dropout=0.5), stream()
    assert_equal(encoder(x)[0], encoder(x)[0])
    rates = {module.p for module in encoder.modules() if isinstance(module, nn.Dropout)}
    assert rates == {0.5}
    assert not torch.equal(encoder.train()(x)[0], encoder(x)[0])


def test_the_slope_below_zero_starts_as_in_the_tutorial():
    unit = FeedForwardUnit(D_MODEL)
    assert [p.tolist() for p in unit.feed_forward.activation.parameters()] == [pytest.approx([5e-3])]


def test_every_unit_has_parameters_of_its_own():
    units = feed_forward_stack(D_MODEL, 3)
    assert len({id(p) for p in units.parameters()}) == 3 * len(list(units[0].parameters()))
    encoder = build()
    assert len({id(p) for p in encoder.parameters()}) == len(encoder.state_dict())


# --- refusals -------------------------------------------------------------------------------------
