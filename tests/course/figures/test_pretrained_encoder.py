"""Means are those of the real tokens, and so is the cosine of two texts."""

import numpy as np
import torch

from tests.course.figures.drawn import boxed, words
from transformer_course import figures
from transformer_course.figures.colours import LIT


def test_means_of_real_tokens_and_of_all_have_their_cosines():
    texts = {"A": ([[3, 0], [3, 8]], [[0, -9]]), "C": ([[5, -1], [3, -1], [4, -1]], [])}
    figure = figures.mean_pooling(texts, title="")
    told = [ax.get_xlabel().rpartition("cosine: ")[2] for ax in figure.axes]
    assert told == ["A and C .39", "A and C 1.00"]
    lines = [[line for line in ax.lines if len(line.get_xdata()) == 2] for ax in figure.axes]
    ends = [{tuple(line.get_xydata()[-1]) for line in of_panel} for of_panel in lines]
    assert {(3, 4), (4, -1)} <= ends[0] and {(2, -1 / 3), (4, -1)} <= ends[1]


def test_two_texts_become_the_cosine_of_the_means_of_their_real_tokens():
    hidden = torch.tensor([[[3.0, 0, 0], [3, 8, 0], [0, -9, 0]], [[5.0, -1, 0], [3, -1, 0], [4, -1, 0]]])
    real = torch.tensor([[True, True, False], [True, True, True]])[:, None, None]
    named = {"one": ["a", "b", "[PAD]"], "other": ["c", "d", "e"]}
    (ax,) = figures.text_cosine(hidden, real, named, features=[0, 1], title="").axes
    assert [text for text, style in boxed(ax) if style == "////"] == ["0", "−9"]  # there, but not counted
    # of A, by hand: (3, 4), and that over 5
    assert {"3", "4", "0", ".60", ".80", "−.24"} < {text for text, _ in boxed(ax)}
    assert [text for text, style in boxed(ax) if style == LIT] == [".39"]  # .6 · .97 − .8 · .24
    assert [len(each.get_segments()) for each in ax.collections] == [6, 9]  # each hears each real token
    written = "".join(words(ax))
    assert "÷ 5.00" in written and "(.60) · (.97)\n+ (.80) · (−.24) + … 3 products" in written
    assert "above 0: .58" in written and "below 0: −.19" in written  # .6 · .97 and .8 · (−.24)
    bars = [patch for patch in ax.patches if patch.get_height() == 0.26]
    ends = [(patch.get_x() - bars[0].get_x(), patch.get_width()) for patch in bars]
    assert np.allclose(ends, [(0, 2.2 * 0.582), (2.2 * 0.582, -2.2 * 0.194)], atol=0.01)  # back from there
