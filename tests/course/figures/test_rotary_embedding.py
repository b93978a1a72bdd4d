"""Rotated arrows end where the rotation says, and a score is the sum of its pairs."""

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from tests.course.figures.drawn import arrows, words
from transformer_course import figures
from transformer_course.figures.layout import number, two_decimals
from transformer_course.figures.vectors import PITCH
from transformer_lab import RotaryEmbedding

X, MAPS = {"cat": [1, 1], "old": [0, 2]}, [[[1, 0, 2, 1], [0, 1, 1, -1]], [[1, 0, 0, 1], [1, 1, 0, -1]]]


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_arrows_end_where_the_pair_points_and_the_longest_of_all_reaches_the_rim(ax):
    query, key = torch.tensor([[2.0, 0.0], [0.0, 3.0]]), torch.tensor([[0.0, 1.0], [-6.0, 0.0]])
    figures.draw_turns(ax, {"q": query, "k": key}, ["fast", "slow"])
    starts, ends = [(0, 0), (PITCH, 0)] * 2, [(1 / 3, 0), (PITCH, 0.5), (0, 1 / 6), (PITCH - 1, 0)]
    np.testing.assert_allclose(arrows(ax), list(zip(starts, ends, strict=True)), atol=1e-12)
    assert sorted(words(ax)) == ["90° apart (arc): score 0"] * 2 + ["fast", "k", "k", "q", "q", "slow"]


@pytest.mark.parametrize("places", [(3, 1), (40, 38)])
def test_a_score_is_the_sum_of_its_turned_pairs_and_the_same_at_one_distance(ax, places):
    figures.draw_rotary(ax, X, MAPS, places)
    made = [np.array(row) @ np.array(each) for row, each in zip(X.values(), MAPS, strict=True)]
    x = torch.tensor(np.array(made, dtype=float))[:, None].expand(-1, 41, -1)
    query, key = RotaryEmbedding(4)(x)[[0, 1], [*places]]
    shares = [(query[i::2] @ key[i::2]).item() for i in range(2)]
    told = words(ax)
    assert {*map(two_decimals, shares), f"≈ {two_decimals(sum(shares))}"} <= set(told)
    assert {two_decimals(value) for value in [*query.tolist(), *key.tolist()]} <= set(told)
    assert f"q: {places[0]} × 0.01 = {number(places[0] / 100)} rad" in told


def test_an_arrow_without_length_is_drawn_as_none(ax):
    figures.draw_turns(ax, {"q": torch.zeros(1, 2), "k": torch.tensor([[1.0, 0.0]])})
    assert np.isfinite(arrows(ax)).all()
