"""Lines go through their points, runs through their mean, and each line has its name where it ends."""

import math

import numpy as np

from transformer_course import figures

LABELS = {"xlabel": "", "ylabel": "", "title": ""}


RUNS = {"rotary": [[1.0, 0.9, 0.7], [1.0, 0.7, 0.5]], "added": [[0.9, 0.4, 0.2]]}


def ticks(ax):
    return [label.get_text() for label in ax.get_xticklabels()]


def written(ax):
    return [text.get_text() for text in ax.texts]


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
