"""Lesson 08: ids → vectors → + positions → layers → output."""

import copy
import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tests.peers import (
    all_gradients,
    assert_same_state,
    from_bert,
    from_roformer,
    randomised,
    to_torch_encoder,
)
from tests.references import BATCH, HEADS, assert_equal, properties, randn
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
both_paths = pytest.mark.parametrize("need_weights", [True, False], ids=["explicit", "fused"])
both_dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)


def build(dtype=torch.float64, seed=0, build_layer=standard_layer, **changes):
    """Return an encoder none of whose parameters is zero or one."""
    encoder = Encoder(dataclasses.replace(CONFIG, **changes), build_layer)
    return randomised(encoder, seed).to(dtype)


# --- values ---------------------------------------------------------------------------------------


def sines_by_loops(length, d_model):
    """Section 3.5 of arXiv:1706.03762."""
    rows = [[0.0] * d_model for _ in range(length)]
    for position in range(length):
        for feature in range(d_model):
            angle = position / 10_000 ** ((feature - feature % 2) / d_model)
            rows[position][feature] = math.cos(angle) if feature % 2 else math.sin(angle)
    return torch.tensor(rows, dtype=torch.float64)


@every_position
@pytest.mark.parametrize("scale_embedding", [True, False])
@pytest.mark.parametrize("embedding_norm", [True, False])
def test_tokens_become_vectors_with_positions(positions, scale_embedding, embedding_norm):
    encoder = build(positions=positions, scale_embedding=scale_embedding, embedding_norm=embedding_norm)
    x = torch.stack([torch.stack([encoder.embedding.vectors[token] for token in row]) for row in IDS])
    if scale_embedding:
        x = x * math.sqrt(D_MODEL)
    if positions == "sinusoidal":
        x = x + sines_by_loops(LENGTH, D_MODEL)
    if positions == "learned":
        x = x + torch.stack([encoder.positions.table[position] for position in range(LENGTH)])
    if embedding_norm:
        norm = encoder.embedding_norm
        centred = x - x.mean(dim=-1, keepdim=True)
        x = centred / (centred.square().mean(dim=-1, keepdim=True) + CONFIG.norm_eps).sqrt()
        x = x * norm.weight + norm.bias
    # The table of an encoder built in float32 is rounded to float32, and stays so in float64.
    assert_equal(encoder.embed(IDS), x, tolerance=1e-7 if positions == "sinusoidal" else None)


@both_orders
@both_paths
def test_layers_follow_one_another_and_pre_norm_ends_with_a_norm(norm_first, need_weights):
    encoder = build(norm_first=norm_first)
    x, wanted_weights = encoder.embed(IDS), []
    for i in range(LAYERS):
        x, layer_weights = encoder.layers[i](x, may_attend=PADDING)
        wanted_weights.append(layer_weights)
    if norm_first:
        last = encoder.final_norm
        x = nn.functional.layer_norm(x, (D_MODEL,), last.weight, last.bias, eps=CONFIG.norm_eps)
    hidden, weights = encoder(IDS, PADDING, need_weights)
    assert_equal(hidden, x)
    if need_weights:
        assert_equal(weights, wanted_weights)
    else:
        assert weights is None


def test_a_tutorials_encoder():
    # The sizes of tutorial C's demonstration; the count rests on our assumption about its embedding.
    encoder = Encoder(EncoderConfig(10_000, d_model=512, n_heads=8, d_ff=2048, n_layers=6, max_length=1000))
    assert sum(p.numel() for p in encoder.parameters()) == 24_034_304
    ids = torch.randint(10_000, (32, 10), generator=torch.Generator().manual_seed(0))
    hidden, weights = encoder(ids)
    assert hidden.shape == (32, 10, 512)
    assert [w.shape for w in weights] == 6 * [(32, 8, 10, 10)]


sizes = st.integers(1, 9)


@properties
@given(
    vocab=sizes, heads=sizes, pairs=sizes, d_ff=sizes, layers=sizes, length=sizes, pre=st.booleans(),
    norm=st.booleans(), positions=st.sampled_from(["sinusoidal", "learned", "rotary", "none"]),
)  # fmt: skip
def test_parameter_count_by_hand(vocab, heads, pairs, d_ff, layers, length, pre, norm, positions):
    d = 2 * pairs * heads
    config = EncoderConfig(
        vocab, d, heads, d_ff, layers, length, norm_first=pre, embedding_norm=norm, positions=positions
    )
    attention, feed_forward, two_norms = 4 * (d * d + d), d * d_ff + d_ff + d_ff * d + d, 4 * d
    wanted = vocab * d + layers * (attention + feed_forward + two_norms) + 2 * d * (pre + norm)
    wanted += length * d if positions == "learned" else 0
    assert sum(p.numel() for p in Encoder(config).parameters()) == wanted


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


def assert_equal_to_hugging_face(ours, theirs, translated, may_attend, tolerance):
    """Compare the output, every attention map, and the gradient of every parameter."""
    attention_mask = None if may_attend is None else to_attention_mask(may_attend)
    wanted = theirs(input_ids=IDS, attention_mask=attention_mask, output_attentions=True)
    hidden, weights = ours(IDS, may_attend)
    assert_equal(hidden, wanted.last_hidden_state, tolerance)
    assert_equal(tuple(weights), wanted.attentions, tolerance)
    assert_equal(ours(IDS, may_attend, need_weights=False)[0], wanted.last_hidden_state, tolerance)

    def their_output():
        return theirs(input_ids=IDS, attention_mask=attention_mask).last_hidden_state

    _, our_gradients = all_gradients(ours, lambda: ours(IDS, may_attend)[0])
    _, their_gradients = all_gradients(theirs, their_output)
    # The segment's vector is part of each token's, so its gradient is their sum.
    segment = "embeddings.token_type_embeddings.weight"
    table = our_gradients.get("positions.table", our_gradients["embedding.vectors"])
    assert_equal(table.sum(dim=0), their_gradients[segment][0], tolerance)
    their_gradients[segment] = torch.zeros(2, D_MODEL, dtype=hidden.dtype)
    assert_same_state(our_gradients, translated(their_gradients), tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)], ids=str)
@pytest.mark.parametrize("may_attend", [None, PADDING], ids=["whole", "padded"])
def test_encoder_equals_bert_of_hugging_face(bert, may_attend, dtype, tolerance):
    theirs = copy.deepcopy(bert).to(dtype)
    ours = build(dtype, positions="learned", **BERT_CHOICES)
    ours.load_state_dict(from_bert(theirs.state_dict()))
    assert_equal_to_hugging_face(ours, theirs, from_bert, may_attend, tolerance)


# The table of sines of Hugging Face is rounded to float32, whatever the model's dtype.
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-6), (torch.float32, 1e-5)], ids=str)
@pytest.mark.parametrize("may_attend", [None, PADDING], ids=["whole", "padded"])
def test_encoder_equals_roformer_of_hugging_face(roformer, may_attend, dtype, tolerance):
    theirs = copy.deepcopy(roformer).to(dtype)
    ours = build(dtype, build_layer=roformer_layer, positions="none", **BERT_CHOICES)
    ours.load_state_dict(from_roformer(theirs.state_dict()))
    assert_equal_to_hugging_face(ours, theirs, from_roformer, may_attend, tolerance)


# --- properties -----------------------------------------------------------------------------------


@every_position
@both_orders
@both_dtypes
def test_the_fused_path_gives_the_same_output_and_gradients(positions, norm_first, dtype):
    encoder = build(dtype, positions=positions, norm_first=norm_first)

    def explicit():
        return encoder(IDS, PADDING)[0]

    def fused():
        return encoder(IDS, PADDING, need_weights=False)[0]

    assert_equal(fused(), explicit())
    assert_same_state(all_gradients(encoder, fused)[1], all_gradients(encoder, explicit)[1])


@both_orders
@properties
@given(seed=st.integers(0, 2**31))
def test_without_positions_the_encoder_is_equivariant_to_permutations(norm_first, seed):
    encoder = build(positions="none", norm_first=norm_first)
    order = torch.randperm(LENGTH, generator=torch.Generator().manual_seed(seed))
    hidden, weights = encoder(IDS)
    permuted, permuted_weights = encoder(IDS[:, order])
    assert_equal(permuted, hidden[:, order])
    assert_equal(tuple(permuted_weights), tuple(w[:, :, order][..., order] for w in weights))


@both_orders
@both_paths
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_positions_tell_the_order_of_tokens(positions, norm_first, need_weights):
    encoder = build(positions=positions, norm_first=norm_first)
    order = torch.arange(LENGTH).flip(0)
    hidden, _ = encoder(IDS, need_weights=need_weights)
    permuted, _ = encoder(IDS[:, order], need_weights=need_weights)
    assert ((permuted - hidden[:, order]).abs() > 1e-3).any(dim=-1).all()


@every_position
@both_orders
@both_paths
def test_padding_on_the_right_changes_no_real_token(positions, norm_first, need_weights):
    encoder = build(positions=positions, norm_first=norm_first)
    hidden, _ = encoder(IDS, PADDING, need_weights=need_weights)
    assert_equal(hidden[1, :5], encoder(IDS[1:, :5])[0][0])
    assert hidden.isfinite().all()  # rows of padding hold something, and are to be left out


@pytest.mark.parametrize(
    ("positions", "invariant"), [("rotary", True), ("none", True), ("sinusoidal", False), ("learned", False)]
)
@both_paths
def test_padding_on_the_left_harms_absolute_positions_only(positions, invariant, need_weights):
    encoder = build(positions=positions)
    padded = torch.cat([torch.zeros(BATCH, 4, dtype=torch.int64), IDS], dim=1)
    may_attend = torch.arange(4 + LENGTH)[None, None, None] >= 4
    hidden, _ = encoder(padded, may_attend, need_weights)
    wanted, _ = encoder(IDS)
    same = (hidden[:, 4:] - wanted).abs().amax(dim=-1) < 1e-10
    assert same.all() if invariant else not same.any()


@every_position
@both_paths
def test_sequences_of_a_batch_do_not_influence_each_other(positions, need_weights):
    encoder = build(positions=positions)
    hidden, _ = encoder(IDS, PADDING, need_weights)
    for b in range(BATCH):
        assert_equal(encoder(IDS[b : b + 1], PADDING[b : b + 1], need_weights)[0], hidden[b : b + 1])


@both_orders
@both_paths
@both_dtypes
def test_a_sequence_that_is_all_hidden_gives_finite_output_and_gradients(norm_first, need_weights, dtype):
    encoder = build(dtype, norm_first=norm_first)
    may_attend = torch.tensor([False, True])[:, None, None, None]
    hidden, weights = encoder(IDS, may_attend, need_weights)
    assert hidden.isfinite().all()
    assert not need_weights or not any(w[0].any() for w in weights)
    _, found = all_gradients(encoder, lambda: encoder(IDS, may_attend, need_weights)[0])
    assert all(gradient.isfinite().all() for gradient in found.values())


@every_position
@both_orders
def test_every_parameter_of_every_layer_has_its_own_gradient(positions, norm_first):
    encoder = build(positions=positions, norm_first=norm_first)
    _, found = all_gradients(encoder, lambda: encoder(IDS)[0])
    for name, gradient in found.items():
        # Without rotation a key's bias moves all scores of a query alike, which softmax ignores.
        if positions == "rotary" or not name.endswith("key_projection.bias"):
            assert gradient.abs().max() > 1e-6, name
    layers = [
        torch.cat([g.flatten() for name, g in found.items() if name.startswith(f"layers.{i}.")])
        for i in range(LAYERS)
    ]
    for i in range(LAYERS):
        assert not any(torch.allclose(layers[i], layers[j]) for j in range(i))


@pytest.mark.parametrize("changed", range(LAYERS))
def test_changing_a_layer_changes_no_other_layer(changed):
    encoder = build()
    before = [copy.deepcopy(layer.state_dict()) for layer in encoder.layers]
    randomised(encoder.layers[changed], seed=5)
    for i, layer in enumerate(encoder.layers):
        same = [torch.equal(tensor, before[i][name]) for name, tensor in layer.state_dict().items()]
        assert not any(same) if i == changed else all(same)


def test_only_tokens_that_occur_have_gradients():
    encoder = build()
    _, found = all_gradients(encoder, lambda: encoder(IDS)[0])
    occurs = torch.zeros(VOCAB, dtype=torch.bool)
    occurs[IDS] = True
    assert torch.equal(found["embedding.vectors"].any(dim=-1), occurs)


def test_ids_may_be_32_bit_integers():
    assert_equal(build()(IDS.int()), build()(IDS))


def test_ids_need_not_be_contiguous():
    assert_equal(build()(IDS.T.contiguous().T), build()(IDS))


# --- dropout --------------------------------------------------------------------------------------


def test_dropout_after_the_embedding():
    encoder = build(dropout=0.75).train()
    torch.manual_seed(0)
    embedded = encoder.embed(IDS)
    wanted = 4 * build().embed(IDS) * (embedded != 0)
    assert_equal(embedded, wanted)
    assert 0.15 < (embedded != 0).double().mean() < 0.35


def test_each_dropout_of_the_config_reaches_its_place():
    config = dataclasses.replace(CONFIG, dropout=0.25, attention_dropout=0.5)
    layer = standard_layer(config)
    assert (layer.dropout.p, layer.feed_forward.dropout.p, layer.attention.dropout) == (0.25, 0.25, 0.5)


# --- parts of one's own ---------------------------------------------------------------------------


@both_paths
def test_build_layer_is_called_once_per_layer_with_the_config(need_weights):
    built = []

    def build_layer(config):
        built.append((config, standard_layer(config)))
        return built[-1][1]

    encoder = build(build_layer=build_layer)
    assert [config for config, _ in built] == LAYERS * [CONFIG]
    assert all(mine is theirs for mine, (_, theirs) in zip(encoder.layers, built, strict=True))
    assert_equal(encoder(IDS, PADDING, need_weights)[0], build()(IDS, PADDING)[0])


class OneHead(nn.Module):
    """A learner's own attention: one head, no biases, six steps."""

    def __init__(self, d_model):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(d_model, d_model, bias=False) for _ in range(3))

    def forward(self, x, *, may_attend=None, need_weights=True):
        scores = self.query(x) @ self.key(x).mT / math.sqrt(x.shape[-1])
        if may_attend is not None:
            scores = scores.masked_fill(~may_attend[:, 0], -math.inf)
        weights = scores.softmax(dim=-1)
        return weights @ self.value(x), weights[:, None] if need_weights else None


@both_orders
@both_paths
def test_an_attention_of_ones_own_can_be_plugged_in(norm_first, need_weights):
    def own_layer(config):
        layer = standard_layer(config)
        layer.attention = OneHead(config.d_model)
        return layer

    def same_layer(config):
        layer = standard_layer(dataclasses.replace(config, n_heads=1))
        layer.attention = MultiHeadAttention(config.d_model, 1, bias=False)
        nn.init.eye_(layer.attention.output_projection.weight)
        return layer

    own = build(build_layer=own_layer, norm_first=norm_first)
    same = Encoder(dataclasses.replace(CONFIG, norm_first=norm_first), same_layer).double()
    for name, parameter in own.named_parameters():
        for part in ("query", "key", "value"):
            name = name.replace(f".{part}.", f".{part}_projection.")
        same.get_parameter(name).data = parameter.data
    hidden, weights = own(IDS, PADDING, need_weights)
    wanted, wanted_weights = same(IDS, PADDING)
    assert_equal(hidden, wanted)
    if need_weights:
        assert_equal(weights, wanted_weights)


# --- heads ----------------------------------------------------------------------------------------


def test_mean_pool_by_hand():
    hidden = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [8.0, 4.0]], [[5.0, 7.0], [9.0, 9.0], [9.0, 9.0]]])
    may_attend = torch.tensor([[True, True, False], [True, False, False]])[:, None, None]
    assert_equal(mean_pool(hidden, may_attend), torch.tensor([[2.0, 4.0], [5.0, 7.0]]))
    assert_equal(mean_pool(hidden), torch.tensor([[4.0, 4.0], [23 / 3, 25 / 3]]))


def test_mean_pool_does_not_overflow_in_float16():
    hidden = torch.full((2, 3, 5), 40_000.0, dtype=torch.float16)  # a sum of two is beyond float16
    real = padding_mask(torch.tensor([[7, 7, 7], [7, 7, 0]]))
    for pooled in (mean_pool(hidden), mean_pool(hidden, real)):
        assert_equal(pooled, hidden[:, 0])


def test_mean_pool_of_nothing_is_zero():
    hidden = randn(BATCH, LENGTH, D_MODEL)
    may_attend = torch.tensor([False, True])[:, None, None, None].expand(BATCH, 1, 1, LENGTH)
    assert_equal(mean_pool(hidden, may_attend)[0], torch.zeros(D_MODEL).double())
    assert_equal(mean_pool(hidden, may_attend)[1], hidden[1].mean(dim=0))


@both_dtypes
def test_mean_pool_takes_no_notice_of_padding(dtype):
    hidden = randn(BATCH, LENGTH, D_MODEL, dtype=dtype)
    other = torch.where(REAL[..., None], hidden, 1e3 * randn(BATCH, LENGTH, D_MODEL, seed=1, dtype=dtype))
    pooled = mean_pool(hidden, PADDING)
    assert_equal(pooled, mean_pool(other, PADDING))
    assert_equal(pooled[1], hidden[1, :5].mean(dim=0))


def test_not_a_number_in_the_padding_does_not_reach_the_mean():
    hidden = randn(BATCH, LENGTH, D_MODEL)
    spoilt = hidden.masked_fill(~REAL[..., None], float("nan"))
    assert_equal(mean_pool(spoilt, PADDING), mean_pool(hidden, PADDING))


def test_token_head_scores_every_token():
    head = randomised(TokenHead(D_MODEL, 5)).double()
    hidden = randn(BATCH, LENGTH, D_MODEL)
    wanted = torch.einsum("bpd,cd->bpc", hidden, head.projection.weight) + head.projection.bias
    assert_equal(head(hidden), wanted)


def test_sequence_head_scores_the_mean_of_the_real_tokens():
    head = randomised(SequenceHead(D_MODEL, 5)).double()
    hidden = randn(BATCH, LENGTH, D_MODEL)
    means = torch.stack([hidden[0].mean(dim=0), hidden[1, :5].mean(dim=0)])
    assert_equal(head(hidden, PADDING), means @ head.projection.weight.T + head.projection.bias)
    assert_equal(head(hidden), hidden.mean(dim=1) @ head.projection.weight.T + head.projection.bias)


# --- dtypes, devices, copies ----------------------------------------------------------------------


@every_position
def test_to_a_dtype_moves_everything(positions):
    encoder = build(torch.float32, positions=positions)
    for dtype in (torch.float64, torch.bfloat16):
        hidden, weights = encoder.to(dtype)(IDS, PADDING)
        assert {hidden.dtype, *(w.dtype for w in weights)} == {dtype}


def test_sinusoidal_encoders_of_different_max_length_exchange_weights():
    encoder, longer = build(seed=1), build(seed=2, max_length=MAX_LENGTH + 10)
    longer.load_state_dict(encoder.state_dict())
    assert_equal(longer(IDS), encoder(IDS))


def test_parameters_can_be_counted_on_the_meta_device():
    with torch.device("meta"):
        encoder = Encoder(EncoderConfig(10_000, max_length=1000))
    assert {p.device.type for p in encoder.parameters()} == {"meta"}
    assert sum(p.numel() for p in encoder.parameters()) == 24_034_304


# --- the config -----------------------------------------------------------------------------------


def test_config_is_frozen_hashable_and_comparable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        CONFIG.d_model = 24
    same, other = dataclasses.replace(CONFIG), dataclasses.replace(CONFIG, n_layers=5)
    assert same == CONFIG and hash(same) == hash(CONFIG) and other != CONFIG
    assert {CONFIG: "kept"}[same] == "kept"


def test_every_choice_of_the_config_changes_the_encoder():
    changes = {
        "activation": "gelu", "norm_first": True, "norm_eps": 1e-1, "positions": "rotary",
        "scale_embedding": False, "embedding_norm": True,
    }  # fmt: skip
    outputs = [build()(IDS)[0]] + [build(**{name: choice})(IDS)[0] for name, choice in changes.items()]
    for i, output in enumerate(outputs):
        assert not any(torch.allclose(output, other) for other in outputs[:i])


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "choice", "choices"),
    [
        ("activation", "tanh", "relu, gelu, gelu_tanh, silu"),
        ("positions", "alibi", "sinusoidal, learned, rotary, none"),
        ("positions", None, "sinusoidal, learned, rotary, none"),
    ],
)
def test_refuses_choices_that_do_not_exist(name, choice, choices):
    with pytest.raises(ValueError, match=f"{name} must be one of {choices}, got {choice!r}"):
        EncoderConfig(VOCAB, **{name: choice})


def test_only_a_table_limits_the_length():
    for positions in ("rotary", "none"):
        assert build(positions=positions)(torch.zeros(1, 40, dtype=torch.int64))[0].shape == (1, 40, D_MODEL)


def test_odd_widths_are_fine_where_no_pairs_are_made():
    for positions in ("learned", "none"):
        assert build(d_model=15, positions=positions)(IDS)[0].shape == (BATCH, LENGTH, 15)


def test_refuses_layers_that_are_one_module():
    layer = standard_layer(CONFIG)
    with pytest.raises(ValueError, match=r"build_layer returned the same module.*wanted new ones .*inside"):
        Encoder(CONFIG, lambda config: layer)


@pytest.mark.parametrize("part", ["attention", "feed_forward", "attention_norm"])
def test_refuses_layers_that_share_a_part(part):
    shared = getattr(standard_layer(CONFIG), part)

    def build_layer(config):
        layer = standard_layer(config)
        setattr(layer, part, shared)
        return layer

    with pytest.raises(ValueError, match=r"build_layer returned .*part.*, .*they would share parameters"):
        Encoder(CONFIG, build_layer)
