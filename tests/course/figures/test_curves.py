"""Curves: every point is drawn within its panel, and every curve is told from the others."""

import numpy as np
import pytest
import torch

from transformer_course import figures
from transformer_lab.training.loop import History

LABELS = {"xlabel": "", "ylabel": "", "title": ""}


def history(losses, scores=()):
    rates = [0.1] * len(losses)
    return History(list(losses), rates, rates, dict(scores))


def ticks(ax):
    return [label.get_text() for label in ax.get_xticklabels()]


def curves(count, points=3):
    return {f"name {i}": [1.0 + i] * points for i in range(count)}


def looks(ax):
    return {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in ax.lines}


@pytest.mark.parametrize("count", [2, 7])
def test_every_curve_is_drawn_and_told_from_the_others(count):
    drawings = [
        figures.lines([1, 2, 3], curves(count), **LABELS),
        figures.lines([1, 2, 3], curves(count), **LABELS, style="stepped"),
        figures.lines([1, 2, 3], curves(count), **LABELS, style="smooth"),
        figures.activation_curves(dict.fromkeys(curves(count), torch.tanh), title=""),
    ]
    for figure in drawings:
        ax = figure.axes[-1]
        assert len(ax.lines) == len(looks(ax)) == count
        colours = {line.get_label(): line.get_color() for line in ax.lines}
        assert {text.get_text(): text.get_color() for text in ax.texts} == colours


def test_no_score_is_outside_the_panel():
    losses, scores = figures.training_curves({"a": history([0.5, -2.0], {1: 0.5, 2: 3.0})}).axes
    assert losses.get_ylim()[0] <= -2 and scores.get_ylim()[1] >= 3
    usual = figures.training_curves({"a": history([1.0, 0.5], {2: 0.5})}, chance=0.25).axes[1]
    assert usual.get_ylim() == (0, 1.03)


def test_lines_are_drawn_as_given():
    ax = figures.lines([1, 4], {"a": [3, 5], "b": [2, 7]}, xlabel="", ylabel="", logarithmic="xy").axes[0]
    assert [line.get_xydata().tolist() for line in ax.lines] == [[[1, 3], [4, 5]], [[1, 2], [4, 7]]]
    assert (ax.get_xscale(), ax.get_yscale(), ticks(ax)) == ("log", "log", ["1", "4"])
    ax = figures.lines(range(1, 4), {"": [1, 5, 2]}, **LABELS, levels={"chance": 3.5}, style="stepped").axes[
        0
    ]
    assert all(tick == round(tick) for tick in ax.get_xticks())
    assert [text.get_text() for text in ax.texts] == ["chance"]  # a single curve is named by the title
    assert ax.lines[1].get_ydata()[0] == 3.5


def test_a_line_of_growth_has_its_name_at_its_last_number():
    named = {"short": [1.0, 4.0, float("nan")], "long": [2.0, 4.0, 8.0]}
    (ax,) = figures.growth([1, 2, 4], {"seconds": named}, xlabel="", title="").axes
    assert {text.get_text(): text.xy for text in ax.texts} == {"short": (2, 4), "long": (4, 8)}
    assert np.isnan(ax.lines[0].get_ydata()[2])


RUNS = {
    "seed 1": history([2.0, 1.5, 1.25], {2: 0.5, 3: 0.75}),
    "seed 2": history([3.0, 1.0, 0.5], {2: 0.25, 3: 1.0}),
}


def test_each_run_is_a_curve_of_losses_and_one_of_scores():
    figure = figures.training_curves(RUNS, chance=0.1)
    losses, scores = ([line.get_xydata().tolist() for line in ax.lines] for ax in figure.axes)
    assert losses == [[[1, 2], [2, 1.5], [3, 1.25]], [[1, 3], [2, 1], [3, 0.5]]]
    assert scores[:2] == [[[2, 0.5], [3, 0.75]], [[2, 0.25], [3, 1.0]]]
    written = [[text.get_text() for text in ax.texts] for ax in figure.axes]
    assert written == [[], ["chance", "seed 1", "seed 2"]]
    assert [text.xy for text in figure.axes[1].texts[1:]] == [(3, 0.75), (3, 1.0)]


def test_runs_without_scores_have_one_panel_and_one_run_no_name():
    figure = figures.training_curves({"run": history([2.0, 1.0])})
    assert len(figure.axes) == 1 and not figure.axes[0].texts
    figure = figures.training_curves({"a": history([2.0, 1.0]), "b": history([3.0])})
    assert {text.get_text(): text.xy for text in figure.axes[0].texts} == {"a": (2, 1.0), "b": (1, 3.0)}


def test_the_step_axis_of_a_run_that_goes_on_is_as_long_as_the_run():
    run = {"run": history([2.0, 1.0], {1: 0.5})}
    assert [ax.get_xlim() for ax in figures.training_curves(run, steps=50).axes] == [(0, 50)] * 2
    assert figures.training_curves(run).axes[0].get_xlim()[0] == 0
