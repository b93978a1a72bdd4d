"""Runs are lines through their mean, and each line has its name where it ends."""

import math

import numpy as np
import pytest

from transformer_course import figures


def test_a_line_goes_through_its_points_and_has_its_name_at_the_last():
    named = {"short": [1.0, 4.0, math.nan], "long": [2.0, 4.0, 8.0]}
    figure = figures.line_plot([1, 2, 4], {"seconds": named, "MB": named}, xlabel="", logarithmic="xy")
    assert [ax.get_ylabel() for ax in figure.axes] == ["seconds", "MB"]
    for ax in figure.axes:
        assert {text.get_text(): text.xy for text in ax.texts} == {"short": (2, 4), "long": (4, 8)}
        np.testing.assert_array_equal(ax.lines[0].get_xydata(), [[1, 1], [2, 4], [4, math.nan]])


def test_each_run_is_a_thin_line_and_the_mean_a_thick_one():
    runs = {"rotary": [[1.0, 0.9, 0.7], [1.0, 0.7, 0.5]], "added": [[0.9, 0.4, 0.2]]}
    style = {"levels": {"chance": 0.25}, "places": {"trained": 32}, "logarithmic": "x"}
    (ax,) = figures.line_plot([32, 64, 128], runs, xlabel="", ylabel="", **style).axes
    (mean,) = [line.get_ydata() for line in ax.lines if line.get_label() == "rotary"]
    assert mean == pytest.approx([1.0, 0.8, 0.6])
    thin = [line.get_ydata().tolist() for line in ax.lines if line.get_linewidth() < 1]
    assert thin == runs["rotary"]
    assert {*runs, "chance", "trained"} == {text.get_text() for text in ax.texts}
