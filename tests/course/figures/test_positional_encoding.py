"""A hand is as high as its sine, and as far right as its cosine."""

import math

import numpy as np

from tests.course.figures.drawn import arrows
from transformer_course import figures
from transformer_course.figures.positional_encoding import RADIUS


def test_a_hand_is_as_high_as_the_sine_beside_it_and_as_far_right_as_the_cosine():
    dials, cells = figures.clock_table([0, 2], [math.pi / 4, math.pi / 12], title="").axes
    table = cells.collections[0].get_array().reshape(2, 4)
    np.testing.assert_allclose(table, [[0, 1, 0, 1], [1, 0, 0.5, 0.75**0.5]], atol=1e-12)
    names = [label.get_text() for label in cells.get_xticklabels()]
    assert names == ["clock 0\nsin", "clock 0\ncos", "clock 1\nsin", "clock 1\ncos"]
    tips = [np.subtract(end, start) * (1, -1) / RADIUS for start, end in arrows(dials)]
    np.testing.assert_allclose(tips, table.reshape(4, 2)[:, ::-1], atol=1e-12)
    across, up = dials.lines[6:8]  # of the last hand
    np.testing.assert_allclose(np.ptp(across.get_xdata()), RADIUS * 0.75**0.5)
    np.testing.assert_allclose(np.ptp(up.get_ydata()), RADIUS / 2)
    assert [text.get_text() for text in dials.get_xticklabels()][1] == "clock 1 turns\n.262 a position"
