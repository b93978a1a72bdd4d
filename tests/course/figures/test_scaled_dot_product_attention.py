"""Keys fall where their dot product says, and weighted values add up to the output."""

import math

import numpy as np
import pytest

from tests.course.figures.drawn import arrows, words
from transformer_course import figures


def test_a_key_falls_at_a_right_angle_on_the_line_of_the_query():
    keys = {"a": [1.0, 2.0], "b": [-3.0, 1.0]}
    plane = figures.query_and_keys({"a": [2.0, 0.0]}, keys, "a", title="").axes[0]
    feet = [line.get_xydata()[0] for line in plane.lines if line.get_marker() == "o"]
    np.testing.assert_allclose(feet, [[1, 0], [-3, 0]], atol=1e-12)
    assert {"a's query", "a 1.00", "b −3.00"} <= set(words(plane))
    assert plane.get_title() == "reach along the query, 2.00 long"


def test_what_softmax_makes_of_the_scores_stands_beside_them():
    # the query is √2 long: a score is a key's first feature
    query, keys = {"a": [math.sqrt(2), 0.0]}, {"a": [0.0, 1.0], "b": [math.log(3), 5.0]}
    _, scores, weights = figures.query_and_keys(query, keys, "a", title="").axes
    assert [bar.get_width() for bar in scores.patches] == pytest.approx([0, math.log(3)])
    assert [bar.get_width() for bar in weights.patches] == pytest.approx([0.25, 0.75])


def test_weighted_values_lie_end_to_end_and_reach_the_output():
    weights, vectors = [0.2, 0.7, 0.1], [[10.0, 0.0], [0.0, 5.0], [3.0, 3.0]]
    values, output = figures.weighted_sum(weights, vectors, ["a", "b", "c"], query="b").axes
    np.testing.assert_allclose([end for _, end in arrows(values)], vectors)
    *steps, whole = arrows(output)
    np.testing.assert_allclose(steps, [((0, 0), (2, 0)), ((2, 0), (2, 3.5)), ((2, 3.5), (2.3, 3.8))])
    np.testing.assert_allclose(whole, [(0, 0), (2.3, 3.8)])
    assert {"0.200 × a", "0.700 × b", "0.100 × c", "output (2.30, 3.80)"} <= set(words(output))
