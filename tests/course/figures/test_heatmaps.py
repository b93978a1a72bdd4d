"""Heatmaps write each number as the prose does, in ink that contrasts with its cell."""

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt

from tests.course.figures.colours import contrast
from transformer_course import figures
from transformer_course.figures.layout import cell_texts

TOKENS = ["the", "old", "cat"]


@pytest.mark.parametrize("colours", ["viridis", "RdBu_r"])
def test_numbers_contrast_with_their_cells(colours):
    figure, ax = plt.subplots()
    labels = [str(i) for i in range(12)]
    figures.draw_matrix(ax, torch.linspace(0.01, 1, 144).reshape(12, 12), labels, labels, colours=colours)
    cells = ax.collections[0].get_facecolors()
    assert len(ax.texts) == 144
    assert min(contrast(text.get_color(), cell) for text, cell in zip(ax.texts, cells, strict=True)) >= 4.5
    plt.close(figure)


WRITTEN = {0.666: ".67", 0.2: ".20", -0.5: "−.50", 0.996: "1.00", 4: "4.00", 9.1: "9.10", -10.5: "−10.50"}
NEARLY_NOTHING = {0: ".00", 0.004: ".00", -0.004: ".00"}


def test_cells_are_written_like_the_prose_and_all_of_a_matrix_alike():
    numbers = WRITTEN | NEARLY_NOTHING
    assert cell_texts(np.array([list(numbers)])).tolist() == [list(numbers.values())]
    assert cell_texts(np.array([[0.0, 4.0], [-2.0, 10.0]])).tolist() == [["0", "4"], ["-2", "10"]]


MAPS = torch.rand(4, 3, 3, generator=torch.Generator().manual_seed(3)).softmax(-1)


def test_a_hidden_cell_is_hatched_and_has_no_number():
    figure, ax = plt.subplots()
    figures.draw_matrix(ax, MAPS[0], TOKENS, TOKENS, hidden=torch.eye(3).bool())
    assert [(patch.get_y(), patch.get_x()) for patch in ax.patches if patch.get_hatch()] == [
        (0, 0), (1, 1), (2, 2)
    ]  # fmt: skip
    assert [text.get_text() for text in ax.texts][::4] == [""] * 3
    plt.close(figure)
    (one, two), mask = MAPS[:2], torch.tril(torch.ones(3, 3)) == 0
    figure = figures.head_grid([one, two], TOKENS, ["a", "b"], per_panel=[{}, {"hidden": mask}])
    assert [len(ax.patches) for ax in figure.axes[:2]] == [0, 3]


def hatched(ax):
    """Row and column of every cell that is drawn as hidden."""
    return [(int(patch.get_y()), int(patch.get_x())) for patch in ax.patches if patch.get_hatch()]
