"""Lesson 01: the sinusoidal table, and the two modules that add positions to token vectors."""

import math

import pytest
import torch

from tests.reference_loops import BATCH, QUERIES, assert_equal, numbers, randn
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


def build(module):
    torch.set_default_dtype(torch.float64)
    return module(D_MODEL, MAX_LENGTH)


# --- the table


@pytest.mark.parametrize("base", [10_000.0, 100.0, 500_000.0])
def test_encoding_equals_plain_loops(base):
    ours = sinusoidal_encoding(MAX_LENGTH, D_MODEL, base=base, dtype=torch.float64)
    assert_equal(ours, encoding_by_loops(MAX_LENGTH, D_MODEL, base), tolerance=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_encoding_is_rounded_only_once(dtype):
    # 3000 positions, because angles computed in the small dtype would be wrong far out.
    exact = sinusoidal_encoding(3000, 8, dtype=torch.float64)
    assert torch.equal(sinusoidal_encoding(3000, 8, dtype=dtype), exact.to(dtype))


def test_encoding_is_made_on_the_device_asked_for_and_computed_apart_from_the_default_one():
    # Not every device computes in float64.
    with torch.device("meta"):
        assert sinusoidal_encoding(LENGTH, D_MODEL).device.type == "meta"
        ours = sinusoidal_encoding(LENGTH, D_MODEL, dtype=torch.float64, device="cpu")
    assert_equal(ours, encoding_by_loops(LENGTH, D_MODEL))
    assert sinusoidal_encoding(LENGTH, D_MODEL, device="meta").is_meta


def test_the_default_dtype_is_taken_when_none_is_given():
    torch.set_default_dtype(torch.float64)
    assert sinusoidal_encoding(LENGTH, D_MODEL).dtype == torch.float64


def test_frequencies_fall_from_one_radian_per_position_by_the_same_factor():
    assert_equal(angular_frequencies(6, 1000.0), numbers([1.0, 0.1, 0.01]))
    assert_equal(angular_frequencies(4), numbers([1.0, 0.01]))


# --- the modules


@both_modules
def test_positions_run_along_the_sequence_even_if_the_batch_is_as_large(module):
    module = build(module)
    x = randn(LENGTH, LENGTH, D_MODEL)
    table = module.weight if isinstance(module, LearnedEncoding) else module.table
    for b in range(LENGTH):
        assert_equal(module(x)[b], x[b] + table[:LENGTH])


def test_the_learned_table_is_a_parameter_and_saved_and_the_sinusoidal_one_is_only_moved():
    sinusoidal = build(SinusoidalEncoding)
    assert sinusoidal.state_dict() == {} and not list(sinusoidal.parameters())
    assert sinusoidal.bfloat16().table.dtype == torch.bfloat16
    assert sinusoidal.share_memory().table.is_shared()
    learned = build(LearnedEncoding)
    assert learned.state_dict().keys() == {"weight"}
    assert [tuple(parameter.shape) for parameter in learned.parameters()] == [(MAX_LENGTH, D_MODEL)]


def test_the_learned_table_starts_small():
    weight = LearnedEncoding(d_model=100, max_length=200).weight.detach()
    assert abs(float(weight.std()) - 0.02) < 0.001
    assert abs(float(weight.mean())) < 0.001


@both_modules
def test_a_text_in_two_pieces_gets_the_positions_of_one_as_far_as_the_table_goes(module):
    encoding, x = build(module), randn(BATCH, MAX_LENGTH, D_MODEL)
    pieces = encoding(x[:, :7]), encoding(x[:, 7:], offset=7)
    assert_equal(torch.cat(pieces, dim=1), encoding(x))
    with pytest.raises(ValueError, match=r"x has 18 positions but the table has only 17; .*max_length=18"):
        encoding(randn(BATCH, MAX_LENGTH + 1, D_MODEL))
    with pytest.raises(ValueError, match=r"x has 10 positions from position 8 on but the table has only 17"):
        encoding(x[:, 7:], offset=8)
