"""Lesson 03: softmax(Q Kᵀ / √d_head) V, in the explicit path and in the fused one."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from tests.references import (
    BATCH,
    D_HEAD,
    D_VALUE,
    HEADS,
    KEYS,
    QUERIES,
    TOLERANCE,
    assert_equal,
    gradients,
    properties,
    randn,
    random_mask,
)
from transformer_lab import causal_mask
from transformer_lab.scaled_dot_product_attention import attention_weights, scaled_dot_product_attention

both_paths = pytest.mark.parametrize("need_weights", [True, False], ids=["explicit", "fused"])
both_dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
every_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)

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


def opened(*shape):
    """Return a mask that hides nothing."""
    return torch.ones(shape, dtype=torch.bool)


def attend_by_loops(query, keys, values, allowed):
    """Eq. 1 of arXiv:1706.03762 for one query, in plain numbers; a query without a key gets zeros."""
    scores = [sum(q * k for q, k in zip(query, key, strict=True)) / math.sqrt(len(query)) for key in keys]
    exponentials = [math.exp(score) if allow else 0.0 for score, allow in zip(scores, allowed, strict=True)]
    weights = [exponential / (sum(exponentials) or 1.0) for exponential in exponentials]
    columns = zip(*values, strict=True)
    return [sum(w * v for w, v in zip(weights, column, strict=True)) for column in columns], weights


def attention_by_loops(query, key, value, may_attend=None):
    """Return output and weights of every batch entry, head and query, one after the other, in float64."""
    batch, heads, queries, _ = query.shape
    output = torch.zeros(batch, heads, queries, value.shape[-1], dtype=torch.float64)
    weights = torch.zeros(batch, heads, queries, value.shape[-2], dtype=torch.float64)
    allowed = torch.ones_like(weights) if may_attend is None else may_attend.expand_as(weights)
    for b, h, i in itertools.product(range(batch), range(heads), range(queries)):
        row = (query[b, h, i], key[b, h], value[b, h], allowed[b, h, i])
        result = attend_by_loops(*(x.tolist() for x in row))
        output[b, h, i], weights[b, h, i] = (torch.tensor(numbers, dtype=torch.float64) for numbers in result)
    return output, weights


# --- values


@both_paths
def test_attention_by_hand(need_weights):
    # √d_head = 2, so the scores are 0 and ln 2, the weights 1/3 and 2/3.
    query = torch.tensor([[2 * math.log(2), 0.0, 0.0, 0.0]], dtype=torch.float64)
    key = torch.tensor([[0.0, 5.0, 0.0, 0.0], [1.0, 0.0, 7.0, 0.0]], dtype=torch.float64)
    value = torch.tensor([[3.0, 0.0, -3.0], [6.0, 3.0, 3.0]], dtype=torch.float64)
    output, weights = scaled_dot_product_attention(query, key, value, need_weights=need_weights)
    assert_equal(output, torch.tensor([[5.0, 2.0, 1.0]], dtype=torch.float64))
    if need_weights:
        assert_equal(weights, torch.tensor([[1 / 3, 2 / 3]], dtype=torch.float64))


@every_mask
@both_dtypes
def test_attention_equals_plain_loops(dtype, may_attend):
    query, key, value = inputs(dtype)
    wanted, wanted_weights = attention_by_loops(query, key, value, may_attend)
    output, weights = scaled_dot_product_attention(query, key, value, may_attend)
    fused, no_weights = scaled_dot_product_attention(query, key, value, may_attend, need_weights=False)
    assert_equal(output, wanted.to(dtype))
    assert_equal(weights, wanted_weights.to(dtype))
    assert_equal(fused, wanted.to(dtype))
    assert no_weights is None


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


def test_returned_weights_have_gradients():
    query, key, _ = inputs()

    def theirs(query, key):
        scores = torch.einsum("bhqd,bhkd->bhqk", query, key) / D_HEAD**0.5
        return scores.exp() / scores.exp().sum(-1, keepdim=True)

    def ours(query, key):
        return scaled_dot_product_attention(query, key, inputs()[2])[1]

    assert_equal(gradients(ours, query, key), gradients(theirs, query, key))


@both_paths
@pytest.mark.parametrize("leading", [(), (BATCH,), (BATCH, HEADS), (BATCH, 1, HEADS)], ids=str)
def test_attention_takes_any_leading_axes(leading, need_weights):
    query, key, value = inputs(leading=leading)
    may_attend = random_mask(*leading, QUERIES, KEYS, seed=5)
    output, weights = scaled_dot_product_attention(query, key, value, may_attend, need_weights=need_weights)
    four_axes = [x.reshape(-1, 1, *x.shape[-2:]) for x in (query, key, value, may_attend)]
    wanted, wanted_weights = attention_by_loops(*four_axes)
    assert_equal(output, wanted.reshape(*leading, QUERIES, D_VALUE))
    if need_weights:
        assert_equal(weights, wanted_weights.reshape(*leading, QUERIES, KEYS))


@both_paths
def test_large_scores_do_not_overflow(need_weights):
    query = torch.tensor([[30_000.0]], dtype=torch.float32)
    key = torch.tensor([[1.0], [-1.0], [1.0]], dtype=torch.float32)
    value = torch.tensor([[1.0], [100.0], [3.0]], dtype=torch.float32)
    output, _ = scaled_dot_product_attention(query, key, value, need_weights=need_weights)
    assert_equal(output, torch.tensor([[2.0]]))


def test_input_is_left_unchanged():
    query, key, value = inputs()
    may_attend = MASKS["full"].clone()
    scaled_dot_product_attention(query, key, value, may_attend)
    assert_equal((query, key, value), inputs())
    assert_equal(may_attend, MASKS["full"])


# --- properties

sizes = st.integers(1, 6)
seeds = st.integers(0, 2**31)


@properties
@given(queries=sizes, keys=sizes, d_head=sizes, seed=seeds, share=st.sampled_from([0.0, 0.2, 0.6, 1.0]))
def test_each_row_of_weights_sums_to_one_or_is_all_zero(queries, keys, d_head, seed, share):
    query = randn(BATCH, HEADS, queries, d_head, seed=seed)
    key = randn(BATCH, HEADS, keys, d_head, seed=seed + 1)
    may_attend = random_mask(BATCH, HEADS, queries, keys, seed=seed, share=share)
    weights = attention_weights(query, key, may_attend)
    assert (weights >= 0).all()
    assert not weights[~may_attend].any()
    assert_equal(weights.sum(dim=-1), may_attend.any(dim=-1).double())


@properties
@given(need_weights=st.booleans(), seed=seeds)
def test_attention_is_equivariant_to_permutations(need_weights, seed):
    query, key, value = inputs()
    may_attend = random_mask(BATCH, HEADS, QUERIES, KEYS, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    rows, columns = torch.randperm(QUERIES, generator=generator), torch.randperm(KEYS, generator=generator)
    output, weights = scaled_dot_product_attention(query, key, value, may_attend, need_weights=need_weights)
    permuted, permuted_weights = scaled_dot_product_attention(
        query[:, :, rows], key[:, :, columns], value[:, :, columns], may_attend[:, :, rows][..., columns],
        need_weights=need_weights,
    )  # fmt: skip
    assert_equal(permuted, output[:, :, rows])
    if need_weights:
        assert_equal(permuted_weights, weights[:, :, rows][..., columns])


@properties
@given(need_weights=st.booleans(), seed=seeds, scale=st.sampled_from([1.0, 1e6, -1e12]))
def test_hidden_keys_have_no_influence(need_weights, seed, scale):
    query, key, value = inputs()
    may_attend = random_mask(BATCH, 1, 1, KEYS, seed=seed)
    hidden = ~may_attend[:, 0, 0, :, None].expand(BATCH, KEYS, 1)[:, None]
    other_key = torch.where(hidden, scale * randn(*key.shape, seed=seed), key)
    other_value = torch.where(hidden, scale * randn(*value.shape, seed=seed + 1), value)
    output, _ = scaled_dot_product_attention(query, key, value, may_attend, need_weights=need_weights)
    same, _ = scaled_dot_product_attention(
        query, other_key, other_value, may_attend, need_weights=need_weights
    )
    assert_equal(same, output)


@both_paths
def test_a_single_visible_key_gives_its_value(need_weights):
    query, key, value = inputs()
    chosen = torch.tensor([6, 0, 3, 3, 1])
    may_attend = F.one_hot(chosen, KEYS).bool()[None, None]
    output, _ = scaled_dot_product_attention(query, key, value, may_attend, need_weights=need_weights)
    assert_equal(output, value[:, :, chosen])


# --- a query that may attend to nothing


@both_paths
@every_dtype
def test_a_query_that_may_attend_to_nothing_gets_zeros(dtype, need_weights):
    may_attend = MASKS["full"]
    output, weights = scaled_dot_product_attention(*inputs(dtype), may_attend, need_weights=need_weights)
    wanted, wanted_weights = attention_by_loops(*inputs(dtype), may_attend)
    assert_equal(output, wanted.to(dtype))
    assert not output[0, 1, 2].any()
    if need_weights:
        assert_equal(weights, wanted_weights.to(dtype))
        assert not weights[0, 1, 2].any()


@both_paths
@every_dtype
@pytest.mark.parametrize("all_hidden", [False, True], ids=["one row hidden", "all hidden"])
def test_gradients_are_finite_when_a_query_may_attend_to_nothing(dtype, need_weights, all_hidden):
    may_attend = torch.zeros(1, 1, 1, 1, dtype=torch.bool) if all_hidden else MASKS["full"]

    def function(query, key, value):
        return scaled_dot_product_attention(query, key, value, may_attend, need_weights=need_weights)[0]

    by_query, by_key, by_value = gradients(function, *inputs(dtype))
    assert all(gradient.isfinite().all() for gradient in (by_query, by_key, by_value))
    assert not by_query[0, 1, 2].any()
    if all_hidden:
        assert not any(gradient.any() for gradient in (by_query, by_key, by_value))


@both_paths
@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
def test_no_nan_arises_even_inside(need_weights):
    # A NaN that is masked away later would still stop whoever searches for one with anomaly detection.
    def function(query, key, value):
        return scaled_dot_product_attention(query, key, value, MASKS["full"], need_weights=need_weights)[0]

    with torch.autograd.detect_anomaly():
        gradients(function, *inputs())


# --- dropout


@both_paths
def test_dropout_zeroes_some_weights_and_scales_the_others(need_weights):
    # With the identity as values the output is the weights that were used.
    query, key, _ = inputs()
    value = torch.eye(KEYS, dtype=torch.float64).expand(BATCH, HEADS, KEYS, KEYS)
    torch.manual_seed(0)
    used, _ = scaled_dot_product_attention(query, key, value, dropout=0.75, need_weights=need_weights)
    kept = used != 0
    assert_equal(used, 4 * attention_weights(query, key) * kept)
    assert 0.1 < kept.double().mean() < 0.4


def test_weights_are_returned_before_dropout():
    query, key, value = inputs()
    output, weights = scaled_dot_product_attention(query, key, value)
    torch.manual_seed(0)
    dropped, same_weights = scaled_dot_product_attention(query, key, value, dropout=0.5)
    assert_equal(same_weights, weights)
    assert ((dropped - output).abs() > TOLERANCE[torch.float64]).any(dim=-1).all()


# --- dtypes and devices


@both_paths
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_output_keeps_dtype(dtype, need_weights):
    output, weights = scaled_dot_product_attention(*inputs(dtype), MASKS["full"], need_weights=need_weights)
    wanted, wanted_weights = attention_by_loops(*inputs(dtype), MASKS["full"])
    assert_equal(output, wanted.to(dtype))
    if need_weights:
        assert_equal(weights, wanted_weights.to(dtype))


@both_paths
def test_output_keeps_device(need_weights):
    query, key, value = (x.to("meta") for x in inputs())
    output, weights = scaled_dot_product_attention(
        query, key, value, MASKS["padding"].to("meta"), need_weights=need_weights
    )
    assert output.device.type == "meta" and output.shape == (BATCH, HEADS, QUERIES, D_VALUE)
    assert not need_weights or weights.shape == (BATCH, HEADS, QUERIES, KEYS)


# --- bad input


@both_paths
def test_refuses_masks_that_would_fit_by_accident(need_weights):
    # batch = heads = queries = keys: PyTorch would broadcast any of these, whatever its axes mean.
    x = randn(4, 4, 4, 4)
    for shape in [(4,), (4, 4), (4, 4, 4)]:
        with pytest.raises(ValueError, match=r"may_attend has shape .*, wanted 4 axes"):
            scaled_dot_product_attention(x, x, x, opened(*shape), need_weights=need_weights)


def test_float16_scores_do_not_overflow():
    # each score is 300 · 300 · 11 / √11, about 300,000; float16 ends at 65,504
    query, key = (torch.full((BATCH, HEADS, n, D_HEAD), 300.0, dtype=torch.float16) for n in (QUERIES, KEYS))
    key[..., 1:, :] = 299.0  # lower by about 1,000: the first key takes all the weight
    value = randn(BATCH, HEADS, KEYS, D_VALUE, dtype=torch.float16)
    output, weights = scaled_dot_product_attention(query, key, value)
    assert_equal(weights[..., 0], torch.ones_like(weights[..., 0]))
    fused, _ = scaled_dot_product_attention(query, key, value, need_weights=False)
    assert_equal(output, fused)


def test_refuses_a_mask_in_the_place_of_need_weights():
    """In PyTorch's order, layer(x, None, mask), a mask would arrive there."""
    x = randn(BATCH, HEADS, QUERIES, D_HEAD)
    for other in (opened(BATCH, 1, 1, QUERIES), "no"):
        with pytest.raises(TypeError, match="need_weights must be True or False, got"):
            scaled_dot_product_attention(x, x, x, need_weights=other)
