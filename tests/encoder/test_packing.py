"""Lesson 13: the padding left out, and nothing else changed."""

import dataclasses

import pytest
import torch

from tests.tensors import assert_equal, randn
from tests.third_party import all_gradients, assert_same_state, randomised
from transformer_lab import Encoder, EncoderConfig, RotaryEmbedding, packing
from transformer_lab.encoder import standard_layer
from transformer_lab.modern_bert import attend_nearby
from transformer_lab.packing import attend_in_window, attend_within, encode_packed

CONFIG = EncoderConfig(19, d_model=18, n_heads=3, d_ff=17, n_layers=4, max_length=13, dropout=0.0)
IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 18, 8, 7, 7], [2, 7, 1, 8, 2, 8, 1]])

# Which tokens are real: padding may stand behind, in front, in between, and a sequence may be nothing else.
REAL = {
    "behind": torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 0, 0]]).bool(),
    "anywhere": torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1, 0, 1, 0, 0, 1, 1], [0, 0, 0, 1, 0, 0, 0]]).bool(),
    "all of one": torch.tensor([[1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 0, 0]]).bool(),
    "none": torch.ones(3, 7, dtype=torch.bool),
}
every_padding = pytest.mark.parametrize("real", REAL.values(), ids=REAL.keys())


def build(build_layer=standard_layer, **changes):
    torch.set_default_dtype(torch.float64)
    return randomised(Encoder(dataclasses.replace(CONFIG, **changes), build_layer))


@every_padding
@pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "none"])
def test_packed_equals_padded_forward_and_backward(real, norm_first, positions):
    encoder, may_attend = build(norm_first=norm_first, positions=positions), real[:, None, None]

    def packed():
        return encode_packed(encoder, IDS, may_attend)

    def padded():
        return encoder(IDS, may_attend, need_weights=False)[0] * real[..., None]

    assert_equal(packed(), padded())
    assert_same_state(all_gradients(encoder, packed)[1], all_gradients(encoder, padded)[1])


def rotary_layer(config):
    layer = standard_layer(config)
    layer.attention.rotary = RotaryEmbedding(config.d_head)
    return layer


@pytest.mark.parametrize(
    "choice",
    [{"positions": "rotary"}, {"build_layer": rotary_layer, "positions": "none"}],
    ids=["chosen in the config", "plugged in"],
)
def test_rotary_distances_stay_the_same_in_a_packed_row_and_gaps_are_refused(choice):
    # Rotary attention counts along the row; within a sequence without gaps every distance is what it was.
    encoder = build(**choice)
    for real in (REAL["behind"], REAL["behind"].flip(1)):
        packed = encode_packed(encoder, IDS, real[:, None, None])
        assert_equal(packed[real], encoder(IDS, real[:, None, None])[0][real])
    with pytest.raises(ValueError, match=r"no padding between real tokens, .*; encode this batch padded"):
        encode_packed(encoder, IDS, REAL["anywhere"][:, None, None])


def test_nothing_but_padding_gives_zeros():
    encoded = encode_packed(build(), IDS, torch.zeros(3, 1, 1, 7, dtype=torch.bool))
    assert_equal(encoded, torch.zeros(3, 7, 18).double())


@every_padding
def test_only_real_tokens_are_computed(real):
    encoder, seen = build(), []
    for layer in encoder.layers:
        layer.feed_forward.register_forward_hook(lambda module, x, output: seen.append(tuple(x[0].shape)))
    encode_packed(encoder, IDS, real[:, None, None])
    assert seen == 4 * [(1, int(real.sum()), 18)]


@torch.no_grad()
def test_compiled_code_packs_without_compiling_each_batch_anew():
    compiled = []

    def backend(graph, inputs):
        compiled.append(graph.code)
        return graph.forward

    packed, encoder = torch.compile(encode_packed, backend=backend), build()
    for real in (REAL["behind"], REAL["behind"][:, :5]):
        got = packed(encoder, IDS[:, : real.shape[1]], real[:, None, None])
        assert_equal(got, encode_packed(encoder, IDS[:, : real.shape[1]], real[:, None, None]))
    assert not any("linear" in code for code in compiled)  # the checks at most
    around = torch.compile(lambda *given: 2 * encode_packed(*given), backend=backend)
    assert_equal(around(encoder, IDS[:, :5], real[:, None, None]), 2 * got)


@pytest.mark.parametrize("window", [0, 1, 5, 23, 1000])
@pytest.mark.parametrize("length", [1, 6, 7, 8, 29])
def test_a_window_block_by_block_is_the_masked_one_forward_and_backward(monkeypatch, window, length):
    monkeypatch.setattr(packing, "BLOCK", 7)  # so that there are none, one, and several whole blocks
    given = [randn(2, 3, length, width, seed=width).requires_grad_() for width in (5, 5, 11)]
    found = {}
    for attend in (attend_in_window, attend_nearby):
        output, _ = attend(*given, window=window, need_weights=False)
        found[attend] = (output, *torch.autograd.grad(output.square().sum(), given))
    assert_equal(found[attend_in_window], found[attend_nearby])


def test_a_window_needs_no_map_of_the_whole_text(monkeypatch):
    seen = []

    def core(query, key, value, near, **options):
        seen.append((query.shape[-2], key.shape[-2], tuple(near.shape)))
        return value[..., : query.shape[-2], :], None

    monkeypatch.setattr(packing, "BLOCK", 7)
    monkeypatch.setattr(packing, "scaled_dot_product_attention", core)
    attend_in_window(*(randn(1, 2, 17, 5, seed=1),) * 3, window=2)
    assert seen == [(7, 9, (1, 1, 7, 9)), (7, 11, (1, 1, 7, 11)), (3, 5, (1, 1, 3, 5))]


def test_a_packed_row_takes_no_mask():
    x = randn(1, 2, 5, 3)
    with pytest.raises(ValueError, match="packed attention takes no mask"):
        attend_within(x, x, x, REAL["anywhere"], lengths=[2, 3])
