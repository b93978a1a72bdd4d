"""Lesson 06: FFN(x) = activation(x W_1 + b_1) W_2 + b_2, and its gated kind, for every token by itself."""

import copy
import math
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tests.peers import all_gradients, assert_same_state, randomised, renamed
from tests.references import BATCH, KEYS, assert_equal, gradients, properties, randn
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


@pytest.mark.parametrize("bias", [True, False])
def test_parameter_count_of_a_tutorials_code(bias):
    count = sum(p.numel() for p in FeedForward(512, 2048, bias=bias).parameters())
    assert count == (2_099_712 if bias else 2 * 512 * 2048)


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


@properties
@given(seed=st.integers(0, 2**31))
def test_feed_forward_is_equivariant_to_permutations(seed):
    network, x = build(), tokens()
    order = torch.randperm(POSITIONS, generator=torch.Generator().manual_seed(seed))
    assert_equal(network(x[:, order]), network(x)[:, order])


def test_input_is_left_unchanged():
    x = tokens()
    build()(x)
    assert torch.equal(x, tokens())


def test_input_need_not_be_contiguous():
    strided = tokens().transpose(0, 1).contiguous().transpose(0, 1)
    assert not strided.is_contiguous()
    assert_equal(build()(strided), build()(tokens()))


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


@pytest.mark.parametrize("position", range(POSITIONS))
def test_each_token_is_gated_by_itself(position):
    network, x = build_gated(), tokens()
    changed = x.clone()
    changed[1, position] += randn(D_MODEL, seed=5)
    moved = (network(changed) != network(x)).any(dim=-1)
    wanted = torch.zeros(BATCH, POSITIONS, dtype=torch.bool)
    wanted[1, position] = True
    assert torch.equal(moved, wanted)


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


def test_dropout_leaves_the_output_of_the_gated_network_alone():
    network = build_gated(dropout=0.9, bias=True).train()
    network.down_projection.weight.data.zero_()
    assert_equal(network(tokens()), network.down_projection.bias.expand(BATCH, POSITIONS, D_MODEL))


def test_the_gated_network_leaves_its_input_unchanged():
    x = tokens()
    build_gated(activation=nn.ReLU(inplace=True))(x)
    assert torch.equal(x, tokens())


def test_gradients_of_the_gated_network_equal_finite_differences():
    assert torch.autograd.gradcheck(build_gated(), tokens().requires_grad_())


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


def test_evaluation_drops_nothing():
    assert_equal(build(dropout=0.75).eval()(tokens()), build()(tokens()))


# --- dtypes, devices, copies ----------------------------------------------------------------------


def test_bfloat16_is_as_near_as_its_digits_allow():
    rounded = build(torch.bfloat16)(tokens(torch.bfloat16))
    assert rounded.dtype == torch.bfloat16
    assert_equal(rounded.double(), build()(tokens()), tolerance=0.1)


def test_autocast_computes_in_bfloat16():
    network = build(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = network(tokens(torch.float32))
    assert output.dtype == torch.bfloat16
    assert_equal(output.double(), build()(tokens()), tolerance=0.1)


def test_shapes_can_be_computed_on_the_meta_device():
    output = build().to("meta")(tokens().to("meta"))
    assert output.device.type == "meta" and output.shape == (BATCH, POSITIONS, D_MODEL)


def test_state_dict_round_trip():
    network, other = build(seed=1), build(seed=2)
    other.load_state_dict(network.state_dict())
    assert_equal(other(tokens()), network(tokens()))


def test_copies_are_equal_and_independent():
    network = build()
    wanted = network(tokens())
    for twin in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        assert_equal(twin(tokens()), wanted)
        for parameter in twin.parameters():
            parameter.data.zero_()
        assert_equal(network(tokens()), wanted)


def test_gradients_equal_finite_differences():
    assert torch.autograd.gradcheck(build(activation=nn.GELU()), tokens().requires_grad_())
    (by_input,) = gradients(build(), tokens())
    assert by_input.any(dim=-1).all()


# --- hooks ------------------------------------------------------------------------------------------


def test_a_hook_sees_what_the_first_projection_gave():
    network, seen = FeedForward(D_MODEL, D_FF).double(), []
    network.up_projection.register_forward_hook(lambda module, inputs, output: seen.append(output))
    x = randn(BATCH, KEYS, D_MODEL)
    network(x)
    up = network.up_projection
    assert_equal(seen[0], x @ up.weight.T + up.bias)


def test_a_backward_hook_on_the_first_projection_works():
    network, seen = FeedForward(D_MODEL, D_FF).double(), []
    network.up_projection.register_full_backward_hook(lambda module, *gradients: seen.append(gradients))
    network(randn(BATCH, KEYS, D_MODEL).requires_grad_()).sum().backward()
    assert len(seen) == 1
