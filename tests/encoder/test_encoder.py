"""Lesson 08: ids → vectors → + positions → layers → output."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.tensors import BATCH, HEADS, assert_equal, both_dtypes, both_paths, randn
from tests.third_party import all_gradients, assert_same_state, randomised, to_torch_encoder
from transformer_lab import (
    Encoder,
    EncoderConfig,
    RotaryEmbedding,
    causal_mask,
    mean_pool,
    padding_mask,
    sinusoidal_encoding,
)
from transformer_lab.encoder import POSITIONS, TokenEmbedding, standard_layer
from transformer_lab.mask_conventions import to_attn_mask, to_key_padding_mask
from transformer_lab.modern_bert import ModernBertConfig, modern_bert
from transformer_lab.modern_encoder import modern_encoder

VOCAB, D_HEAD, D_FF, LAYERS, MAX_LENGTH = 19, 6, 17, 4, 13
D_MODEL = HEADS * D_HEAD

# Two sentences; the second is shorter and padded with zeros.
IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 18, 8, 0, 0]])
LENGTH = IDS.shape[1]
PADDING = padding_mask(IDS)
CONFIG = EncoderConfig(
    VOCAB, D_MODEL, HEADS, D_FF, LAYERS, MAX_LENGTH,
    dropout=0.0, norm_eps=1e-3,  # so large that a wrong one shows
)  # fmt: skip

both_orders = pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])


def build(dtype=torch.float64, **changes):
    """Return an encoder none of whose parameters is zero or one."""
    torch.set_default_dtype(dtype)  # so that its tables are as exact
    return randomised(Encoder(replace(CONFIG, **changes)))


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("scale_embedding", [True, False])
@pytest.mark.parametrize("embedding_norm", [True, False])
def test_tokens_become_vectors_with_positions(positions, scale_embedding, embedding_norm):
    choices = {"positions": positions, "scale_embedding": scale_embedding, "embedding_norm": embedding_norm}
    encoder = build(**choices)
    x = encoder.embedding.weight[IDS] * (math.sqrt(D_MODEL) if scale_embedding else 1)
    if positions == "sinusoidal":
        x = x + sinusoidal_encoding(LENGTH, D_MODEL, dtype=torch.float64)
    if positions == "learned":
        x = x + encoder.positions.weight[:LENGTH]
    if embedding_norm:
        norm = encoder.embedding_norm
        x = F.layer_norm(x, (D_MODEL,), norm.weight, norm.bias, CONFIG.norm_eps)
    assert_equal(encoder.embed(IDS), x)
    assert isinstance(encoder.layers[0].attention.rotary, RotaryEmbedding) is (positions == "rotary")

    torch.manual_seed(0)
    dropped = build(**choices, dropout=0.75).train().embed(IDS)
    assert_equal(dropped, 4 * x * (dropped != 0))
    assert 0.15 < (dropped != 0).double().mean() < 0.35


def test_token_vectors_enter_the_encoder_with_standard_deviation_1():
    for scale in (True, False):
        vectors = TokenEmbedding(1000, 64, scale=scale)(torch.arange(1000)[None])
        assert 0.98 < vectors.std() < 1.02


def test_activation_goes_by_its_name():
    a = randn(BATCH, D_FF)
    gelu_tanh = partial(F.gelu, approximate="tanh")
    for name, function in {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": gelu_tanh, "silu": F.silu}.items():
        assert_equal(standard_layer(replace(CONFIG, activation=name)).feed_forward.activation(a), function(a))


def test_each_dropout_of_the_config_reaches_its_place_in_every_kind_of_encoder():
    sizes = {"vocab_size": 29, "d_model": 30, "n_heads": 3, "d_ff": 17, "n_layers": 2}
    dropouts = {"dropout": 0.25, "attention_dropout": 0.5}
    config = EncoderConfig(**sizes, **dropouts)
    modern = modern_bert(ModernBertConfig(**sizes, **dropouts)), modern_encoder(config)
    for encoder in (Encoder(config), *modern):
        for layer in encoder.layers:
            found = layer.dropout.p, layer.feed_forward.dropout.p, layer.attention.dropout
            assert found == (0.25, 0.25, 0.5)


def test_odd_widths_and_any_length_where_no_table_asks_for_more():
    assert build(d_model=15, positions="learned")(IDS)[0].shape == (BATCH, LENGTH, 15)
    for positions in ("none", "rotary"):
        assert build(positions=positions)(torch.zeros(1, 40).long())[0].shape == (1, 40, D_MODEL)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16], ids=str)
def test_the_mean_is_that_of_the_real_tokens_whatever_the_padding_holds(dtype):
    hidden = randn(3, 3, D_MODEL, dtype=dtype) + 40_000  # in float16 a sum of two is infinite
    may_attend = padding_mask(torch.tensor([[7, 7, 7], [7, 7, 0], [0, 0, 0]]))
    spoilt = hidden.masked_fill(~may_attend[:, 0, 0, :, None], math.nan)
    exact = hidden.double()
    wanted = torch.stack([exact[0].mean(dim=0), exact[1, :2].mean(dim=0), torch.zeros(D_MODEL).double()])
    assert_equal(mean_pool(spoilt, may_attend), wanted.to(dtype))
    assert_equal(mean_pool(hidden), exact.mean(dim=1).to(dtype))


# --- peers ----------------------------------------------------------------------------------------


def torch_encoder_like(encoder):
    """Return PyTorch's encoder, which begins with vectors, with the weights of our layers."""
    config, dtype = encoder.config, encoder.embedding.weight.dtype
    layer = nn.TransformerEncoderLayer(
        D_MODEL, HEADS, D_FF, dropout=0.0, layer_norm_eps=config.norm_eps, batch_first=True,
        norm_first=config.norm_first, dtype=dtype,
    )  # fmt: skip
    norm = nn.LayerNorm(D_MODEL, eps=config.norm_eps, dtype=dtype) if config.norm_first else None
    theirs = nn.TransformerEncoder(layer, LAYERS, norm, enable_nested_tensor=False)
    theirs.load_state_dict(to_torch_encoder(layers_of(encoder.state_dict())))
    return theirs


def layers_of(state):
    """Leave out what PyTorch's encoder does not have."""
    return {name: tensor for name, tensor in state.items() if name.startswith(("layers.", "final_norm."))}


TORCH_MASKS = {
    "none": (None, {}),
    "padding": (PADDING, {"src_key_padding_mask": to_key_padding_mask(PADDING)}),
    "causal": (causal_mask(LENGTH), {"mask": to_attn_mask(causal_mask(LENGTH), HEADS)}),
}


@both_orders
@both_dtypes
@both_paths
@pytest.mark.parametrize("mask", TORCH_MASKS)
def test_encoder_equals_torch_forward_and_backward(norm_first, dtype, need_weights, mask):
    ours = build(dtype, norm_first=norm_first)
    theirs = torch_encoder_like(ours)
    may_attend, torch_masks = TORCH_MASKS[mask]

    def our_output():
        return ours(IDS, may_attend, need_weights)[0]

    def their_output():
        return theirs(ours.embed(IDS), **torch_masks)

    assert_equal(our_output(), their_output())
    _, our_parameters = all_gradients(ours, our_output)
    _, their_parameters = all_gradients(theirs, their_output)
    assert_same_state(to_torch_encoder(layers_of(our_parameters)), their_parameters)
