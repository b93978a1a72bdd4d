"""Lesson 12: RMSNorm, grouped queries, the cache; each equal to somebody else's."""

from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.reference_loops import BATCH, assert_equal, both_dtypes, gradients, randn
from tests.third_party import randomised, renamed
from transformer_lab import (
    Encoder,
    EncoderConfig,
    FeedForward,
    MultiHeadAttention,
    PreNormEncoderLayer,
    RotaryEmbedding,
    causal_mask,
)
from transformer_lab.modern_encoder import (
    GroupedQueryAttention,
    KeyValueCache,
    RMSNorm,
    cache_bytes_per_token,
    continue_text,
    modern_encoder,
)

D_MODEL, N_HEADS, N_KV_HEADS, D_HEAD, POSITIONS = 24, 6, 3, 4, 7
CONFIG = EncoderConfig(
    vocab_size=29, d_model=D_MODEL, n_heads=N_HEADS, d_ff=11, n_layers=3, dropout=0.0, norm_eps=1e-3
)
IDS = torch.arange(BATCH * POSITIONS).reshape(BATCH, POSITIONS) * 11 % 29
every_group = pytest.mark.parametrize("n_kv_heads", [None, 3, 2, 1])


@contextmanager
def float64():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # the dtype of the tables of cosines and sines
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@pytest.fixture(autouse=True)
def computed_in_float64():
    with float64():
        yield


def build(n_kv_heads=N_KV_HEADS, **changes):
    with float64():  # while tests are collected, too
        return randomised(modern_encoder(CONFIG, n_kv_heads, **changes)).eval()


def attention(n_kv_heads=N_KV_HEADS, **options):
    with float64():
        options = {"rotary": RotaryEmbedding(D_HEAD)} | options
        return randomised(GroupedQueryAttention(D_MODEL, N_HEADS, n_kv_heads, **options)).double().eval()


def stream(positions=POSITIONS, seed=8):
    return randn(BATCH, positions, D_MODEL, seed=seed)


# --- RMSNorm --------------------------------------------------------------------------------------


@both_dtypes
def test_rms_norm_equals_torch(dtype):
    ours = randomised(RMSNorm(D_MODEL, eps=1e-3)).to(dtype)
    theirs = nn.RMSNorm(D_MODEL, eps=1e-3).to(dtype)
    theirs.load_state_dict(ours.state_dict())
    x = stream().to(dtype)
    assert_equal(ours(x), theirs(x))
    assert_equal(
        gradients(ours, x, parameters=ours.parameters()), gradients(theirs, x, parameters=theirs.parameters())
    )


# --- grouped-query attention ----------------------------------------------------------------------


@every_group
def test_grouped_queries_equal_multi_head_attention_with_repeated_keys(n_kv_heads):
    """Each group's query heads stand side by side: head i reads key head i // (group's size)."""
    ours = attention(n_kv_heads, bias=True)
    state = ours.state_dict()
    for name in [name for name in state if name.startswith(("key", "value"))]:
        heads = state[name].chunk(ours.n_kv_heads)
        state[name] = torch.cat([heads[i * ours.n_kv_heads // N_HEADS] for i in range(N_HEADS)])
    full = MultiHeadAttention(D_MODEL, N_HEADS, rotary=RotaryEmbedding(D_HEAD)).double()
    full.load_state_dict(state)
    mask = causal_mask(POSITIONS)
    assert_equal(ours(stream(), may_attend=mask), full(stream(), may_attend=mask))
    fused, no_weights = ours(stream(), may_attend=mask, need_weights=False)
    assert_equal(fused, full(stream(), may_attend=mask)[0])
    assert no_weights is None


# --- the cache ------------------------------------------------------------------------------------


def some_encoder(positions):
    """Build the modern encoder, or one whose positions are added to the vectors before the first layer."""
    if positions == "rotary":
        return build()

    def layer(config):
        shared = GroupedQueryAttention(D_MODEL, N_HEADS, N_KV_HEADS)
        return PreNormEncoderLayer(shared, FeedForward(D_MODEL, 11), RMSNorm(D_MODEL), RMSNorm(D_MODEL))

    return randomised(Encoder(replace(CONFIG, positions=positions), layer)).double().eval()


@pytest.mark.parametrize("positions", ["rotary", "sinusoidal", "learned", "none"])
@pytest.mark.parametrize("cuts", [(1,) * 7, (3, 1, 3)], ids=str)
def test_a_text_continued_piece_by_piece_equals_the_full_pass(positions, cuts):
    encoder = some_encoder(positions)
    wanted, _ = encoder(IDS, causal_mask(POSITIONS))
    caches = [KeyValueCache() for _ in encoder.layers]
    parts = [continue_text(encoder, ids, caches) for ids in IDS.split(cuts, dim=1)]
    assert_equal(torch.cat(parts, dim=1), wanted)


def test_a_refused_call_leaves_the_cache_as_it_was():
    ours, cache = attention(), KeyValueCache()
    for begin in (0, 5):
        before = (cache.keys, cache.values)
        with pytest.raises(ValueError, match="may_attend has shape"):
            ours(stream(5), may_attend=causal_mask(3), cache=cache)
        with pytest.raises(RuntimeError):
            ours(stream(5), cache=cache, attend=lambda *parts, **options: (parts[0][..., :3], None))
        assert (cache.keys, cache.values) == before and cache.length == begin
        ours(stream(5), cache=cache)


def test_the_cost_of_a_token_is_what_the_caches_hold():
    encoder = build().bfloat16()
    caches = [KeyValueCache() for _ in encoder.layers]
    continue_text(encoder, IDS[:1], caches)
    held = sum(t.numel() * t.element_size() for cache in caches for t in (cache.keys, cache.values))
    assert held == POSITIONS * cache_bytes_per_token(3, N_KV_HEADS, D_HEAD)


# --- the whole ------------------------------------------------------------------------------------


LLAMA_NAMES = {
    "embedding.weight": "embed_tokens.weight",
    "final_norm": "norm",
    "attention_norm": "input_layernorm",
    "feed_forward_norm": "post_attention_layernorm",
    "attention.output": "self_attn.o",
    "attention.": "self_attn.",
    "query_": "q_",
    "key_": "k_",
    "value_": "v_",
    "feed_forward": "mlp",
    "_projection": "_proj",
}


@both_dtypes
@every_group
def test_encoder_equals_hugging_face_llama(n_kv_heads, dtype):
    from transformers.models.llama.modeling_llama import LlamaConfig, LlamaModel

    sizes = {"vocab_size": 29, "hidden_size": D_MODEL, "intermediate_size": 11, "num_hidden_layers": 3}
    heads = {"num_attention_heads": N_HEADS, "num_key_value_heads": n_kv_heads}
    theirs = LlamaModel(LlamaConfig(**sizes, **heads, rms_norm_eps=1e-3, attn_implementation="eager"))
    ours = build(n_kv_heads).to(dtype)
    theirs.to(dtype).load_state_dict(renamed(ours.state_dict(), LLAMA_NAMES))
    hidden, weights = ours(IDS, causal_mask(POSITIONS))
    wanted = theirs(IDS, output_attentions=True)
    # Their cosines and sines are in float32 whatever the model is in.
    assert_equal(hidden, wanted.last_hidden_state, tolerance=2e-5)
    assert_equal(tuple(weights), wanted.attentions, tolerance=1e-5)


def test_published_count_of_llama_2_70b():
    config = EncoderConfig(vocab_size=32_000, d_model=8192, n_heads=64, d_ff=28_672, n_layers=80)
    with torch.device("meta"):
        encoder = modern_encoder(config, n_kv_heads=8)
    head = encoder.embedding.weight.numel()  # the words are scored by a matrix beside the embedding's
    assert sum(p.numel() for p in encoder.parameters()) + head == 68_976_648_192


# --- refusals -------------------------------------------------------------------------------------


def of_different_lengths():
    caches = [KeyValueCache() for _ in range(3)]
    build().layers[1].attention(stream(), cache=caches[1])
    return caches


@pytest.mark.parametrize(
    ("caches", "message"),
    [
        ([KeyValueCache()], "got 1 for 3 layers"),
        (
            [KeyValueCache()] * 3,
            r"got 1 for 3 layers; begin with \[KeyValueCache\(\) for",
        ),
        (of_different_lengths(), r"hold \[0, 7, 0\] tokens; begin with new ones"),
    ],
)
def test_refuses_other_than_one_cache_for_each_layer(caches, message):
    with pytest.raises(ValueError, match=message):
        continue_text(build(), IDS, caches)
