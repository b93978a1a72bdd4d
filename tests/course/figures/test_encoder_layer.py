"""A norm subtracts and divides each token by its own numbers."""

import numpy as np
from matplotlib.patches import Rectangle

from tests.course.figures.drawn import words
from transformer_course import figures


def test_a_norm_subtracts_and_divides_each_token_by_its_own():
    tokens, last = {"a": [1, 3, 5, 7, 9], "b": [3] * 5}, {"weight": [2, 1, 1, 1, 1], "bias": [0, 0, 0, 0, 1]}
    (ax,) = figures.norm_steps(tokens, eps=1, **last, title="").axes
    heights = [bar.get_height() for bar in ax.patches if isinstance(bar, Rectangle)]
    heights = np.reshape(heights, (2, 4, 5))
    np.testing.assert_allclose(heights[0, :2] / heights[0, 0, 0], [[1, 3, 5, 7, 9], [-4, -2, 0, 2, 4]])
    normed = [-4 / 3, -2 / 3, 0, 2 / 3, 4 / 3], [-8 / 3, -2 / 3, 0, 2 / 3, 7 / 3]
    np.testing.assert_allclose(heights[0, 2:] / heights[1, 3, 4], normed, atol=1e-9)
    assert {"− 5", "÷ 3", "− 3", "÷ 1", "√(8 + 1)", "√(0 + 1)"} < set(words(ax))
