"""The questions asked of every input: what passes, and what an error says: got, wanted, remedy."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest
import torch

from tests.references import randn
from transformer_lab.masking import check_boolean, check_padding_mask
from transformer_lab.validation import (
    check_alike,
    check_even,
    check_flag,
    check_floating,
    check_floating_dtype,
    check_integer,
    check_integers,
    check_may_attend,
    check_not_empty,
    check_number,
    check_positive,
    check_probability,
    check_readable,
    check_shape_kept,
    check_token_ids,
    check_vectors,
)

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
NOT_FLOATS = [torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64]

# --- sizes


def test_sizes_from_one_on_are_positive():
    check_positive(d_model=1, n_heads=10**9)


@pytest.mark.parametrize("size", [0, -1, -512])
def test_refuses_sizes_below_one(size):
    for check in (check_positive, check_even):
        with pytest.raises(
            ValueError, match=rf"^d_model must be at least 1, got {size}; choose a larger one$"
        ):
            check(d_model=size)


@pytest.mark.parametrize("size", [2.0, "2", True, None, np.int8(2), np.uint64(2), torch.tensor(2)], ids=repr)
def test_refuses_sizes_that_are_not_integers(size):
    for check in (check_positive, check_even):
        with pytest.raises(
            TypeError, match=r"^d_model must be an integer, got .* \(\w+\); try int\(d_model\)$"
        ):
            check(d_model=size)


@pytest.mark.parametrize("kind", [np.int64, np.int32])
def test_integers_of_numpy_are_as_good_as_pythons(kind):
    check_positive(d_model=kind(2))
    check_even(d_head=kind(64))
    check_integer(offset=kind(0), at_least=0)
    with pytest.raises(ValueError, match=r"^d_model must be at least 1, got 0"):
        check_positive(d_model=kind(0))


@pytest.mark.parametrize("size", [10**13, 10**30])
def test_refuses_sizes_that_no_memory_holds(size):
    with pytest.raises(ValueError, match=rf"^d_ff must be at most 1,000,000,000, got {size}; choose a sm"):
        check_positive(d_ff=size)


def test_refuses_more_layers_than_can_ever_be_built():
    check_positive(n_layers=10_000)
    with pytest.raises(ValueError, match=r"^n_layers must be at most 10,000, got 10001; choose a smaller"):
        check_positive(n_layers=10_001)


def test_refuses_the_one_bad_size_among_several_by_its_name():
    with pytest.raises(ValueError, match=r"^d_ff must be at least 1"):
        check_positive(d_model=2, d_ff=0, n_heads=3)
    with pytest.raises(ValueError, match=r"^d_ff must be even"):
        check_even(d_model=2, d_ff=3, n_heads=4)


def test_even_sizes_are_even():
    check_even(d_model=2, d_head=64)


@pytest.mark.parametrize("size", [1, 3, 63])
def test_refuses_odd_sizes(size):
    message = rf"^d_head must be even \(features go in pairs\), got {size}; try d_head={size + 1}$"
    with pytest.raises(ValueError, match=message):
        check_even(d_head=size)


# --- numbers


def test_numbers_are_finite_and_above_what_is_asked_for():
    check_number(base=1e-300, eps=1, above=0)
    check_number(hidden=-1e300)
    check_number(eps=np.float32(1e-5), above=0)
    check_integer(offset=0, at_least=0)
    check_integer(pad_id=-100)


@pytest.mark.parametrize("number", [0, 0.0, -2, math.nan, math.inf])
def test_refuses_numbers_that_are_not_above(number):
    with pytest.raises(ValueError, match=rf"^eps must be above 0 and finite, got {number}; try 1e-5$"):
        check_number(eps=number, above=0, usual="1e-5")


def test_refuses_numbers_without_an_end():
    with pytest.raises(ValueError, match=r"^hidden must be finite, got -inf; try another$"):
        check_number(hidden=-math.inf)


@pytest.mark.parametrize("number", ["1", None, True, [1.0], torch.tensor(1.0), Fraction(1, 2)], ids=repr)
def test_refuses_what_is_no_number(number):
    for check in (check_number, check_probability):
        with pytest.raises(TypeError, match=r"^eps must be a number, got .* \(\w+\); try float\(eps\)$"):
            check(eps=number)


def test_refuses_integers_below_the_least():
    with pytest.raises(ValueError, match=r"^offset must be at least 0, got -1; choose a larger one$"):
        check_integer(offset=-1, at_least=0)


# --- flags and probabilities


@pytest.mark.parametrize("flag", ["no", 0, None, np.bool_(True)], ids=repr)
def test_refuses_flags_that_are_neither_true_nor_false(flag):
    check_flag(bias=True, scale=False)
    with pytest.raises(TypeError, match=r"^scale must be True or False, got .*; choose one$"):
        check_flag(bias=True, scale=flag)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float8_e4m3fn, torch.complex64, "float32", None])
def test_refuses_dtypes_in_which_nothing_can_be_computed(dtype):
    with pytest.raises(TypeError, match=r"^dtype must be floating-point, got .*; try torch.float32"):
        check_floating_dtype(dtype)


def test_probabilities_include_zero():
    check_probability(dropout=0.0, attention_dropout=0.999)
    check_probability(dropout=0)


@pytest.mark.parametrize("p", [-0.001, 1.0, 1, 1.5, math.nan, math.inf])
def test_refuses_probabilities_outside_zero_to_one(p):
    with pytest.raises(
        ValueError, match=rf"^dropout must be at least 0 and below 1, got {p}; it is the share"
    ):
        check_probability(attention_dropout=0.5, dropout=p)


# --- tensors


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floating_tensors_of_every_size_pass(dtype):
    check_floating(query=randn(2, 3, dtype=dtype), key=randn(dtype=dtype))


@pytest.mark.parametrize("dtype", NOT_FLOATS, ids=str)
def test_refuses_tensors_that_are_not_floating(dtype):
    message = (
        rf"^key must be a floating-point tensor, got {dtype}; convert it with \.float\(\).* may_attend=$"
    )
    for check in (check_floating, check_alike):
        with pytest.raises(TypeError, match=message):
            check(query=randn(2), key=torch.ones(2, dtype=dtype))


@pytest.mark.parametrize("thing", [1.0, [1.0], None, np.ones(2)], ids=repr)
def test_refuses_what_is_not_a_tensor(thing):
    message = (
        rf"^key must be a floating-point tensor, got {type(thing).__name__}; try torch\.as_tensor\(key\)$"
    )
    for check in (check_floating, check_alike):
        with pytest.raises(TypeError, match=message):
            check(query=randn(2), key=thing)


LAYOUTS = {
    "sparse_coo": lambda x: x.to_sparse(),
    "sparse_csr": lambda x: x.to_sparse_csr(),
    "nested": lambda x: torch.nested.nested_tensor(list(x)),
}


@pytest.mark.filterwarnings("ignore:.*nested|.*[Ss]parse")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_refuses_layouts_other_than_dense(layout):
    remedy = r"torch\.nested\.to_padded_tensor" if layout == "nested" else r"\w+\.to_dense\(\)"
    message = rf"must be a dense tensor, got a {layout} one; try {remedy}"
    numbers, ids = (LAYOUTS[layout](x) for x in (torch.ones(2, 3), torch.ones(2, 3).long()))
    opened = LAYOUTS[layout](torch.ones(2, 3).bool())
    calls = [
        lambda: check_floating(x=numbers),
        lambda: check_vectors("x", numbers),
        lambda: check_alike(x=torch.ones(2), y=numbers),
        lambda: check_integers("ids", ids),
        lambda: check_token_ids(ids, 5, torch.device("cpu")),
        lambda: check_may_attend(opened, (2, 3), torch.ones(1)),
        lambda: check_boolean("mask", opened, rank=2),
        lambda: check_padding_mask(opened, torch.ones(2, 3)),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=message):
            call()


def test_refuses_tensors_without_numbers_where_numbers_are_read():
    with pytest.raises(ValueError, match=r"^x must hold numbers, got a tensor on meta, which has none; use"):
        check_readable(x=torch.ones(2, device="meta"))
    check_readable(x=torch.ones(2))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_tensors_of_one_dtype_and_device_are_alike(dtype):
    check_alike(query=randn(2, dtype=dtype), key=randn(3, 5, dtype=dtype), value=randn(dtype=dtype))
    check_alike(x=randn(2, dtype=dtype))


@pytest.mark.parametrize("position", [0, 1])
def test_refuses_mixed_dtypes(position):
    tensors = {"key": randn(2), "value": randn(2)}
    name = list(tensors)[position]
    tensors[name] = tensors[name].float()
    message = rf"^{name} is torch\.float32 but query is torch\.float64; .* {name}\.to\(torch\.float64\)$"
    with pytest.raises(TypeError, match=message):
        check_alike(query=randn(2), **tensors)


@pytest.mark.parametrize("position", [0, 1])
def test_refuses_mixed_devices(position):
    tensors = {"key": randn(2), "value": randn(2)}
    name = list(tensors)[position]
    tensors[name] = tensors[name].to("meta")
    with pytest.raises(ValueError, match=rf"^{name} is on meta but query is on cpu; .* {name}\.to\('cpu'\)$"):
        check_alike(query=randn(2), **tensors)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 5, 7), (2, 1, 7)], ids=str)
def test_an_axis_of_length_zero_is_empty_only_if_it_is_the_positions(shape):
    check_not_empty("x", randn(*shape))


@pytest.mark.parametrize("shape", [(0, 7), (2, 0, 7), (2, 3, 0, 7)], ids=str)
def test_refuses_a_sequence_without_positions(shape):
    with pytest.raises(
        ValueError, match=r"^x has no positions, got shape \(.*0, 7\); give at least one token$"
    ):
        check_not_empty("x", randn(*shape))


# --- vectors


def test_vectors_of_the_right_width_pass():
    check_vectors("x", randn(2, 5, 11), 11)
    check_vectors("x", randn(2, 5, 11), 11, randn(13, 11))


@pytest.mark.parametrize("shape", [(11,), (5, 11), (2, 5, 11), (2, 3, 5, 11)], ids=str)
def test_vectors_may_have_any_leading_axes_if_asked_for(shape):
    check_vectors("x", randn(*shape), 11, rank=None)


@pytest.mark.parametrize("shape", [(), (11,), (5, 11), (2, 3, 5, 11)], ids=str)
def test_refuses_vectors_of_another_rank(shape):
    message = (
        r"^x must have 3 axes \(batch, position, 11\), got shape \(.*; for a single sequence .*\[None\]$"
    )
    with pytest.raises(ValueError, match=message):
        check_vectors("x", randn(*shape), 11)


@pytest.mark.parametrize(
    ("shape", "rank"),
    [((2, 5, 10), 3), ((2, 5, 12), 3), ((2, 5, 1), None), ((10,), None), ((), None)],
    ids=str,
)
def test_refuses_vectors_of_another_width(shape, rank):
    message = (
        rf"^x must be 11 wide on its last axis, got shape {re.escape(str(shape))}; check d_model or d_head$"
    )
    with pytest.raises(ValueError, match=message):
        check_vectors("x", randn(*shape), 11, rank=rank)


def test_refuses_vectors_of_another_dtype_than_the_weights():
    with pytest.raises(
        TypeError, match=r"^x is torch\.float64 but weights is torch\.float32; .* x\.to\(torch\.f"
    ):
        check_vectors("x", randn(2, 5, 11), 11, randn(13, 11, dtype=torch.float32))


def test_refuses_vectors_on_another_device_than_the_weights():
    for x, weight in (
        (randn(2, 5, 11).to("meta"), randn(13, 11)),
        (randn(2, 5, 11), randn(13, 11).to("meta")),
    ):
        with pytest.raises(ValueError, match=rf"^x is on {x.device} but weights is on {weight.device}; move"):
            check_vectors("x", x, 11, weight)


def test_autocast_may_mix_dtypes():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        check_vectors("x", randn(2, 5, 11, dtype=torch.bfloat16), 11, randn(13, 11, dtype=torch.float32))


def test_refuses_mixed_devices_even_in_autocast():
    with torch.autocast("cpu"), pytest.raises(ValueError, match=r"^x is on cpu but weights is on meta; move"):
        check_vectors("x", randn(2, 5, 11), 11, randn(13, 11).to("meta"))


def test_vectors_on_a_device_without_autocast_pass():
    check_vectors("x", randn(2, 5, 11).to("meta"), 11, randn(13, 11).to("meta"))


# --- token ids


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ([[1.0]], TypeError, r"^token_ids must be .* int64 or int32, got torch\.float32; try .*\.long\(\)$"),
        ([1, 2], ValueError, r"^token_ids .* \(batch, position\), got shape \(2,\); .* with \[None\]$"),
        ([[]], ValueError, r"^token_ids has no positions, got shape \(1, 0\); give at least one token$"),
        ([[1, 5], [0, 7]], ValueError, r"^token ids must be from 0 to 4, got 0 to 7; .*tokenizer"),
        ([[1, -3]], ValueError, r"^token ids must be from 0 to 4, got -3 to 1; .*tokenizer"),
    ],
)
def test_refuses_token_ids_that_cannot_be_looked_up(ids, error, message):
    ids = torch.tensor(ids) if ids != [[]] else torch.zeros(1, 0, dtype=torch.int64)
    with pytest.raises(error, match=message):
        check_token_ids(ids, 5, torch.device("cpu"))


def test_refuses_token_ids_on_another_device():
    with pytest.raises(ValueError, match=r"^token_ids are on meta, the model on cpu; use .*\.to\('cpu'\)$"):
        check_token_ids(torch.zeros(1, 2, dtype=torch.int64, device="meta"), 5, torch.device("cpu"))


# --- masks

SCORES = (2, 3, 5, 7)


@pytest.mark.parametrize("shape", [SCORES, (1, 1, 1, 1), (2, 1, 1, 7), (1, 3, 5, 1), (1, 1, 5, 7)], ids=str)
def test_masks_with_each_axis_full_or_one_pass(shape):
    check_may_attend(torch.ones(shape, dtype=torch.bool), SCORES, randn(1))


@pytest.mark.parametrize("shape", [(7,), (5, 7), (2, 7), (3, 5, 7), (2, 5, 7), (1, 2, 3, 5, 7)], ids=str)
def test_refuses_masks_of_another_rank(shape):
    wanted = r"wanted 4 axes \(2 or 1, 3 or 1, 5 or 1, 7 or 1\)"
    message = rf"^may_attend has shape \(.*\), {wanted}.*mask\[:, None, None, :\].*mask\[None, None\]$"
    with pytest.raises(ValueError, match=message):
        check_may_attend(torch.ones(shape, dtype=torch.bool), SCORES, randn(1))


@pytest.mark.parametrize("axis", range(4))
@pytest.mark.parametrize("size", [0, 4, 11])
def test_refuses_masks_with_an_axis_of_another_length(axis, size):
    shape = [*SCORES]
    shape[axis] = size
    message = r"^may_attend has shape \(.*\), wanted \(2 or 1, 3 or 1, 5 or 1, 7 or 1\); its axes are"
    with pytest.raises(ValueError, match=message):
        check_may_attend(torch.ones(shape, dtype=torch.bool), SCORES, randn(1))


def test_refuses_masks_on_another_device_than_the_query():
    mask = torch.ones(SCORES, dtype=torch.bool, device="meta")
    with pytest.raises(ValueError, match=r"^may_attend is on meta but query is on cpu; .*\.to\('cpu'\)$"):
        check_may_attend(mask, SCORES, randn(1))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, *FLOATS], ids=str)
def test_refuses_masks_that_are_not_boolean(dtype):
    message = rf"^may_attend must be boolean .*, got {dtype}; .*from_attention_mask .*from_additive_mask"
    with pytest.raises(TypeError, match=message):
        check_may_attend(torch.ones(SCORES, dtype=dtype), SCORES, randn(1))


@pytest.mark.parametrize(
    "mask", [[[True]], None, True, np.ones(SCORES, dtype=bool)], ids=lambda m: type(m).__name__
)
def test_refuses_masks_that_are_not_tensors(mask):
    message = rf"^may_attend must be a boolean tensor, got {type(mask).__name__}; try torch\.tensor"
    with pytest.raises(TypeError, match=message):
        check_may_attend(mask, SCORES, randn(1))


def test_a_padding_mask_passes():
    check_padding_mask(torch.ones(3, 1, 1, 7, dtype=torch.bool), torch.ones(3, 7))


@pytest.mark.parametrize("shape", [(3, 7), (3, 1, 7), (1, 1, 1, 7), (3, 1, 1, 1), (3, 1, 7, 7), (3, 5, 1, 7)])
def test_refuses_masks_that_are_no_padding_masks(shape):
    with pytest.raises(ValueError, match=rf"\(3, 1, 1, 7\), got {re.escape(str(shape))}; see padding_mask"):
        check_padding_mask(torch.ones(shape, dtype=torch.bool), torch.ones(3, 7))


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_refuses_padding_masks_that_are_not_boolean(dtype):
    with pytest.raises(TypeError, match=rf"boolean padding mask .*, got {dtype}; .* or from_attention_mask"):
        check_padding_mask(torch.ones(3, 1, 1, 7, dtype=dtype), torch.ones(3, 7))
    with pytest.raises(TypeError, match=r"boolean padding mask .*, got list; see padding_mask"):
        check_padding_mask([True], torch.ones(3, 7))


def test_an_error_says_what_came_back_and_which_ids_there_are():
    with pytest.raises(
        ValueError, match=r"bend must return torch.float32 of shape \(2, 3\), as it came, got NoneType"
    ):
        check_shape_kept("bend", None, torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"must be from 0 to 4, got 1 to 7; "):
        check_token_ids(torch.tensor([[7, 1, 3]]), 5, torch.device("cpu"))
