"""Lesson 07: the encoder layer, LayerNorm(x + Sublayer(x)) twice, or x + Sublayer(LayerNorm(x)) twice."""

import copy

import pytest
import torch
from torch import nn

from tests.tensors import BATCH, HEADS, KEYS, assert_equal, both_dtypes, randn
from tests.third_party import assert_same_state, randomised
from transformer_lab import EncoderLayer, PreNormEncoderLayer, causal_mask
from transformer_lab.encoder_layer import from_torch_layer, to_torch_layer

D_MODEL, D_FF = HEADS * 5, 17
EPS = 1e-3  # large, so that the wrong one shows

both_orders = pytest.mark.parametrize("order", [EncoderLayer, PreNormEncoderLayer], ids=["post", "pre"])


class Stub(nn.Module):
    """A part that applies a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, **how_to_attend):
        return self.function(x, **how_to_attend)


@both_orders
def test_other_options_are_handed_on_to_the_attention(order):
    layer = order(Stub(lambda x, **got: (x, got)), Stub(torch.sin), *[nn.Identity()] * 2)  # one norm twice
    got = {"may_attend": causal_mask(KEYS), "need_weights": False, "cache": "of one's own"}
    assert layer(randn(BATCH, KEYS, D_MODEL), **got)[1] == got


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
    x = randn(BATCH, KEYS, D_MODEL, seed=31, dtype=dtype)
    first = (lambda y: y.transpose(0, 1)) if not options.get("batch_first", True) else (lambda y: y)
    wanted = first(theirs(first(x)))
    ours = from_torch_layer(theirs)
    assert type(ours) is (PreNormEncoderLayer if options.get("norm_first") else EncoderLayer)
    assert_equal(ours(x)[0], wanted)
    again = to_torch_layer(ours)
    assert_equal(again(x), wanted)
    assert_same_state(again.state_dict(), theirs.state_dict(), tolerance=0)
    assert (again.norm_first, again.norm1.eps) == (theirs.norm_first, EPS)
    assert (again.dropout.p, again.dropout1.p, again.dropout2.p, again.self_attn.dropout) == (0.1,) * 4


def test_each_norm_keeps_its_own_eps():
    theirs = torch_layer()
    theirs.norm2.eps = 0.03
    ours = from_torch_layer(theirs)
    assert (ours.attention_norm.eps, ours.feed_forward_norm.eps) == (EPS, 0.03)


@pytest.mark.parametrize("training", [True, False])
def test_a_converted_layer_has_weights_and_activation_of_its_own_and_keeps_its_mode(training):
    theirs = torch_layer(activation=nn.PReLU()).train(training)
    ours = from_torch_layer(theirs)
    for convert, layer in ((from_torch_layer, theirs), (to_torch_layer, ours)):
        before = copy.deepcopy(layer.state_dict())
        converted = randomised(convert(layer), seed=7)
        assert_same_state(layer.state_dict(), before, tolerance=0)
        assert {part.training for part in converted.modules()} == {training}
