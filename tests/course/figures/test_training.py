"""Curves of training: every run, its scores, and a live picture that is never stored."""

import pytest

from transformer_lab.course import figures
from transformer_lab.course.figures import training as module
from transformer_lab.course.figures.words import describe
from transformer_lab.training.loop import History, TrainingConfig

CONFIG = TrainingConfig(steps=3)


def history(losses, scores=()):
    rates = [0.1] * len(losses)
    return History(list(losses), rates, rates, dict(scores))


RUNS = {
    "seed 1": history([2.0, 1.5, 1.25], {2: 0.5, 3: 0.75}),
    "seed 2": history([3.0, 1.0, 0.5], {2: 0.25, 3: 1.0}),
}


def curves(ax):
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines}


def test_each_run_is_a_curve_of_losses_and_one_of_scores():
    losses, scores = figures.training_curves(RUNS, title="They fall").axes
    assert curves(losses) == {
        "seed 1": ([1, 2, 3], [2.0, 1.5, 1.25]),
        "seed 2": ([1, 2, 3], [3.0, 1.0, 0.5]),
    }
    assert curves(scores) == {"seed 1": ([2, 3], [0.5, 0.75]), "seed 2": ([2, 3], [0.25, 1.0])}


def test_runs_without_scores_have_one_panel_and_one_run_no_legend():
    figure = figures.training_curves({"run": history([2.0, 1.0])}, title="It falls")
    assert len(figure.axes) == 1
    assert not figure.legends


def test_legend_names_every_curve_once():
    figure = figures.training_curves(RUNS, chance=0.1, best_loss=0.4)
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["seed 1", "seed 2", "best possible loss", "chance"]


def test_the_figure_says_what_it_shows():
    words = describe(figures.training_curves(RUNS, title="They fall", score="share of words", chance=0.1))
    for part in ("They fall", "training loss (nats)", "share of words", "seed 1", "seed 2", "chance"):
        assert part in words


@pytest.fixture
def shown(monkeypatch):
    boxes = []
    monkeypatch.setattr(module, "display", boxes.append)
    return boxes


def test_live_curve_is_a_bar_and_a_picture_that_grows(shown, monkeypatch):
    monkeypatch.setattr(module, "REDRAWN_AFTER", -1.0)  # at every step
    watch, run = figures.live_curve(), history([])
    pictures = []
    for step in range(3):
        run.loss.append(2.0 / (step + 1))
        watch(run, CONFIG)
        pictures.append(shown[0].children[1].value)
    (box,) = shown
    bar = box.children[0].children[1]
    assert (bar.max, bar.value) == (3, 3)
    assert len(set(pictures)) == 3
    for step, picture in enumerate(pictures, start=1):
        assert f"after {step} steps" in picture and "<img alt=" in picture


def test_live_curve_is_drawn_seldom_but_always_at_the_end(shown, monkeypatch):
    drawn = []
    real = module.training_curves
    monkeypatch.setattr(
        module, "training_curves", lambda runs, **how: drawn.append(how["title"]) or real(runs, **how)
    )
    watch, run = figures.live_curve(), history([])
    for _ in range(3):
        run.loss.append(1.0)
        watch(run, CONFIG)
    assert drawn == ["after 3 steps"]


def test_the_step_axis_of_a_run_that_goes_on_is_as_long_as_the_run():
    run = {"run": history([2.0, 1.0], {1: 0.5})}
    assert [ax.get_xlim() for ax in figures.training_curves(run, steps=50).axes] == [(0, 50)] * 2
    assert figures.training_curves(run).axes[0].get_xlim()[0] == 0


@pytest.mark.parametrize("given", [(None, CONFIG), (history([1.0]), None)])
def test_live_curve_refuses_what_is_no_run(given):
    with pytest.raises(TypeError, match=r"wanted a History and a TrainingConfig, got .*NoneType"):
        figures.live_curve()(*given)
