"""Lesson 01: the sinusoidal table, and the two modules that add positions to token vectors."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.references import BATCH, QUERIES, assert_equal, gradients, properties, randn
from transformer_lab import LearnedEncoding, SinusoidalEncoding, sinusoidal_encoding
from transformer_lab.positional_encoding import angular_frequencies

LENGTH, D_MODEL, MAX_LENGTH = QUERIES, 22, 17

both_modules = pytest.mark.parametrize("module", [SinusoidalEncoding, LearnedEncoding])


def encoding_by_loops(length, d_model, base=10_000.0):
    """Section 3.5 of arXiv:1706.03762, one number at a time."""
    table = torch.zeros(length, d_model, dtype=torch.float64)
    for position in range(length):
        for i in range(d_model // 2):
            angle = position / base ** (2 * i / d_model)
            table[position, 2 * i] = math.sin(angle)
            table[position, 2 * i + 1] = math.cos(angle)
    return table


def build(module, dtype=torch.float64):
    torch.manual_seed(0)
    return module(D_MODEL, MAX_LENGTH).to(dtype)


# --- the table


def test_encoding_by_hand():
    # base 100 and four features: one radian per position, and a tenth of a radian.
    wanted = [
        [0.0, 1.0, 0.0, 1.0],
        [math.sin(1.0), math.cos(1.0), math.sin(0.1), math.cos(0.1)],
        [math.sin(2.0), math.cos(2.0), math.sin(0.2), math.cos(0.2)],
    ]
    ours = sinusoidal_encoding(3, 4, base=100.0, dtype=torch.float64)
    assert_equal(ours, torch.tensor(wanted, dtype=torch.float64))


@pytest.mark.parametrize("base", [10_000.0, 100.0, 500_000.0])
def test_encoding_equals_plain_loops(base):
    ours = sinusoidal_encoding(MAX_LENGTH, D_MODEL, base=base, dtype=torch.float64)
    assert_equal(ours, encoding_by_loops(MAX_LENGTH, D_MODEL, base), tolerance=1e-13)


def test_encoding_equals_hugging_face_up_to_the_order_of_features():
    from transformers.models.roformer.modeling_roformer import RoFormerSinusoidalPositionalEmbedding

    theirs = RoFormerSinusoidalPositionalEmbedding(MAX_LENGTH, D_MODEL).create_weight()
    ours = sinusoidal_encoding(MAX_LENGTH, D_MODEL, dtype=torch.float32)
    assert_equal(ours[:, 0::2], theirs[:, : D_MODEL // 2])
    assert_equal(ours[:, 1::2], theirs[:, D_MODEL // 2 :])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_encoding_is_rounded_only_once(dtype):
    # 3000 positions, because angles computed in the small dtype would be wrong far out.
    exact = sinusoidal_encoding(3000, 8, dtype=torch.float64)
    assert torch.equal(sinusoidal_encoding(3000, 8, dtype=dtype), exact.to(dtype))


def test_encoding_is_made_on_the_device_asked_for():
    table = sinusoidal_encoding(LENGTH, D_MODEL, device="meta")
    assert table.device.type == "meta" and table.shape == (LENGTH, D_MODEL)


def test_encoding_is_computed_apart_from_the_default_device():
    # Not every device computes in float64.
    with torch.device("meta"):
        assert sinusoidal_encoding(LENGTH, D_MODEL).device.type == "meta"
        ours = sinusoidal_encoding(LENGTH, D_MODEL, dtype=torch.float64, device="cpu")
    assert_equal(ours, encoding_by_loops(LENGTH, D_MODEL))


def test_frequencies_fall_from_one_radian_per_position_by_the_same_factor():
    assert_equal(angular_frequencies(6, 1000.0), torch.tensor([1.0, 0.1, 0.01], dtype=torch.float64))
    assert_equal(angular_frequencies(4), torch.tensor([1.0, 0.01], dtype=torch.float64))


# --- what the paper and the lesson claim of it


@properties
@given(position=st.integers(0, 400), shift=st.integers(0, 400), half=st.integers(1, 8))
def test_shifted_encoding_is_a_fixed_linear_map_of_the_encoding(position, shift, half):
    # PE(p + k) = M_k PE(p): each pair (sin, cos) is turned by k·ω, whatever p.
    table = sinusoidal_encoding(801, 2 * half, dtype=torch.float64)
    turns = [
        torch.tensor(
            [[math.cos(shift * w), math.sin(shift * w)], [-math.sin(shift * w), math.cos(shift * w)]],
            dtype=torch.float64,
        )
        for w in (10_000 ** (-i / half) for i in range(half))
    ]
    assert_equal(torch.block_diag(*turns) @ table[position], table[position + shift])


@properties
@given(length=st.integers(1, 300), half=st.integers(1, 40))
def test_squared_norm_is_half_the_width_at_every_position(length, half):
    table = sinusoidal_encoding(length, 2 * half, dtype=torch.float64)
    assert_equal(table.square().sum(dim=1), torch.full((length,), float(half), dtype=torch.float64))


def test_dot_products_fall_with_the_distance():
    table = sinusoidal_encoding(600, 512, dtype=torch.float64)
    for distance, wanted in {0: 256, 1: 249, 10: 174, 100: 112, 500: 67}.items():
        products = (table[: 600 - distance] * table[distance:]).sum(dim=1)
        assert_equal(products, torch.full_like(products, wanted), tolerance=0.5)
        assert_equal(products, products[0].expand_as(products))  # only the distance counts


# --- the modules


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_sinusoidal_module_adds_the_table_to_each_sequence(dtype):
    x = randn(BATCH, LENGTH, D_MODEL, dtype=dtype)
    wanted = x + encoding_by_loops(LENGTH, D_MODEL).to(dtype)
    assert_equal(build(SinusoidalEncoding, dtype)(x), wanted, tolerance=1e-6)


def test_sinusoidal_module_hands_on_its_base():
    ours = SinusoidalEncoding(D_MODEL, LENGTH, base=100.0)(torch.zeros(1, LENGTH, D_MODEL))
    assert_equal(ours[0], encoding_by_loops(LENGTH, D_MODEL, base=100.0).float())


def test_learned_module_adds_its_rows_to_each_sequence():
    module = build(LearnedEncoding)
    x = randn(BATCH, LENGTH, D_MODEL)
    ours = module(x)
    for b in range(BATCH):
        for position in range(LENGTH):
            assert_equal(ours[b, position], x[b, position] + module.table[position])


@both_modules
def test_positions_run_along_the_sequence_even_if_the_batch_is_as_large(module):
    module = build(module)
    x = randn(LENGTH, LENGTH, D_MODEL)
    for b in range(LENGTH):
        assert_equal(module(x)[b], x[b] + module.table[:LENGTH])


@both_modules
@pytest.mark.parametrize("length", [1, MAX_LENGTH])
def test_the_shortest_and_the_longest_sequence_fit(module, length):
    module = build(module)
    assert_equal(module(torch.zeros(1, length, D_MODEL, dtype=torch.float64))[0], module.table[:length])


def test_learned_rows_receive_the_gradient_of_every_sequence():
    module = build(LearnedEncoding)
    by_x, by_table = gradients(module, randn(BATCH, LENGTH, D_MODEL), parameters=module.parameters())
    assert_equal(by_table[:LENGTH], by_x.sum(dim=0))
    assert not by_table[LENGTH:].any()


def test_the_sinusoidal_table_is_neither_a_parameter_nor_saved():
    module = build(SinusoidalEncoding)
    assert not module.state_dict()
    assert not list(module.parameters())
    SinusoidalEncoding(D_MODEL, MAX_LENGTH + 1).load_state_dict(module.state_dict())


def test_the_learned_table_is_a_parameter_and_saved():
    module = build(LearnedEncoding)
    assert module.state_dict().keys() == {"table"}
    assert [tuple(parameter.shape) for parameter in module.parameters()] == [(MAX_LENGTH, D_MODEL)]


def test_the_learned_table_starts_small():
    torch.manual_seed(0)
    table = LearnedEncoding(d_model=100, max_length=200).table.detach()
    assert abs(float(table.std()) - 0.02) < 0.001
    assert abs(float(table.mean())) < 0.001


@both_modules
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_dtype_is_honoured(module, dtype):
    module = build(module, dtype)
    x = randn(BATCH, LENGTH, D_MODEL, dtype=dtype)
    assert module(x).dtype == dtype
    assert_equal(module(x), x + module.table[:LENGTH])


def test_the_table_is_made_anew_with_its_own_base():
    encoding = SinusoidalEncoding(6, 11, base=100.0).double()
    assert_equal(encoding.table, sinusoidal_encoding(11, 6, base=100.0, dtype=torch.float64))


@both_modules
def test_device_is_honoured(module):
    output = build(module).to("meta")(torch.empty(BATCH, LENGTH, D_MODEL, dtype=torch.float64, device="meta"))
    assert output.device.type == "meta" and output.shape == (BATCH, LENGTH, D_MODEL)


# --- bad input


@both_modules
def test_refuses_sequences_longer_than_the_table(module):
    with pytest.raises(ValueError, match=r"x has 18 positions but the table has only 17; .*max_length=18"):
        build(module)(randn(BATCH, MAX_LENGTH + 1, D_MODEL))


def test_refuses_an_odd_width_by_the_name_it_came_by():
    with pytest.raises(ValueError, match=r"d_model must be even .*, got 7; try d_model=8"):
        SinusoidalEncoding(7)


@pytest.mark.parametrize("build", [SinusoidalEncoding, LearnedEncoding])
def test_a_text_in_two_pieces_gets_the_positions_of_one(build):
    encoding, x = build(6, 13).double(), randn(2, 11, 6)
    pieces = encoding(x[:, :7]), encoding(x[:, 7:], offset=7)
    assert_equal(torch.cat(pieces, dim=1), encoding(x))
    with pytest.raises(ValueError, match=r"x has 4 positions from position 10 on but the table has only 13"):
        encoding(x[:, 7:], offset=10)
