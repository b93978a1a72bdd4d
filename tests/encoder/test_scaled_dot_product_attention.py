"""Lesson 03: softmax(Q Kᵀ / √d_head) V, in the explicit path and in the fused one."""

import pytest
import torch
import torch.nn.functional as F

from tests.tensors import (
    BATCH,
    D_HEAD,
    D_VALUE,
    HEADS,
    KEYS,
    QUERIES,
    TOLERANCE,
    assert_equal,
    both_paths,
    gradients,
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


def torch_attention(query, key, value, may_attend=None):
    """Return PyTorch's output, and its weights: with the identity as values, they are the output."""
    identity = torch.eye(KEYS, dtype=value.dtype).expand(*key.shape[:-1], KEYS)
    values = torch.cat([value, identity], dim=-1)
    output = F.scaled_dot_product_attention(query, key, values, attn_mask=may_attend)
    return output.split([D_VALUE, KEYS], dim=-1)


# --- values


@every_mask
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_attention_equals_torch_and_leaves_its_input_unchanged(dtype, may_attend):
    given = inputs(dtype)
    wanted, wanted_weights = torch_attention(*(x.double() for x in given), may_attend)
    output, weights = scaled_dot_product_attention(*given, may_attend)
    fused, no_weights = scaled_dot_product_attention(*given, may_attend, need_weights=False)
    assert_equal((output, weights), (wanted.to(dtype), wanted_weights.to(dtype)))
    assert_equal(fused, wanted.to(dtype))
    assert no_weights is None
    assert_equal(given, inputs(dtype), 0)


@every_mask
@both_paths
def test_gradients_equal_torchs(may_attend, need_weights):
    def ours(*given):
        return scaled_dot_product_attention(*given, may_attend, need_weights=need_weights)[0]

    def theirs(*given):
        return torch_attention(*given, may_attend)[0]

    assert_equal(gradients(ours, *inputs()), gradients(theirs, *inputs()))


@both_paths
@pytest.mark.parametrize("leading", [(), (BATCH,), (BATCH, 1, HEADS)], ids=str)
def test_attention_takes_any_leading_axes(leading, need_weights):
    given, may_attend = inputs(leading=leading), random_mask(*leading, QUERIES, KEYS, seed=5)
    output, weights = scaled_dot_product_attention(*given, may_attend, need_weights=need_weights)
    wanted, wanted_weights = torch_attention(*given, may_attend)
    assert_equal(output, wanted)
    if need_weights:
        assert_equal(weights, wanted_weights)


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
def test_a_query_that_may_attend_to_nothing_gets_zeros_and_no_nan_inside(need_weights, all_hidden):
    # A NaN that is masked away later would still stop whoever searches for one with anomaly detection.
    may_attend = torch.zeros(1, 1, 1, 1, dtype=torch.bool) if all_hidden else MASKS["full"]

    def function(query, key, value):
        return scaled_dot_product_attention(query, key, value, may_attend, need_weights=need_weights)[0]

    with torch.autograd.detect_anomaly():
        found = function(*inputs()), *gradients(function, *inputs())
    assert all(tensor.isfinite().all() for tensor in found)
    output, by_query, *_ = found
    assert not output[0, 1, 2].any() and not by_query[0, 1, 2].any()
    assert not all_hidden or not any(tensor.any() for tensor in found)


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


@both_paths
def test_bfloat16_is_rounded_once_at_the_end_with_weights_and_without(need_weights):
    # Scores of standard deviation 300: kept in bfloat16 they would be off by more than 1.
    query, key, value = inputs(torch.float32)
    low = [x.bfloat16() for x in (query * 300**0.5, key * 300**0.5, value)]
    wanted, _ = scaled_dot_product_attention(*(x.double() for x in low))
    output, _ = scaled_dot_product_attention(*low, need_weights=need_weights)
    assert (output - wanted).abs().max() < 0.01  # 0.4 if they were
