"""Lesson 04: what each mask hides, and the other conventions' masks beside the libraries that read them."""

import functools
import math
import operator

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

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
from transformer_lab.mask_conventions import (
    from_additive_mask,
    from_attention_mask,
    from_attn_mask,
    from_key_padding_mask,
    to_additive_mask,
    to_attention_mask,
    to_attn_mask,
    to_key_padding_mask,
)
from transformer_lab.scaled_dot_product_attention import scaled_dot_product_attention as attend

FLOATS = [torch.float64, torch.float32, torch.bfloat16, torch.float16]

# The first keys are always there: libraries differ on a query that may attend to nothing.
REAL = torch.tensor([[1, 1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 1, 1, 0]])  # (batch, key_pos)
PADDING = REAL.bool()[:, None, None, :]


def visible(batch=BATCH, heads=HEADS, queries=QUERIES, seed=1):
    """Return a random mask in which every query may attend to something."""
    mask = random_mask(batch, heads, queries, KEYS, seed=seed)
    mask[..., 0] = True
    return mask


def inputs(queries=QUERIES, dtype=torch.float64):
    return (
        randn(BATCH, HEADS, queries, D_HEAD, seed=1, dtype=dtype),
        randn(BATCH, HEADS, KEYS, D_HEAD, seed=2, dtype=dtype),
        randn(BATCH, HEADS, KEYS, D_VALUE, seed=3, dtype=dtype),
    )


# --- padding


def test_padding_mask_by_hand():
    ids = torch.tensor([[5, 6, 0, 0], [7, 0, 8, 9]])
    wanted = [[[[True, True, False, False]]], [[[True, False, True, True]]]]
    assert_equal(padding_mask(ids), torch.tensor(wanted))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
def test_padding_mask_hides_the_id_it_is_given(dtype):
    ids = torch.tensor([[0, 1, 3, 1, 2]], dtype=dtype)
    assert_equal(padding_mask(ids, pad_id=1), torch.tensor([[[[True, False, True, False, True]]]]))


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
    padded, _ = attend(query, key, value, PADDING[:1].expand(BATCH, 1, 1, KEYS), need_weights=need_weights)
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
    mask, other = visible(seed=1), visible(seed=2)
    combine_masks(mask, other)
    assert_equal((mask, other), (visible(seed=1), visible(seed=2)))


# --- torch.nn.MultiheadAttention


def torch_attention():
    """Return one with another number in every weight, and all biases in use."""
    module = nn.MultiheadAttention(HEADS * D_HEAD, HEADS, batch_first=True, dtype=torch.float64)
    for i, parameter in enumerate(module.parameters()):
        parameter.data = randn(*parameter.shape, seed=i) / 5
    return module


def ours_and_theirs(may_attend, **their_masks):
    """Run the same projections through our attention with our mask, and through torch's with its masks."""
    theirs = torch_attention()
    query, memory = randn(BATCH, QUERIES, HEADS * D_HEAD, seed=7), randn(BATCH, KEYS, HEADS * D_HEAD, seed=8)
    weights, biases = theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3)
    projected = [F.linear(x, w, b) for x, w, b in zip((query, memory, memory), weights, biases, strict=True)]
    heads, our_weights = attend(
        *(x.unflatten(-1, (HEADS, -1)).transpose(1, 2) for x in projected), may_attend
    )
    ours = theirs.out_proj(heads.transpose(1, 2).flatten(2)), our_weights
    return ours, theirs(query, memory, memory, average_attn_weights=False, **their_masks)


def test_key_padding_mask_agrees_with_torch():
    ours, theirs = ours_and_theirs(PADDING, key_padding_mask=to_key_padding_mask(PADDING))
    assert_equal(ours, theirs)
    ours, theirs = ours_and_theirs(from_key_padding_mask(REAL == 0), key_padding_mask=REAL == 0)
    assert_equal(ours, theirs)


def test_attn_mask_shared_by_all_heads_agrees_with_torch():
    mask = visible(batch=1, heads=1)
    assert to_attn_mask(mask, HEADS).shape == (QUERIES, KEYS)
    ours, theirs = ours_and_theirs(mask, attn_mask=to_attn_mask(mask, HEADS))
    assert_equal(ours, theirs)
    ours, theirs = ours_and_theirs(from_attn_mask(~mask[0, 0]), attn_mask=~mask[0, 0])
    assert_equal(ours, theirs)


@pytest.mark.parametrize(("batch", "heads"), [(BATCH, HEADS), (BATCH, 1), (1, HEADS)], ids=str)
def test_attn_mask_of_each_head_agrees_with_torch(batch, heads):
    mask = visible(batch, heads)
    theirs_mask = to_attn_mask(mask, HEADS, batch=BATCH)
    assert theirs_mask.shape == (BATCH * HEADS, QUERIES, KEYS)
    ours, theirs = ours_and_theirs(mask, attn_mask=theirs_mask)
    assert_equal(ours, theirs)
    ours, theirs = ours_and_theirs(from_attn_mask(theirs_mask, n_heads=HEADS), attn_mask=theirs_mask)
    assert_equal(ours, theirs)


def test_attn_mask_takes_the_batch_from_the_mask():
    assert_equal(to_attn_mask(visible(), HEADS), ~visible().flatten(0, 1))
    assert_equal(
        to_attn_mask(visible(heads=1), HEADS), ~visible(heads=1).expand(-1, HEADS, -1, -1).flatten(0, 1)
    )
    assert to_attn_mask(visible(batch=1, heads=1), HEADS, batch=BATCH).shape == (BATCH * HEADS, QUERIES, KEYS)


def test_both_masks_together_agree_with_torch():
    mask = visible(batch=1, heads=1)
    ours, theirs = ours_and_theirs(
        combine_masks(mask, PADDING), attn_mask=to_attn_mask(mask, HEADS), key_padding_mask=REAL == 0
    )
    assert_equal(ours, theirs)


# --- Hugging Face


def hugging_face_config(implementation):
    from transformers.models.roformer.configuration_roformer import RoFormerConfig

    return RoFormerConfig(
        hidden_size=HEADS * 4, num_attention_heads=HEADS, attn_implementation=implementation
    )


@pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_attention_mask_agrees_with_hugging_face(causal, dtype):
    from transformers.masking_utils import create_bidirectional_mask, create_causal_mask

    vectors = randn(BATCH, KEYS, HEADS * 4, dtype=dtype)
    ours = from_attention_mask(REAL)
    if causal:
        ours = combine_masks(ours, causal_mask(KEYS))
    ours = ours.expand(BATCH, 1, KEYS, KEYS)

    def theirs(implementation):
        config = hugging_face_config(implementation)
        if causal:
            return create_causal_mask(config, vectors, REAL, past_key_values=None)
        return create_bidirectional_mask(config, vectors, REAL)

    assert_equal(ours, theirs("sdpa").expand_as(ours))
    assert_equal(from_additive_mask(theirs("eager")).expand_as(ours), ours)
    assert_equal(
        to_additive_mask(ours, dtype, hidden=torch.finfo(dtype).min), theirs("eager").expand_as(ours)
    )


def test_attention_mask_hides_the_same_keys_in_a_hugging_face_model():
    from transformers.models.roformer.modeling_roformer import RoFormerSelfAttention

    module = RoFormerSelfAttention(hugging_face_config("eager")).double().eval()
    x = randn(BATCH, KEYS, HEADS * 4)
    additive = to_additive_mask(
        from_attention_mask(REAL), torch.float64, hidden=torch.finfo(torch.float64).min
    )
    theirs, their_weights = module(x, attention_mask=additive, output_attentions=True)
    projected = [
        layer(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        for layer in (module.query, module.key, module.value)
    ]
    ours, our_weights = attend(*projected, from_attention_mask(REAL))
    assert_equal((ours.transpose(1, 2).flatten(2), our_weights), (theirs, their_weights))


# --- additive masks


def usual_hidden_values(dtype):
    """Return the numbers that libraries write for a hidden place, as far as the dtype has them."""
    return [-math.inf, torch.finfo(dtype).min, -1e4, *([-1e9] if dtype != torch.float16 else [])]


hidden_values = pytest.mark.parametrize(
    ("dtype", "hidden"), [(dtype, value) for dtype in FLOATS for value in usual_hidden_values(dtype)], ids=str
)


@hidden_values
def test_additive_mask_survives_there_and_back(dtype, hidden):
    bias = to_additive_mask(visible(), dtype, hidden)
    wanted = torch.tensor([0.0, hidden], dtype=torch.float64)[(~visible()).long()]
    assert_equal(bias, wanted.to(dtype))
    assert_equal(from_additive_mask(bias), visible())


@pytest.mark.parametrize("hidden", usual_hidden_values(torch.float64))
def test_additive_mask_agrees_with_torch(hidden):
    query, key, value = inputs()
    bias = to_additive_mask(visible(), torch.float64, hidden)
    theirs = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
    assert_equal(attend(query, key, value, visible())[0], theirs)
    assert_equal(attend(query, key, value, from_additive_mask(bias))[0], theirs)


def test_additive_mask_hides_with_minus_infinity_in_the_default_dtype():
    wanted = torch.where(visible(), 0.0, -math.inf)
    assert_equal(to_additive_mask(visible()), wanted)


def test_additive_mask_that_hides_nothing():
    assert_equal(from_additive_mask(torch.zeros(1, 1, 2, 3)), torch.ones(1, 1, 2, 3, dtype=torch.bool))


def test_additive_mask_stays_on_its_device():
    assert to_additive_mask(visible().to("meta")).device.type == "meta"


# --- there and back again


@properties
@given(seed=st.integers(0, 2**31), share=st.sampled_from([0.0, 0.5, 1.0]))
def test_converters_undo_each_other(seed, share):
    padding = random_mask(BATCH, 1, 1, KEYS, seed=seed, share=share)
    assert_equal(from_key_padding_mask(to_key_padding_mask(padding)), padding)
    assert_equal(from_attention_mask(to_attention_mask(padding)), padding)
    mask = random_mask(BATCH, HEADS, QUERIES, KEYS, seed=seed, share=share)
    assert_equal(from_attn_mask(to_attn_mask(mask, HEADS), n_heads=HEADS), mask)
    assert_equal(from_additive_mask(to_additive_mask(mask)), mask)
    shared = mask[:1, :1]
    assert_equal(from_attn_mask(to_attn_mask(shared, HEADS)), shared)


def test_converters_by_hand():
    mask = torch.tensor([[[[True, False, True]]], [[[False, True, True]]]])
    assert_equal(to_key_padding_mask(mask), torch.tensor([[False, True, False], [True, False, False]]))
    assert_equal(to_attention_mask(mask), torch.tensor([[1, 0, 1], [0, 1, 1]]))
    inf = math.inf
    assert_equal(to_additive_mask(mask), torch.tensor([[[[0.0, -inf, 0.0]]], [[[-inf, 0.0, 0.0]]]]))
    assert_equal(to_attn_mask(causal_mask(2), n_heads=3), torch.tensor([[False, True], [False, False]]))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
def test_attention_mask_may_be_any_integer(dtype):
    assert_equal(from_attention_mask(REAL.to(dtype)), PADDING)


# --- bad input

four_axes = r"\(batch, heads, query_pos, key_pos\)"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool], ids=str)
def test_refuses_numbers_that_are_not_integers(dtype):
    message = rf"must be an integer tensor, got {dtype} of shape \(2, 7\); try torch\.tensor\(…\)\.long\(\)"
    with pytest.raises(TypeError, match="token_ids " + message):
        padding_mask(REAL.to(dtype))
    with pytest.raises(TypeError, match="attention_mask " + message):
        from_attention_mask(REAL.to(dtype))
    with pytest.raises(TypeError, match=rf"lengths must be an integer tensor, got {dtype}"):
        padding_mask_from_lengths(torch.tensor([1, 0]).to(dtype))


@pytest.mark.parametrize("build", [padding_mask, padding_mask_from_lengths, from_attention_mask])
def test_refuses_lists(build):
    with pytest.raises(
        TypeError, match=r"must be an integer tensor, got list; try torch\.tensor\(…\)\.long\(\)"
    ):
        build([[1, 0]])


@pytest.mark.parametrize("shape", [(7,), (2, 1, 1, 7), ()], ids=str)
def test_refuses_token_ids_of_another_rank(shape):
    for name, build in (("token_ids", padding_mask), ("attention_mask", from_attention_mask)):
        with pytest.raises(ValueError, match=name + r" must have the axes \(batch, key_pos\).* got shape \("):
            build(torch.ones(shape, dtype=torch.int64))


def test_refuses_lengths_of_another_rank():
    with pytest.raises(ValueError, match=r"lengths must have the axes \(batch\), got shape \(2, 7\)"):
        padding_mask_from_lengths(REAL)


def test_refuses_an_empty_batch_of_lengths():
    with pytest.raises(ValueError, match=r"lengths .*got.*\(0,\)"):
        padding_mask_from_lengths(torch.tensor([], dtype=torch.int64))


@pytest.mark.parametrize("wrong", [[3, 5], [-1, 2]], ids=str)
def test_refuses_lengths_out_of_range(wrong):
    with pytest.raises(
        ValueError, match=rf"lengths must be from 0 to max_length=4, got \[{wrong[0]}, {wrong[1]}\]"
    ):
        padding_mask_from_lengths(torch.tensor(wrong), max_length=4)


@pytest.mark.parametrize("mask", [causal_mask, lambda *sizes: local_mask(sizes[0], 1, *sizes[1:])])
def test_refuses_bad_lengths(mask):
    with pytest.raises(ValueError, match=r"key_length \(3\) must be at least query_length \(5\): .*swap"):
        mask(5, 3)
    for size in (0, -1):
        with pytest.raises(ValueError, match=rf"query_length must be at least 1, got {size}; choose"):
            mask(size)
        with pytest.raises(ValueError, match=rf"key_length must be at least 1, got {size}; choose"):
            mask(1, size)
    for size in (3.0, True, "3", torch.tensor(3)):
        with pytest.raises(
            TypeError, match=r"query_length must be an integer, got .*; try int\(query_length\)"
        ):
            mask(size)


def test_refuses_a_negative_window():
    with pytest.raises(
        ValueError, match=r"window must not be negative, got -1; 0 lets each token see itself only"
    ):
        local_mask(3, -1)


def test_refuses_to_combine_nothing():
    with pytest.raises(
        ValueError, match=r"at least one mask, got none; leave may_attend=None to hide nothing"
    ):
        combine_masks()


@pytest.mark.parametrize("convert", [combine_masks, to_key_padding_mask, to_attention_mask, to_additive_mask])
@pytest.mark.parametrize("dtype", [torch.int64, torch.float32], ids=str)
def test_refuses_masks_that_are_not_boolean(convert, dtype):
    with pytest.raises(
        TypeError, match=rf"may_attend must be a boolean tensor, got {dtype} of shape \(2, 1, 1, 7\)"
    ):
        convert(PADDING.to(dtype))
    with pytest.raises(TypeError, match=r"may_attend must be a boolean tensor, got list; compare first"):
        convert(PADDING.tolist())


@pytest.mark.parametrize("convert", [combine_masks, to_key_padding_mask, to_attention_mask, to_additive_mask])
@pytest.mark.parametrize("shape", [(7,), (5, 7), (2, 5, 7), (1, 2, 1, 5, 7)], ids=str)
def test_refuses_masks_without_four_axes(convert, shape):
    with pytest.raises(
        ValueError, match=rf"may_attend must have the axes {four_axes}, got shape .*; index with None"
    ):
        convert(torch.ones(shape, dtype=torch.bool))


@pytest.mark.parametrize("other", [(3, 1, 1, 7), (2, 2, 1, 7), (2, 1, 4, 7), (2, 1, 1, 5)], ids=str)
def test_refuses_to_combine_masks_of_different_sizes(other):
    masks = [random_mask(2, 3, 5, 7), torch.ones(other, dtype=torch.bool)]
    for pair in (masks, masks[::-1]):
        with pytest.raises(ValueError, match=rf"agree on each of {four_axes} or have length 1 there, got \["):
            combine_masks(*pair)


def test_refuses_to_combine_two_masks_that_agree_only_with_the_first():
    masks = [torch.ones(shape, dtype=torch.bool) for shape in [(1, 1, 1, 7), (2, 1, 1, 1), (3, 1, 1, 1)]]
    with pytest.raises(ValueError, match=r"masks must agree on each of"):
        combine_masks(*masks)


@pytest.mark.parametrize(
    ("convert", "name", "axes"),
    [
        (from_key_padding_mask, "key_padding_mask", r"\(batch, key_pos\)"),
        (from_attn_mask, "attn_mask", r"\(batch·heads, query_pos, key_pos\)"),
    ],
)
def test_refuses_torch_masks_that_are_not_boolean_or_of_another_rank(convert, name, axes):
    for wrong in (REAL, REAL.float()):
        with pytest.raises(
            TypeError, match=rf"{name} must be a boolean tensor, got torch\..*; compare first"
        ):
            convert(wrong)
    with pytest.raises(TypeError, match=rf"{name} must be a boolean tensor, got list; compare first"):
        convert([[True]])
    for shape in [(7,), (2, 1, 1, 7)]:
        with pytest.raises(ValueError, match=rf"{name} must have the axes {axes}.*, got shape \("):
            convert(torch.ones(shape, dtype=torch.bool))


@pytest.mark.parametrize("n_heads", [None, 4, 7])
def test_refuses_to_unfold_heads_without_their_number(n_heads):
    mask = torch.ones(6, 5, 7, dtype=torch.bool)
    with pytest.raises(ValueError, match=rf"batch·heads = 6; give n_heads, a divisor, got {n_heads}"):
        from_attn_mask(mask, n_heads)


@pytest.mark.parametrize(
    ("shape", "n_heads", "batch"), [((2, 3, 5, 7), 4, None), ((2, 3, 5, 7), 3, 4), ((2, 1, 5, 7), 3, 5)]
)
def test_refuses_to_expand_masks_to_other_sizes(shape, n_heads, batch):
    with pytest.raises(ValueError, match=r"may_attend .*got .*\(2, [13], 5, 7\)"):
        to_attn_mask(torch.ones(shape, dtype=torch.bool), n_heads, batch)


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 5)])
def test_one_query_has_an_attn_mask_too(queries, keys):
    assert_equal(to_attn_mask(causal_mask(queries, keys), HEADS), torch.zeros(1, keys, dtype=torch.bool))


@pytest.mark.parametrize("shape", [(2, 1, 1, 7), (1, 3, 1, 7), (2, 3, 5, 1)], ids=str)
def test_refuses_an_attn_mask_without_a_row_for_each_query(shape):
    # nn.MultiheadAttention does not broadcast: it wants (query_pos, key_pos) in full.
    with pytest.raises(ValueError, match=r"may_attend .*got shape .*; "):
        to_attn_mask(torch.ones(shape, dtype=torch.bool), HEADS)


@pytest.mark.parametrize("convert", [to_key_padding_mask, to_attention_mask])
@pytest.mark.parametrize("shape", [(2, 1, 5, 7), (2, 3, 1, 7), (1, 1, 7, 7)], ids=str)
def test_refuses_to_squeeze_masks_that_differ_between_queries_or_heads(convert, shape):
    message = r"only a padding mask \(batch, 1, 1, key_pos\) fits .*, got shape .*; use to_attn_mask"
    with pytest.raises(ValueError, match=message):
        convert(torch.ones(shape, dtype=torch.bool))


@pytest.mark.parametrize("wrong", [[0, 2], [-1, 1], [-10_000, 0]], ids=str)
def test_refuses_attention_masks_with_other_numbers(wrong):
    with pytest.raises(
        ValueError, match=rf"must hold only 0 and 1, got \[{wrong[0]}, {wrong[1]}\]; see from_additive"
    ):
        from_attention_mask(torch.tensor([wrong]))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("value", [-5.0, 1.0, 1e-6, -100.0, -9_000.0, math.inf, math.nan, 10_000.0])
def test_refuses_additive_masks_that_shift_scores(value, dtype):
    bias = torch.zeros(1, 1, 2, 3, dtype=dtype)
    bias[0, 0, 1, 2] = value
    with pytest.raises(
        ValueError, match=r"holds 0 or a huge negative number, got .*; add a score bias yourself"
    ):
        from_additive_mask(bias)


@pytest.mark.parametrize(
    "wrong", [PADDING, REAL, REAL.float(), [[0.0]], None], ids=["bool", "int", "rank", "list", "none"]
)
def test_refuses_what_is_no_additive_mask(wrong):
    with pytest.raises(TypeError, match=rf"an additive mask is a floating-point tensor {four_axes}, got "):
        from_additive_mask(wrong)


def test_a_window_as_wide_as_you_like_hides_nothing():
    assert local_mask(3, 2**63).all()


def test_a_combined_mask_is_a_new_one():
    mask = causal_mask(3)
    combine_masks(mask).zero_()
    assert_equal(mask, causal_mask(3))
