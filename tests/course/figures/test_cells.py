"""Cells of a few kinds: each has the colour of its kind."""

import numpy as np
import pytest
import torch
from matplotlib import colors

from transformer_course import figures
from transformer_course.figures.colours import HIDDEN, NO, OPEN, YES
from transformer_lab import causal_mask, local_mask

TOKENS = ["dog", "bites", "man"]


def cell_colours(ax):
    mesh = ax.collections[0]
    mesh.update_scalarmappable()
    return [colors.to_hex(colour) for colour in mesh.get_facecolors()]


def hatched(ax):
    """Row and column of every cell that is drawn as hidden."""
    return [(int(patch.get_y()), int(patch.get_x())) for patch in ax.patches if patch.get_hatch()]


def test_a_mask_is_drawn_as_it_is_and_what_is_hidden_is_hatched():
    mask = causal_mask(3)[0, 0]
    ax = figures.masks({"": mask}, TOKENS).axes[0]
    np.testing.assert_array_equal(ax.collections[0].get_array().reshape(3, 3), mask)
    assert cell_colours(ax)[0] == OPEN
    assert hatched(ax) == [(0, 1), (0, 2), (1, 2)]
    assert [text.get_text() for text in ax.texts] == ["✓", "", "", "✓", "✓", "", "✓", "✓", "✓"]


@pytest.mark.parametrize("number", [1, 5])
def test_panels_without_a_mask_are_blank_and_the_legend_says_what_is_hatched(number):
    named = {f"window {w}": local_mask(3, w)[0, 0] for w in range(number)}
    figure = figures.masks(named, TOKENS, legend=("moves", "stays"))
    assert [ax.get_title() for ax in figure.axes if ax.axison] == list(named)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["moves", "stays"]
    assert [patch.get_hatch() for patch in legend.get_patches()] == [None, HIDDEN["hatch"]]
    assert hatched(figure.axes[0]) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]


def test_where_the_rows_are_no_tokens_nothing_is_hidden_and_nothing_hatched():
    style = {"legend": ("notices", "does not"), "labels": ("test", "bug")}
    figure = figures.masks(
        {"": [[1, 0], [0, 0], [1, 1]]}, ["a", "b"], queries=["one", "two", "three"], **style
    )
    ax = figure.axes[0]
    assert cell_colours(ax)[:2] == [YES, NO] and not ax.texts
    assert hatched(ax) == [] and ax.collections[0].get_array().ravel().tolist() == [1, 0, 0, 0, 1, 1]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["one", "two", "three"]
    assert [patch.get_hatch() for patch in figure.legends[0].get_patches()] == [None, None]


def test_a_mask_may_have_numbers_in_its_cells():
    seen, ids = torch.tensor([[True, False]] * 2), torch.tensor([[7, 0]] * 2)
    figure = figures.masks({"a": seen}, ["x", "[PAD]"], numbers=[ids])
    assert [text.get_text() for text in figure.axes[0].texts] == ["7", "0"] * 2


def test_each_panel_may_have_axes_of_its_own():
    pairs = [("key", "query"), ("changed", "output")]
    figure = figures.masks({"a": np.eye(3), "b": np.eye(3)}, TOKENS, labels=pairs)
    assert [(ax.get_xlabel(), ax.get_ylabel()) for ax in figure.axes] == pairs


def test_what_a_mask_does_is_dark_and_light_beside_it_and_the_legend_says_all():
    style = {"legend": ["may", "not", "moves", "stays", "framed: both"], "effects": ["b"], "boxed": [(0, 0)]}
    figure = figures.masks({"a": np.eye(2), "b": np.eye(2)}, ["x", "y"], **style)
    mask, effect = figure.axes
    assert (hatched(mask), hatched(effect)) == ([(0, 1), (1, 0)], [])
    assert (cell_colours(mask)[0], cell_colours(effect)[:2]) == (OPEN, [YES, NO])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == style["legend"]


def test_rows_or_columns_of_every_mask_may_have_a_frame():
    figure = figures.masks({"a": np.eye(2), "b": np.eye(2)}, ["x", "y"], boxed=[(1, 0, 2, 1)])
    for ax in figure.axes:
        (frame,) = [patch for patch in ax.patches if not patch.get_fill()]
        assert (frame.get_xy(), frame.get_width(), frame.get_height()) == ((0, 1), 2, 1)


def test_each_row_of_a_wrong_cut_that_has_another_tokens_numbers_has_one_frame():
    right, wrong = torch.arange(12).view(3, 4), torch.arange(12).view(2, 3, 2)[0]
    ax, head = figures.head_blocks({"a": right, "b": wrong}, TOKENS, 4, 2).axes
    assert not ax.patches
    frames = [(patch.get_xy(), patch.get_width(), patch.get_height()) for patch in head.patches]
    assert frames == [((0, 1), 2, 1), ((0, 2), 2, 1)]
