"""Curves: every point is drawn within its panel, and every curve is told from the others."""

import math

import numpy as np
import pytest

from transformer_course import figures
from transformer_course.figures.colours import HERO
from transformer_course.figures.curves import training_curves
from transformer_lab.training.loop import History

LABELS = {"xlabel": "", "ylabel": "", "title": ""}
RUNS = {"rotary": [[1.0, 0.9, 0.7], [1.0, 0.7, 0.5]], "added": [[0.9, 0.4, 0.2]]}


def ticks(ax):
    return [label.get_text() for label in ax.get_xticklabels()]


def written(ax):
    return [text.get_text() for text in ax.texts]


@pytest.mark.parametrize("kind", ["marked", "smooth"])
@pytest.mark.parametrize("count", [2, 7])
def test_every_curve_is_drawn_and_told_from_the_others(count, kind):
    curves = {f"name {i}": [1.0 + i] * 3 for i in range(count)}
    (ax,) = figures.line_plot([1, 2, 3], curves, **LABELS, kind=kind).axes
    looks = {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in ax.lines}
    assert len(ax.lines) == len(looks) == count
    colours = {line.get_label(): line.get_color() for line in ax.lines}
    assert {text.get_text(): text.get_color() for text in ax.texts} == colours


def test_lines_are_drawn_as_given():
    ax = figures.line_plot([1, 4], {"a": [3, 5], "b": [2, 7]}, xlabel="", ylabel="", logarithmic="xy").axes[0]
    assert [line.get_xydata().tolist() for line in ax.lines] == [[[1, 3], [4, 5]], [[1, 2], [4, 7]]]
    assert (ax.get_xscale(), ax.get_yscale(), ticks(ax)) == ("log", "log", ["1", "4"])
    (ax,) = figures.line_plot(range(1, 4), {"": [1, 5, 2]}, **LABELS, levels={"chance": 3.5}).axes
    assert written(ax) == ["chance"]  # a single curve is named by the title
    assert ax.lines[1].get_ydata()[0] == 3.5
    (ax,) = figures.line_plot(["one", "two"], {"a": [1, 2], "b": [2, 3]}, **LABELS).axes
    assert ticks(ax) == ["one", "two"] and ax.lines[1].get_xydata().tolist() == [[0, 2], [1, 3]]


def test_a_line_has_its_name_at_its_last_number():
    named = {"short": [1.0, 4.0, math.nan], "long": [2.0, 4.0, 8.0]}
    figure = figures.line_plot([1, 2, 4], {"seconds": named, "MB": named}, xlabel="", logarithmic="xy")
    assert [ax.get_ylabel() for ax in figure.axes] == ["seconds", "MB"]
    for ax in figure.axes:
        assert {text.get_text(): text.xy for text in ax.texts} == {"short": (2, 4), "long": (4, 8)}
        assert np.isnan(ax.lines[0].get_ydata()[2])


def test_each_run_is_a_thin_line_and_the_mean_a_thick_one():
    style = {"levels": {"chance": 0.25}, "places": {"trained": 32}, "logarithmic": "x"}
    (ax,) = figures.line_plot([32, 64, 128], RUNS, **LABELS, **style).axes
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_allclose(lines["rotary"].get_ydata(), [1.0, 0.8, 0.6])
    thin = [line.get_ydata().tolist() for line in ax.lines if line.get_linewidth() < 1]
    assert thin == RUNS["rotary"]
    upright = [line for line in ax.lines if len(set(line.get_xdata())) == 1]
    assert [line.get_xdata()[0] for line in upright] == [32]
    assert {*RUNS, "chance", "trained"} == set(written(ax))


def test_panels_of_several_lines_may_stand_below_each_other_each_with_its_own_scale():
    named = {"loss": {"a": [1, 2], "b": [2, 1]}, "gradient": {"a": [0, 50], "b": [9, 8]}}
    above, below = figures.line_plot([0, 1], named, xlabel="", below=True).axes
    assert [ax.get_ylabel() for ax in (above, below)] == ["loss", "gradient"]
    assert above.get_ylim() != below.get_ylim() and above.get_position().y0 > below.get_position().y0
    assert [len(ax.lines) for ax in (above, below)] == [2, 2]


def test_lines_below_each_other_share_their_scale_and_mark_the_same_places():
    named = {"low": [0.0, 1.0, math.nan], "high": [2.0, 5.0, 3.0]}
    low, high = figures.line_plot(
        [0, 10, 20], named, **LABELS, places={"seam": 12}, below=True, tops=str
    ).axes
    assert [ax.get_title(loc="left") for ax in (low, high)] == ["low", "high"]
    assert low.get_ylim() == high.get_ylim()
    np.testing.assert_array_equal(low.lines[0].get_ydata(), named["low"])
    for ax, top in ((low, (10, 1)), (high, (10, 5))):
        assert tuple(ax.lines[-1].get_xydata()[0]) == top
        assert [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == "--"] == [12]
    assert sorted(written(low)) == ["10.0", "seam"]
    assert [word for word in written(high) if word] == ["10.0"]  # the place is named once


def test_panels_beside_each_other_that_measure_the_same_share_their_scales():
    named = {"many": {"a": [0.0, 1.0, 2.0]}, "few": {"a": [5.0, 3.0, math.nan]}}
    many, few = figures.line_plot([0, 10, 20], named, **LABELS | {"ylabel": "loss"}).axes
    assert [ax.get_title(loc="left") for ax in (many, few)] == ["many", "few"]
    assert many.get_ylim() == few.get_ylim() and many.get_xlim() == few.get_xlim()
    assert many.figure.get_supylabel() == "loss" and many.get_ylabel() == few.get_ylabel() == ""


def history(losses, scores=()):
    rates = [0.1] * len(losses)
    return History(list(losses), rates, rates, dict(scores))


def test_a_run_is_a_curve_of_losses_and_one_of_scores():
    run = history([2.0, 1.5, 1.25], {2: 0.5, 3: 0.75})
    losses, scores = training_curves(run, title="", steps=50).axes
    assert losses.lines[0].get_xydata().tolist() == [[1, 2], [2, 1.5], [3, 1.25]]
    assert scores.lines[0].get_xydata().tolist() == [[2, 0.5], [3, 0.75]]
    assert losses.get_xlim() == scores.get_xlim() == (0, 50)
    assert scores.get_ylim() == (0, 1.03)


def test_no_loss_or_score_is_outside_its_panel():
    losses, scores = training_curves(history([0.5, -2.0], {1: 0.5, 2: 3.0}), title="", steps=2).axes
    assert losses.get_ylim()[0] <= -2 and scores.get_ylim()[1] >= 3
    assert len(training_curves(history([2.0, 1.0]), title="", steps=2).axes) == 1


def test_a_level_belongs_to_its_panel():
    named = {"loss": {"one": [3, 1], "two": [2, 4]}, "likeness": {"one": [0, 1], "two": [1, 0]}}
    levels = {"loss": {"guessing": 2.5}, "likeness": {}}
    figure = figures.line_plot([0, 1], named, **LABELS, levels=levels, hero=False)
    words = [{text.get_text() for text in ax.texts} for ax in figure.axes]
    assert words == [{"one", "two", "guessing"}, {"one", "two"}]
    colours = {line.get_color() for ax in figure.axes for line in ax.lines}
    assert HERO not in colours


def test_an_axis_that_goes_down_far_has_powers_of_ten():
    (ax,) = figures.line_plot([1, 2], {"": [1e-6, 1]}, **LABELS, logarithmic="y").axes
    assert {"10⁻⁶", "10⁻²", "1"} < {label.get_text() for label in ax.get_yticklabels()}


def test_dots_stand_where_an_upright_line_crosses_each_curve():
    curves = {"a": [0, 2, 4], "b": [4, 4, 0]}
    (ax,) = figures.line_plot([0, 1, 2], curves, **LABELS, kind="smooth", places={"here": 1}, dots=True).axes
    dots = [line.get_xydata().tolist() for line in ax.lines if line.get_marker() == "o"]
    assert dots == [[[1, 2]], [[1, 4]]]


def test_an_axis_falls_with_its_numbers():
    for x in ([1, 2, 3], [3, 2, 1]):
        axes = figures.line_plot(x, {"a": [1, 2, 4], "b": [4, 2, 1]}, xlabel="x", below=True).axes
        assert [ax.xaxis_inverted() for ax in axes] == [x[0] > x[-1]] * 2
