"""Pictures of masks: dark is hidden, tokens on both axes, a legend that says so."""

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt

from transformer_lab import causal_mask, local_mask
from transformer_lab.course import figures
from transformer_lab.course.figures.words import describe

TOKENS = ["the", "old", "cat"]


def panels(figure):
    return [ax for ax in figure.axes if ax.collections]


def ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_a_mask_is_drawn_as_it_is():
    mask = causal_mask(3)[0, 0]
    figure = figures.masks({"causal": mask}, TOKENS, title="No look ahead")
    (ax,) = panels(figure)
    mesh = ax.collections[0]
    np.testing.assert_array_equal(mesh.get_array().reshape(3, 3), mask.numpy())
    assert (ticks(ax.yaxis), ticks(ax.xaxis)) == (TOKENS, TOKENS)
    assert (ax.get_ylabel(), ax.get_xlabel(), ax.get_title()) == ("query", "key", "causal")
    assert figure.get_suptitle() == "No look ahead"


def test_hidden_is_dark():
    figure, ax = plt.subplots()
    figures.draw_mask(ax, torch.tensor([[True, False], [False, True]]), ["a", "b"])
    mesh = ax.collections[0]
    mesh.update_scalarmappable()
    visible, hidden = mesh.get_facecolors()[:2, :3].sum(axis=1)
    assert visible > 1.5 and hidden < 0.5
    plt.close(figure)


@pytest.mark.parametrize("number", [1, 4, 5])
def test_empty_panels_are_blank_and_the_legend_has_both_words(number):
    named = {f"window {w}": local_mask(3, w)[0, 0] for w in range(number)}
    figure = figures.masks(named, TOKENS, legend=("moves", "stays"))
    assert [ax.get_title() for ax in panels(figure)] == list(named)
    assert all(not ax.axison for ax in figure.axes if not ax.collections)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["moves", "stays"]
    light, dark = (sum(patch.get_facecolor()[:3]) for patch in figure.legends[0].get_patches())
    assert light > 1.5 and dark < 0.5


def test_the_description_holds_title_and_values():
    words = describe(figures.masks({"causal": causal_mask(3)[0, 0]}, TOKENS, title="No look ahead"))
    assert "No look ahead" in words and "causal" in words and "old" in words


def test_refuses_a_mask_with_all_four_axes():
    with pytest.raises(ValueError, match="pick one head"):
        figures.masks({"causal": causal_mask(3)}, TOKENS)
