"""Lesson 12: ModernBERT from this package's parts, beside Hugging Face's own."""

import dataclasses

import pytest
import torch
import transformers

from tests.tensors import assert_equal
from tests.third_party import randomised
from transformer_lab import padding_mask_from_lengths
from transformer_lab.modern_bert import ModernBertConfig, load_hugging_face, modern_bert, parameter_names
from transformer_lab.packing import encode_packed

# Layers 0, 3 and 6 are global; every text but one is longer than a window of 2 to each side.
CONFIG = ModernBertConfig(29, d_model=30, n_heads=3, d_ff=17, n_layers=7, max_length=19, window=2)
LENGTHS = torch.tensor([13, 8, 2, 11])
IDS = torch.randint(29, (4, 13), generator=torch.Generator().manual_seed(0))
REAL = torch.arange(13) < LENGTHS[:, None]
PADDING = padding_mask_from_lengths(LENGTHS)


def build(**changes):
    torch.set_default_dtype(torch.float64)  # so that its cosines and sines are as exact
    return randomised(modern_bert(dataclasses.replace(CONFIG, **changes)))


# --- beside Hugging Face's ------------------------------------------------------------------------


def hugging_face(**changes):
    """Return a ModernBertModel of CONFIG's sizes, in which every number is random."""
    sizes = {"vocab_size": 29, "hidden_size": 30, "intermediate_size": 17, "num_hidden_layers": 7}
    heads = {"num_attention_heads": 3, "local_attention": 4, "pad_token_id": 0}
    config = transformers.ModernBertConfig(**(sizes | heads | changes))
    return randomised(transformers.ModernBertModel(config)).double().eval()


@pytest.fixture
def exact_angles(monkeypatch):
    """Give Hugging Face's model its angles, and the rotation itself, in float64: both are float32 in it."""
    from transformers.models.modernbert import modeling_modernbert as modeling

    def tables(self, x, position_ids, layer_type):
        base = self.config.rope_parameters[layer_type]["rope_theta"]
        d_head = self.config.hidden_size // self.config.num_attention_heads
        frequencies = base ** (-torch.arange(0, d_head, 2).double() / d_head)
        angles = (position_ids[..., None].double() * frequencies).repeat(1, 1, 2)
        return angles.cos(), angles.sin()

    def turned(query, key, cos, sin, unsqueeze_dim=1):
        cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
        return tuple(x * cos + modeling.rotate_half(x) * sin for x in (query, key))

    monkeypatch.setattr(modeling.ModernBertRotaryEmbedding, "forward", tables)
    monkeypatch.setattr(modeling, "apply_rotary_pos_emb", turned)


THETAS = {
    "full_attention": {"rope_type": "default", "rope_theta": 500.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 70.0},
}
CHOICES = {
    "default": ({}, {}),
    "other": (
        {"window": 3, "global_every": 2, "global_base": 500.0, "local_base": 70.0, "norm_eps": 1e-2},
        {
            "global_attn_every_n_layers": 2,
            "local_attention": 6,
            "rope_parameters": THETAS,
            "norm_eps": 1e-2,
        },
    ),
}


@torch.no_grad()
@pytest.mark.parametrize("choices", CHOICES)
def test_equals_hugging_face_padded_and_packed_where_its_angles_are_exact(exact_angles, choices):
    our_choices, their_choices = CHOICES[choices]
    ours, theirs = build(**our_choices), hugging_face(**their_choices)
    load_hugging_face(ours, theirs.state_dict())
    wanted = theirs(IDS, attention_mask=REAL.long()).last_hidden_state[REAL]
    for need_weights in (True, False):
        hidden, _ = ours(IDS, PADDING, need_weights=need_weights)
        assert_equal(hidden[REAL], wanted, tolerance=1e-12)

    assert_equal(encode_packed(ours, IDS, PADDING)[REAL], wanted, tolerance=1e-12)


def test_sizes_that_no_weight_tells_are_those_of_hugging_face_too():
    ours, theirs = ModernBertConfig(), transformers.ModernBertConfig()
    assert ours.n_heads == theirs.num_attention_heads
    assert 2 * ours.window == theirs.local_attention
    assert ours.max_length == theirs.max_position_embeddings


def test_windows_alone_refuse_gaps_when_padding_is_removed():
    encoder = build()
    for layer in encoder.layers:
        layer.attention.rotary = torch.nn.Identity()
    gap = torch.ones(4, 13, dtype=torch.bool)
    gap[1, 5] = False
    with pytest.raises(
        ValueError, match=r"packing expects no padding between real tokens, .*; encode this batch padded"
    ):
        encode_packed(encoder, IDS, gap[:, None, None])


# --- published weights, refused -------------------------------------------------------------------


def published():
    """Return what a ModernBertModel of CONFIG's sizes holds, without its library."""
    ours = build().state_dict()
    return {name: torch.cat([ours[part] for part in parts]) for name, parts in parameter_names(7).items()}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"head.dense.weight": torch.zeros(1)}, ValueError, r"missing \[\], unknown \['head.dense.weight'\]"),
        ({"final_norm.weight": torch.ones(30).char()}, ValueError, "expected the floating-point weights"),
        ({"layers.2.attn.Wqkv.weight": torch.zeros(89, 30)}, RuntimeError, "size mismatch"),
    ],
    ids=["left over", "quantised", "another shape"],
)
def test_refuses_a_file_that_does_not_fit(change, error, message):
    with pytest.raises(error, match=message):
        load_hugging_face(build(), published() | change)
