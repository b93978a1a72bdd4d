"""A masked row is the softmax of what is left."""

import math

import numpy as np
import pytest

from tests.course.figures.drawn import words
from transformer_course import figures


def test_a_masked_row_ends_at_the_softmax_of_what_is_left():
    scores, seen = [[0, 0, 0], [0, 0, 0], [0, 2, 1]], [[True, False, True]] * 3
    _, added, summed, *_, bars, last = figures.masked_row(scores, seen, ["the", "cat", "sat"], "sat").axes
    weights = [1 / (1 + math.e), 0.0, math.e / (1 + math.e)]
    without = np.exp([0, 2, 1]) / np.exp([0, 2, 1]).sum()
    before, after = ([bar.get_height() for bar in row] for row in bars.containers)
    assert after == pytest.approx(np.divide(weights, max(weights)))
    assert before == pytest.approx(without / max(weights))  # one scale for both
    assert words(added) == ["0", "0"] * 3 + ["−∞"] * 3 + ["+"]
    assert words(summed) == ["0", "0"] * 2 + ["0", "1"] + ["−∞"] * 3 + ["="]
    assert words(last)[4:9] == ["0.27", "0.73", "0", "0", "0"] and "sat: sum 1" in words(last)
    assert {"no mask: ÷ 11.11", "mask: ÷ 3.72", "0.67", "0.73", "0"} < set(words(bars))
