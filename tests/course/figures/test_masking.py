"""A row behind its mask, and a web of who takes from whom."""

import math

import pytest
import torch
from matplotlib.figure import Figure

from transformer_course import figures

TOKENS = ["the", "cat", "sat"]


def test_a_masked_row_ends_at_the_softmax_of_what_is_left():
    scores, seen = [[0, 0, 0], [0, 0, 0], [0, 2, 1]], [[True, False, True]] * 3
    figure = figures.masked_row(scores, seen, TOKENS, "sat")
    weights = [1 / (1 + math.e), 0.0, math.e / (1 + math.e)]
    _, kept, grown, before = figure.axes[-1].containers
    total = [one.get_height() + more.get_height() for one, more in zip(kept, grown, strict=True)]
    assert total == pytest.approx(weights)
    assert [bar.get_height() for bar in before] == pytest.approx(
        torch.tensor([0.0, 2, 1]).softmax(0).tolist()
    )
    assert [text.get_text() for text in figure.axes[1].texts if text.get_text()] == ["0", "2", "−∞", "1"]


def test_a_web_lights_what_reaches_one_token():
    ax = Figure().add_subplot()
    causal = torch.ones(3, 3).tril().bool()
    figures.draw_web(ax, [causal, torch.eye(3)], TOKENS, 1)
    bold = [label.get_text() for label in ax.get_xticklabels() if label.get_weight() == "bold"]
    assert bold == ["the", "cat"]
    assert ax.get_xlabel() == "“cat” hears of 2 of 3"
    figures.draw_web(ax, [[[1, 0, 0], [0.4, 0.6, 0], [0, 0, 1]]], TOKENS, 1)
    assert ax.get_xlabel() == "“cat” takes .60 from “cat”, .40 from “the”"


def test_a_mask_may_have_numbers_in_its_cells_and_frames():
    seen, ids = torch.tensor([[True, False]] * 2), torch.tensor([[7, 0]] * 2)
    figure = figures.masks({"a": seen}, ["x", "[PAD]"], numbers=[ids], framed=[~seen])
    assert [text.get_text() for text in figure.axes[0].texts] == ["7", "0"] * 2
    assert (
        sum(
            patch.get_edgecolor() == (1, 1, 1, 1) and not patch.get_fill() for patch in figure.axes[0].patches
        )
        == 2
    )
