"""Lesson 06: FFN(x) = activation(x W_1 + b_1) W_2 + b_2, and its gated kind, for every token by itself."""

import math

import pytest
import torch
from torch import nn

from tests.reference_loops import BATCH, KEYS, assert_equal, linear_by_loops, numbers, randn
from tests.third_party import randomised
from transformer_lab import FeedForward, GatedFeedForward

D_MODEL, D_FF, POSITIONS = 11, 17, KEYS

ACTIVATIONS = {
    "relu": (nn.ReLU(), lambda a: max(a, 0.0)),
    "gelu": (nn.GELU(), lambda a: a * (1 + math.erf(a / math.sqrt(2))) / 2),
    "silu": (nn.SiLU(), lambda a: a / (1 + math.exp(-a))),
}
every_activation = pytest.mark.parametrize("name", ACTIVATIONS)
with_and_without_bias = pytest.mark.parametrize("bias", [True, False])


def build(kind=FeedForward, dtype=torch.float64, **choices):
    """Return a network none of whose parameters is zero or one."""
    return randomised(kind(D_MODEL, D_FF, **choices)).to(dtype)


def tokens(*leading, dtype=torch.float64):
    return randn(*(leading or (BATCH, POSITIONS)), D_MODEL, seed=21, dtype=dtype)


def by_loops(network, activation, x):
    """Eq. 2 of arXiv:1706.03762, or Eq. 6 of arXiv:2002.05202, for one vector, with numbers only."""
    hidden = linear_by_loops(network.up_projection, x)
    if isinstance(network, GatedFeedForward):
        gate = linear_by_loops(network.gate_projection, x)
        hidden = [activation(a) * b for a, b in zip(gate, hidden, strict=True)]
    else:
        hidden = [activation(a) for a in hidden]
    return linear_by_loops(network.down_projection, hidden)


@every_activation
@with_and_without_bias
@pytest.mark.parametrize("kind", [FeedForward, GatedFeedForward])
@pytest.mark.parametrize("leading", [(), (2, 3, 1)], ids=str)
def test_each_token_is_transformed_as_by_plain_loops(leading, kind, bias, name):
    module, function = ACTIVATIONS[name]
    network, x = build(kind, activation=module, bias=bias), tokens(*leading)
    wanted = [by_loops(network, function, token) for token in x.reshape(-1, D_MODEL).tolist()]
    assert_equal(network(x), numbers(wanted).reshape(x.shape))


def test_the_paper_bends_with_relu_and_has_biases_and_llama_with_silu_and_none():
    plain, gated = FeedForward(D_MODEL, D_FF), GatedFeedForward(D_MODEL, D_FF)
    assert type(plain.activation) is nn.ReLU and len(list(plain.parameters())) == 4
    assert type(gated.activation) is nn.SiLU and len(list(gated.parameters())) == 3


@pytest.mark.parametrize("kind", [FeedForward, GatedFeedForward])
def test_dropout_in_training_zeroes_features_in_between_and_scales_the_others(kind):
    # Every projection passes features on, and all are positive: the output is what was kept, times four.
    network = kind(POSITIONS, POSITIONS, activation=nn.ReLU(), dropout=0.75, bias=False).double()
    for parameter in network.parameters():
        parameter.data = torch.eye(POSITIONS).double()
    x = randn(BATCH, 50, POSITIONS).abs() + 1
    torch.manual_seed(0)
    output = network.train()(x)
    kept = output != 0
    assert_equal(output, 4 * network.eval()(x) * kept)
    assert 0.15 < kept.double().mean() < 0.35


def test_dropout_leaves_the_output_alone():
    # Everything in between may be dropped; the bias of the output never is.
    network = build(dropout=0.9).train()
    network.down_projection.weight.data.zero_()
    assert_equal(network(tokens()), network.down_projection.bias.expand(BATCH, POSITIONS, D_MODEL))
