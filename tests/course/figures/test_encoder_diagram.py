"""The made-up numbers of the encoder's diagram agree with each other."""

import numpy as np
from matplotlib.collections import QuadMesh

from transformer_course import figures
from transformer_course.figures.encoder_diagram import HEADS, SCORES, TURNED, VALUES, WEIGHTS, WIDTH


def test_the_query_and_the_keys_give_the_scores():
    np.testing.assert_allclose(TURNED[1:] @ TURNED[0] / WIDTH**0.5, SCORES, atol=0.01)


def test_the_weights_are_the_softmax_of_the_scores_that_the_mask_lets_through():
    powers = np.exp(SCORES[:3])
    np.testing.assert_allclose(WEIGHTS, [*(powers / powers.sum()), 0], atol=0.005)


def test_the_sum_of_the_values_is_the_same_block_among_those_that_the_heads_join():
    (ax,) = figures.encoder_map().axes
    strips = [each for each in ax.collections if isinstance(each, QuadMesh)]
    at = {tuple(each.get_coordinates()[0, 0]): each.get_array().data[0] for each in strips}
    own = WEIGHTS @ VALUES
    where = [place for place, row in at.items() if row.shape == own.shape and np.allclose(row, own)]
    (first, low), (joined, high) = sorted(where, key=lambda place: place[1])
    assert first == joined and low < high
    blocks = [row for (_, height), row in at.items() if height == high and row.shape == own.shape]
    assert len(blocks) == HEADS
