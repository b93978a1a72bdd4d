"""Lesson 02: pairs of features turned by an angle that grows with the position."""

import functools
import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.references import BATCH, HEADS, QUERIES, assert_equal, gradients, properties, randn
from transformer_lab import RotaryEmbedding, rotate_half_split, rotate_interleaved
from transformer_lab.rotary_embedding import (
    half_split_to_interleaved,
    interleaved_to_half_split,
    rotation_table,
    rotations,
)

LENGTH, D_HEAD = QUERIES, 14

# Which two features form pair i, of `half` pairs.
PAIRS = {
    rotate_half_split: lambda i, half: (i, i + half),
    rotate_interleaved: lambda i, half: (2 * i, 2 * i + 1),
}
both_pairings = pytest.mark.parametrize("rotate", PAIRS, ids=lambda rotate: rotate.__name__)
both_dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)


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


def counted(x, offset=0):
    """Return offset, offset + 1, … for each vector of x."""
    return torch.arange(offset, offset + x.shape[-2]).expand(x.shape[:-1])


# --- values


@both_pairings
def test_rotation_by_hand(rotate):
    # Two features, one pair: position m turns (1, 0) by m radians.
    x = torch.tensor([[1.0, 0.0]] * 4, dtype=torch.float64)
    wanted = [[math.cos(m), math.sin(m)] for m in range(4)]
    assert_equal(RotaryEmbedding(2, rotate=rotate)(x), torch.tensor(wanted, dtype=torch.float64))


def test_pairings_by_hand():
    # Base 100 and four features: the pairs turn by 1 and by 0.1 radian at position 1.
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0]], dtype=torch.float64)
    c, s, c_slow, s_slow = math.cos(1), math.sin(1), math.cos(0.1), math.sin(0.1)
    half_split = [c - 3 * s, 2 * c_slow - 4 * s_slow, s + 3 * c, 2 * s_slow + 4 * c_slow]
    interleaved = [c - 2 * s, s + 2 * c, 3 * c_slow - 4 * s_slow, 3 * s_slow + 4 * c_slow]
    for rotate, wanted in ((rotate_half_split, half_split), (rotate_interleaved, interleaved)):
        ours = RotaryEmbedding(4, base=100.0, rotate=rotate)(x, offset=1)
        assert_equal(ours, torch.tensor([wanted], dtype=torch.float64))


@both_dtypes
@both_pairings
@pytest.mark.parametrize("leading", [(), (BATCH,), (BATCH, HEADS), (BATCH, 1, HEADS)], ids=str)
def test_rotation_equals_two_by_two_matrices(leading, rotate, dtype):
    x = randn(*leading, LENGTH, D_HEAD, dtype=dtype)
    assert_equal(RotaryEmbedding(D_HEAD, rotate=rotate)(x), rotate_by_loops(x, counted(x), rotate))


@both_pairings
@pytest.mark.parametrize("base", [100.0, 500_000.0])
@pytest.mark.parametrize("offset", [1, 11, 63, 64, 65, 1000])
def test_offset_and_base_equal_two_by_two_matrices(offset, base, rotate):
    x = randn(BATCH, HEADS, LENGTH, D_HEAD)
    ours = RotaryEmbedding(D_HEAD, base=base, rotate=rotate)(x, offset=offset)
    assert_equal(ours, rotate_by_loops(x, counted(x, offset), rotate, base))


@both_pairings
def test_position_zero_is_left_as_it_is(rotate):
    x = randn(BATCH, HEADS, 1, D_HEAD)
    assert torch.equal(RotaryEmbedding(D_HEAD, rotate=rotate)(x), x)


def test_rotations_are_points_on_the_unit_circle():
    ours = rotations(torch.tensor([[0, 3], [5, 2]]), 4, base=100.0)
    angle = torch.tensor([[[0.0, 0.0], [3.0, 0.3]], [[5.0, 0.5], [2.0, 0.2]]], dtype=torch.float64)
    assert_equal(torch.view_as_real(ours), torch.stack([angle.cos(), angle.sin()], dim=-1))


@both_pairings
def test_input_may_be_any_view(rotate):
    # Heads cut from (batch, position, features): neither contiguous nor aligned to whole pairs.
    x = randn(BATCH, LENGTH, HEADS, D_HEAD + 1).transpose(1, 2)[..., 1:]
    assert_equal(RotaryEmbedding(D_HEAD, rotate=rotate)(x), rotate_by_loops(x, counted(x), rotate))


# --- peers


@both_dtypes
def test_interleaved_pairs_equal_roformer_of_hugging_face(dtype):
    from transformers.models.roformer.modeling_roformer import (
        RoFormerSelfAttention,
        RoFormerSinusoidalPositionalEmbedding,
    )

    query, key = (randn(BATCH, HEADS, LENGTH, D_HEAD, seed=seed, dtype=dtype) for seed in (1, 2))
    table = RoFormerSinusoidalPositionalEmbedding(LENGTH, D_HEAD).create_weight()  # always float32
    theirs = RoFormerSelfAttention.apply_rotary_position_embeddings(table.to(dtype), query, key)
    ours = RotaryEmbedding(D_HEAD, rotate=rotate_interleaved)
    assert_equal((ours(query), ours(key)), theirs, tolerance=1e-6)


@both_dtypes
@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_half_split_pairs_equal_llama_of_hugging_face(dtype, base):
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    query, key = (randn(BATCH, HEADS, LENGTH, D_HEAD, seed=seed, dtype=dtype) for seed in (1, 2))
    positions = torch.tensor([[0, 1, 2, 3, 4], [7, 5, 3, 11, 2]])
    parameters = {"rope_type": "default", "rope_theta": base}
    config = LlamaConfig(head_dim=D_HEAD, rope_parameters=parameters)
    theirs = apply_rotary_pos_emb(query, key, *LlamaRotaryEmbedding(config)(query, positions))
    ours = RotaryEmbedding(D_HEAD, base=base)
    # Theirs keeps its angles in float32.
    both = (ours(query, positions=positions), ours(key, positions=positions))
    assert_equal(both, theirs, tolerance=1e-5)


# --- gradients


@both_dtypes
@both_pairings
def test_gradients_are_turned_back_by_the_same_angle(rotate, dtype):
    x = randn(BATCH, HEADS, LENGTH, D_HEAD, dtype=dtype)
    (ours,) = gradients(RotaryEmbedding(D_HEAD, rotate=rotate), x)
    weighting = randn(BATCH, HEADS, LENGTH, D_HEAD, seed=99, dtype=dtype)
    assert_equal(ours, rotate_by_loops(weighting, -counted(x), rotate))


# --- what the paper and the lesson claim


def score(rotary, query, key, m, n):
    """Return the dot product of a query at position m with a key at position n."""
    return rotary(query, offset=m) @ rotary(key, offset=n).mT


distances_only = given(
    m=st.integers(0, 2000), n=st.integers(0, 2000), shift=st.integers(0, 3000), seed=st.integers(0, 2**31)
)


@both_pairings
@both_dtypes
@properties
@distances_only
def test_rotary_score_depends_only_on_distance(rotate, dtype, m, n, shift, seed):
    query, key = (randn(1, D_HEAD, seed=seed + k, dtype=dtype) for k in (0, 1))
    rotary = RotaryEmbedding(D_HEAD, rotate=rotate)
    near, far = score(rotary, query, key, m, n), score(rotary, query, key, m + shift, n + shift)
    # In float32 as exact at position 5000 as at 5: angles are computed in float64.
    assert_equal(far, near)


@both_pairings
@properties
@given(offset=st.integers(0, 100_000), half=st.integers(1, 16), seed=st.integers(0, 2**31))
def test_rotation_keeps_the_norm_of_each_pair(rotate, offset, half, seed):
    x = randn(LENGTH, 2 * half, seed=seed)
    turned = RotaryEmbedding(2 * half, rotate=rotate)(x, offset=offset)
    for i in range(half):
        pair = list(PAIRS[rotate](i, half))
        assert_equal(turned[:, pair].norm(dim=-1), x[:, pair].norm(dim=-1))


def test_equal_vectors_score_highest_at_distance_zero():
    x = torch.ones(1, D_HEAD, dtype=torch.float64)
    rotary = RotaryEmbedding(D_HEAD)
    assert_equal(score(rotary, x, x, 7, 7), torch.tensor([[float(D_HEAD)]], dtype=torch.float64))
    assert all(score(rotary, x, x, 7, n) < D_HEAD - 0.1 for n in range(100) if n != 7)


@properties
@given(half=st.integers(1, 20))
def test_the_two_pairings_differ_only_in_the_order_of_features(half):
    x = randn(BATCH, HEADS, LENGTH, 2 * half)
    rotation = rotations(torch.arange(LENGTH), 2 * half)
    there, back = interleaved_to_half_split(2 * half), half_split_to_interleaved(2 * half)
    assert_equal(rotate_half_split(x[..., there], rotation), rotate_interleaved(x, rotation)[..., there])
    assert_equal(rotate_interleaved(x[..., back], rotation), rotate_half_split(x, rotation)[..., back])
    assert_equal(there[back], torch.arange(2 * half))
    assert_equal(back[there], torch.arange(2 * half))


def test_orders_of_features_by_hand():
    assert interleaved_to_half_split(6).tolist() == [0, 2, 4, 1, 3, 5]
    assert half_split_to_interleaved(6).tolist() == [0, 3, 1, 4, 2, 5]


# --- which axis is the position, and which position is it


@both_pairings
def test_positions_run_along_the_sequence_whatever_the_other_axes(rotate):
    # batch = heads = length: an angle along a wrong axis would go unnoticed by the shapes.
    x = randn(LENGTH, LENGTH, LENGTH, D_HEAD)
    rotary = RotaryEmbedding(D_HEAD, rotate=rotate)
    wanted = rotate_by_loops(x, counted(x), rotate)
    assert_equal(rotary(x), wanted)
    assert_equal(rotary(x, positions=torch.arange(LENGTH)), wanted)
    assert_equal(rotary(x, positions=torch.arange(LENGTH).expand(LENGTH, LENGTH)), wanted)


@both_pairings
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_offset_equals_explicit_positions(rotate, dtype):
    x = randn(BATCH, HEADS, LENGTH, D_HEAD, dtype=dtype)
    rotary = RotaryEmbedding(D_HEAD, rotate=rotate)
    assert torch.equal(rotary(x, offset=13), rotary(x, positions=torch.arange(13, 13 + LENGTH)))


@both_pairings
@pytest.mark.parametrize("leading", [(), (HEADS,), (1, HEADS), (LENGTH,)], ids=str)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_positions_may_differ_between_sequences(rotate, leading, dtype):
    # Twice the same, backwards, with gaps, and negative: relative positions may be.
    positions = torch.tensor([[0, 1, 1, 400, 7], [11, 10, -9, 8, 3]], dtype=dtype)
    x = randn(BATCH, *leading, LENGTH, D_HEAD)
    of_each_vector = positions.reshape(BATCH, *[1] * len(leading), LENGTH).expand(x.shape[:-1])
    ours = RotaryEmbedding(D_HEAD, rotate=rotate)(x, positions=positions)
    assert_equal(ours, rotate_by_loops(x, of_each_vector, rotate))


def test_each_row_of_positions_belongs_to_its_sequence_even_if_the_batch_is_as_long():
    positions = torch.arange(LENGTH)[:, None] * 10 + torch.arange(LENGTH)
    x = randn(LENGTH, LENGTH, LENGTH, D_HEAD)
    of_each_vector = positions[:, None, :].expand(x.shape[:-1])
    assert_equal(RotaryEmbedding(D_HEAD)(x, positions=positions), rotate_by_loops(x, of_each_vector))


def test_a_token_at_a_time_equals_the_whole_sequence():
    rotary = RotaryEmbedding(D_HEAD)
    x = randn(BATCH, HEADS, LENGTH, D_HEAD)
    one_by_one = [rotary(x[:, :, i : i + 1], offset=i) for i in range(LENGTH)]
    assert_equal(torch.cat(one_by_one, dim=2), rotary(x))


# --- dtypes, devices, and the cached table


@both_pairings
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_small_dtypes_are_turned_exactly_and_rounded_once(rotate, dtype):
    x = randn(BATCH, HEADS, LENGTH, D_HEAD, dtype=dtype)
    ours = RotaryEmbedding(D_HEAD, rotate=rotate)(x, offset=3000)
    assert ours.dtype == dtype
    wanted = rotate_by_loops(x.double(), counted(x, 3000), rotate)
    torch.testing.assert_close(ours.double(), wanted, rtol=torch.finfo(dtype).eps / 1.9, atol=1e-6)


def test_positions_beyond_256_are_distinct_in_bfloat16():
    x = torch.ones(1000, D_HEAD, dtype=torch.bfloat16)
    turned = RotaryEmbedding(D_HEAD)(x)
    assert (turned[1:] != turned[:-1]).any(dim=-1).all()


@both_pairings
def test_device_is_honoured(rotate):
    x = torch.empty(BATCH, HEADS, LENGTH, D_HEAD, device="meta")
    rotary = RotaryEmbedding(D_HEAD, rotate=rotate).to("meta")
    for output in (rotary(x), rotary(x, positions=torch.arange(LENGTH))):
        assert output.device.type == "meta" and output.shape == x.shape and output.dtype == x.dtype


def test_the_default_device_does_not_matter():
    rotation_table.cache_clear()
    x = randn(HEADS, LENGTH, D_HEAD)
    with torch.device("meta"):
        rotary = RotaryEmbedding(D_HEAD)
        ours, explicit = rotary(x), rotary(x, positions=torch.arange(LENGTH, device="cpu"))
    assert_equal((ours, explicit), (rotate_by_loops(x, counted(x)),) * 2)


@both_pairings
def test_writing_into_the_rotation_spoils_no_later_call(rotate):
    def careless(x, rotation):
        turned = rotate(x, rotation)
        rotation.zero_()
        return turned

    x = randn(LENGTH, D_HEAD)
    wanted = RotaryEmbedding(D_HEAD, rotate=rotate)(x)
    RotaryEmbedding(D_HEAD, rotate=careless)(x)
    assert_equal(RotaryEmbedding(D_HEAD, rotate=rotate)(x), wanted)


def test_a_far_offset_keeps_no_table():
    rotation_table.cache_clear()
    x = randn(1, D_HEAD)
    assert_equal(RotaryEmbedding(D_HEAD)(x, offset=10**6), rotate_by_loops(x, torch.tensor([10**6])))
    assert rotation_table.cache_info().currsize == 0


def test_what_stands_in_for_a_tensor_keeps_no_table():
    rotation_table.cache_clear()
    x = randn(LENGTH, D_HEAD)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert RotaryEmbedding(D_HEAD)(mode.from_tensor(x)).shape == x.shape
    assert_equal(RotaryEmbedding(D_HEAD)(x), rotate_by_loops(x, counted(x)))


def test_there_is_nothing_to_train_or_save():
    rotary = RotaryEmbedding(D_HEAD)
    rotary(randn(LENGTH, D_HEAD))
    assert not rotary.state_dict() and not list(rotary.parameters())


@pytest.mark.parametrize("without_gradients", [torch.inference_mode, torch.no_grad])
def test_the_cached_table_serves_training_after_inference(without_gradients):
    rotation_table.cache_clear()
    x = randn(LENGTH, D_HEAD)
    with without_gradients():
        RotaryEmbedding(D_HEAD)(x)
    assert rotation_table.cache_info().currsize == 1
    gradients(RotaryEmbedding(D_HEAD), x)
    assert rotation_table.cache_info().currsize == 1


def test_the_cached_table_is_one_for_each_base_width_dtype_and_length():
    rotation_table.cache_clear()
    settings = itertools.product((10_000.0, 100.0), (2, 14), (torch.float64, torch.float32), (9, 5, 1))
    for base, d_head, dtype, length in [*settings] * 2:
        x = randn(length, d_head, dtype=dtype)
        assert_equal(RotaryEmbedding(d_head, base=base)(x), rotate_by_loops(x, counted(x), base=base))


def test_decoding_builds_a_table_only_when_the_length_doubles():
    rotation_table.cache_clear()
    for offset in range(1000):
        RotaryEmbedding(D_HEAD)(torch.zeros(1, D_HEAD), offset=offset)
    assert rotation_table.cache_info().currsize <= 11


def test_a_printed_module_tells_its_settings():
    module = RotaryEmbedding(D_HEAD, base=500.0, rotate=rotate_interleaved)
    assert repr(module) == "RotaryEmbedding(d_head=14, base=500, rotate=rotate_interleaved)"


# --- bad input


@pytest.mark.parametrize(
    "shape",
    [(), (LENGTH + 1,), (1,), (HEADS, LENGTH), (1, LENGTH), (LENGTH, BATCH), (BATCH, HEADS, LENGTH)],
    ids=str,
)
def test_refuses_positions_of_another_shape(shape):
    x = randn(BATCH, HEADS, LENGTH, D_HEAD)
    message = r"wanted \(5,\) or \(2, 5\) for x of shape \(2, 3, 5, 14\); the last axis but one of x is"
    with pytest.raises(ValueError, match=message):
        RotaryEmbedding(D_HEAD)(x, positions=torch.zeros(shape, dtype=torch.int64))


def test_refuses_a_row_of_positions_for_each_vector_of_a_single_sequence():
    # (position, position) would pass for (batch, position), if x's first axis were a batch.
    with pytest.raises(ValueError, match=r"positions have shape \(5, 5\)"):
        RotaryEmbedding(D_HEAD)(
            randn(LENGTH, D_HEAD), positions=torch.zeros(LENGTH, LENGTH, dtype=torch.int64)
        )


def test_a_rotation_that_has_no_name_is_shown_all_the_same():
    assert "partial" in repr(RotaryEmbedding(8, rotate=functools.partial(rotate_half_split)))
