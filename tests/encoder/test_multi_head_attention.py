"""Lesson 05: MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O."""

import pytest
import torch
from torch import nn

from tests.reference_loops import (
    BATCH,
    HEADS,
    KEYS,
    QUERIES,
    assert_equal,
    attend_by_loops,
    both_dtypes,
    both_paths,
    linear_by_loops,
    numbers,
    randn,
    random_mask,
    rotated_by_loops,
)
from tests.third_party import all_gradients, assert_same_state, randomised, to_torch_attention
from transformer_lab import (
    MultiHeadAttention,
    RotaryEmbedding,
    causal_mask,
    local_mask,
    padding_mask_from_lengths,
)
from transformer_lab.mask_conventions import to_attn_mask, to_key_padding_mask
from transformer_lab.multi_head_attention import merge_heads, split_heads

D_HEAD = 4  # even, so that heads can be rotated
D_MODEL = HEADS * D_HEAD

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


def build(dtype=torch.float64, **choices):
    """Return an attention none of whose parameters is zero or one."""
    return randomised(MultiHeadAttention(D_MODEL, HEADS, **choices)).to(dtype)


def inputs(dtype=torch.float64):
    """Return a query, a key and a value, of different lengths and different numbers."""
    sizes = ((QUERIES, 11), (KEYS, 12), (KEYS, 13))
    return tuple(randn(BATCH, positions, D_MODEL, seed=seed, dtype=dtype) for positions, seed in sizes)


def attention_by_loops(attention, query, key, value, may_attend=None):
    """The formula with numbers only: head h compares and takes features h·d_head … (h + 1)·d_head − 1."""
    shape = (BATCH, HEADS, QUERIES, KEYS)
    allowed = (torch.ones(shape) if may_attend is None else may_attend.expand(shape)).tolist()
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
                own_keys = [turned(each[own], j) for j, each in enumerate(keys)]
                own_values = [each[own] for each in values]
                head = attend_by_loops(turned(queries[i][own], i), own_keys, own_values, allowed[b][h][i])
                concatenated += head[0]
                weights[b, h, i] = numbers(head[1])
            output[b, i] = numbers(linear_by_loops(attention.output_projection, concatenated))
    return output, weights


@pytest.mark.parametrize("may_attend", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("rotary", [None, RotaryEmbedding(D_HEAD)], ids=["plain", "rotary"])
def test_multi_head_attention_equals_plain_loops(rotary, may_attend):
    attention = build(rotary=rotary)
    wanted, wanted_weights = attention_by_loops(attention, *inputs(), may_attend)
    fused, no_weights = attention(*inputs(), may_attend=may_attend, need_weights=False)
    assert_equal(attention(*inputs(), may_attend=may_attend), (wanted, wanted_weights))
    assert_equal(fused, wanted)
    assert no_weights is None


def test_key_and_value_default_to_query():
    attention, (query, key, value) = build(), inputs()
    assert_equal(attention(query), attention(query, query, query))
    assert_equal(attention(query, key), attention(query, key, key))
    assert_equal(attention(key, value=value), attention(key, key, value))


def test_splitting_gives_each_head_its_own_features_and_merging_undoes_it():
    x = randn(BATCH, KEYS, D_MODEL)
    split = split_heads(x, HEADS)
    for h in range(HEADS):
        assert_equal(split[:, h], x[..., h * D_HEAD : (h + 1) * D_HEAD])
    assert_equal(merge_heads(split), x)


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


def torch_masks(may_attend):
    """Say the same mask in the two arguments of PyTorch, where True means ignore."""
    if may_attend is None:
        return {}
    if may_attend.shape[1:3] == (1, 1):
        return {"key_padding_mask": to_key_padding_mask(may_attend)}
    shared = may_attend.shape[:2] == (1, 1)
    each = may_attend if shared else may_attend.expand(BATCH, -1, -1, -1)
    return {"attn_mask": to_attn_mask(each, HEADS)}


# PyTorch answers a query that may attend to nothing with NaN, so here each may attend to one key at least.
ONE_EACH = torch.eye(QUERIES, KEYS, dtype=torch.bool)
COMPARABLE_MASKS = MASKS | {name: MASKS[name] | ONE_EACH for name in ("per head", "full")}


@both_paths
@both_dtypes
@pytest.mark.parametrize("bias", [True, False], ids=["biases", "no biases"])
@pytest.mark.parametrize("may_attend", COMPARABLE_MASKS.values(), ids=COMPARABLE_MASKS.keys())
def test_cross_attention_equals_torch_forward_and_backward(may_attend, bias, dtype, need_weights):
    ours = build(dtype, bias=bias)
    theirs = nn.MultiheadAttention(D_MODEL, HEADS, bias=bias, batch_first=True, dtype=dtype)
    theirs.load_state_dict(to_torch_attention(ours.state_dict()))
    masks = torch_masks(may_attend)
    output, weights = ours(*inputs(dtype), may_attend=may_attend, need_weights=need_weights)
    wanted, wanted_weights = theirs(*inputs(dtype), **masks, average_attn_weights=False)
    assert_equal(output, wanted)
    if need_weights:
        assert_equal(weights, wanted_weights)

    def our_output(*x):
        return ours(*x, may_attend=may_attend, need_weights=need_weights)[0]

    def their_output(*x):
        return theirs(*x, **masks)[0]

    our_inputs, our_parameters = all_gradients(ours, our_output, *inputs(dtype))
    their_inputs, their_parameters = all_gradients(theirs, their_output, *inputs(dtype))
    assert_equal(our_inputs, their_inputs)
    assert_same_state(to_torch_attention(our_parameters), their_parameters)


def test_refuses_heads_that_do_not_divide_the_features():
    message = r"d_model \(512\) must be divisible by n_heads \(12\); try d_model=516"
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(512, 12)
