"""The questions asked of every input: what passes, and what an error says: got, wanted, remedy."""

import math
import re
from functools import partial

import numpy as np
import pytest
import torch
from torch.nested import nested_tensor

from tests.reference_loops import randn
from transformer_lab.masking import check_padding_mask
from transformer_lab.validation import (
    check_alike,
    check_even,
    check_flag,
    check_floating,
    check_integer,
    check_integers,
    check_may_attend,
    check_not_empty,
    check_number,
    check_positive,
    check_readable,
    check_shape_kept,
    check_token_ids,
    check_vectors,
)

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
CPU = torch.device("cpu")
SCORES = (2, 3, 5, 7)
ONES, META = torch.ones(2, 3), torch.ones(2, 3, device="meta")


def test_what_is_right_passes():
    check_positive(d_model=1, n_heads=np.int32(2))
    check_even(d_model=2, d_head=np.int64(64))
    check_integer(pad_id=-100)
    check_integer(offset=np.int64(0), at_least=0, at_most=0)
    check_number(base=1e-300, eps=np.float32(1), above=0)
    check_number(hidden=-1e300)
    check_flag(bias=True, scale=False)
    for dtype in FLOATS:
        check_alike(query=randn(2, dtype=dtype), key=randn(3, 5, dtype=dtype), value=randn(dtype=dtype))
    check_readable(x=ONES)
    check_vectors("x", randn(2, 5, 11), 11)
    for shape in [(11,), (5, 11), (2, 3, 5, 11)]:
        check_vectors("x", randn(*shape), 11, rank=None)
    check_vectors("x", randn(2, 5, 11).to("meta"), 11)
    for shape in [(), (1,), (0,), (0, 5, 7), (2, 1, 7)]:  # empty only if the positions are
        check_not_empty("x", randn(*shape))
    for shape in [SCORES, (1, 1, 1, 1), (2, 1, 1, 7), (1, 3, 5, 1), (1, 1, 5, 7)]:
        check_may_attend(torch.ones(shape, dtype=torch.bool), SCORES, randn(1))
    check_padding_mask(torch.ones(3, 1, 1, 7, dtype=torch.bool), torch.ones(3, 7))


WRONG_NUMBERS = [
    (
        lambda: check_positive(d_model=2, d_ff=0),
        ValueError,
        "d_ff must be at least 1, got 0; choose a",
    ),
    (lambda: check_integer(step=5, at_most=4), ValueError, "step must be at most 4, got 5; choose a smaller"),
    (lambda: check_even(d_head=63), ValueError, r"d_head must be even \(.*, got 63; try d_head=64$"),
    (lambda: check_even(d_model="2"), TypeError, "d_model must be an integer, got '2' .*; try int"),
    (lambda: check_even(d_model=True), TypeError, "d_model must be an integer, got True .*; try int"),
    (lambda: check_number(hidden=-math.inf), ValueError, "hidden must be finite, got -inf; try another"),
    (lambda: check_number(eps=0, above=0, usual="1e-5"), ValueError, "above 0 .*; try 1e-5$"),
    (lambda: check_number(eps=None), TypeError, r"eps must be a number, got None .*; try float\(eps\)$"),
    (lambda: check_flag(bias=True, scale="no"), TypeError, "scale must be True or False, got 'no'; choose"),
]
AXES, WIDTH = r"axes \(batch, position, feat.*\), got shape", "^x must be 11 wide on its last axis, got shape"
WRONG_TENSORS = [
    (lambda: check_floating(q=ONES, k=ONES.bool()), TypeError, "^k must be .*torch.bool; .*may_"),
    (lambda: check_floating(x=(ONES, None)), TypeError, r"got tuple; try x, weights = …$"),
    (lambda: check_alike(q=ONES, k=[1.0]), TypeError, r"k must be .*, got list; try torch\.as_tensor\(k\)$"),
    (lambda: check_alike(q=ONES, k=ONES.double()), TypeError, r"k is torch\.float64 but q is .*; conv"),
    (lambda: check_alike(q=ONES, k=META), ValueError, r"k is on meta but q is on cpu; .*to\('cpu'\)"),
    (lambda: check_readable(x=META), ValueError, "x must hold numbers, got a tensor on meta"),
    (
        lambda: check_integers("ids", ONES),
        TypeError,
        "ids must be an integer tensor, got torch.float32 ",
    ),
    (lambda: check_integers("ids", ONES.int(), "batch"), ValueError, r"axes \(batch\), got shape \(2, 3\); "),
    (
        lambda: check_shape_kept("part", None, ONES),
        ValueError,
        "part must return torch.float32 .*NoneType",
    ),
    (lambda: check_shape_kept("part", ONES[:, :1], ONES), ValueError, r", got .* of shape \(2, 1\); "),
    (lambda: check_vectors("x", randn(5, 11), 11), ValueError, AXES),
    (lambda: check_vectors("x", randn(2, 5, 1), 11, rank=None), ValueError, WIDTH),
    (lambda: check_vectors("x", randn(), 11, rank=None), ValueError, WIDTH),
    (lambda: check_not_empty("x", randn(2, 3, 0, 7)), ValueError, "x has no positions, got shape"),
]
WRONG_IDS = [
    ([[1.0]], TypeError, r"^token_ids must be .* int64 or int32, got torch\.float32; try .*\.long\(\)$"),
    ([1, 2], ValueError, r"^token_ids .* \(batch, position\), got shape \(2,\); add .* \[None\]$"),
    (torch.zeros(1, 0).long(), ValueError, r"^token_ids has no positions, got shape \(1, 0\); give at least"),
    ([[1, 5], [0, 7]], ValueError, r"^token ids must be from 0 to 4, got 0 to 7; .*tokenizer"),
    ([[1, -3]], ValueError, r"^token ids must be from 0 to 4, got -3 to 1; .*tokenizer"),
    (
        torch.zeros(1, 2, device="meta").long(),
        ValueError,
        "^token_ids are on meta, the model on cpu; use",
    ),
]
NO_AXES = r"wanted 4 axes \(2 or 1, 3 or 1, 5 or 1, 7 or 1\); .*mask\[None, None\]$"
NO_LENGTH = r"wanted \(2 or 1, 3 or 1, 5 or 1, 7 or 1\); its axes are"
WRONG_MASKS = [
    *((torch.ones(shape).bool(), ValueError, NO_AXES) for shape in [(7,), (5, 7), (3, 5, 7), (1, *SCORES)]),
    *(
        (torch.ones(*SCORES[:axis], size, *SCORES[axis + 1 :]).bool(), ValueError, NO_LENGTH)
        for axis in range(4)
        for size in (0, 11)
    ),
    (torch.ones(SCORES).bool().to("meta"), ValueError, r"may_attend is on meta but query is on cpu; .*'cpu'"),
    (torch.ones(SCORES).long(), TypeError, "must be boolean .*int64; .*from_attention_mask .*additive"),
    ([[True]], TypeError, r"^may_attend must be a boolean tensor, got list; try torch\.tensor"),
]
WRONG = [
    *WRONG_NUMBERS,
    *WRONG_TENSORS,
    *((partial(check_token_ids, torch.as_tensor(ids), 5, CPU), *rest) for ids, *rest in WRONG_IDS),
    *((partial(check_may_attend, mask, SCORES, randn(1)), *rest) for mask, *rest in WRONG_MASKS),
]


@pytest.mark.parametrize(("call", "error", "words"), WRONG)
def test_refuses_in_words(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("shape", [(1, 1, 1, 7), (3, 1, 7, 7)])
def test_refuses_masks_that_are_no_padding_masks(shape):
    with pytest.raises(ValueError, match=rf"\(3, 1, 1, 7\), got {re.escape(str(shape))}; see padding_mask"):
        check_padding_mask(torch.ones(shape, dtype=torch.bool), torch.ones(3, 7))


@pytest.mark.filterwarnings("ignore:.*nested|.*[Ss]parse")
def test_refuses_layouts_other_than_dense():
    for layout, x in {"sparse_coo": ONES.to_sparse(), "nested": nested_tensor([*ONES])}.items():
        with pytest.raises(TypeError, match=rf"must be a dense tensor, got a {layout} one; (try|pad)"):
            check_floating(x=x)
