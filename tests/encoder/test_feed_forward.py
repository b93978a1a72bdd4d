"""Lesson 06: FFN(x) = activation(x W_1 + b_1) W_2 + b_2, and its gated kind, for every token by itself."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tests.peers import all_gradients, assert_same_state, randomised, renamed
from tests.references import BATCH, KEYS, assert_equal, properties, randn
from transformer_lab import FeedForward, GatedFeedForward

D_MODEL, D_FF = 11, 17
POSITIONS = KEYS

ACTIVATIONS = {
    "relu": (nn.ReLU(), lambda a: max(a, 0.0)),
    "gelu": (nn.GELU(), lambda a: a * (1 + math.erf(a / math.sqrt(2))) / 2),
    "silu": (nn.SiLU(), lambda a: a / (1 + math.exp(-a))),
}
every_activation = pytest.mark.parametrize("name", ACTIVATIONS)
both_dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)


def build(dtype=torch.float64, seed=0, **choices):
    """Return a network none of whose parameters is zero or one."""
    return randomised(FeedForward(D_MODEL, D_FF, **choices), seed).to(dtype)


def build_gated(dtype=torch.float64, seed=0, **choices):
    """Return a gated network none of whose parameters is zero or one."""
    return randomised(GatedFeedForward(D_MODEL, D_FF, **choices), seed).to(dtype)


def tokens(dtype=torch.float64):
    return randn(BATCH, POSITIONS, D_MODEL, seed=21, dtype=dtype)


def feed_forward_by_loops(network, activation, x):
    """Eq. 2 of arXiv:1706.03762 for one vector, with numbers only: Linear keeps W transposed."""
    up, up_bias = network.up_projection.weight.tolist(), network.up_projection.bias.tolist()
    down, down_bias = network.down_projection.weight.tolist(), network.down_projection.bias.tolist()
    hidden = [activation(up_bias[f] + sum(up[f][c] * x[c] for c in range(D_MODEL))) for f in range(D_FF)]
    return [down_bias[c] + sum(down[c][f] * hidden[f] for f in range(D_FF)) for c in range(D_MODEL)]


def linear_by_loops(projection, x):
    """y_o = Σ_i W_oi x_i + b_o, for one vector as a list of numbers; without a bias where there is none."""
    rows = projection.weight.tolist()
    bias = projection.bias.tolist() if projection.bias is not None else [0.0] * len(rows)
    return [sum(w * a for w, a in zip(row, x, strict=True)) + b for row, b in zip(rows, bias, strict=True)]


def gated_by_loops(network, activation, x):
    """Eq. 6 of arXiv:2002.05202 for one vector, with numbers only."""
    gate = [activation(a) for a in linear_by_loops(network.gate_projection, x)]
    value = linear_by_loops(network.up_projection, x)
    return linear_by_loops(network.down_projection, [a * b for a, b in zip(gate, value, strict=True)])


# --- values ---------------------------------------------------------------------------------------


def test_feed_forward_by_hand():
    # Up to three features, of which ReLU lets two pass: 2·1 − 1 = 1, 1 − 3 = −2 → 0, 3 + 1 = 4.
    network = FeedForward(2, 3).double()
    network.up_projection.weight.data = torch.tensor([[2.0, 0.0], [1.0, -1.0], [0.0, 1.0]]).double()
    network.up_projection.bias.data = torch.tensor([-1.0, 0.0, 1.0]).double()
    network.down_projection.weight.data = torch.tensor([[1.0, 10.0, 0.0], [2.0, 10.0, 5.0]]).double()
    network.down_projection.bias.data = torch.tensor([100.0, 200.0]).double()
    x = torch.tensor([[[1.0, 3.0]]]).double()
    assert_equal(network(x), torch.tensor([[[101.0, 222.0]]]).double())


@every_activation
def test_feed_forward_equals_plain_loops(name):
    module, function = ACTIVATIONS[name]
    network, x = build(activation=module), tokens()
    wanted = [[feed_forward_by_loops(network, function, token) for token in row] for row in x.tolist()]
    assert_equal(network(x), torch.tensor(wanted, dtype=torch.float64))


@both_dtypes
@pytest.mark.parametrize("bias", [True, False])
@every_activation
def test_feed_forward_equals_torch_forward_and_backward(name, bias, dtype):
    activation, _ = ACTIVATIONS[name]
    ours = build(dtype, activation=activation, bias=bias)
    up, down = nn.Linear(D_MODEL, D_FF, bias), nn.Linear(D_FF, D_MODEL, bias)
    theirs = nn.Sequential(up, activation, down).to(dtype)

    def translated(state):
        return renamed(state, {"up_projection": "0", "down_projection": "2"})

    theirs.load_state_dict(translated(ours.state_dict()))
    assert_equal(ours(tokens(dtype)), theirs(tokens(dtype)))
    our_input, our_parameters = all_gradients(ours, ours, tokens(dtype))
    their_input, their_parameters = all_gradients(theirs, theirs, tokens(dtype))
    assert_equal(our_input, their_input)
    assert_same_state(translated(our_parameters), their_parameters)


# --- properties -----------------------------------------------------------------------------------


@pytest.mark.parametrize("position", range(POSITIONS))
def test_each_token_is_transformed_by_itself(position):
    # The leak map: change one token, and only its own row moves.
    network, x = build(activation=nn.GELU()), tokens()
    changed = x.clone()
    changed[1, position] += randn(D_MODEL, seed=5)
    moved = (network(changed) != network(x)).any(dim=-1)
    wanted = torch.zeros(BATCH, POSITIONS, dtype=torch.bool)
    wanted[1, position] = True
    assert torch.equal(moved, wanted)


@properties
@given(leading=st.lists(st.integers(1, 4), max_size=3))
def test_any_leading_axes_will_do(leading):
    network = build()
    x = randn(*leading, D_MODEL, seed=6)
    one_by_one = torch.stack([network(token) for token in x.reshape(-1, D_MODEL)])
    assert_equal(network(x), one_by_one.reshape(x.shape))


# --- gated ----------------------------------------------------------------------------------------


def numbers(values):
    """Return a tensor in float64."""
    return torch.tensor(values, dtype=torch.float64)


def test_gated_feed_forward_by_hand():
    # Gates 2·1 = 2, 1 − 3 = −2 → 0, 3; values 1 + 3 = 4, 3, −1; products 8, 0, −3.
    network = GatedFeedForward(2, 3, activation=nn.ReLU()).double()
    network.gate_projection.weight.data = numbers([[2, 0], [1, -1], [0, 1]])
    network.up_projection.weight.data = numbers([[1, 1], [0, 1], [-1, 0]])
    network.down_projection.weight.data = numbers([[1, 10, 0], [2, 10, 5]])
    assert_equal(network(numbers([[[1, 3]]])), numbers([[[8, 1]]]))


@pytest.mark.parametrize("bias", [True, False])
@every_activation
def test_gated_feed_forward_equals_plain_loops(name, bias):
    module, function = ACTIVATIONS[name]
    network, x = build_gated(activation=module, bias=bias), tokens()
    wanted = [[gated_by_loops(network, function, token) for token in row] for row in x.tolist()]
    assert_equal(network(x), numbers(wanted))


@both_dtypes
@pytest.mark.parametrize("bias", [True, False])
@every_activation
def test_gated_feed_forward_equals_llamas_forward_and_backward(name, bias, dtype):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaMLP

    activation, _ = ACTIVATIONS[name]
    ours = build_gated(dtype, activation=activation, bias=bias)
    heads = {"num_attention_heads": 1, "head_dim": 2}  # of an attention that is not built
    sizes = {"hidden_size": D_MODEL, "intermediate_size": D_FF}
    config = LlamaConfig(**sizes, **heads, hidden_act=name, mlp_bias=bias)
    llama = LlamaMLP(config).to(dtype)

    def translated(state):
        return renamed(state, {"_projection": "_proj"})

    llama.load_state_dict(translated(ours.state_dict()))
    assert_equal(ours(tokens(dtype)), llama(tokens(dtype)))
    our_input, our_parameters = all_gradients(ours, ours, tokens(dtype))
    their_input, their_parameters = all_gradients(llama, llama, tokens(dtype))
    assert_equal(our_input, their_input)
    assert_same_state(translated(our_parameters), their_parameters)


@pytest.mark.parametrize("bias", [True, False])
def test_three_matrices_and_no_bias_unless_asked_for(bias):
    network = GatedFeedForward(512, 2048, bias=True) if bias else GatedFeedForward(512, 2048)
    count = sum(p.numel() for p in network.parameters())
    assert count == 3 * 512 * 2048 + bias * (2 * 2048 + 512)
    assert len(list(network.parameters())) == (6 if bias else 3)


def test_two_thirds_of_the_width_make_as_many_parameters():
    def count(network):
        return sum(p.numel() for p in network.parameters())

    assert count(GatedFeedForward(12, 32)) == count(FeedForward(12, 48, bias=False)) == 1152


def test_a_closed_gate_lets_nothing_pass():
    network = build_gated(activation=nn.ReLU())
    network.gate_projection.weight.data = torch.zeros(D_FF, D_MODEL).double()
    assert torch.equal(network(tokens()), torch.zeros(BATCH, POSITIONS, D_MODEL).double())


def test_dropout_of_the_gated_network_falls_on_the_products():
    # Gate and value pass every feature on, and all are positive: the output is what was kept, times four.
    network = GatedFeedForward(POSITIONS, POSITIONS, activation=nn.ReLU(), dropout=0.75).double()
    for parameter in network.parameters():
        parameter.data = torch.eye(POSITIONS).double()
    x = randn(BATCH, 50, POSITIONS).abs() + 1
    torch.manual_seed(0)
    output = network.train()(x)
    kept = output != 0
    assert_equal(output, 4 * x * x * kept)
    assert 0.15 < kept.double().mean() < 0.35
    assert_equal(network.eval()(x), x * x)


# --- dropout --------------------------------------------------------------------------------------


def test_dropout_in_training_zeroes_features_in_between_and_scales_the_others():
    # Both projections pass features on, and all are positive: the output is what was kept, times four.
    network = FeedForward(POSITIONS, POSITIONS, dropout=0.75, bias=False).double()
    for parameter in network.parameters():
        parameter.data = torch.eye(POSITIONS).double()
    x = randn(BATCH, 50, POSITIONS).abs() + 1
    torch.manual_seed(0)
    output = network.train()(x)
    kept = output != 0
    assert_equal(output, 4 * x * kept)
    assert 0.15 < kept.double().mean() < 0.35


def test_dropout_leaves_the_output_alone():
    # Everything in between may be dropped; the bias of the output never is.
    network = build(dropout=0.9).train()
    network.down_projection.weight.data.zero_()
    assert_equal(network(tokens()), network.down_projection.bias.expand(BATCH, POSITIONS, D_MODEL))


# --- dtypes, devices, copies ----------------------------------------------------------------------


# --- hooks ------------------------------------------------------------------------------------------


def test_a_hook_sees_what_the_first_projection_gave():
    network, seen = FeedForward(D_MODEL, D_FF).double(), []
    network.up_projection.register_forward_hook(lambda module, inputs, output: seen.append(output))
    x = randn(BATCH, KEYS, D_MODEL)
    network(x)
    up = network.up_projection
    assert_equal(seen[0], x @ up.weight.T + up.bias)
