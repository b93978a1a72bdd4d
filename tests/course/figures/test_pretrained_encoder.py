"""Means are those of the real tokens, and so is the cosine of two texts."""

import numpy as np
import torch
from matplotlib import colors

from transformer_course import figures
from transformer_course.figures.arithmetic import SIGNS
from transformer_course.figures.colours import GREY, LIT, pale


def test_means_of_real_tokens_and_of_all_have_their_cosines():
    texts = {"A": ([[3, 0], [3, 8]], [[0, -9]]), "C": ([[5, -1], [3, -1], [4, -1]], [])}
    figure = figures.mean_pooling(texts, title="")
    told = [ax.get_xlabel().rpartition("cosine: ")[2] for ax in figure.axes]
    assert told == ["A and C .39", "A and C 1.00"]
    lines = [[line for line in ax.lines if len(line.get_xdata()) == 2] for ax in figure.axes]
    ends = [{tuple(line.get_xydata()[-1]) for line in of_panel} for of_panel in lines]
    assert {(3, 4), (4, -1)} <= ends[0] and {(2, -1 / 3), (4, -1)} <= ends[1]
    squares = [
        [each for each in ax.lines if each.get_marker() == "s" and len(each.get_xdata())]
        for ax in figure.axes
    ]
    assert [each.get_markerfacecolor() for (each,) in squares] == ["white", GREY]  # left out, counted


def cells(ax):
    """The numbers and words that have a frame: text → (middle, colour or hatch)."""
    boxes = [(patch.get_window_extent(), patch) for patch in ax.patches]
    found = [(text, patch) for text in ax.texts for box, patch in boxes if box.contains(*at(text))]
    return [
        (text.get_text(), patch.get_hatch() or colors.to_hex(patch.get_facecolor())) for text, patch in found
    ]


def at(text):
    return text.axes.transData.transform(text.get_position())


def test_two_texts_become_the_cosine_of_the_means_of_their_real_tokens():
    hidden = torch.tensor([[[3.0, 0, 0], [3, 8, 0], [0, -9, 0]], [[5.0, -1, 0], [3, -1, 0], [4, -1, 0]]])
    real = torch.tensor([[True, True, False], [True, True, True]])[:, None, None]
    named = {"one": ["a", "b", "[PAD]"], "other": ["c", "d", "e"]}
    (ax,) = figures.text_cosine(hidden, real, named, features=[0, 1], title="").axes
    boxed = cells(ax)
    assert [text for text, style in boxed if style == "////"] == ["0", "−9"]  # there, but not counted
    texts = [text for text, _ in boxed]
    assert {"3", "4", "0", ".60", ".80", "−.24"} < set(texts)  # of A, by hand: (3, 4), and that over 5
    assert [text for text, style in boxed if style == LIT] == [".39"]  # .6 · .97 − .8 · .24
    below = [text for text, style in boxed if style == pale(SIGNS["below 0"], 0.1 + 0.9 / 8)]
    assert below == ["−1"] * 4  # of tables up to 8; the mean is on their scale
    assert [len(each.get_segments()) for each in ax.collections] == [6, 9]  # each hears each real token
    written = "".join(text.get_text() for text in ax.texts)
    assert "÷ 5.00" in written and "(.60) · (.97)\n+ (.80) · (−.24) + … 3 products" in written
    assert "above 0: .58" in written and "below 0: −.19" in written  # .6 · .97 and .8 · (−.24)
    bars = [patch for patch in ax.patches if patch.get_height() == 0.26]
    ends = [(patch.get_x() - bars[0].get_x(), patch.get_width()) for patch in bars]
    assert np.allclose(ends, [(0, 2.2 * 0.582), (2.2 * 0.582, -2.2 * 0.194)], atol=0.01)  # back from there
