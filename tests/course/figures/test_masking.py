"""A masked row is the softmax of what is left, and a web shows what reaches a token."""

import math

import numpy as np
import pytest

from transformer_course import figures


def test_a_masked_row_ends_at_the_softmax_of_what_is_left():
    scores, seen = [[0, 0, 0], [0, 0, 0], [0, 2, 1]], [[True, False, True]] * 3
    figure = figures.masked_row(scores, seen, ["the", "cat", "sat"], "sat")
    weights = [1 / (1 + math.e), 0.0, math.e / (1 + math.e)]
    before, after = ([bar.get_height() for bar in row] for row in figure.axes[-2].containers)
    without = np.exp([0, 2, 1]) / np.exp([0, 2, 1]).sum()
    most = max(weights)  # one scale for both
    assert after == pytest.approx(np.divide(weights, most))
    assert before == pytest.approx(without / most)
    _, added, summed, *_, last = ([t.get_text() for t in ax.texts if t.get_text()] for ax in figure.axes)
    assert added == ["0", "0"] * 3 + ["−∞"] * 3 + ["+"]
    assert summed == ["0", "0"] * 2 + ["0", "1"] + ["−∞"] * 3 + ["="]
    assert last[4:9] == [".27", ".73", "0", "0", "0"] and "sat: sum 1" in last
    told = {text.get_text() for text in figure.axes[-2].texts}
    assert {"no mask: ÷ 11.11", "mask: ÷ 3.72", ".67", ".73", "0"} < told


TOKENS = ["the", "cat", "sat"]
