"""Heatmaps write each number as the prose does, in ink that contrasts with its cell."""

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from tests.course.figures.colours import contrast
from transformer_course import figures
from transformer_course.figures.layout import cell_texts


@pytest.mark.parametrize("colours", ["viridis", "RdBu_r"])
def test_numbers_contrast_with_their_cells(colours):
    ax, labels = Figure().add_subplot(), [str(i) for i in range(12)]
    figures.draw_matrix(ax, torch.linspace(0.01, 1, 144).reshape(12, 12), labels, labels, colours=colours)
    cells = ax.collections[0].get_facecolors()
    assert min(contrast(text.get_color(), cell) for text, cell in zip(ax.texts, cells, strict=True)) >= 4.5


def test_cells_are_written_like_the_prose_and_all_of_a_matrix_alike():
    numbers = {0.666: "0.67", 0.2: "0.20", -0.5: "−0.50", 0.996: "1.00", 4: "4.00", -10.5: "−10.50"}
    numbers |= {0: "0.00", 0.004: "0.00", -0.004: "0.00"}
    assert cell_texts(np.array([list(numbers)])).tolist() == [list(numbers.values())]
    assert cell_texts(np.array([[0.0, 4.0], [-2.0, 10.0]])).tolist() == [["0", "4"], ["-2", "10"]]


def test_a_hidden_cell_is_hatched_and_has_no_number():
    ax, tokens = Figure().add_subplot(), ["the", "old", "cat"]
    hidden = torch.tensor([[0, 0, 1], [0, 0, 0], [0, 1, 0]]).bool()
    figures.draw_matrix(ax, torch.full((3, 3), 0.5), tokens, tokens, hidden=hidden)
    hatched = [(patch.get_y(), patch.get_x()) for patch in ax.patches if patch.get_hatch()]
    assert hatched == [(0, 2), (2, 1)]
    assert [text.get_text() for text in ax.texts] == ["0.50", "0.50", "", *["0.50"] * 4, "", "0.50"]
