"""Lesson 05: MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O."""

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tests.peers import all_gradients, assert_same_state, randomised, to_torch_attention
from tests.references import (
    BATCH,
    HEADS,
    KEYS,
    QUERIES,
    assert_equal,
    properties,
    randn,
    random_mask,
)
from transformer_lab import (
    MultiHeadAttention,
    RotaryEmbedding,
    causal_mask,
    local_mask,
    padding_mask_from_lengths,
    rotate_interleaved,
)
from transformer_lab.mask_conventions import to_attn_mask, to_key_padding_mask
from transformer_lab.multi_head_attention import merge_heads, split_heads

D_HEAD = 4  # even, so that heads can be rotated
D_MODEL = HEADS * D_HEAD

both_paths = pytest.mark.parametrize("need_weights", [True, False], ids=["explicit", "fused"])
both_dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)

# For QUERIES queries and KEYS keys; in the full one, query 2 of head 1 may attend to nothing.
MASKS = {
    "none": None,
    "padding": padding_mask_from_lengths(torch.tensor([4, KEYS]), KEYS),
    "causal": causal_mask(QUERIES, KEYS),
    "local": local_mask(QUERIES, 1, KEYS),
    "per head": random_mask(1, HEADS, QUERIES, KEYS, seed=3),
    "full": random_mask(BATCH, HEADS, QUERIES, KEYS, seed=1),
}
MASKS["full"][0, 1, 2] = False
every_mask = pytest.mark.parametrize("may_attend", MASKS.values(), ids=MASKS.keys())


def numbers(values):
    """Return a tensor in float64."""
    return torch.tensor(values, dtype=torch.float64)


def build(dtype=torch.float64, seed=0, **choices):
    """Return an attention none of whose parameters is zero or one."""
    return randomised(MultiHeadAttention(D_MODEL, HEADS, **choices), seed).to(dtype)


def inputs(dtype=torch.float64):
    """Return a query, a key and a value, of different lengths and different numbers."""
    return (
        randn(BATCH, QUERIES, D_MODEL, seed=11, dtype=dtype),
        randn(BATCH, KEYS, D_MODEL, seed=12, dtype=dtype),
        randn(BATCH, KEYS, D_MODEL, seed=13, dtype=dtype),
    )


def linear_by_loops(projection, x):
    """y_o = Σ_i W_oi x_i + b_o, for one vector as a list of numbers."""
    rows = zip(projection.weight.tolist(), projection.bias.tolist(), strict=True)
    return [sum(w * feature for w, feature in zip(row, x, strict=True)) + bias for row, bias in rows]


def rotated_by_loops(vector, position):
    """Turn the pair (i, i + d/2) by position · 10000^(−2i/d): the half-split pairing of rotary positions."""
    half = len(vector) // 2
    result = [0.0] * len(vector)
    for i in range(half):
        angle = position * 10_000 ** (-2 * i / len(vector))
        a, b = vector[i], vector[i + half]
        result[i] = a * math.cos(angle) - b * math.sin(angle)
        result[i + half] = a * math.sin(angle) + b * math.cos(angle)
    return result


def attention_by_loops(attention, query, key, value, may_attend=None):
    """The formula with numbers only: head h compares and takes features h·d_head … (h + 1)·d_head − 1."""
    shape = (BATCH, HEADS, QUERIES, KEYS)
    allowed = torch.ones(shape) if may_attend is None else may_attend.expand(shape)
    rotates = isinstance(attention.rotary, RotaryEmbedding)
    turned = rotated_by_loops if rotates else lambda vector, position: vector
    output = torch.zeros(BATCH, QUERIES, D_MODEL, dtype=torch.float64)
    weights = torch.zeros(shape, dtype=torch.float64)
    for b in range(BATCH):
        queries = [linear_by_loops(attention.query_projection, x) for x in query[b].tolist()]
        keys = [linear_by_loops(attention.key_projection, x) for x in key[b].tolist()]
        values = [linear_by_loops(attention.value_projection, x) for x in value[b].tolist()]
        for i in range(QUERIES):
            concatenated = []
            for h in range(HEADS):
                own = slice(h * D_HEAD, (h + 1) * D_HEAD)
                exponentials = [0.0] * KEYS
                for j in range(KEYS):
                    if allowed[b, h, i, j]:
                        pairs = zip(turned(queries[i][own], i), turned(keys[j][own], j), strict=True)
                        exponentials[j] = math.exp(sum(q * k for q, k in pairs) / math.sqrt(D_HEAD))
                total = sum(exponentials) or 1.0  # a query that may attend to nothing takes nothing
                for j in range(KEYS):
                    weights[b, h, i, j] = exponentials[j] / total
                for c in range(D_HEAD):
                    concatenated.append(sum(exponentials[j] / total * values[j][own][c] for j in range(KEYS)))
            output[b, i] = numbers(linear_by_loops(attention.output_projection, concatenated))
    return output, weights


# --- values ---------------------------------------------------------------------------------------


@both_paths
def test_multi_head_attention_by_hand(need_weights):
    # Two heads of one feature, all projections the identity. Head 0 scores 0 and ln 3: weights 1/4 and 3/4.
    # Head 1 scores 0 and 0: weights 1/2 and 1/2.
    attention = MultiHeadAttention(2, 2, bias=False).double()
    for parameter in attention.parameters():
        parameter.data = torch.eye(2).double()
    query = numbers([[[1, 1]]])
    key = numbers([[[0, 0], [math.log(3), 0]]])
    value = numbers([[[4, 8], [8, 16]]])
    output, weights = attention(query, key, value, need_weights=need_weights)
    assert_equal(output, numbers([[[7, 12]]]))
    if need_weights:
        assert_equal(weights, numbers([[[[0.25, 0.75]], [[0.5, 0.5]]]]))


@every_mask
@pytest.mark.parametrize("rotary", [None, RotaryEmbedding(D_HEAD)], ids=["plain", "rotary"])
def test_multi_head_attention_equals_plain_loops(rotary, may_attend):
    attention = build(rotary=rotary)
    wanted, wanted_weights = attention_by_loops(attention, *inputs(), may_attend)
    output, weights = attention(*inputs(), may_attend=may_attend)
    fused, no_weights = attention(*inputs(), may_attend=may_attend, need_weights=False)
    assert_equal(output, wanted)
    assert_equal(weights, wanted_weights)
    assert_equal(fused, wanted)
    assert no_weights is None


def test_key_and_value_default_to_query():
    attention, (query, key, value) = build(), inputs()
    assert_equal(attention(query), attention(query, query, query))
    assert_equal(attention(query, key), attention(query, key, key))
    assert_equal(attention(key, value=value), attention(key, key, value))


# --- splitting and merging heads ------------------------------------------------------------------


def test_head_0_has_the_first_features_of_every_position():
    # Feature f at position p of sequence b is written bpf.
    x = numbers([[[100 * b + 10 * p + f for f in range(6)] for p in range(2)] for b in range(3)])
    wanted = [
        [[[0, 1], [10, 11]], [[2, 3], [12, 13]], [[4, 5], [14, 15]]],
        [[[100, 101], [110, 111]], [[102, 103], [112, 113]], [[104, 105], [114, 115]]],
        [[[200, 201], [210, 211]], [[202, 203], [212, 213]], [[204, 205], [214, 215]]],
    ]
    assert_equal(split_heads(x, 3), numbers(wanted))
    assert_equal(merge_heads(numbers(wanted)), x)


sizes = st.integers(1, 5)


@properties
@given(batch=sizes, heads=sizes, positions=sizes, d_head=sizes)
def test_splitting_and_merging_undo_each_other(batch, heads, positions, d_head):
    x = randn(batch, positions, heads * d_head)
    split = split_heads(x, heads)
    wanted = torch.empty(batch, heads, positions, d_head).double()
    for b, h, p, c in torch.cartesian_prod(*map(torch.arange, split.shape)).reshape(-1, 4).tolist():
        wanted[b, h, p, c] = x[b, p, h * d_head + c]
    assert_equal(split, wanted)
    assert_equal(merge_heads(split), x)


@both_paths
def test_as_many_positions_as_heads_are_not_confused(need_weights):
    # Positions = heads = d_head = 3: any two of these axes could be swapped without an error.
    attention = randomised(MultiHeadAttention(9, 3)).double()
    theirs = nn.MultiheadAttention(9, 3, batch_first=True).double()
    theirs.load_state_dict(to_torch_attention(attention.state_dict()))
    x = randn(3, 3, 9)
    output, weights = attention(x, need_weights=need_weights)
    wanted, wanted_weights = theirs(x, x, x, average_attn_weights=False)
    assert_equal(output, wanted)
    if need_weights:
        assert_equal(weights, wanted_weights)


def test_each_head_attends_by_itself():
    attention, (query, key, _) = build(), inputs()
    _, before = attention(query, key)
    for head in range(HEADS):
        changed = copy.deepcopy(attention)
        changed.key_projection.weight.data[head * D_HEAD : (head + 1) * D_HEAD] += 1.0
        _, after = changed(query, key)
        for other in range(HEADS):
            same = torch.equal(after[:, other], before[:, other])
            assert same == (other != head)


@both_paths
def test_what_each_head_computes_can_be_replaced(need_weights):
    def take_the_last(queries, keys, values, may_attend, *, dropout, need_weights):
        assert queries.shape == (BATCH, HEADS, QUERIES, D_HEAD) and keys.shape == values.shape
        return values[:, :, -1:].expand_as(queries), may_attend.double() if need_weights else None

    attention, (query, key, value) = build(), inputs()
    output, weights = attention(
        query, key, value, may_attend=MASKS["full"], need_weights=need_weights, attend=take_the_last
    )
    last = attention.output_projection(attention.value_projection(value[:, -1:]))
    assert_equal(output, last.expand_as(query))
    if need_weights:
        assert_equal(weights, MASKS["full"].double())


# --- peers ----------------------------------------------------------------------------------------


def torch_attention_like(attention, **choices):
    """Return PyTorch's attention with the same weights."""
    theirs = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True, **choices)
    theirs = theirs.to(attention.query_projection.weight.dtype)
    theirs.load_state_dict(to_torch_attention(attention.state_dict()))
    return theirs


def torch_masks(may_attend):
    """Say the same mask in the two arguments of PyTorch, where True means ignore."""
    if may_attend is None:
        return {}
    if may_attend.shape[1:3] == (1, 1):
        return {"key_padding_mask": to_key_padding_mask(may_attend)}
    shared = may_attend.shape[:2] == (1, 1)
    return {"attn_mask": to_attn_mask(may_attend, HEADS, None if shared else BATCH)}


# PyTorch answers a query that may attend to nothing with NaN, so here each may attend to one key at least.
ONE_EACH = torch.eye(QUERIES, KEYS, dtype=torch.bool)
COMPARABLE_MASKS = MASKS | {name: MASKS[name] | ONE_EACH for name in ("per head", "full")}


@both_paths
@both_dtypes
@pytest.mark.parametrize("may_attend", COMPARABLE_MASKS.values(), ids=COMPARABLE_MASKS.keys())
def test_cross_attention_equals_torch_forward_and_backward(may_attend, dtype, need_weights):
    ours = build(dtype)
    theirs = torch_attention_like(ours)
    masks = torch_masks(may_attend)
    output, weights = ours(*inputs(dtype), may_attend=may_attend, need_weights=need_weights)
    wanted, wanted_weights = theirs(*inputs(dtype), **masks, average_attn_weights=False)
    assert_equal(output, wanted)
    if need_weights:
        assert_equal(weights, wanted_weights)

    def our_output(query, key, value):
        return ours(query, key, value, may_attend=may_attend, need_weights=need_weights)[0]

    def their_output(query, key, value):
        return theirs(query, key, value, **masks)[0]

    our_inputs, our_parameters = all_gradients(ours, our_output, *inputs(dtype))
    their_inputs, their_parameters = all_gradients(theirs, their_output, *inputs(dtype))
    assert_equal(our_inputs, their_inputs)
    assert_same_state(to_torch_attention(our_parameters), their_parameters)


@both_paths
@both_dtypes
def test_self_attention_with_padding_and_causal_mask_equals_torch(dtype, need_weights):
    ours = build(dtype)
    theirs = torch_attention_like(ours)
    padding, causal = padding_mask_from_lengths(torch.tensor([3, KEYS]), KEYS), causal_mask(KEYS)
    masks = {"key_padding_mask": to_key_padding_mask(padding), "attn_mask": to_attn_mask(causal, HEADS)}
    x = inputs(dtype)[1]

    def our_output(x):
        return ours(x, may_attend=padding & causal, need_weights=need_weights)[0]

    def their_output(x):
        return theirs(x, x, x, **masks)[0]

    assert_equal(our_output(x), their_output(x))
    our_input, our_parameters = all_gradients(ours, our_output, x)
    their_input, their_parameters = all_gradients(theirs, their_output, x)
    assert_equal(our_input, their_input)
    assert_same_state(to_torch_attention(our_parameters), their_parameters)


def test_without_biases_equals_torch_without_biases():
    ours = build(bias=False)
    theirs = torch_attention_like(ours, bias=False)
    assert_equal(ours(*inputs()), theirs(*inputs(), average_attn_weights=False))


# --- properties -----------------------------------------------------------------------------------


@every_mask
@pytest.mark.parametrize("rotary", [None, RotaryEmbedding(D_HEAD)], ids=["plain", "rotary"])
def test_the_fused_path_has_the_same_gradients(rotary, may_attend):
    attention = build(rotary=rotary)
    found = [
        all_gradients(
            attention,
            lambda *x, need=need: attention(*x, may_attend=may_attend, need_weights=need)[0],
            *inputs(),
        )
        for need in (True, False)
    ]
    (explicit_inputs, explicit_parameters), (fused_inputs, fused_parameters) = found
    assert_equal(fused_inputs, explicit_inputs)
    assert_same_state(fused_parameters, explicit_parameters)


seeds = st.integers(0, 2**31)


@both_paths
def test_rotary_attention_is_not_equivariant_to_permutations(need_weights):
    attention, x = build(rotary=RotaryEmbedding(D_HEAD)), inputs()[1]
    back = torch.arange(KEYS).flip(0)
    output, _ = attention(x, need_weights=need_weights)
    reversed_output, _ = attention(x[:, back], need_weights=need_weights)
    assert ((reversed_output - output[:, back]).abs() > 1e-3).any(dim=-1).all()


@both_paths
def test_rotary_attention_sees_distances_only(need_weights):
    # Four hidden tokens in front move every position by four and no distance.
    attention, x = build(rotary=RotaryEmbedding(D_HEAD)), inputs()[1]
    padded = torch.cat([randn(BATCH, 4, D_MODEL, seed=5), x], dim=1)
    may_attend = torch.arange(4 + KEYS)[None, None, None] >= 4
    output, weights = attention(padded, may_attend=may_attend, need_weights=need_weights)
    wanted, wanted_weights = attention(x)
    assert_equal(output[:, 4:], wanted)
    if need_weights:
        assert_equal(weights[:, :, 4:, 4:], wanted_weights)


def test_another_pairing_can_be_plugged_in():
    plain = build(rotary=RotaryEmbedding(D_HEAD))
    interleaved = build(rotary=RotaryEmbedding(D_HEAD, rotate=rotate_interleaved))
    assert not torch.allclose(interleaved(*inputs())[1], plain(*inputs())[1])
    # The same features in another order: within each head 0, 2, 1, 3.
    order = torch.tensor([4 * head + i for head in range(HEADS) for i in (0, 2, 1, 3)])
    for projection in (interleaved.query_projection, interleaved.key_projection):
        projection.weight.data = projection.weight[order]
        projection.bias.data = projection.bias[order]
    assert_equal(interleaved(*inputs()), plain(*inputs()))


@both_paths
@both_dtypes
def test_a_sequence_that_is_all_hidden_gives_the_output_bias_and_finite_gradients(dtype, need_weights):
    attention = build(dtype)
    may_attend = torch.tensor([False, True])[:, None, None, None]
    output, weights = attention(*inputs(dtype), may_attend=may_attend, need_weights=need_weights)
    assert_equal(output[0], attention.output_projection.bias.expand(QUERIES, D_MODEL))
    assert not need_weights or not weights[0].any()

    def function(*x):
        return attention(*x, may_attend=may_attend, need_weights=need_weights)[0]

    by_inputs, by_parameters = all_gradients(attention, function, *inputs(dtype))
    assert all(gradient.isfinite().all() for gradient in (*by_inputs, *by_parameters.values()))
    assert not any(gradient[0].any() for gradient in by_inputs)


# --- dropout --------------------------------------------------------------------------------------


@both_paths
def test_dropout_in_training_zeroes_weights_and_scales_the_others(need_weights):
    # An identity as values, passed on by its projections: the output is the weights that were used.
    identity = torch.eye(KEYS, dtype=torch.float64)
    attention = randomised(MultiHeadAttention(KEYS, 1, bias=False, dropout=0.75)).double()
    attention.value_projection.weight.data = attention.output_projection.weight.data = identity
    query, value = randn(BATCH, 50, KEYS, seed=2), identity.expand(BATCH, KEYS, KEYS)
    torch.manual_seed(0)
    used, weights = attention.train()(query, value, need_weights=need_weights)
    all_weights = attention.eval()(query, value)[1]
    kept = used != 0
    assert_equal(used, 4 * all_weights[:, 0] * kept)
    assert 0.15 < kept.double().mean() < 0.35
    if need_weights:
        assert_equal(weights, all_weights)


# --- dtypes, devices, copies ----------------------------------------------------------------------


# --- bad input ------------------------------------------------------------------------------------


def test_refuses_heads_that_do_not_divide_the_features():
    for d_model, n_heads, remedy in ((512, 12, 516), (3, 5, 5)):
        message = rf"d_model \({d_model}\) must be divisible by n_heads \({n_heads}\); try d_model={remedy}"
        with pytest.raises(ValueError, match=message):
            MultiHeadAttention(d_model, n_heads)


def test_refuses_what_cannot_attend():
    attention = MultiHeadAttention(D_MODEL, HEADS)
    with pytest.raises(TypeError, match="attend must be a module or a function, got None"):
        attention(torch.randn(2, 5, D_MODEL), attend=None)
