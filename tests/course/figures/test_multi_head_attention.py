"""Two heads choose each for itself, and a wrong cut is framed."""

import torch

from tests.course.figures.drawn import boxed
from transformer_course import figures

TOKENS = ["dog", "bites", "man"]


def test_each_row_of_a_wrong_cut_that_has_another_tokens_numbers_has_one_frame():
    right, wrong = torch.arange(12).view(3, 4), torch.arange(12).view(2, 3, 2)[0]
    ax, head = figures.head_blocks({"a": right, "b": wrong}, TOKENS, 4, 2).axes
    assert not ax.patches
    frames = [(patch.get_xy(), patch.get_width(), patch.get_height()) for patch in head.patches]
    assert frames == [((0, 1), 2, 1), ((0, 2), 2, 1)]


def test_two_heads_choose_each_for_itself_and_add_up_by_their_rows_of_w_o():
    query, keys = [2.0, 0, 0, 2], [[2.0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 2]]
    values = [[1, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 1]]
    mixing = [[1, 0, 1, 0], [0, 1, 0, 1], [-1, 0, 1, 0], [0, -1, 0, 1]]
    jobs = {"one head": "", "head 0": "", "head 1": ""}
    (ax,) = figures.two_heads(query, keys, values, mixing, TOKENS, jobs, ("is", "was"), title="").axes
    numbers = " ".join(text for text, _ in boxed(ax))
    assert "4 0 4 2 0 2 .47 .06 .47" in numbers and ".47 .47 .47 .47" in numbers
    assert "4 0 0 2.8 0 0 .89 .05 .05" in numbers and "0 0 4 0 0 2.8 .05 .05 .89" in numbers
    assert ".89 .05 .89 .05 −.05 −.89 .05 .89 .84 −.84 .94 .94" in numbers  # head 0, head 1, their sum
    assert numbers.endswith(".05 .89 .89 .05 −.84 .84 .94 .94")  # man bites dog
