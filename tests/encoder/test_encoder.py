"""Lesson 08: ids → vectors → + positions → layers → output."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.reference_loops import BATCH, HEADS, assert_equal, both_dtypes, both_paths, randn
from tests.third_party import (
    all_gradients,
    assert_same_state,
    randomised,
    to_torch_encoder,
)
from transformer_lab import (
    Encoder,
    EncoderConfig,
    RotaryEmbedding,
    SequenceHead,
    TokenHead,
    causal_mask,
    mean_pool,
    padding_mask,
    sinusoidal_encoding,
)
from transformer_lab.encoder import POSITIONS, TokenEmbedding, standard_layer
from transformer_lab.mask_conventions import to_attn_mask, to_key_padding_mask

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

every_position = pytest.mark.parametrize("positions", POSITIONS)
both_orders = pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])


def build(dtype=torch.float64, seed=0, build_layer=standard_layer, **changes):
    """Return an encoder none of whose parameters is zero or one."""
    torch.set_default_dtype(dtype)  # so that its tables are as exact
    return randomised(Encoder(replace(CONFIG, **changes), build_layer), seed)


# --- values ---------------------------------------------------------------------------------------


@every_position
@pytest.mark.parametrize("scale_embedding", [True, False])
@pytest.mark.parametrize("embedding_norm", [True, False])
def test_tokens_become_vectors_with_positions(positions, scale_embedding, embedding_norm):
    encoder = build(positions=positions, scale_embedding=scale_embedding, embedding_norm=embedding_norm)
    x = torch.stack([torch.stack([encoder.embedding.weight[token] for token in row]) for row in IDS])
    if scale_embedding:
        x = x * math.sqrt(D_MODEL)
    if positions == "sinusoidal":
        x = x + sinusoidal_encoding(LENGTH, D_MODEL, dtype=torch.float64)
    if positions == "learned":
        x = x + torch.stack([encoder.positions.weight[position] for position in range(LENGTH)])
    if embedding_norm:
        norm = encoder.embedding_norm
        centred = x - x.mean(dim=-1, keepdim=True)
        x = centred / (centred.square().mean(dim=-1, keepdim=True) + CONFIG.norm_eps).sqrt()
        x = x * norm.weight + norm.bias
    assert_equal(encoder.embed(IDS), x)


def test_token_vectors_enter_the_encoder_with_standard_deviation_1():
    for scale in (True, False):
        vectors = TokenEmbedding(1000, 64, scale=scale)(torch.arange(1000)[None])
        assert 0.98 < vectors.std() < 1.02


def test_activation_goes_by_its_name():
    a = randn(BATCH, D_FF)
    functions = {
        "relu": torch.relu,
        "gelu": lambda a: a * (1 + torch.erf(a / math.sqrt(2))) / 2,
        "gelu_tanh": lambda a: a / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3))),
        "silu": lambda a: a * torch.sigmoid(a),
    }
    for name, function in functions.items():
        assert_equal(standard_layer(replace(CONFIG, activation=name)).feed_forward.activation(a), function(a))


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


# --- dropout, and layers of one's own -------------------------------------------------------------


def test_dropout_after_the_embedding():
    encoder = build(dropout=0.75, embedding_norm=True).train()
    torch.manual_seed(0)
    embedded = encoder.embed(IDS)
    assert_equal(embedded, 4 * build(embedding_norm=True).embed(IDS) * (embedded != 0))
    assert 0.15 < (embedded != 0).double().mean() < 0.35


def test_each_dropout_of_the_config_reaches_its_place():
    layer = standard_layer(replace(CONFIG, dropout=0.25, attention_dropout=0.5))
    assert (layer.dropout.p, layer.feed_forward.dropout.p, layer.attention.dropout) == (0.25, 0.25, 0.5)


def test_build_layer_is_called_once_per_layer_with_the_config():
    asked = []

    def build_layer(config):
        asked.append(config)
        return standard_layer(config)

    assert len(build(build_layer=build_layer).layers) == LAYERS
    assert asked == LAYERS * [CONFIG]


def test_layers_may_be_one_and_the_same_as_in_albert():
    shared = standard_layer(CONFIG)
    encoder = build(build_layer=lambda config: shared)
    assert len(list(encoder.parameters())) == 1 + len(list(shared.parameters()))


# --- heads ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16], ids=str)
def test_the_mean_is_that_of_the_real_tokens_whatever_the_padding_holds(dtype):
    hidden = randn(3, 3, D_MODEL, dtype=dtype) + 40_000  # in float16 a sum of two is infinite
    may_attend = padding_mask(torch.tensor([[7, 7, 7], [7, 7, 0], [0, 0, 0]]))
    spoilt = hidden.masked_fill(~may_attend[:, 0, 0, :, None], math.nan)
    exact = hidden.double()
    wanted = torch.stack([exact[0].mean(dim=0), exact[1, :2].mean(dim=0), torch.zeros(D_MODEL).double()])
    assert_equal(mean_pool(spoilt, may_attend), wanted.to(dtype))
    assert_equal(mean_pool(hidden), exact.mean(dim=1).to(dtype))


def test_heads_score_every_token_and_the_mean_of_the_real_ones():
    tokens, sequence = (randomised(kind(D_MODEL, 5)).double() for kind in (TokenHead, SequenceHead))
    hidden = randn(BATCH, LENGTH, D_MODEL)
    assert_equal(tokens(hidden), hidden @ tokens.projection.weight.T + tokens.projection.bias)
    assert_equal(sequence(hidden, PADDING), sequence.projection(mean_pool(hidden, PADDING)))
    assert_equal(sequence(hidden), sequence.projection(hidden.mean(dim=1)))


def test_positions_and_odd_widths_that_a_config_may_choose():
    for positions in POSITIONS:
        layer = standard_layer(replace(CONFIG, positions=positions))
        assert isinstance(layer.attention.rotary, RotaryEmbedding) is (positions == "rotary")
    assert build(d_model=15, positions="learned")(IDS)[0].shape == (BATCH, LENGTH, 15)
    for positions in ("none", "rotary"):  # no table ends: any length will do
        assert build(positions=positions)(torch.zeros(1, 40).long())[0].shape == (1, 40, D_MODEL)
