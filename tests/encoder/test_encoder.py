"""Lesson 08: ids → vectors → + positions → layers → output."""

import copy
import dataclasses
import math

import pytest
import torch
from torch import nn

from tests.peers import (
    all_gradients,
    assert_same_state,
    from_bert,
    from_roformer,
    randomised,
    to_torch_encoder,
)
from tests.references import BATCH, HEADS, assert_equal, both_dtypes, both_paths, randn
from transformer_lab import (
    Encoder,
    EncoderConfig,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    RotaryEmbedding,
    SequenceHead,
    TokenHead,
    causal_mask,
    mean_pool,
    padding_mask,
    rotate_interleaved,
    sinusoidal_encoding,
)
from transformer_lab.encoder import TokenEmbedding, standard_layer
from transformer_lab.mask_conventions import to_attention_mask, to_attn_mask, to_key_padding_mask

VOCAB, D_HEAD, D_FF, LAYERS, MAX_LENGTH = 19, 6, 17, 4, 13
D_MODEL = HEADS * D_HEAD

# Two sentences; the second is shorter and padded with zeros.
IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 18, 8, 0, 0]])
LENGTH = IDS.shape[1]
PADDING = padding_mask(IDS)
REAL = IDS != 0

CONFIG = EncoderConfig(
    VOCAB, D_MODEL, HEADS, D_FF, LAYERS, MAX_LENGTH,
    dropout=0.0, norm_eps=1e-3,  # so large that a wrong one shows
)  # fmt: skip

every_position = pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "none"])
both_orders = pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])


def build(dtype=torch.float64, seed=0, build_layer=standard_layer, **changes):
    """Return an encoder none of whose parameters is zero or one."""
    encoder = Encoder(dataclasses.replace(CONFIG, **changes), build_layer)
    return randomised(encoder, seed).to(dtype)


# --- values ---------------------------------------------------------------------------------------


@every_position
@pytest.mark.parametrize("scale_embedding", [True, False])
@pytest.mark.parametrize("embedding_norm", [True, False])
def test_tokens_become_vectors_with_positions(positions, scale_embedding, embedding_norm):
    encoder = build(positions=positions, scale_embedding=scale_embedding, embedding_norm=embedding_norm)
    x = torch.stack([torch.stack([encoder.embedding.vectors[token] for token in row]) for row in IDS])
    if scale_embedding:
        x = x * math.sqrt(D_MODEL)
    if positions == "sinusoidal":
        x = x + sinusoidal_encoding(LENGTH, D_MODEL, dtype=torch.float64)
    if positions == "learned":
        x = x + torch.stack([encoder.positions.table[position] for position in range(LENGTH)])
    if embedding_norm:
        norm = encoder.embedding_norm
        centred = x - x.mean(dim=-1, keepdim=True)
        x = centred / (centred.square().mean(dim=-1, keepdim=True) + CONFIG.norm_eps).sqrt()
        x = x * norm.weight + norm.bias
    # The table of an encoder built in float32 is rounded to float32, and stays so in float64.
    assert_equal(encoder.embed(IDS), x, tolerance=1e-7 if positions == "sinusoidal" else None)


@every_position
@both_orders
@both_paths
def test_layers_follow_one_another_and_pre_norm_ends_with_a_norm(positions, norm_first, need_weights):
    encoder = build(positions=positions, norm_first=norm_first)
    x, wanted_weights = encoder.embed(IDS), []
    for i in range(LAYERS):
        x, layer_weights = encoder.layers[i](x, may_attend=PADDING)
        wanted_weights.append(layer_weights)
        assert isinstance(encoder.layers[i].attention.rotary, RotaryEmbedding) is (positions == "rotary")
    if norm_first:
        last = encoder.final_norm
        x = nn.functional.layer_norm(x, (D_MODEL,), last.weight, last.bias, eps=CONFIG.norm_eps)
    hidden, weights = encoder(IDS.int(), PADDING, need_weights)
    assert_equal(hidden, x)
    if need_weights:
        assert_equal(weights, wanted_weights)
    else:
        assert weights is None
    assert_equal(hidden[1, :5], encoder(IDS[1:, :5])[0][0])  # without the padding


def test_parameters_of_a_tutorials_encoder_can_be_counted_on_the_meta_device():
    # The sizes of tutorial C's demonstration; the count rests on our assumption about its embedding.
    with torch.device("meta"):
        encoder = Encoder(EncoderConfig(10_000, max_length=1000))
    assert {p.device.type for p in encoder.parameters()} == {"meta"}
    assert sum(p.numel() for p in encoder.parameters()) == 24_034_304


@pytest.mark.parametrize("scale", [True, False])
def test_token_vectors_enter_the_encoder_with_standard_deviation_1(scale):
    torch.manual_seed(0)
    vectors = TokenEmbedding(1000, 64, scale=scale)(torch.arange(1000)[None])
    assert 0.98 < vectors.std() < 1.02


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        ("relu", lambda a: a.clamp(min=0)),
        ("gelu", lambda a: a * (1 + torch.erf(a / math.sqrt(2))) / 2),
        ("gelu_tanh", lambda a: a / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)))),
        ("silu", lambda a: a * torch.sigmoid(a)),
    ],
)
def test_activation_goes_by_its_name(activation, function):
    a = randn(BATCH, D_FF)
    for layer in build(activation=activation).layers:
        assert_equal(layer.feed_forward.activation(a.clone()), function(a))


# --- peers ----------------------------------------------------------------------------------------


def torch_encoder_like(encoder, enable_nested_tensor=False):
    """Return PyTorch's encoder, which begins with vectors, with the weights of our layers."""
    config, dtype = encoder.config, encoder.embedding.vectors.dtype
    layer = nn.TransformerEncoderLayer(
        D_MODEL, HEADS, D_FF, dropout=0.0, layer_norm_eps=config.norm_eps, batch_first=True,
        norm_first=config.norm_first, dtype=dtype,
    )  # fmt: skip
    norm = nn.LayerNorm(D_MODEL, eps=config.norm_eps, dtype=dtype) if config.norm_first else None
    theirs = nn.TransformerEncoder(layer, LAYERS, norm, enable_nested_tensor=enable_nested_tensor)
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


@pytest.mark.filterwarnings("ignore:.*nested")  # PyTorch says that it is a prototype, or that it is not used
@both_orders
@both_dtypes
@pytest.mark.parametrize("nested", [False, True], ids=["padded", "nested"])
@pytest.mark.parametrize("mask", ["none", "padding"])
def test_encoder_equals_the_fast_path_of_torch(norm_first, dtype, nested, mask):
    ours = build(dtype, norm_first=norm_first).eval()
    theirs = torch_encoder_like(ours, enable_nested_tensor=nested).eval()
    may_attend, torch_masks = TORCH_MASKS[mask]
    real = REAL if mask == "padding" else ...  # the fast path leaves anything in the padding
    with torch.inference_mode():
        wanted = theirs(ours.embed(IDS), **torch_masks)[real]
        assert_equal(ours(IDS, may_attend)[0][real], wanted)
        assert_equal(ours(IDS, may_attend, need_weights=False)[0][real], wanted)


BERT_SIZES = {
    "vocab_size": VOCAB, "hidden_size": D_MODEL, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS,
    "intermediate_size": D_FF, "max_position_embeddings": MAX_LENGTH, "type_vocab_size": 2,
    "hidden_act": "gelu", "layer_norm_eps": 1e-12, "pad_token_id": None,
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "attn_implementation": "eager",
}  # fmt: skip
BERT_CHOICES = {
    "activation": "gelu", "norm_eps": 1e-12, "scale_embedding": False, "embedding_norm": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def bert():
    """Return a small BERT of Hugging Face; imported here because the import takes seconds."""
    from transformers.models.bert.modeling_bert import BertConfig, BertModel

    return randomised(BertModel(BertConfig(**BERT_SIZES), add_pooling_layer=False), seed=7).eval()


@pytest.fixture(scope="module")
def roformer():
    """Return a small RoFormer of Hugging Face."""
    from transformers.models.roformer.modeling_roformer import RoFormerConfig, RoFormerModel

    return randomised(RoFormerModel(RoFormerConfig(**BERT_SIZES, embedding_size=D_MODEL)), seed=8).eval()


def roformer_layer(config):
    """Build a layer whose attention turns neighbouring features, as the RoFormer does."""
    rotary = RotaryEmbedding(config.d_head, rotate=rotate_interleaved)
    return EncoderLayer(
        MultiHeadAttention(config.d_model, config.n_heads, rotary=rotary),
        FeedForward(config.d_model, config.d_ff, activation=nn.GELU()),
        nn.LayerNorm(config.d_model, eps=config.norm_eps),
        nn.LayerNorm(config.d_model, eps=config.norm_eps),
    )


def assert_equal_to_hugging_face(ours, theirs, translated, tolerance):
    """Compare the output, every attention map, and the gradient of every parameter."""
    attention_mask = to_attention_mask(PADDING)
    wanted = theirs(input_ids=IDS, attention_mask=attention_mask, output_attentions=True)
    hidden, weights = ours(IDS, PADDING)
    assert_equal(hidden, wanted.last_hidden_state, tolerance)
    assert_equal(tuple(weights), wanted.attentions, tolerance)
    assert_equal(ours(IDS, PADDING, need_weights=False)[0], wanted.last_hidden_state, tolerance)

    def their_output():
        return theirs(input_ids=IDS, attention_mask=attention_mask).last_hidden_state

    _, our_gradients = all_gradients(ours, lambda: ours(IDS, PADDING)[0])
    _, their_gradients = all_gradients(theirs, their_output)
    # The segment's vector is part of each token's, so its gradient is their sum.
    segment = "embeddings.token_type_embeddings.weight"
    table = our_gradients.get("positions.table", our_gradients["embedding.vectors"])
    assert_equal(table.sum(dim=0), their_gradients[segment][0], tolerance)
    their_gradients[segment] = torch.zeros(2, D_MODEL, dtype=hidden.dtype)
    assert_same_state(our_gradients, translated(their_gradients), tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)], ids=str)
def test_encoder_equals_bert_of_hugging_face(bert, dtype, tolerance):
    theirs = copy.deepcopy(bert).to(dtype)
    ours = build(dtype, positions="learned", **BERT_CHOICES)
    ours.load_state_dict(from_bert(theirs.state_dict()))
    assert_equal_to_hugging_face(ours, theirs, from_bert, tolerance)


# The table of sines of Hugging Face is rounded to float32, whatever the model's dtype.
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-6), (torch.float32, 1e-5)], ids=str)
def test_encoder_equals_roformer_of_hugging_face(roformer, dtype, tolerance):
    theirs = copy.deepcopy(roformer).to(dtype)
    ours = build(dtype, build_layer=roformer_layer, positions="none", **BERT_CHOICES)
    ours.load_state_dict(from_roformer(theirs.state_dict()))
    assert_equal_to_hugging_face(ours, theirs, from_roformer, tolerance)


# --- dropout, and layers of one's own -------------------------------------------------------------


def test_dropout_after_the_embedding():
    encoder = build(dropout=0.75, embedding_norm=True).train()
    torch.manual_seed(0)
    embedded = encoder.embed(IDS)
    assert_equal(embedded, 4 * build(embedding_norm=True).embed(IDS) * (embedded != 0))
    assert 0.15 < (embedded != 0).double().mean() < 0.35


def test_each_dropout_of_the_config_reaches_its_place():
    layer = standard_layer(dataclasses.replace(CONFIG, dropout=0.25, attention_dropout=0.5))
    assert (layer.dropout.p, layer.feed_forward.dropout.p, layer.attention.dropout) == (0.25, 0.25, 0.5)


def test_build_layer_is_called_once_per_layer_with_the_config():
    built = []

    def build_layer(config):
        built.append((config, standard_layer(config)))
        return built[-1][1]

    encoder = build(build_layer=build_layer)
    assert [config for config, _ in built] == LAYERS * [CONFIG]
    assert all(mine is theirs for mine, (_, theirs) in zip(encoder.layers, built, strict=True))


@pytest.mark.parametrize("part", ["layer", "feed_forward"])
def test_refuses_layers_that_share_a_part(part):
    first = standard_layer(CONFIG)

    def build_layer(config):
        layer = standard_layer(config)
        layer.feed_forward = first.feed_forward
        return first if part == "layer" else layer

    with pytest.raises(ValueError, match=r"build_layer returned the same .*wanted new ones .*inside"):
        Encoder(CONFIG, build_layer)


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


# --- the config -----------------------------------------------------------------------------------


def test_config_is_frozen_hashable_and_comparable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        CONFIG.d_model = 24
    same, other = dataclasses.replace(CONFIG), dataclasses.replace(CONFIG, n_layers=5)
    assert same == CONFIG and hash(same) == hash(CONFIG) and other != CONFIG


@pytest.mark.parametrize(
    ("name", "choice", "choices"),
    [
        ("activation", "tanh", "relu, gelu, gelu_tanh, silu"),
        ("positions", None, "sinusoidal, learned, rotary, none"),
    ],
)
def test_refuses_choices_that_do_not_exist(name, choice, choices):
    with pytest.raises(ValueError, match=f"{name} must be one of {choices}, got {choice!r}"):
        EncoderConfig(VOCAB, **{name: choice})


def test_odd_widths_and_any_length_are_fine_where_no_pairs_are_made_and_no_table_is_used():
    assert build(d_model=15, positions="learned")(IDS)[0].shape == (BATCH, LENGTH, 15)
    assert build(positions="none")(torch.zeros(1, 40, dtype=torch.int64))[0].shape == (1, 40, D_MODEL)
