"""Masks for other libraries; `test_multi_head_attention` compares those for `nn.MultiheadAttention`."""

import torch

from tests.tensors import BATCH, HEADS, KEYS, QUERIES, assert_equal, randn, random_mask
from transformer_lab import attention_weights
from transformer_lab.mask_conventions import to_additive_mask, to_attention_mask

REAL = torch.tensor([[1, 1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 1, 1, 0]])  # (batch, key_pos)
PADDING = REAL.bool()[:, None, None, :]


def visible():
    """Return a random mask in which every query may attend to something."""
    mask = random_mask(BATCH, HEADS, QUERIES, KEYS, seed=1)
    mask[..., 0] = True
    return mask


def test_attention_mask_agrees_with_hugging_face():
    from transformers.masking_utils import create_bidirectional_mask
    from transformers.models.roformer.configuration_roformer import RoFormerConfig

    assert_equal(to_attention_mask(PADDING), REAL)
    config = RoFormerConfig(hidden_size=12, num_attention_heads=HEADS, attn_implementation="sdpa")
    theirs = create_bidirectional_mask(config, randn(BATCH, KEYS, 12), to_attention_mask(PADDING))
    assert_equal(PADDING.expand_as(theirs), theirs)


def test_an_additive_mask_hides_with_minus_infinity_in_any_dtype_on_the_masks_device():
    query, key = randn(BATCH, HEADS, QUERIES, 4), randn(BATCH, HEADS, KEYS, 4)
    scores = query @ key.mT / 2 + to_additive_mask(visible())
    assert_equal(attention_weights(query, key, visible()), scores.softmax(dim=-1))
    assert_equal(to_additive_mask(visible(), torch.float16).isinf(), ~visible())
    torch.set_default_dtype(torch.float64)
    assert to_additive_mask(visible()).dtype == torch.float64
    assert to_additive_mask(visible().to("meta")).is_meta
