"""Lesson 12: ModernBERT from this package's parts, beside Hugging Face's own."""

import dataclasses

import pytest
import torch
import transformers

from tests.reference_loops import assert_equal, both_dtypes, both_paths, randn
from tests.third_party import randomised
from transformer_lab import EncoderConfig, MultiHeadAttention, local_mask, padding_mask_from_lengths
from transformer_lab.modern_bert import (
    LocalAttention,
    ModernBertConfig,
    load_hugging_face,
    modern_bert,
    parameter_names,
)
from transformer_lab.modern_encoder import modern_encoder
from transformer_lab.packing import encode_packed

# Layers 0, 3 and 6 are global; every text but one is longer than a window of 2 to each side.
CONFIG = ModernBertConfig(29, d_model=30, n_heads=3, d_ff=17, n_layers=7, max_length=19, window=2)
LENGTHS = torch.tensor([13, 8, 2, 11])
IDS = torch.randint(29, (4, 13), generator=torch.Generator().manual_seed(0))
REAL = torch.arange(13) < LENGTHS[:, None]
PADDING = padding_mask_from_lengths(LENGTHS)


def build(dtype=torch.float64, **changes):
    torch.set_default_dtype(dtype)  # so that its cosines and sines are as exact
    return randomised(modern_bert(dataclasses.replace(CONFIG, **changes)))


# --- beside Hugging Face's ------------------------------------------------------------------------


def hugging_face(dtype=torch.float64, **changes):
    """Return a ModernBertModel of CONFIG's sizes, in which every number is random."""
    sizes = {"vocab_size": 29, "hidden_size": 30, "intermediate_size": 17, "num_hidden_layers": 7}
    heads = {"num_attention_heads": 3, "local_attention": 4, "pad_token_id": 0}
    config = transformers.ModernBertConfig(**(sizes | heads | changes))
    return randomised(transformers.ModernBertModel(config)).to(dtype).eval()


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


def the_same(theirs, ours, tolerance):
    load_hugging_face(ours, theirs.state_dict())
    with torch.no_grad():
        wanted = theirs(IDS, attention_mask=REAL.long()).last_hidden_state
        hidden, _ = ours(IDS, PADDING)
    assert_equal(hidden[REAL], wanted[REAL], tolerance=tolerance)


def test_equals_hugging_face_exactly_where_its_angles_are_exact(exact_angles):
    the_same(hugging_face(), build(), tolerance=1e-12)


def test_equals_hugging_face_with_other_choices(exact_angles):
    thetas = {
        "full_attention": {"rope_type": "default", "rope_theta": 500.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 70.0},
    }
    theirs = hugging_face(
        global_attn_every_n_layers=2, local_attention=6, rope_parameters=thetas, norm_eps=1e-2
    )
    choices = {"window": 3, "global_every": 2, "global_base": 500.0, "local_base": 70.0, "norm_eps": 1e-2}
    the_same(theirs, build(**choices), tolerance=1e-12)


def test_the_defaults_are_those_of_hugging_face():
    config, his = ModernBertConfig(), transformers.ModernBertConfig()
    ours = (config.vocab_size, config.d_model, config.n_heads, config.d_ff, config.n_layers)
    theirs = (his.vocab_size, his.hidden_size, his.num_attention_heads, his.intermediate_size)
    assert ours == (*theirs, his.num_hidden_layers)
    assert (config.max_length, config.norm_eps) == (his.max_position_embeddings, his.norm_eps)
    assert 2 * config.window == his.local_attention
    kinds = ["full_attention" if config.is_global(number) else "sliding_attention" for number in range(22)]
    assert kinds == his.layer_types
    for kind, base in (("full_attention", config.global_base), ("sliding_attention", config.local_base)):
        assert his.rope_parameters[kind]["rope_theta"] == base


# --- properties -----------------------------------------------------------------------------------


@both_paths
@pytest.mark.parametrize("window", [0, 2, 100])
def test_local_attention_is_attention_with_a_local_mask(window, need_weights):
    local = randomised(LocalAttention(12, 2, window)).double()
    plain = MultiHeadAttention(12, 2).double()
    plain.load_state_dict(local.state_dict())
    x, padding = randn(3, 7, 12), padding_mask_from_lengths(torch.tensor([7, 4, 2]))
    mask = padding & local_mask(7, window)
    assert_equal(local(x, need_weights=need_weights)[0], plain(x, may_attend=local_mask(7, window))[0])
    output, weights = local(x, may_attend=padding, need_weights=need_weights)
    wanted, wanted_weights = plain(x, may_attend=mask)
    assert_equal(output, wanted)
    if need_weights:
        assert_equal(weights, wanted_weights)
    else:
        assert weights is None


@both_dtypes
@pytest.mark.parametrize("side", ["behind", "in front"])
def test_padding_removed_equals_padded(side, dtype):
    encoder = build(dtype)
    real = REAL if side == "behind" else REAL.flip(1)
    wanted, _ = encoder(IDS, real[:, None, None], need_weights=False)
    assert_equal(encode_packed(encoder, IDS, real[:, None, None])[real], wanted[real])


def test_windows_alone_refuse_gaps_when_padding_is_removed():
    encoder = build()
    for layer in encoder.layers:
        layer.attention.rotary = torch.nn.Identity()
    gap = torch.ones(4, 13, dtype=torch.bool)
    gap[1, 5] = False
    with pytest.raises(ValueError, match=r"packing got padding between real tokens, .*; encode it padded"):
        encode_packed(encoder, IDS, gap[:, None, None])


def test_each_dropout_of_the_config_reaches_its_place_in_every_modern_layer():
    dropouts = {"dropout": 0.25, "attention_dropout": 0.5}
    encoder = modern_encoder(EncoderConfig(29, 30, 3, 17, 2, **dropouts))
    for layer in [*build(**dropouts).layers, *encoder.layers]:
        assert (layer.dropout.p, layer.feed_forward.dropout.p, layer.attention.dropout) == (0.25, 0.25, 0.5)


# --- published weights, refused -------------------------------------------------------------------


def published():
    """Return what a ModernBertModel of CONFIG's sizes holds, without its library."""
    ours = build().state_dict()
    return {name: torch.cat([ours[part] for part in parts]) for name, parts in parameter_names(7).items()}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"head.dense.weight": torch.zeros(1)}, ValueError, r"missing \[\], unknown \['head.dense.weight'\]"),
        ({"final_norm.weight": torch.ones(30).char()}, ValueError, "wanted the floating-point weights"),
        ({"layers.2.attn.Wqkv.weight": torch.zeros(89, 30)}, RuntimeError, "size mismatch"),
    ],
    ids=["left over", "quantised", "another shape"],
)
def test_refuses_a_file_that_does_not_fit(change, error, message):
    with pytest.raises(error, match=message):
        load_hugging_face(build(), published() | change)


@pytest.mark.parametrize(
    "name", ["activation", "norm_first", "positions", "scale_embedding", "embedding_norm"]
)
def test_what_makes_it_a_modern_bert_is_not_to_be_chosen(name):
    with pytest.raises(TypeError, match=name):
        ModernBertConfig(vocab_size=7, **{name: None})
