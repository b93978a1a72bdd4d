"""Lesson 07: the encoder layer, LayerNorm(x + Sublayer(x)) twice, or x + Sublayer(LayerNorm(x)) twice."""

import copy
import math

import pytest
import torch
from torch import nn

from tests import peers
from tests.peers import all_gradients, assert_same_state, randomised
from tests.references import BATCH, HEADS, KEYS, assert_equal, randn, random_mask
from transformer_lab import (
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    PreNormEncoderLayer,
    causal_mask,
    local_mask,
    padding_mask_from_lengths,
)
from transformer_lab.encoder_layer import from_torch_layer, to_torch_layer
from transformer_lab.low_rank_adaptation import adapt
from transformer_lab.mask_conventions import to_attn_mask, to_key_padding_mask

D_HEAD, D_FF = 4, 17
D_MODEL = HEADS * D_HEAD
POSITIONS = KEYS
EPS = 1e-3  # large, so that the wrong one shows

both_orders = pytest.mark.parametrize("order", [EncoderLayer, PreNormEncoderLayer], ids=["post", "pre"])
both_paths = pytest.mark.parametrize("need_weights", [True, False], ids=["explicit", "fused"])
both_dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)

MASKS = {
    "none": None,
    "padding": padding_mask_from_lengths(torch.tensor([4, POSITIONS]), POSITIONS),
    "causal": causal_mask(POSITIONS),
    "local": local_mask(POSITIONS, 1),
    "full": random_mask(BATCH, HEADS, POSITIONS, POSITIONS, seed=1),
}
MASKS["full"][0, 1, 2] = False
every_mask = pytest.mark.parametrize("may_attend", MASKS.values(), ids=MASKS.keys())


def build(order, dtype=torch.float64, seed=0, activation=None, dropout=0.0, rotary=None):
    """Return a layer none of whose parameters is zero or one."""
    layer = order(
        MultiHeadAttention(D_MODEL, HEADS, rotary=rotary),
        FeedForward(D_MODEL, D_FF, activation=activation),
        nn.LayerNorm(D_MODEL, eps=EPS),
        nn.LayerNorm(D_MODEL, eps=EPS),
        dropout=dropout,
    )
    return randomised(layer, seed).to(dtype)


def stream(dtype=torch.float64):
    return randn(BATCH, POSITIONS, D_MODEL, seed=31, dtype=dtype)


class Stub(nn.Module):
    """A part that applies a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, **how_to_attend):
        return self.function(x, **how_to_attend)


def layer_of_stubs(order, **choices):
    """Return a layer of four parts that tell themselves apart: 10·x, 7·x, x + 100, x + 1000."""
    return order(
        Stub(lambda x, **how_to_attend: (10 * x, how_to_attend)),
        Stub(lambda x: 7 * x),
        Stub(lambda x: x + 100),
        Stub(lambda x: x + 1000),
        **choices,
    )


# --- values ---------------------------------------------------------------------------------------


def test_post_norm_adds_then_normalises():
    # 1 + 10 = 11, normalised 111; 111 + 777 = 888, normalised 1888.
    output, _ = layer_of_stubs(EncoderLayer)(torch.ones(2, 3, 5))
    assert_equal(output, torch.full((2, 3, 5), 1888.0))


def test_pre_norm_normalises_then_adds():
    # 1 normalised 101, 1 + 1010 = 1011; normalised 2011, 1011 + 14077 = 15088.
    output, _ = layer_of_stubs(PreNormEncoderLayer)(torch.ones(2, 3, 5))
    assert_equal(output, torch.full((2, 3, 5), 15088.0))


@both_orders
def test_attention_gets_what_the_layer_gets_and_its_weights_are_returned(order):
    may_attend = MASKS["causal"]
    _, got = layer_of_stubs(order)(torch.ones(2, 7, 5), may_attend=may_attend, need_weights=False)
    assert got == {"may_attend": may_attend, "need_weights": False}


def layer_norm_by_loops(norm, x):
    """(x − mean) / √(biased variance + ε) · weight + bias, for one vector."""
    mean = sum(x) / len(x)
    variance = sum((feature - mean) ** 2 for feature in x) / len(x)
    weight, bias, std = norm.weight.tolist(), norm.bias.tolist(), math.sqrt(variance + norm.eps)
    return [(x[c] - mean) / std * weight[c] + bias[c] for c in range(len(x))]


def on_each_token(function, x):
    return torch.tensor([[function(token) for token in row] for row in x.tolist()], dtype=x.dtype)


@both_orders
@both_paths
def test_layer_equals_its_parts_by_loops(order, need_weights):
    layer, x, may_attend = build(order), stream(), MASKS["full"]

    def attention(x):
        return layer.attention(x, may_attend=may_attend)

    def norms(x, norm):
        return on_each_token(lambda token: layer_norm_by_loops(norm, token), x)

    if order is EncoderLayer:
        attended, wanted_weights = attention(x)
        x = norms(x + attended, layer.attention_norm)
        wanted = norms(x + layer.feed_forward(x), layer.feed_forward_norm)
    else:
        attended, wanted_weights = attention(norms(x, layer.attention_norm))
        x = x + attended
        wanted = x + layer.feed_forward(norms(x, layer.feed_forward_norm))
    output, weights = layer(stream(), may_attend=may_attend, need_weights=need_weights)
    assert_equal(output, wanted)
    if need_weights:
        assert_equal(weights, wanted_weights)
    else:
        assert weights is None


def test_post_norm_leaves_each_token_with_mean_0_and_variance_1():
    layer = build(EncoderLayer)
    layer.feed_forward_norm.reset_parameters()
    layer.feed_forward_norm.eps = 0.0
    output, _ = layer(stream())
    assert_equal(output.mean(dim=-1), torch.zeros(BATCH, POSITIONS).double())
    assert_equal(output.var(dim=-1, unbiased=False), torch.ones(BATCH, POSITIONS).double())


def test_pre_norm_is_a_clear_road_when_the_sublayers_are_silent():
    layer = build(PreNormEncoderLayer)
    for last in (layer.attention.output_projection, layer.feed_forward.down_projection):
        last.weight.data.zero_()
        last.bias.data.zero_()
    assert_equal(layer(stream())[0], stream())


# --- peers ----------------------------------------------------------------------------------------


def torch_layer_like(layer, activation="relu"):
    """Return PyTorch's layer with the same weights."""
    theirs = nn.TransformerEncoderLayer(
        D_MODEL, HEADS, D_FF, dropout=0.0, activation=activation, layer_norm_eps=EPS, batch_first=True,
        norm_first=isinstance(layer, PreNormEncoderLayer), dtype=layer.attention_norm.weight.dtype,
    )  # fmt: skip
    theirs.load_state_dict(peers.to_torch_layer(layer.state_dict()))
    return theirs


# Per head: PyTorch answers NaN where a query may attend to nothing, so each may attend to itself.
TORCH_MASKS = {
    "none": (None, {}),
    "padding": (MASKS["padding"], {"src_key_padding_mask": to_key_padding_mask(MASKS["padding"])}),
    "causal": (MASKS["causal"], {"src_mask": to_attn_mask(MASKS["causal"], HEADS)}),
    "padding and causal": (
        MASKS["padding"] & MASKS["causal"],
        {
            "src_key_padding_mask": to_key_padding_mask(MASKS["padding"]),
            "src_mask": to_attn_mask(MASKS["causal"], HEADS),
        },
    ),
    "per head": (
        MASKS["full"] | torch.eye(POSITIONS).bool(),
        {"src_mask": to_attn_mask(MASKS["full"] | torch.eye(POSITIONS).bool(), HEADS)},
    ),
}


@both_orders
@both_dtypes
@both_paths
@pytest.mark.parametrize("mask", TORCH_MASKS)
@pytest.mark.parametrize(("name", "activation"), [("relu", None), ("gelu", nn.GELU())], ids=["relu", "gelu"])
def test_layer_equals_torch_forward_and_backward(order, dtype, need_weights, mask, name, activation):
    ours = build(order, dtype, activation=activation)
    theirs = torch_layer_like(ours, name)
    may_attend, torch_masks = TORCH_MASKS[mask]

    def our_output(x):
        return ours(x, may_attend=may_attend, need_weights=need_weights)[0]

    def their_output(x):
        return theirs(x, **torch_masks)

    assert_equal(our_output(stream(dtype)), their_output(stream(dtype)))
    our_input, our_parameters = all_gradients(ours, our_output, stream(dtype))
    their_input, their_parameters = all_gradients(theirs, their_output, stream(dtype))
    assert_equal(our_input, their_input)
    assert_same_state(peers.to_torch_layer(our_parameters), their_parameters)


# --- properties -----------------------------------------------------------------------------------


def test_pre_norm_and_post_norm_share_a_state_dict():
    post, pre = build(EncoderLayer, seed=1), build(PreNormEncoderLayer, seed=2)
    assert not torch.allclose(post(stream())[0], pre(stream())[0])
    pre.load_state_dict(post.state_dict())
    assert_same_state(pre.state_dict(), post.state_dict())
    assert_equal(pre(stream())[0], build(PreNormEncoderLayer, seed=1)(stream())[0])


# --- dropout --------------------------------------------------------------------------------------


@both_orders
def test_dropout_acts_on_each_sublayer_and_never_on_the_residual_stream(order):
    # Sublayers that answer 1 and 10, nothing normalised: what is added is 0 or four times as much.
    layer = order(
        Stub(lambda x, **_: (torch.ones_like(x), None)), Stub(lambda x: torch.full_like(x, 10.0)),
        nn.Identity(), nn.Identity(), dropout=0.75,
    )  # fmt: skip
    x = torch.full((BATCH, 50, 11), 1000.0)
    torch.manual_seed(0)
    added = layer.train()(x)[0] - x
    assert added.unique().tolist() == [0, 4, 40, 44]
    assert 0.15 < (added >= 40).double().mean() < 0.35
    assert 0.15 < (added % 40 == 4).double().mean() < 0.35
    assert_equal(layer.eval()(x)[0], x + 11)


# --- parts of one's own ---------------------------------------------------------------------------


@both_orders
def test_a_norm_without_parameters_may_serve_twice(order):
    norm = nn.LayerNorm(D_MODEL, elementwise_affine=False).double()
    parts = MultiHeadAttention(D_MODEL, HEADS), FeedForward(D_MODEL, D_FF)
    layer = order(*parts, norm, norm).double()
    assert layer(stream())[0].shape == stream().shape


# --- dtypes, devices, copies ----------------------------------------------------------------------


# --- bad input ------------------------------------------------------------------------------------


@both_orders
def test_refuses_an_attention_that_returns_its_output_alone(order):
    # With a batch of two, unpacking would take the first sequence for the output, the second for the weights.
    layer = order(Stub(lambda x, **_: 2 * x), Stub(lambda x: x), nn.Identity(), nn.Identity())
    with pytest.raises(TypeError, match=r"must return \(output, weights\), got Tensor; .*return \(output, "):
        layer(randn(2, POSITIONS, D_MODEL))


@both_orders
@pytest.mark.parametrize("part", ["attention", "feed_forward"])
def test_refuses_a_part_that_changes_the_shape(order, part):
    # One row for all positions would be broadcast over the residual stream.
    layer = order(Stub(lambda x, **_: (x, None)), Stub(lambda x: x), nn.Identity(), nn.Identity())
    pooled = {"attention": lambda x, **_: (x[:, :1], None), "feed_forward": lambda x: x[:, :1]}[part]
    setattr(layer, part, Stub(pooled))
    with pytest.raises(ValueError, match=r"must keep .* got \(2, 1, 12\), wanted \(2, 7, 12\); check"):
        layer(stream())


# --- converters -----------------------------------------------------------------------------------


def torch_layer(dtype=torch.float64, **options):
    """Return PyTorch's layer, none of whose parameters is zero or one."""
    options = {"dropout": 0.1, "batch_first": True, "layer_norm_eps": EPS} | options
    return randomised(nn.TransformerEncoderLayer(D_MODEL, HEADS, D_FF, **options)).to(dtype)


KINDS = {
    "post": {},
    "pre": {"norm_first": True},
    "gelu": {"activation": "gelu"},
    "prelu": {"activation": nn.PReLU()},
    "no bias": {"bias": False},
    "position first": {"batch_first": False},
}


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
@both_dtypes
def test_a_layer_of_torch_becomes_ours_and_torchs_again(options, dtype):
    theirs = torch_layer(dtype, **options).eval()
    x = stream(dtype)
    first = (lambda y: y.transpose(0, 1)) if not options.get("batch_first", True) else (lambda y: y)
    wanted = first(theirs(first(x)))
    ours = from_torch_layer(theirs)
    assert type(ours) is (PreNormEncoderLayer if options.get("norm_first") else EncoderLayer)
    assert_equal(ours(x)[0], wanted)
    again = to_torch_layer(ours)
    assert_equal(again(x), wanted)
    assert_same_state(again.state_dict(), theirs.state_dict(), tolerance=0)
    assert (again.norm_first, again.dropout.p, again.norm1.eps) == (theirs.norm_first, 0.1, EPS)


def test_each_norm_keeps_its_own_eps():
    theirs = torch_layer()
    theirs.norm2.eps = 0.03
    ours = from_torch_layer(theirs)
    assert (ours.attention_norm.eps, ours.feed_forward_norm.eps) == (EPS, 0.03)


@both_orders
def test_a_layer_of_ours_becomes_torchs_and_ours_again(order):
    ours = order(
        MultiHeadAttention(D_MODEL, HEADS, dropout=0.25),
        FeedForward(D_MODEL, D_FF, activation=nn.GELU(), dropout=0.25),
        nn.LayerNorm(D_MODEL, eps=EPS),
        nn.LayerNorm(D_MODEL, eps=EPS),
        dropout=0.25,
    )
    ours = randomised(ours).double().eval()
    theirs = to_torch_layer(ours)
    assert theirs.norm_first is (order is PreNormEncoderLayer)
    assert_equal(theirs(stream()), ours(stream())[0])
    again = from_torch_layer(theirs)
    assert type(again) is order
    assert_same_state(again.state_dict(), ours.state_dict(), tolerance=0)
    dropouts = [again.dropout.p, again.attention.dropout, again.feed_forward.dropout.p]
    assert dropouts == [0.25, 0.25, 0.25]


def test_a_converted_layer_has_weights_and_activation_of_its_own():
    for convert, layer in ((from_torch_layer, torch_layer(activation=nn.PReLU())), (to_torch_layer, None)):
        layer = layer or build(EncoderLayer, activation=nn.PReLU())
        before = copy.deepcopy(layer.state_dict())
        randomised(convert(layer), seed=7)
        assert_same_state(layer.state_dict(), before, tolerance=0)


@pytest.mark.parametrize("training", [True, False])
def test_a_converted_layer_keeps_its_mode(training):
    theirs = torch_layer().train(training)
    ours = from_torch_layer(theirs)
    assert ours.training is ours.attention.training is training
    assert to_torch_layer(ours).self_attn.training is training


def test_refuses_dropouts_that_torchs_layer_cannot_tell_apart():
    with pytest.raises(ValueError, match=r"dropout differs .*, got 0\.5, 0\.0, 0\.0; .*: choose the same"):
        to_torch_layer(build(EncoderLayer, dropout=0.5))


def test_refuses_an_adapted_layer_by_its_name():
    layer = adapt(build(EncoderLayer), rank=2)
    with pytest.raises(
        TypeError, match=r"query_projection is LowRankLinear, wanted Linear; .*merge undoes adapt"
    ):
        to_torch_layer(layer)
