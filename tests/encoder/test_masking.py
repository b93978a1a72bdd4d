"""Lesson 04: what each mask hides."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.tensors import assert_equal, properties
from transformer_lab import causal_mask, local_mask, padding_mask, padding_mask_from_lengths


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
def test_padding_mask_hides_the_id_it_is_given(dtype):
    ids = torch.tensor([[0, 1, 3, 1, 2]], dtype=dtype)
    assert_equal(padding_mask(ids, pad_id=1), torch.tensor([[[[True, False, True, False, True]]]]))
    assert padding_mask(ids, pad_id=259).all()  # 3, if it were made an 8-bit number


@pytest.mark.parametrize(("max_length", "longest"), [(None, 3), (4, 4)])
def test_padding_mask_from_lengths_hides_all_from_the_length_on(max_length, longest):
    ours = padding_mask_from_lengths(torch.tensor([2, 0, 3], dtype=torch.int32), max_length)
    assert_equal(ours, torch.tensor([[[[j < real for j in range(longest)]]] for real in (2, 0, 3)]))


@properties
@given(queries=st.integers(1, 9), more_keys=st.integers(0, 9), window=st.integers(0, 12))
def test_causal_and_local_masks_equal_plain_loops(queries, more_keys, window):
    keys = queries + more_keys
    # The last query stands at the last key.
    distances = [[j - (i + more_keys) for j in range(keys)] for i in range(queries)]
    causal = torch.tensor([[distance <= 0 for distance in row] for row in distances])[None, None]
    local = torch.tensor([[abs(distance) <= window for distance in row] for row in distances])[None, None]
    assert_equal(causal_mask(queries, keys), causal)
    assert_equal(local_mask(queries, window, keys), local)
    if not more_keys:
        assert_equal(causal_mask(queries), causal)
        assert_equal(local_mask(queries, window), local)


def test_masks_are_made_on_the_device_asked_for_and_stay_on_that_of_the_ids():
    ids = torch.zeros(2, 3, dtype=torch.int64, device="meta")
    for mask in (causal_mask(3, device="meta"), local_mask(3, 1, device="meta"), padding_mask(ids)):
        assert mask.is_meta and mask.dtype == torch.bool and mask.shape[-1] == 3
