"""Lesson 04: what each mask hides."""

import functools
import operator

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
    assert_equal,
    properties,
    randn,
    random_mask,
)
from transformer_lab import causal_mask, combine_masks, local_mask, padding_mask, padding_mask_from_lengths
from transformer_lab.scaled_dot_product_attention import scaled_dot_product_attention as attend


def inputs(queries=QUERIES):
    sizes = (queries, D_HEAD), (KEYS, D_HEAD), (KEYS, D_VALUE)
    return tuple(randn(BATCH, HEADS, *size, seed=i) for i, size in enumerate(sizes))


# --- padding


def test_padding_mask_by_hand():
    ids = torch.tensor([[5, 6, 0, 0], [7, 0, 8, 9]])
    wanted = [[[[True, True, False, False]]], [[[True, False, True, True]]]]
    assert_equal(padding_mask(ids), torch.tensor(wanted))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
def test_padding_mask_hides_the_id_it_is_given(dtype):
    ids = torch.tensor([[0, 1, 3, 1, 2]], dtype=dtype)
    assert_equal(padding_mask(ids, pad_id=1), torch.tensor([[[[True, False, True, False, True]]]]))
    assert padding_mask(ids, pad_id=259).all()  # 3, if it were made an 8-bit number


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_padding_mask_from_lengths_by_hand(dtype):
    ours = padding_mask_from_lengths(torch.tensor([2, 0, 3], dtype=dtype), max_length=4)
    wanted = [[[[True, True, False, False]]], [[[False] * 4]], [[[True, True, True, False]]]]
    assert_equal(ours, torch.tensor(wanted))


def test_padding_mask_is_as_long_as_the_longest_sequence():
    ours = padding_mask_from_lengths(torch.tensor([2, 3]))
    assert_equal(ours, torch.tensor([[[[True, True, False]]], [[[True, True, True]]]]))


def test_padding_masks_agree():
    lengths = torch.tensor([4, 7])
    ids = torch.tensor([[9, 8, 7, 6, 0, 0, 0], [9, 8, 7, 6, 5, 4, 3]])
    assert_equal(padding_mask(ids), padding_mask_from_lengths(lengths))


@pytest.mark.parametrize("need_weights", [True, False], ids=["explicit", "fused"])
def test_padding_changes_nothing_for_the_real_tokens(need_weights):
    query, key, value = inputs()
    real = 4
    mask = padding_mask_from_lengths(torch.full((BATCH,), real), KEYS)
    padded, _ = attend(query, key, value, mask, need_weights=need_weights)
    alone, _ = attend(query, key[:, :, :real], value[:, :, :real], need_weights=need_weights)
    assert_equal(padded, alone)


# --- causal and local

lengths = st.integers(1, 9)


@properties
@given(queries=lengths, more_keys=st.integers(0, 9))
def test_causal_mask_equals_plain_loops(queries, more_keys):
    keys = queries + more_keys
    # The last query stands at the last key.
    wanted = [[j <= i + more_keys for j in range(keys)] for i in range(queries)]
    assert_equal(causal_mask(queries, keys), torch.tensor(wanted)[None, None])
    if not more_keys:
        assert_equal(causal_mask(queries), torch.tensor(wanted)[None, None])


@properties
@given(queries=lengths, more_keys=st.integers(0, 9), window=st.integers(0, 12))
def test_local_mask_equals_plain_loops(queries, more_keys, window):
    keys = queries + more_keys
    wanted = [[abs(j - (i + more_keys)) <= window for j in range(keys)] for i in range(queries)]
    assert_equal(local_mask(queries, window, keys), torch.tensor(wanted)[None, None])
    if not more_keys:
        assert_equal(local_mask(queries, window), torch.tensor(wanted)[None, None])


def test_causal_mask_equals_torch():
    x = randn(BATCH, HEADS, KEYS, D_HEAD)
    theirs = F.scaled_dot_product_attention(x, x, x, is_causal=True)
    assert_equal(attend(x, x, x, causal_mask(KEYS))[0], theirs)


def test_causal_mask_serves_decoding_with_a_cache():
    query, key, value = inputs(queries=KEYS)
    whole, _ = attend(query, key, value, causal_mask(KEYS))
    last, _ = attend(query[:, :, -2:], key, value, causal_mask(2, KEYS))
    assert_equal(last, whole[:, :, -2:])


def test_causal_mask_lets_no_later_token_leak():
    x = randn(BATCH, HEADS, KEYS, D_HEAD)
    before, _ = attend(x, x, x, causal_mask(KEYS))
    for changed in range(KEYS):
        y = x.clone()
        y[:, :, changed] += 1.0
        moved = ((attend(y, y, y, causal_mask(KEYS))[0] - before).abs() > 1e-9).any(dim=-1)
        assert_equal(moved, (torch.arange(KEYS) >= changed).expand(BATCH, HEADS, KEYS))


@pytest.mark.parametrize(
    "mask", [causal_mask, functools.partial(local_mask, window=1)], ids=["causal", "local"]
)
def test_masks_are_made_on_the_device_asked_for(mask):
    ours = mask(3, device="meta")
    assert ours.device.type == "meta" and ours.dtype == torch.bool and ours.shape == (1, 1, 3, 3)


def test_padding_masks_stay_on_their_device():
    assert padding_mask(torch.zeros(2, 3, dtype=torch.int64, device="meta")).device.type == "meta"


# --- combining


def test_combined_masks_by_hand():
    wanted = [
        [[[True, False, False], [True, True, False], [True, True, False]]],
        [[[True, False, False], [True, False, False], [True, False, True]]],
    ]
    padding = torch.tensor([[[[True, True, False]]], [[[True, False, True]]]])
    assert_equal(combine_masks(padding, causal_mask(3)), torch.tensor(wanted))


@properties
@given(
    full=st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=4),
    seed=st.integers(0, 2**31),
)
def test_combined_masks_allow_what_every_mask_allows(full, seed):
    sizes = (BATCH, HEADS, QUERIES, KEYS)
    shapes = [[size if is_full else 1 for size, is_full in zip(sizes, axes, strict=True)] for axes in full]
    masks = [random_mask(*shape, seed=seed + i, share=0.8) for i, shape in enumerate(shapes)]
    expanded = functools.reduce(operator.and_, (mask.expand(sizes) for mask in masks))
    assert_equal(combine_masks(*masks).expand(sizes), expanded)


def test_combining_leaves_the_masks_unchanged():
    masks = [random_mask(BATCH, HEADS, QUERIES, KEYS, seed=seed) for seed in (1, 2)]
    before = [mask.clone() for mask in masks]
    combine_masks(*masks)
    assert_equal(tuple(masks), tuple(before))


def test_a_window_as_wide_as_you_like_hides_nothing():
    assert local_mask(3, 2**63).all()


def test_a_combined_mask_is_a_new_one():
    mask = causal_mask(3)
    combine_masks(mask).zero_()
    assert_equal(mask, causal_mask(3))


# --- bad input
