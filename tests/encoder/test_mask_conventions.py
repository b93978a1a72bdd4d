"""The other conventions' masks, beside the libraries that read them."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.reference_loops import BATCH, D_HEAD, HEADS, KEYS, QUERIES, assert_equal, randn, random_mask
from transformer_lab.mask_conventions import (
    to_additive_mask,
    to_attention_mask,
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


def test_attn_mask_shared_by_all_heads_agrees_with_torch():
    mask = visible(batch=1, heads=1)
    assert to_attn_mask(mask, HEADS).shape == (QUERIES, KEYS)
    ours, theirs = ours_and_theirs(mask, attn_mask=to_attn_mask(mask, HEADS))
    assert_equal(ours, theirs)


@pytest.mark.parametrize("heads", [HEADS, 1])
def test_attn_mask_of_each_head_agrees_with_torch(heads):
    mask = visible(BATCH, heads)
    theirs_mask = to_attn_mask(mask, HEADS)
    assert theirs_mask.shape == (BATCH * HEADS, QUERIES, KEYS)
    ours, theirs = ours_and_theirs(mask, attn_mask=theirs_mask)
    assert_equal(ours, theirs)


# --- Hugging Face, and masks that are added


def test_attention_mask_agrees_with_hugging_face():
    from transformers.masking_utils import create_bidirectional_mask
    from transformers.models.roformer.configuration_roformer import RoFormerConfig

    assert_equal(to_attention_mask(PADDING), REAL)
    config = RoFormerConfig(hidden_size=12, num_attention_heads=HEADS, attn_implementation="sdpa")
    theirs = create_bidirectional_mask(config, randn(BATCH, KEYS, 12), to_attention_mask(PADDING))
    assert_equal(PADDING.expand_as(theirs), theirs)


def test_an_additive_mask_hides_with_minus_infinity_in_any_dtype_on_the_masks_device():
    query, key, value = (
        randn(BATCH, HEADS, QUERIES, 4),
        randn(BATCH, HEADS, KEYS, 4),
        randn(BATCH, HEADS, KEYS, 4),
    )
    bias = to_additive_mask(visible())
    assert_equal(
        attend(query, key, value, visible())[0], ((query @ key.mT) / 2 + bias).softmax(dim=-1) @ value
    )
    assert_equal(to_additive_mask(visible(), torch.float16).isinf(), ~visible())
    torch.set_default_dtype(torch.float64)
    assert to_additive_mask(visible()).dtype == torch.float64
    assert to_additive_mask(visible().to("meta")).is_meta
