"""Lesson 01: the sinusoidal table, and the two modules that add positions to token vectors."""

import math

import pytest
import torch

from tests.tensors import QUERIES, assert_equal, randn
from transformer_lab import LearnedEncoding, SinusoidalEncoding, sinusoidal_encoding

LENGTH, D_MODEL, MAX_LENGTH = QUERIES, 22, 17


def encoding_by_loops(length, d_model, base=10_000.0):
    """Section 3.5 of arXiv:1706.03762, one number at a time."""
    table = torch.zeros(length, d_model, dtype=torch.float64)
    for position in range(length):
        for i in range(d_model // 2):
            angle = position / base ** (2 * i / d_model)
            table[position, 2 * i] = math.sin(angle)
            table[position, 2 * i + 1] = math.cos(angle)
    return table


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
        assert sinusoidal_encoding(LENGTH, D_MODEL).is_meta
        ours = sinusoidal_encoding(LENGTH, D_MODEL, dtype=torch.float64, device="cpu")
    assert_equal(ours, encoding_by_loops(LENGTH, D_MODEL))


@pytest.mark.parametrize("kind", [SinusoidalEncoding, LearnedEncoding])
def test_positions_run_along_the_sequence_in_pieces_too_as_far_as_the_table_goes(kind):
    torch.set_default_dtype(torch.float64)
    encoding = kind(D_MODEL, MAX_LENGTH)
    x = randn(MAX_LENGTH, MAX_LENGTH, D_MODEL)  # as many sequences as positions
    table = encoding.weight if kind is LearnedEncoding else encoding.table
    for sequence, with_positions in zip(x, encoding(x), strict=True):
        assert_equal(with_positions, sequence + table)
    pieces = encoding(x[:, :7]), encoding(x[:, 7:], offset=7)
    assert_equal(torch.cat(pieces, dim=1), encoding(x))
    with pytest.raises(ValueError, match=r"x has 18 positions but the table has only 17; .*max_length=18"):
        encoding(randn(2, MAX_LENGTH + 1, D_MODEL))
    with pytest.raises(ValueError, match=r"x has 10 positions from position 8 on but the table has only 17"):
        encoding(x[:, 7:], offset=8)


def test_the_learned_table_is_saved_and_starts_small_and_the_sinusoidal_one_is_only_moved():
    sinusoidal = SinusoidalEncoding(D_MODEL, MAX_LENGTH)
    assert not sinusoidal.state_dict() and sinusoidal.bfloat16().table.dtype == torch.bfloat16
    (weight,) = LearnedEncoding(d_model=100, max_length=200).state_dict().values()
    assert weight.shape == (200, 100)
    assert abs(weight.std() - 0.02) < 0.001 and abs(weight.mean()) < 0.001
