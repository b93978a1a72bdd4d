"""Lesson 12: RMSNorm, grouped queries, the cache; each equal to somebody else's."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.peers import randomised
from tests.references import BATCH, assert_equal, gradients, randn
from transformer_lab import (
    Encoder,
    EncoderConfig,
    FeedForward,
    MultiHeadAttention,
    PreNormEncoderLayer,
    RotaryEmbedding,
    causal_mask,
)
from transformer_lab.diagnostics.certificates import distance_only, leak_map
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
both_paths = pytest.mark.parametrize("need_weights", [True, False], ids=["explicit", "fused"])
every_group = pytest.mark.parametrize("n_kv_heads", [6, 3, 2, 1])


def build(n_kv_heads=N_KV_HEADS, **changes):
    return randomised(modern_encoder(CONFIG, n_kv_heads, **changes)).double().eval()


def attention(n_kv_heads=N_KV_HEADS, **options):
    options = {"rotary": RotaryEmbedding(D_HEAD)} | options
    return randomised(GroupedQueryAttention(D_MODEL, N_HEADS, n_kv_heads, **options)).double().eval()


def stream(positions=POSITIONS, seed=8):
    return randn(BATCH, positions, D_MODEL, seed=seed)


# --- RMSNorm --------------------------------------------------------------------------------------


def test_rms_norm_by_hand():
    norm = RMSNorm(2, eps=2.0).double()
    norm.weight.data = torch.tensor([1.0, 10.0]).double()
    # mean square of (3, 5) is 17; √(17 + 2)
    assert_equal(norm(torch.tensor([3.0, 5.0]).double()), torch.tensor([3.0, 50.0]).double() / 19**0.5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_rms_norm_equals_torch(dtype):
    ours = randomised(RMSNorm(D_MODEL, eps=1e-3)).to(dtype)
    theirs = nn.RMSNorm(D_MODEL, eps=1e-3).to(dtype)
    theirs.load_state_dict(ours.state_dict())
    x = stream().to(dtype)
    assert_equal(ours(x), theirs(x))
    assert_equal(
        gradients(ours, x, parameters=ours.parameters()), gradients(theirs, x, parameters=theirs.parameters())
    )


def test_rms_norm_does_not_see_the_length_of_a_vector_and_does_not_centre():
    norm, x = RMSNorm(D_MODEL, eps=1e-12).double(), stream()
    assert_equal(norm(100 * x), norm(x))
    assert not torch.allclose(norm(x + 5), norm(x), atol=0.1)
    assert_equal(norm(x).square().mean(-1), torch.ones(BATCH, POSITIONS).double())


# --- grouped-query attention ----------------------------------------------------------------------


@both_paths
def test_with_a_key_head_for_each_query_head_it_is_multi_head_attention(need_weights):
    ours = attention(n_kv_heads=None)
    other = MultiHeadAttention(D_MODEL, N_HEADS, bias=False, rotary=RotaryEmbedding(D_HEAD)).double()
    other.load_state_dict(ours.state_dict())
    mask = causal_mask(POSITIONS)
    got = ours(stream(), may_attend=mask, need_weights=need_weights)
    wanted = other(stream(), may_attend=mask, need_weights=need_weights)
    assert_equal(got[0], wanted[0])
    if need_weights:
        assert_equal(got[1], wanted[1])


@every_group
def test_grouped_queries_equal_multi_head_attention_with_repeated_keys(n_kv_heads):
    """Each group's query heads stand side by side: head i reads key head i // (group's size)."""
    ours = attention(n_kv_heads)
    state = ours.state_dict()
    for part in ("key_projection", "value_projection"):
        small = state[f"{part}.weight"].reshape(n_kv_heads, D_HEAD, D_MODEL)
        rows = [small[i * n_kv_heads // N_HEADS] for i in range(N_HEADS)]
        state[f"{part}.weight"] = torch.cat(rows)
    full = MultiHeadAttention(D_MODEL, N_HEADS, bias=False, rotary=RotaryEmbedding(D_HEAD)).double()
    full.load_state_dict(state)
    assert_equal(ours(stream()), full(stream()))


@every_group
def test_the_core_equals_torchs_grouped_query_option(n_kv_heads):
    ours, x = attention(n_kv_heads, rotary=None), stream()
    parts = [
        getattr(ours, f"{name}_projection")(x).unflatten(-1, (-1, D_HEAD)).transpose(1, 2)
        for name in ("query", "key", "value")
    ]
    heads = F.scaled_dot_product_attention(*parts, enable_gqa=True)
    assert_equal(ours(x)[0], ours.output_projection(heads.transpose(1, 2).flatten(-2)))


def test_scores_depend_on_distances_only():
    ours = attention()
    query, key = randn(D_HEAD, seed=1), randn(D_HEAD, seed=2)
    assert distance_only(lambda x: ours.turn(x, 0), query, key).holds
    assert distance_only(lambda x: ours.turn(x, 17), query, key).holds


# --- the cache ------------------------------------------------------------------------------------


@both_paths
@pytest.mark.parametrize("cuts", [(1,) * 7, (3, 4), (2, 1, 4), (7,)], ids=str)
def test_attention_step_by_step_equals_the_full_pass(cuts, need_weights):
    ours, x, cache = attention(), stream(), KeyValueCache()
    wanted, wanted_weights = ours(x, may_attend=causal_mask(POSITIONS))
    begin = 0
    for new in cuts:
        mask = causal_mask(new, begin + new)
        output, weights = ours(
            x[:, begin : begin + new], may_attend=mask, need_weights=need_weights, cache=cache
        )
        assert_equal(output, wanted[:, begin : begin + new])
        if need_weights:
            assert_equal(weights, wanted_weights[:, :, begin : begin + new, : begin + new])
        begin += new
        assert cache.length == begin
        assert cache.keys.shape == cache.values.shape == (BATCH, N_KV_HEADS, begin, D_HEAD)


@pytest.mark.parametrize("cuts", [(1,) * 7, (3, 1, 3)], ids=str)
def test_a_text_continued_token_by_token_equals_the_full_pass(cuts):
    encoder = build()
    wanted, _ = encoder(IDS, causal_mask(POSITIONS))
    caches = [KeyValueCache() for _ in encoder.layers]
    parts = [continue_text(encoder, ids, caches) for ids in IDS.split(cuts, dim=1)]
    assert_equal(torch.cat(parts, dim=1), wanted)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "none"])
def test_added_positions_go_on_where_the_cache_ends(positions):
    config = replace(CONFIG, positions=positions)

    def layer(config):
        norms = RMSNorm(D_MODEL), RMSNorm(D_MODEL)
        shared = GroupedQueryAttention(D_MODEL, N_HEADS, N_KV_HEADS)
        return PreNormEncoderLayer(shared, FeedForward(D_MODEL, 11), *norms)

    encoder = randomised(Encoder(config, layer)).double().eval()
    wanted, _ = encoder(IDS, causal_mask(POSITIONS))
    caches = [KeyValueCache() for _ in encoder.layers]
    parts = [continue_text(encoder, ids, caches) for ids in IDS.split((3, 1, 3), dim=1)]
    assert_equal(torch.cat(parts, dim=1), wanted)


def held(caches):
    return [(cache.keys, cache.values) for cache in caches]


def test_a_refused_call_leaves_the_cache_as_it_was():
    ours, cache = attention(), KeyValueCache()
    with pytest.raises(ValueError, match="may_attend has shape"):
        ours(stream(5), may_attend=causal_mask(3), cache=cache)
    assert cache.keys is None
    ours(stream(5), cache=cache)
    before = held([cache])
    for refused in (
        {"may_attend": causal_mask(5)},
        {"attend": lambda *parts, **options: (parts[0][..., :3], None)},
    ):
        with pytest.raises((ValueError, RuntimeError)):
            ours(stream(5), cache=cache, **refused)
        assert held([cache]) == before


def test_a_causal_encoder_leaks_nothing_from_the_future():
    encoder = build()
    assert not leak_map(lambda ids: encoder(ids, causal_mask(POSITIONS)), IDS).triu(1).any()


def test_published_costs_of_a_token():
    assert cache_bytes_per_token(n_layers=32, n_kv_heads=32, d_head=128) == 524_288  # Llama 2 7B
    assert cache_bytes_per_token(n_layers=80, n_kv_heads=8, d_head=128) == 327_680  # Llama 2 70B


def test_the_cost_of_a_token_is_what_the_caches_hold():
    encoder = build().bfloat16()
    caches = [KeyValueCache() for _ in encoder.layers]
    continue_text(encoder, IDS[:1], caches)
    held = sum(t.numel() * t.element_size() for cache in caches for t in (cache.keys, cache.values))
    assert held == POSITIONS * cache_bytes_per_token(3, N_KV_HEADS, D_HEAD)


# --- the whole ------------------------------------------------------------------------------------


LLAMA_NAMES = {
    "embedding.vectors": "embed_tokens.weight",
    "final_norm": "norm",
    "attention_norm": "input_layernorm",
    "feed_forward_norm": "post_attention_layernorm",
    "attention.query_projection": "self_attn.q_proj",
    "attention.key_projection": "self_attn.k_proj",
    "attention.value_projection": "self_attn.v_proj",
    "attention.output_projection": "self_attn.o_proj",
    "feed_forward.up_projection": "mlp.up_proj",
    "feed_forward.gate_projection": "mlp.gate_proj",
    "feed_forward.down_projection": "mlp.down_proj",
}


def llama_name(name):
    for ours, theirs in LLAMA_NAMES.items():
        name = name.replace(ours, theirs)
    return name


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@every_group
def test_encoder_equals_hugging_face_llama(n_kv_heads, dtype):
    transformers = pytest.importorskip("transformers")
    theirs = (
        transformers.LlamaModel(
            transformers.LlamaConfig(
                vocab_size=29,
                hidden_size=D_MODEL,
                intermediate_size=11,
                num_hidden_layers=3,
                num_attention_heads=N_HEADS,
                num_key_value_heads=n_kv_heads,
                rms_norm_eps=1e-3,
                attn_implementation="eager",
            )
        )
        .to(dtype)
        .eval()
    )
    ours = build(n_kv_heads).to(dtype)
    theirs.load_state_dict({llama_name(name): tensor for name, tensor in ours.state_dict().items()})
    hidden, weights = ours(IDS, causal_mask(POSITIONS))
    wanted = theirs(IDS, output_attentions=True)
    # Their cosines and sines are in float32 whatever the model is in.
    assert_equal(hidden, wanted.last_hidden_state, tolerance=2e-5)
    assert_equal(tuple(weights), wanted.attentions, tolerance=1e-5)


def count(encoder):
    return sum(p.numel() for p in encoder.parameters())


@pytest.mark.parametrize(
    ("sizes", "n_kv_heads", "wanted"),
    [
        ({"d_model": 4096, "n_heads": 32, "d_ff": 11_008, "n_layers": 32}, 32, 6_738_415_616),
        ({"d_model": 8192, "n_heads": 64, "d_ff": 28_672, "n_layers": 80}, 8, 68_976_648_192),
    ],
    ids=["7B", "70B"],
)
def test_published_counts_of_llama_2(sizes, n_kv_heads, wanted):
    with torch.device("meta"):
        encoder = modern_encoder(EncoderConfig(vocab_size=32_000, **sizes), n_kv_heads)
    head = 32_000 * sizes["d_model"]  # the words' scores come from a matrix of its own
    assert count(encoder) + head == wanted


def test_published_count_of_gpt_2_xl():
    config = EncoderConfig(
        *(50_257, 1600, 25, 6400, 48, 1024), norm_first=True, positions="learned", scale_embedding=False
    )
    with torch.device("meta"):
        assert count(Encoder(config)) == 1_557_611_200  # the words' scores come from the embedding


# --- refusals -------------------------------------------------------------------------------------


def test_refuses_groups_that_do_not_come_out_even():
    with pytest.raises(ValueError, match=r"n_heads \(6\) must be divisible by n_kv_heads \(4\)"):
        GroupedQueryAttention(D_MODEL, 6, 4)


def test_refuses_another_text_in_a_cache():
    # One text would be broadcast to the two before it.
    ours, cache = attention(), KeyValueCache()
    ours(stream(), cache=cache)
    with pytest.raises(ValueError, match=r"the cache holds keys of shape \(2, 3, 7, 4\), got \(1, 3, 7, 4\)"):
        ours(stream()[:1], cache=cache)


@pytest.mark.parametrize(
    ("caches", "message"),
    [
        ([KeyValueCache()], "wanted one cache for each of the 3 layers, got 1"),
        ([KeyValueCache()] * 3, r"got the same one for two of them.*not with \[KeyValueCache\(\)\] \* n"),
    ],
)
def test_refuses_other_than_one_cache_for_each_layer(caches, message):
    with pytest.raises(ValueError, match=message):
        continue_text(build(), IDS, caches)


def test_refuses_caches_of_different_lengths():
    encoder, caches = build(), [KeyValueCache() for _ in range(3)]
    encoder.layers[1].attention(stream(), cache=caches[1])
    with pytest.raises(ValueError, match=r"hold \[0, 7, 0\] tokens, wanted as many in each"):
        continue_text(encoder, IDS, caches)
