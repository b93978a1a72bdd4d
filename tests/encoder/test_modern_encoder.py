"""Lesson 12: RMSNorm, grouped queries and SwiGLU equal Llama's; the cache equals one pass over the text."""

from dataclasses import replace

import pytest
import torch

from tests.tensors import BATCH, assert_equal, both_dtypes, randn
from tests.third_party import randomised, renamed
from transformer_lab import (
    Encoder,
    EncoderConfig,
    FeedForward,
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


@pytest.fixture(autouse=True)
def in_float64():
    torch.set_default_dtype(torch.float64)


def build(n_kv_heads=N_KV_HEADS):
    return randomised(modern_encoder(CONFIG, n_kv_heads)).eval()


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
@pytest.mark.parametrize("n_kv_heads", [None, 3, 2, 1])
def test_encoder_equals_hugging_face_llama(n_kv_heads, dtype):
    from transformers.models.llama.modeling_llama import LlamaConfig, LlamaModel

    sizes = {"vocab_size": 29, "hidden_size": D_MODEL, "intermediate_size": 11, "num_hidden_layers": 3}
    heads = {"num_attention_heads": N_HEADS, "num_key_value_heads": n_kv_heads}
    theirs = LlamaModel(LlamaConfig(**sizes, **heads, rms_norm_eps=1e-3, attn_implementation="eager"))
    ours = build(n_kv_heads).to(dtype)
    theirs.to(dtype).load_state_dict(renamed(ours.state_dict(), LLAMA_NAMES))
    hidden, weights = ours(IDS, causal_mask(POSITIONS))
    fused, _ = ours(IDS, causal_mask(POSITIONS), need_weights=False)
    wanted = theirs(IDS, output_attentions=True)
    # Their cosines and sines are in float32 whatever the model is in.
    assert_equal(hidden, wanted.last_hidden_state, tolerance=2e-5)
    assert_equal(tuple(weights), wanted.attentions, tolerance=1e-5)
    assert_equal(fused, wanted.last_hidden_state, tolerance=2e-5)
    assert ours.layers[0].attention(hidden, need_weights=False)[1] is None


# --- the cache ------------------------------------------------------------------------------------


def some_encoder(positions):
    """Build the modern encoder, or one whose positions are added to the vectors before the first layer."""
    if positions == "rotary":
        return build()

    def layer(config):
        shared = GroupedQueryAttention(D_MODEL, N_HEADS, N_KV_HEADS, bias=True)
        return PreNormEncoderLayer(shared, FeedForward(D_MODEL, 11), RMSNorm(D_MODEL), RMSNorm(D_MODEL))

    return randomised(Encoder(replace(CONFIG, positions=positions), layer)).eval()


@pytest.mark.parametrize("positions", ["rotary", "sinusoidal", "learned", "none"])
@pytest.mark.parametrize("cuts", [(1,) * 7, (3, 1, 3)], ids=str)
def test_a_text_continued_piece_by_piece_equals_the_full_pass(positions, cuts):
    encoder = some_encoder(positions)
    wanted, _ = encoder(IDS, causal_mask(POSITIONS))
    caches = [KeyValueCache() for _ in encoder.layers]
    parts = [continue_text(encoder, ids, caches) for ids in IDS.split(cuts, dim=1)]
    assert_equal(torch.cat(parts, dim=1), wanted)


def test_a_refused_call_leaves_the_cache_as_it_was():
    attention = GroupedQueryAttention(D_MODEL, N_HEADS, N_KV_HEADS, rotary=RotaryEmbedding(D_HEAD))
    cache, x = KeyValueCache(), randn(BATCH, 5, D_MODEL)
    for begin in (0, 5):
        before = (cache.keys, cache.values)
        with pytest.raises(ValueError, match="may_attend has shape"):
            attention(x, may_attend=causal_mask(3), cache=cache)
        with pytest.raises(RuntimeError):
            attention(x, cache=cache, attend=lambda *parts, **options: (parts[0][..., :3], None))
        assert (cache.keys, cache.values) == before and cache.length == begin
        attention(x, cache=cache)


def test_refuses_other_than_one_cache_for_each_layer():
    encoder = build()
    caches = [KeyValueCache() for _ in range(3)]
    for too_few in (caches[:1], caches[:1] * 3):
        with pytest.raises(ValueError, match=r"each of 3 layers, got 1; start with \[KeyValueCache\(\) for"):
            continue_text(encoder, IDS, too_few)
    encoder.layers[1].attention(randn(BATCH, POSITIONS, D_MODEL), cache=caches[1])
    with pytest.raises(ValueError, match=r"the same length, got \[0, 7, 0\]; start with new"):
        continue_text(encoder, IDS, caches)


def test_the_cost_of_a_token_is_what_the_caches_hold():
    encoder = build().bfloat16()
    caches = [KeyValueCache() for _ in encoder.layers]
    continue_text(encoder, IDS[:1], caches)
    held = sum(t.numel() * t.element_size() for cache in caches for t in (cache.keys, cache.values))
    assert held == POSITIONS * cache_bytes_per_token(3, N_KV_HEADS, D_HEAD)
