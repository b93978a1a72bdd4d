"""The catch map shows every bug and every test in its place, and counts."""

import numpy as np
import pytest
import torch

from transformer_lab.course import figures

NOTICED = torch.tensor([[True, False], [True, True], [False, False]])


def test_the_map_puts_bugs_down_and_tests_across_with_their_counts():
    ax = figures.catch_map(NOTICED, ["one", "two", "three"], ["sizes", "loop"], title="who").axes[0]
    np.testing.assert_array_equal(ax.collections[0].get_array().reshape(3, 2), NOTICED.numpy())
    assert [label.get_text() for label in ax.get_yticklabels()] == ["one", "two", "three"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["sizes: 2", "loop: 1"]


def test_the_map_says_what_light_and_dark_mean():
    (legend,) = figures.catch_map(NOTICED, ["one", "two", "three"], ["sizes", "loop"]).legends
    assert [text.get_text() for text in legend.get_texts()] == ["notices it", "does not"]


def test_the_map_refuses_names_that_do_not_fit():
    with pytest.raises(ValueError, match="the labels fit"):
        figures.catch_map(NOTICED, ["one", "two"], ["sizes", "loop"])
