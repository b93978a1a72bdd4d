"""Lesson 07: the encoder layer, LayerNorm(x + Sublayer(x)) twice, or x + Sublayer(LayerNorm(x)) twice."""

import copy
import math
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tests import peers
from tests.peers import all_gradients, assert_same_state, randomised
from tests.references import BATCH, HEADS, KEYS, assert_equal, properties, randn, random_mask
from transformer_lab import (
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    PreNormEncoderLayer,
    RotaryEmbedding,
    causal_mask,
    local_mask,
    padding_mask_from_lengths,
)
from transformer_lab.encoder_layer import from_torch_layer, to_torch_layer
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


def test_parameter_count_of_a_tutorials_code():
    layer = EncoderLayer(
        MultiHeadAttention(512, 8), FeedForward(512, 2048), nn.LayerNorm(512), nn.LayerNorm(512)
    )
    assert sum(p.numel() for p in layer.parameters()) == 3_152_384


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


@both_orders
@both_dtypes
def test_layer_equals_the_fast_path_of_torch(order, dtype):
    ours = build(order, dtype).eval()
    theirs = torch_layer_like(ours).eval()
    may_attend, torch_masks = TORCH_MASKS["padding"]
    with torch.inference_mode():
        assert_equal(ours(stream(dtype))[0], theirs(stream(dtype)))
        real = may_attend[:, 0, 0]  # the fast path is free to leave anything in the padding
        ours_padded = ours(stream(dtype), may_attend=may_attend, need_weights=False)[0]
        assert_equal(ours_padded[real], theirs(stream(dtype), **torch_masks)[real])


# --- properties -----------------------------------------------------------------------------------


@both_orders
@every_mask
@pytest.mark.parametrize("rotary", [None, RotaryEmbedding(D_HEAD)], ids=["plain", "rotary"])
def test_the_fused_path_gives_the_same_output_and_gradients(order, may_attend, rotary):
    layer, found = build(order, rotary=rotary), []
    for need_weights in (True, False):

        def output(x, need_weights=need_weights):
            return layer(x, may_attend=may_attend, need_weights=need_weights)[0]

        found.append((output(stream()), *all_gradients(layer, output, stream())))
    (explicit, explicit_input, explicit_parameters), (fused, fused_input, fused_parameters) = found
    assert_equal(fused, explicit)
    assert_equal(fused_input, explicit_input)
    assert_same_state(fused_parameters, explicit_parameters)


@properties
@given(order=st.sampled_from([EncoderLayer, PreNormEncoderLayer]), seed=st.integers(0, 2**31))
def test_a_layer_without_positions_is_equivariant_to_permutations(order, seed):
    layer, x = build(order), stream()
    rows = torch.randperm(POSITIONS, generator=torch.Generator().manual_seed(seed))
    output, weights = layer(x)
    permuted, permuted_weights = layer(x[:, rows])
    assert_equal(permuted, output[:, rows])
    assert_equal(permuted_weights, weights[:, :, rows][..., rows])


@both_orders
@both_paths
def test_padding_changes_no_real_token(order, need_weights):
    layer, x = build(order), stream()
    padded = torch.cat([x, 100 * randn(BATCH, 4, D_MODEL, seed=5)], dim=1)
    may_attend = padding_mask_from_lengths(torch.full((BATCH,), POSITIONS), POSITIONS + 4)
    output, _ = layer(padded, may_attend=may_attend, need_weights=need_weights)
    assert_equal(output[:, :POSITIONS], layer(x)[0])


@both_orders
@both_paths
def test_sequences_of_a_batch_do_not_influence_each_other(order, need_weights):
    layer, x = build(order), stream()
    output, _ = layer(x, may_attend=MASKS["full"], need_weights=need_weights)
    for b in range(BATCH):
        alone, _ = layer(x[b : b + 1], may_attend=MASKS["full"][b : b + 1], need_weights=need_weights)
        assert_equal(alone, output[b : b + 1])


@both_orders
@both_paths
@both_dtypes
def test_a_sequence_that_is_all_hidden_gives_finite_output_and_gradients(order, need_weights, dtype):
    layer = build(order, dtype)
    may_attend = torch.tensor([False, True])[:, None, None, None]

    def output(x):
        return layer(x, may_attend=may_attend, need_weights=need_weights)[0]

    by_input, by_parameters = all_gradients(layer, output, stream(dtype))
    assert output(stream(dtype)).isfinite().all()
    assert all(gradient.isfinite().all() for gradient in (*by_input, *by_parameters.values()))


def test_pre_norm_and_post_norm_share_a_state_dict():
    post, pre = build(EncoderLayer, seed=1), build(PreNormEncoderLayer, seed=2)
    assert not torch.allclose(post(stream())[0], pre(stream())[0])
    pre.load_state_dict(post.state_dict())
    assert_same_state(pre.state_dict(), post.state_dict())
    assert_equal(pre(stream())[0], build(PreNormEncoderLayer, seed=1)(stream())[0])


@both_orders
def test_input_is_left_unchanged(order):
    x = stream()
    build(order)(x)
    assert torch.equal(x, stream())


@both_orders
def test_input_need_not_be_contiguous(order):
    strided = stream().transpose(0, 1).contiguous().transpose(0, 1)
    assert not strided.is_contiguous()
    assert_equal(build(order)(strided)[0], build(order)(stream())[0])


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


@both_orders
def test_evaluation_drops_nothing(order):
    layer = build(order, dropout=0.75).eval()
    assert_equal(layer(stream())[0], build(order)(stream())[0])
    assert not torch.allclose(layer.train()(stream())[0], build(order)(stream())[0])


# --- parts of one's own ---------------------------------------------------------------------------


class MeanAttention(nn.Module):
    """A learner's own attention: every token attends equally to all that it may attend to."""

    def forward(self, x, *, may_attend=None, need_weights=True):
        allowed = x.new_ones(1, 1, 1, 1) if may_attend is None else may_attend.to(x)
        weights = allowed.expand(len(x), 1, x.shape[1], x.shape[1])
        weights = weights / weights.sum(dim=-1, keepdim=True)
        return weights[:, 0] @ x, weights if need_weights else None


@both_orders
@both_paths
def test_an_attention_of_ones_own_can_be_plugged_in(order, need_weights):
    identity = nn.Identity(), nn.Identity()
    layer = order(MeanAttention(), Stub(lambda x: 0 * x), *identity)
    x = stream()
    output, weights = layer(x, may_attend=MASKS["causal"], need_weights=need_weights)
    means = [x[:, : i + 1].mean(dim=1) for i in range(POSITIONS)]
    assert_equal(output, x + torch.stack(means, dim=1))
    assert (weights is not None) == need_weights


@both_orders
def test_a_norm_without_parameters_may_serve_twice(order):
    norm = nn.LayerNorm(D_MODEL, elementwise_affine=False).double()
    parts = MultiHeadAttention(D_MODEL, HEADS), FeedForward(D_MODEL, D_FF)
    layer = order(*parts, norm, norm).double()
    assert layer(stream())[0].shape == stream().shape


# --- dtypes, devices, copies ----------------------------------------------------------------------


@both_orders
def test_bfloat16_is_as_near_as_its_digits_allow(order):
    rounded, _ = build(order, torch.bfloat16)(stream(torch.bfloat16))
    assert rounded.dtype == torch.bfloat16
    assert_equal(rounded.double(), build(order)(stream())[0], tolerance=0.2)


@both_orders
@both_paths
def test_autocast_runs_in_mixed_precision(order, need_weights):
    layer = build(order, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, _ = layer(stream(torch.float32), may_attend=MASKS["full"], need_weights=need_weights)
    wanted, _ = layer(stream(torch.float32), may_attend=MASKS["full"])
    assert_equal(output.float(), wanted, tolerance=0.2)
    assert not torch.equal(output.float(), wanted)


@both_orders
def test_shapes_can_be_computed_on_the_meta_device(order):
    output, weights = build(order).to("meta")(stream().to("meta"))
    assert output.device.type == "meta" and output.shape == stream().shape
    assert weights.shape == (BATCH, HEADS, POSITIONS, POSITIONS)


@both_orders
def test_copies_are_equal_and_independent(order):
    layer = build(order)
    wanted = layer(stream())
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert_equal(twin(stream()), wanted)
        for parameter in twin.parameters():
            parameter.data.zero_()
        assert_equal(layer(stream()), wanted)


# --- bad input ------------------------------------------------------------------------------------


@both_orders
def test_refuses_one_norm_for_both_places(order):
    norm = nn.LayerNorm(D_MODEL)
    with pytest.raises(ValueError, match=r"got one norm twice, wanted two: .*build a second"):
        order(MultiHeadAttention(D_MODEL, HEADS), FeedForward(D_MODEL, D_FF), norm, norm)


@both_orders
def test_refuses_an_attention_that_does_not_take_a_mask(order):
    with pytest.raises(
        TypeError, match=r"attention must take may_attend and need_weights by name, got Linear"
    ):
        order(nn.Linear(5, 5), nn.Identity(), nn.Identity(), nn.Identity())


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
