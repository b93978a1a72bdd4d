"""The figures of positions show what they were given."""

import math

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt

from transformer_lab.course import figures
from transformer_lab.course.figures.words import describe


def table(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def test_position_tables_share_one_scale_with_position_0_on_top():
    given = {"left": table(13, 7), "right": table(5, 11)}
    figure = figures.position_tables(given, xlabel="feature", title="two tables", bar="value", limits=(-4, 4))
    for ax, (name, values) in zip(figure.axes, given.items(), strict=False):
        np.testing.assert_allclose(ax.images[0].get_array(), values.numpy())
        assert (ax.images[0].get_clim(), ax.images[0].get_cmap().name) == ((-4, 4), "RdBu_r")
        assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == (name, "feature", "position")
        assert ax.yaxis_inverted()
    assert figure.axes[-1].get_ylabel() == "value"


def test_position_curves_draw_every_point():
    y = {"up": [1.0, 2.0, 3.0], "down": [3.0, 2.0, 1.0]}
    ax = figures.position_curves([0, 1, 2], y, xlabel="x", ylabel="y", title="t").axes[0]
    assert [line.get_label() for line in ax.lines] == list(y)
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), [[0, 1], [1, 2], [2, 3]])
    assert ax.get_legend() and ax.get_xscale() == "linear"


def test_position_curves_on_a_logarithmic_axis_have_the_ticks_asked_for():
    figure = figures.position_curves(
        [2, 20, 200], {"only": [1, 5, 2]}, xlabel="wavelength", ylabel="power", title="t", octaves=(6, 18, 56)
    )
    ax = figure.axes[0]
    assert ax.get_xscale() == "log" and not ax.get_legend()
    assert [label.get_text() for label in ax.get_xticklabels()] == ["6", "18", "56"]


def test_position_circles_are_coloured_by_position():
    given = {"fast": table(9, 2), "slow": table(9, 2)}
    figure = figures.position_circles(given, title="circles", first=4)
    for ax, points in zip(figure.axes, given.values(), strict=False):
        dots = ax.collections[0]
        np.testing.assert_allclose(dots.get_offsets(), points.numpy())
        np.testing.assert_array_equal(dots.get_array(), range(4, 13))
        assert ax.get_aspect() == 1


def test_clocks_point_to_cosine_and_sine():
    figure, ax = plt.subplots()
    figures.draw_clocks(ax, torch.tensor([0.0, math.pi / 2]), ["slow", "fast"])
    hands = [line.get_xydata() for line in ax.lines[::2]]
    np.testing.assert_allclose(hands[0], [[0, 0], [1, 0]], atol=1e-12)
    np.testing.assert_allclose(hands[1], [[2.5, 0], [2.5, 1]], atol=1e-12)
    assert "slow" in describe(figure)
    with pytest.raises(ValueError):
        figures.draw_clocks(ax, [0.0], ["one", "two"])
    plt.close(figure)
