"""The features that are drawn are typical of all."""

import numpy as np
import pytest

from transformer_course.figures import roformer


def test_the_features_that_are_drawn_have_cosines_near_those_of_all():
    x = np.ones((2, 20))
    end = np.where(np.arange(20) < 8, 1.0, [[-2 / 3], [-2 / 3]])  # 8 − 12 · 2/3: in all at right angles to x
    assert roformer._cosines(x, end) == pytest.approx([0, 0])
    first = roformer._typical(x, [x, end])
    drawn = slice(first, first + roformer.SHOWN)
    assert first == 6  # two of 1 and four of −2/3, of which the sum is nearest to 0
    assert abs(roformer._cosines(x[:, drawn], end[:, drawn])).max() < 0.15
