"""A step of training is drawn with the numbers that PyTorch comes to, an ablation with those of a pencil."""

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from torch.nn import functional as F

from transformer_course import figures
from transformer_course.figures.colours import HERO, HIDDEN
from transformer_course.figures.worked_examples import _short


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
    assert {_short(loss.item()) for loss in (before, after)} < set(written)
    told = [*gradient.flatten().tolist(), *weights.flatten().tolist(), *(weights @ x).tolist()]
    assert {_short(value) for value in told} < set(written)


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


def test_the_first_measure_of_a_case_is_a_weight_and_the_others_have_the_level_of_guessing():
    cases = {"x": {"weight": [0.25, np.nan], "wrong": [0.5, 1]}, "y": {"weight": [1, 0], "wrong": [0, 0.125]}}
    figure = figures.weight_and_ablation(cases, ["a", "b"], title="")
    widths = [[bar.get_width() for bar in ax.patches] for ax in figure.axes]
    assert widths == [[0.25], [0.5, 1], [1, 0], [0, 0.125]]  # nan has no bar
    assert len({ax.get_xlim() for ax in figure.axes}) == 1
    assert [[*line.get_xdata()] for ax in figure.axes for line in ax.lines] == [[0.5, 0.5]] * 2
    assert [ax.get_ylabel() for ax in figure.axes] == ["x", "", "y", ""]
