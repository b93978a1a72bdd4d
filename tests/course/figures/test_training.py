"""A gradient step is that of PyTorch, a probe the ridge solution, and a run grows in its curve."""

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from torch.nn import functional as F

from transformer_course import figures
from transformer_course.figures import training
from transformer_course.figures.arithmetic import short_number
from transformer_course.figures.colours import HERO, HIDDEN
from transformer_course.figures.training import training_curves
from transformer_lab.training.loop import History, TrainingConfig


@pytest.mark.parametrize("allowed", [1.0, 100.0])
def test_a_step_is_that_of_torch(allowed):
    weights, x = torch.tensor([[0.0, 1.0], [1.0, 0.5]], requires_grad=True), torch.tensor([3.0, 4.0])
    step = {"rate": 0.1, "allowed": allowed, "title": ""}
    written = [text.get_text() for text in figures.gradient_step(weights, x, 1, **step).axes[0].texts]
    optimiser = torch.optim.SGD([weights], lr=0.1)
    before = F.cross_entropy(weights @ x, torch.tensor(1))
    before.backward()
    torch.nn.utils.clip_grad_norm_([weights], allowed)
    gradient = weights.grad.clone()
    optimiser.step()
    after = F.cross_entropy(weights @ x, torch.tensor(1))
    assert {short_number(loss.item()) for loss in (before, after)} < set(written)
    told = [*gradient.flatten().tolist(), *weights.flatten().tolist(), *(weights @ x).tolist()]
    assert {short_number(value) for value in told} < set(written)


def test_what_is_silenced_is_0_or_its_mean_and_a_wrong_word_is_marked():
    adds = {"A": {"token": (0, 7), "head 0": (3, 0), "head 1": (5, 0)}}
    adds["B"] = {"token": (0, 7), "head 0": (0, 3), "head 1": (5, 0)}
    (ax,) = figures.head_ablation(adds, [["head 0"], ["head 1"]], ["runs", "run"], title="").axes
    table = {}
    for text in ax.texts:
        across, down = text.get_position()
        table.setdefault(round(down, 6), []).append((across, text.get_text()))
    rows = [[word for _, word in sorted(row)] for _, row in sorted(table.items())]
    assert [" ".join(row) for row in rows[3:]] == [
        "token 0 7 0 7 0 7 0 7 0 7 0 7",
        "head 0 3 0 0 3 0 0 1.5 1.5 3 0 3 0",
        "head 1 5 0 5 0 5 0 5 0 0 0 5 0",
        "added up 8 7 5 10 5 7 6.5 8.5 3 7 8 7",
        "it says runs ✓ run ✓ run ✗ run ✗ run ✗ runs ✓",
        "B,\nsilenced alike   5 7 6.5 8.5 0 10 5 10",
        "it says   run ✓ run ✓ run ✓ run ✓",
    ]
    silenced = to_hex(HIDDEN["facecolor"])
    assert sum(to_hex(patch.get_facecolor()) == silenced for patch in ax.patches) == 4 * 2
    assert [text.get_text() for text in ax.texts if text.get_color() == HERO] == ["run ✗"] * 3


def test_a_probe_is_the_ridge_solution_and_is_judged_by_the_new():
    points, truth = [[3.0, 0.0], [-1.0, 0.0], [5.0, 1.0], [0.0, -1.0], [2.0, 7.0]], [1, -1, 1, 1, -1]
    style = {"known": 3, "penalty": 0.5, "names": ("yes", "no"), "title": ""}
    plane, line = figures.linear_probe(points, truth, **style).axes
    known, wanted = np.c_[np.array(points[:3]), np.ones(3)], np.array(truth[:3])
    *w, c = np.linalg.inv(known.T @ known + 0.5 * np.eye(3)) @ known.T @ wanted
    scores = np.array(points) @ w + c
    drawn = {tuple(dot) for dots in line.collections[:4] for dot in dots.get_offsets().round(6).tolist()}
    assert drawn == {(round(x, 6), y) for x, y in zip(scores, (-0.12, 0.12, -0.12, 0.88, 1.12), strict=True)}
    right = (np.sign(scores[3:]) == truth[3:]).sum()
    assert [text.get_text() for text in line.get_yticklabels()][1] == f"2 new:\n{right} right"
    assert len(plane.collections) == 6  # known and new of both kinds, wrong ones, and the legend's


def test_patches_of_an_image_have_their_weights_in_reading_order():
    images, maps = np.random.default_rng(1).random((2, 4, 6)), np.arange(12.0).reshape(2, 1, 6) / 12
    style = {"patch": (2, 2), "digits": [7, 8], "title": "", "bar": ""}
    first, head, second, other, _ = figures.image_attention(images, maps, ["L1.H0"], **style).axes
    for ax, image in zip((first, second), images, strict=True):
        np.testing.assert_array_equal(ax.images[0].get_array(), image)
    for ax, weights in zip((head, other), maps[:, 0], strict=True):
        np.testing.assert_array_equal(ax.collections[0].get_array(), weights.reshape(2, 3))
    assert [ax.get_ylabel() for ax in (first, second)] == ["a 7", "a 8"]


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


@pytest.mark.parametrize(("seconds", "wanted"), [(-1.0, [1, 2, 3]), (60.0, [3])])  # seldom, and at the end
def test_live_curve_is_a_bar_and_a_picture_that_grows(quick, monkeypatch, seconds, wanted):
    live = []
    monkeypatch.setattr(training, "publish_widget", live.append)
    monkeypatch.setattr(training, "REDRAWN_AFTER", seconds)
    watch, run, pictures = figures.live_curve(), History([], [], [], {}), []
    for step in range(3):
        run.loss.append(2.0 / (step + 1))
        watch(run, TrainingConfig(steps=3))
        pictures.append(live[0].children[1].value)
    (box,) = live
    bar = box.children[0].children[1]
    assert (bar.max, bar.value) == (3, 3)
    assert [step for step in (1, 2, 3) if f"after {step} steps" in pictures[step - 1]] == wanted
