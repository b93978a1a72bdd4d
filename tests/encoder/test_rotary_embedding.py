"""Lesson 02: pairs of features turned by an angle that grows with the position."""

import math

import pytest
import torch

from tests.tensors import BATCH, HEADS, QUERIES, assert_equal, both_dtypes, randn
from transformer_lab import RotaryEmbedding, interleaved_to_half_split, rotate_half_split, rotate_interleaved
from transformer_lab.rotary_embedding import rotations

LENGTH, D_HEAD = QUERIES, 14

# Which two features form pair i, of `half` pairs.
PAIRS = {
    rotate_half_split: lambda i, half: (i, i + half),
    rotate_interleaved: lambda i, half: (2 * i, 2 * i + 1),
}
both_pairings = pytest.mark.parametrize("rotate", PAIRS, ids=lambda rotate: rotate.__name__)


def rotate_by_loops(x, positions, rotate=rotate_half_split, base=10_000.0):
    """Eq. 15 of arXiv:2104.09864: one 2×2 rotation matrix for each pair of features of each vector.

    `positions` has an entry for each vector of x: the shape of x without its last axis.
    """
    half = x.shape[-1] // 2
    vectors = x.double().reshape(-1, 2 * half)
    turned = torch.zeros_like(vectors)
    for vector, result, m in zip(vectors, turned, positions.flatten().tolist(), strict=True):
        for i in range(half):
            angle = m * base ** (-i / half)
            cos, sin = math.cos(angle), math.sin(angle)
            first, second = PAIRS[rotate](i, half)
            result[first] = cos * vector[first] - sin * vector[second]
            result[second] = sin * vector[first] + cos * vector[second]
    return turned.reshape(x.shape).to(x.dtype)


def build(**choices):
    torch.set_default_dtype(torch.float64)  # the dtype of its buffers
    return RotaryEmbedding(D_HEAD, **choices)


def counted(x, offset=0):
    """Return offset, offset + 1, … for each vector of x."""
    return torch.arange(offset, offset + x.shape[-2]).expand(x.shape[:-1])


@both_dtypes
@both_pairings
@pytest.mark.parametrize("base", [10_000.0, 100.0])
@pytest.mark.parametrize(
    ("leading", "offset"), [((), 0), ((BATCH,), 1), ((BATCH, HEADS), 63), ((BATCH, 1, HEADS), 2000)], ids=str
)
def test_rotation_equals_two_by_two_matrices(leading, offset, base, rotate, dtype):
    # In float32 as exact at position 2000 as at 2: angles are computed in float64.
    x = randn(*leading, LENGTH, D_HEAD, dtype=dtype)
    ours = build(base=base, rotate=rotate)(x, offset=offset)
    assert_equal(ours, rotate_by_loops(x, counted(x, offset), rotate, base))


def test_the_two_pairings_differ_only_in_the_order_of_features():
    x, rotation = randn(BATCH, HEADS, LENGTH, D_HEAD), rotations(torch.arange(LENGTH), D_HEAD)
    order = interleaved_to_half_split(D_HEAD)
    cos, sin = rotation.real, rotation.imag
    assert_equal(rotate_half_split(x[..., order], cos, sin), rotate_interleaved(x, cos, sin)[..., order])


# --- which axis is the position, and which position is it


def test_positions_run_along_the_sequence_whatever_the_other_axes():
    # batch = heads = length: an angle along a wrong axis would go unnoticed by the shapes.
    x = randn(LENGTH, LENGTH, LENGTH, D_HEAD)
    rotary = build()
    wanted = rotate_by_loops(x, counted(x))
    assert_equal(rotary(x), wanted)
    for shape in ((LENGTH,), (LENGTH, LENGTH)):
        assert_equal(rotary(x, positions=torch.arange(LENGTH).expand(shape)), wanted)


@both_pairings
@pytest.mark.parametrize("leading", [(), (HEADS,), (1, HEADS), (LENGTH,)], ids=str)
def test_positions_may_differ_between_sequences(rotate, leading):
    # Twice the same, backwards, with gaps, and negative: relative positions may be.
    positions = torch.tensor([[0, 1, 1, 400, 7], [11, 10, -9, 8, 3]], dtype=torch.int32)
    x = randn(BATCH, *leading, LENGTH, D_HEAD)
    of_each_vector = positions.reshape(BATCH, *[1] * len(leading), LENGTH).expand(x.shape[:-1])
    ours = build(rotate=rotate)(x, positions=positions)
    assert_equal(ours, rotate_by_loops(x, of_each_vector, rotate))


# --- dtypes, devices, and the buffers


@both_pairings
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_small_dtypes_are_turned_exactly_and_rounded_once(rotate, dtype):
    x = randn(BATCH, HEADS, LENGTH, D_HEAD, dtype=dtype)
    ours = build(rotate=rotate)(x, offset=3000)
    assert ours.dtype == dtype
    wanted = rotate_by_loops(x.double(), counted(x, 3000), rotate)
    torch.testing.assert_close(ours.double(), wanted, rtol=torch.finfo(dtype).eps / 1.9, atol=1e-6)


def test_the_default_device_is_that_of_the_buffers_and_no_matter_to_explicit_positions():
    x = randn(HEADS, LENGTH, D_HEAD)
    with torch.device("meta"):
        rotary = build()
    assert rotary.cos.is_meta and rotary.sin.is_meta
    assert_equal(rotary(x, positions=torch.arange(LENGTH)), rotate_by_loops(x, counted(x)))


def test_positions_beyond_the_buffers_are_computed():
    x = randn(BATCH, LENGTH, D_HEAD)
    for offset in (0, 3, 4, 9):
        assert_equal(build(max_length=8)(x, offset=offset), rotate_by_loops(x, counted(x, offset)))


def test_the_buffers_move_with_the_module_and_are_neither_trained_nor_saved():
    rotary = build()
    assert not rotary.state_dict() and not list(rotary.parameters())
    assert rotary.cos.is_contiguous() and rotary.bfloat16().sin.dtype == torch.bfloat16
    x = randn(LENGTH, D_HEAD, dtype=torch.bfloat16)
    assert_equal(rotary(x, offset=1000), build()(x, offset=1000))


@pytest.mark.parametrize("shape", [(HEADS,), (1, LENGTH), (BATCH, HEADS, LENGTH)], ids=str)
def test_refuses_positions_of_another_shape(shape):
    message = r"expected \(5,\) or \(2, 5\) for x of shape \(2, 3, 5, 14\); the last axis but one of x is"
    with pytest.raises(ValueError, match=message):
        x = randn(BATCH, HEADS, LENGTH, D_HEAD)
        RotaryEmbedding(D_HEAD)(x, positions=torch.zeros(shape, dtype=torch.int64))
    # (position, position) would pass for (batch, position), if the first axis of one sequence were a batch
    with pytest.raises(ValueError, match=r"positions have shape \(5, 5\)"):
        RotaryEmbedding(D_HEAD)(randn(LENGTH, D_HEAD), positions=torch.ones(LENGTH, LENGTH).long())
