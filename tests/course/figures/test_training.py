"""A gradient step is that of PyTorch, a probe the ridge solution, and a run grows in its curve."""

import re

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.course.figures.drawn import words
from transformer_course import figures
from transformer_course.figures import training
from transformer_course.figures.arithmetic import short_number
from transformer_course.figures.interactive import PASSING
from transformer_course.figures.training import training_curves
from transformer_lab.training.loop import History, TrainingConfig


@pytest.mark.parametrize("allowed", [1.0, 100.0])
def test_a_step_is_that_of_torch(allowed):
    weights, x = torch.tensor([[0.0, 1.0], [1.0, 0.5]], requires_grad=True), torch.tensor([3.0, 4.0])
    (ax, *_) = figures.gradient_step(weights, x, 1, rate=0.1, allowed=allowed, title="").axes
    optimiser = torch.optim.SGD([weights], lr=0.1)
    before = F.cross_entropy(weights @ x, torch.tensor(1))
    before.backward()
    torch.nn.utils.clip_grad_norm_([weights], allowed)
    gradient = weights.grad.flatten().tolist()
    optimiser.step()
    after = F.cross_entropy(weights @ x, torch.tensor(1))
    told = [before.item(), after.item(), *gradient, *weights.flatten().tolist(), *(weights @ x).tolist()]
    assert {short_number(value) for value in told} < set(words(ax))


def test_a_probe_is_the_ridge_solution_and_is_judged_by_the_new():
    points, truth = [[3.0, 0.0], [-1.0, 0.0], [5.0, 1.0], [0.0, -1.0], [2.0, 7.0]], [1, -1, 1, 1, -1]
    style = {"known": 3, "penalty": 0.5, "names": ("yes", "no"), "title": ""}
    _, line = figures.linear_probe(points, truth, **style).axes
    known = np.c_[np.array(points[:3]), np.ones(3)]
    *w, c = np.linalg.inv(known.T @ known + 0.5 * np.eye(3)) @ known.T @ truth[:3]
    scores = np.array(points) @ w + c
    drawn = {tuple(dot) for dots in line.collections[:4] for dot in dots.get_offsets().round(6).tolist()}
    assert drawn == {(round(x, 6), y) for x, y in zip(scores, (-0.12, 0.12, -0.12, 0.88, 1.12), strict=True)}
    right = (np.sign(scores[3:]) == truth[3:]).sum()
    assert [text.get_text() for text in line.get_yticklabels()][1] == f"2 new:\n{right} right"


def history(losses, scores=()):
    rates = [0.1] * len(losses)
    return History(list(losses), rates, rates, dict(scores))


def test_a_run_is_a_curve_of_losses_and_one_of_scores_and_none_leaves_its_panel():
    losses, scores = training_curves(history([0.5, -2.0, 1.25], {2: 0.5, 3: 3.0}), title="", steps=50).axes
    assert losses.lines[0].get_xydata().tolist() == [[1, 0.5], [2, -2], [3, 1.25]]
    assert scores.lines[0].get_xydata().tolist() == [[2, 0.5], [3, 3]]
    assert losses.get_xlim() == scores.get_xlim() == (0, 50)
    assert losses.get_ylim()[0] <= -2 and scores.get_ylim()[1] >= 3
    assert len(training_curves(history([2.0, 1.0]), title="", steps=2).axes) == 1


@pytest.mark.parametrize(("seconds", "wanted"), [(-1.0, [1, 2, 3]), (60.0, [1, 3])])  # seldom, and at the end
def test_live_curve_is_a_bar_and_a_picture_that_grows_and_is_not_stored(
    published, monkeypatch, seconds, wanted
):
    monkeypatch.setattr(training, "REDRAWN_AFTER", seconds)
    watch, run = figures.live_curve(), history([])
    for step in range(3):
        run.loss.append(2.0 / (step + 1))
        watch(run, TrainingConfig(steps=3))
    (empty, _), *shown = published.passing
    assert empty == {} and published == [] and all(about == PASSING for _, about in shown)
    pages = [data["text/html"] for data, _ in shown]
    assert [re.search(r'value="(\d)" max="3"', page)[1] for page in pages] == [str(step) for step in wanted]
    assert all(f"after {step} steps" in page for step, page in zip(wanted, pages, strict=True))
    assert "3 of 3 steps, loss 0.667" in pages[-1]
