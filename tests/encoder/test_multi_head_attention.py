"""Lesson 05: MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O."""

import pytest
import torch
from torch import nn

from tests.tensors import (
    BATCH,
    HEADS,
    KEYS,
    QUERIES,
    assert_equal,
    both_dtypes,
    both_paths,
    randn,
    random_mask,
)
from tests.third_party import all_gradients, assert_same_state, randomised, to_torch_attention
from transformer_lab import MultiHeadAttention, causal_mask, padding_mask_from_lengths
from transformer_lab.mask_conventions import to_attn_mask, to_key_padding_mask

D_MODEL = HEADS * 5

# PyTorch answers a query that may attend to nothing with NaN, so here each may attend to one key at least.
ONE_EACH = torch.eye(QUERIES, KEYS, dtype=torch.bool)
MASKS = {
    "none": None,
    "padding": padding_mask_from_lengths(torch.tensor([4, KEYS]), KEYS),
    "causal": causal_mask(QUERIES, KEYS),
    "per head": random_mask(1, HEADS, QUERIES, KEYS, seed=3) | ONE_EACH,
    "per sequence": random_mask(BATCH, 1, QUERIES, KEYS, seed=2) | ONE_EACH,
    "full": random_mask(BATCH, HEADS, QUERIES, KEYS, seed=1) | ONE_EACH,
}


def build(dtype=torch.float64, **choices):
    """Return an attention none of whose parameters is zero or one."""
    return randomised(MultiHeadAttention(D_MODEL, HEADS, **choices)).to(dtype)


def inputs(dtype=torch.float64):
    """Return a query, a key and a value, of different lengths and different numbers."""
    sizes = ((QUERIES, 11), (KEYS, 12), (KEYS, 13))
    return tuple(randn(BATCH, positions, D_MODEL, seed=seed, dtype=dtype) for positions, seed in sizes)


def test_key_and_value_default_to_query():
    attention, (query, key, value) = build(), inputs()
    assert_equal(attention(query), attention(query, query, query))
    assert_equal(attention(query, key), attention(query, key, key))
    assert_equal(attention(key, value=value), attention(key, key, value))


def torch_masks(may_attend):
    """Return the same mask as one of PyTorch's two arguments, where True means ignore."""
    if may_attend is None:
        return {}
    if may_attend.shape[1:3] == (1, 1):
        return {"key_padding_mask": to_key_padding_mask(may_attend)}
    if may_attend.shape[:2] != (1, 1):
        may_attend = may_attend.expand(BATCH, -1, -1, -1)
    return {"attn_mask": to_attn_mask(may_attend, HEADS)}


@both_paths
@both_dtypes
@pytest.mark.parametrize("bias", [True, False], ids=["biases", "no biases"])
@pytest.mark.parametrize("may_attend", MASKS.values(), ids=MASKS.keys())
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
    else:
        assert weights is None

    def our_output(*x):
        return ours(*x, may_attend=may_attend, need_weights=need_weights)[0]

    def their_output(*x):
        return theirs(*x, **masks)[0]

    our_inputs, our_parameters = all_gradients(ours, our_output, *inputs(dtype))
    their_inputs, their_parameters = all_gradients(theirs, their_output, *inputs(dtype))
    assert_equal(our_inputs, their_inputs)
    assert_same_state(to_torch_attention(our_parameters), their_parameters)
