"""Lesson 03: softmax(Q Kᵀ / √d_head) V, in the explicit path and in the fused one."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from tests.reference_loops import (
    BATCH,
    D_HEAD,
    D_VALUE,
    HEADS,
    KEYS,
    QUERIES,
    TOLERANCE,
    assert_equal,
    attend_by_loops,
    both_dtypes,
    both_paths,
    gradients,
    numbers,
    randn,
    random_mask,
)
from transformer_lab import causal_mask
from transformer_lab.scaled_dot_product_attention import attention_weights, scaled_dot_product_attention

# Every way in which an axis of the mask may be full or 1, and a query (0, 1, 2) that may attend to nothing.
MASKS = {
    "none": None,
    "full": random_mask(BATCH, HEADS, QUERIES, KEYS, seed=1),
    "padding": random_mask(BATCH, 1, 1, KEYS, seed=2, share=0.7),
    "causal": causal_mask(QUERIES, KEYS),
    "per head": random_mask(1, HEADS, QUERIES, KEYS, seed=3),
    "per query": random_mask(BATCH, 1, QUERIES, 1, seed=4),
}
MASKS["full"][0, 1, 2] = False
every_mask = pytest.mark.parametrize("may_attend", MASKS.values(), ids=MASKS.keys())


def inputs(dtype=torch.float64, leading=(BATCH, HEADS)):
    """Return a query, a key and a value, each axis of another length."""
    return (
        randn(*leading, QUERIES, D_HEAD, seed=1, dtype=dtype),
        randn(*leading, KEYS, D_HEAD, seed=2, dtype=dtype),
        randn(*leading, KEYS, D_VALUE, seed=3, dtype=dtype),
    )


def attention_by_loops(query, key, value, may_attend=None):
    """Return output and weights of every batch entry, head and query, one after the other, in float64."""
    batch, heads, queries, _ = query.shape
    output = torch.zeros(batch, heads, queries, value.shape[-1], dtype=torch.float64)
    weights = torch.zeros(batch, heads, queries, value.shape[-2], dtype=torch.float64)
    allowed = torch.ones_like(weights) if may_attend is None else may_attend.expand_as(weights)
    for b, h, i in itertools.product(range(batch), range(heads), range(queries)):
        row = (query[b, h, i], key[b, h], value[b, h], allowed[b, h, i])
        output[b, h, i], weights[b, h, i] = map(numbers, attend_by_loops(*(x.tolist() for x in row)))
    return output, weights


# --- values


@every_mask
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_attention_equals_plain_loops_and_leaves_its_input_unchanged(dtype, may_attend):
    given = inputs(dtype)
    wanted, wanted_weights = attention_by_loops(*given, may_attend)
    output, weights = scaled_dot_product_attention(*given, may_attend)
    fused, no_weights = scaled_dot_product_attention(*given, may_attend, need_weights=False)
    assert_equal((output, weights), (wanted.to(dtype), wanted_weights.to(dtype)))
    assert_equal(fused, wanted.to(dtype))
    assert no_weights is None
    assert_equal(given, inputs(dtype), 0)


@every_mask
@both_dtypes
def test_attention_equals_torch_forward_and_backward(dtype, may_attend):
    def theirs(query, key, value):
        return F.scaled_dot_product_attention(query, key, value, attn_mask=may_attend)

    def ours(query, key, value):
        return scaled_dot_product_attention(query, key, value, may_attend)[0]

    def ours_fused(query, key, value):
        return scaled_dot_product_attention(query, key, value, may_attend, need_weights=False)[0]

    for function in (ours, ours_fused):
        assert_equal(function(*inputs(dtype)), theirs(*inputs(dtype)))
        assert_equal(gradients(function, *inputs(dtype)), gradients(theirs, *inputs(dtype)))


@both_paths
@pytest.mark.parametrize("leading", [(), (BATCH,), (BATCH, 1, HEADS)], ids=str)
def test_attention_takes_any_leading_axes(leading, need_weights):
    given, may_attend = inputs(leading=leading), random_mask(*leading, QUERIES, KEYS, seed=5)
    output, weights = scaled_dot_product_attention(*given, may_attend, need_weights=need_weights)
    four_axes = [x.reshape(-1, 1, *x.shape[-2:]) for x in (*given, may_attend)]
    wanted, wanted_weights = attention_by_loops(*four_axes)
    assert_equal(output, wanted.reshape(*leading, QUERIES, D_VALUE))
    if need_weights:
        assert_equal(weights, wanted_weights.reshape(*leading, QUERIES, KEYS))


@both_paths
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_large_scores_do_not_overflow(dtype, need_weights):
    # each score is 300 · 300 · 11 / √11, about 300,000; float16 ends at 65,504
    query, key = (torch.full((BATCH, HEADS, n, D_HEAD), 300.0, dtype=dtype) for n in (QUERIES, KEYS))
    key[..., 1:, :] = 299.0  # lower by about 1,000: the first key takes all the weight
    value = randn(BATCH, HEADS, KEYS, D_VALUE, dtype=dtype)
    output, _ = scaled_dot_product_attention(query, key, value, need_weights=need_weights)
    assert_equal(output, value[:, :, :1].expand_as(output))


@both_paths
@pytest.mark.parametrize("all_hidden", [False, True], ids=["one row hidden", "all hidden"])
@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
def test_a_query_that_may_attend_to_nothing_has_gradients_of_zero_and_no_nan_inside(need_weights, all_hidden):
    # A NaN that is masked away later would still stop whoever searches for one with anomaly detection.
    may_attend = torch.zeros(1, 1, 1, 1, dtype=torch.bool) if all_hidden else MASKS["full"]

    def function(query, key, value):
        return scaled_dot_product_attention(query, key, value, may_attend, need_weights=need_weights)[0]

    with torch.autograd.detect_anomaly():
        found = gradients(function, *inputs())
    assert all(gradient.isfinite().all() for gradient in found)
    assert not found[0][0, 1, 2].any()
    assert not all_hidden or not any(gradient.any() for gradient in found)


@both_paths
def test_dropout_zeroes_some_weights_and_scales_the_others_and_those_returned_are_from_before(need_weights):
    # With the identity as values the output is the weights that were used.
    query, key, _ = inputs()
    value = torch.eye(KEYS, dtype=torch.float64).expand(BATCH, HEADS, KEYS, KEYS)
    torch.manual_seed(0)
    used, weights = scaled_dot_product_attention(query, key, value, dropout=0.75, need_weights=need_weights)
    kept = used != 0
    assert_equal(used, 4 * attention_weights(query, key) * kept)
    assert 0.1 < kept.double().mean() < 0.4
    if need_weights:
        assert_equal(weights, attention_weights(query, key))
