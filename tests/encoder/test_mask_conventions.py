"""The other conventions' masks, beside the libraries that read them."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.reference_loops import BATCH, D_HEAD, HEADS, KEYS, QUERIES, assert_equal, randn, random_mask
from transformer_lab import causal_mask, combine_masks
from transformer_lab.mask_conventions import (
    from_additive_mask,
    from_attention_mask,
    from_attn_mask,
    from_key_padding_mask,
    to_additive_mask,
    to_attn_mask,
    to_key_padding_mask,
)
from transformer_lab.scaled_dot_product_attention import scaled_dot_product_attention as attend

# The first keys are always there: libraries differ on a query that may attend to nothing.
REAL = torch.tensor([[1, 1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 1, 1, 0]])  # (batch, key_pos)
PADDING = REAL.bool()[:, None, None, :]


def visible(batch=BATCH, heads=HEADS):
    """Return a random mask in which every query may attend to something."""
    mask = random_mask(batch, heads, QUERIES, KEYS, seed=1)
    mask[..., 0] = True
    return mask


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


@pytest.mark.parametrize("heads", [HEADS, 1])
def test_attn_mask_of_each_head_agrees_with_torch(heads):
    mask = visible(BATCH, heads)
    theirs_mask = to_attn_mask(mask, HEADS)
    assert theirs_mask.shape == (BATCH * HEADS, QUERIES, KEYS)
    ours, theirs = ours_and_theirs(mask, attn_mask=theirs_mask)
    assert_equal(ours, theirs)
    ours, theirs = ours_and_theirs(from_attn_mask(theirs_mask, n_heads=HEADS), attn_mask=theirs_mask)
    assert_equal(ours, theirs)


# --- Hugging Face


@pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16], ids=str)
def test_attention_mask_agrees_with_hugging_face(causal, dtype):
    from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
    from transformers.models.roformer.configuration_roformer import RoFormerConfig

    vectors = randn(BATCH, KEYS, HEADS * 4, dtype=dtype)
    ours = from_attention_mask(REAL.to(torch.uint8))
    if causal:
        ours = combine_masks(ours, causal_mask(KEYS))
    ours = ours.expand(BATCH, 1, KEYS, KEYS)

    def theirs(implementation):
        sizes = {"hidden_size": HEADS * 4, "num_attention_heads": HEADS}
        config = RoFormerConfig(**sizes, attn_implementation=implementation)
        if causal:
            return create_causal_mask(config, vectors, REAL, past_key_values=None)
        return create_bidirectional_mask(config, vectors, REAL)

    assert_equal(ours, theirs("sdpa").expand_as(ours))
    assert_equal(from_additive_mask(theirs("eager")).expand_as(ours), ours)
    assert_equal(
        to_additive_mask(ours, dtype, hidden=torch.finfo(dtype).min), theirs("eager").expand_as(ours)
    )


# --- additive masks


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_additive_mask_survives_there_and_back(dtype):
    for hidden in (-math.inf, torch.finfo(dtype).min, -1e4):  # what libraries write for a hidden place
        bias = to_additive_mask(visible(), dtype, hidden)
        assert_equal(bias, torch.where(visible(), 0.0, hidden).to(dtype))
        assert_equal(from_additive_mask(bias), visible())


def test_an_additive_mask_hides_with_minus_infinity_in_the_default_dtype_on_the_masks_device():
    torch.set_default_dtype(torch.float16)
    assert_equal(to_additive_mask(visible()), torch.where(visible(), 0.0, -math.inf))
    assert to_additive_mask(visible().to("meta")).is_meta


# --- bad input


@pytest.mark.parametrize("shape", [(2, 1, 5, 7), (2, 3, 1, 7)], ids=str)
def test_refuses_to_squeeze_masks_that_differ_between_queries_or_heads(shape):
    message = r"only a padding mask \(batch, 1, 1, key_pos\) fits .*, got shape .*; use to_attn_mask"
    with pytest.raises(ValueError, match=message):
        to_key_padding_mask(torch.ones(shape, dtype=torch.bool))


@pytest.mark.parametrize("value", [1e-6, -9_000.0, math.nan])
def test_refuses_additive_masks_that_shift_scores(value):
    bias = torch.zeros(1, 1, 2, 3)
    bias[0, 0, 1, 2] = value
    with pytest.raises(ValueError, match=r"holds 0 or a huge negative number, got .*; add a score bias"):
        from_additive_mask(bias)
