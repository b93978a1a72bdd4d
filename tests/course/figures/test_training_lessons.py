"""The figures of lesson 10 put each weight over the right patch, and each frame around the right cell."""

import numpy as np
import pytest
import torch

from transformer_lab.course import figures

TOKENS = ["the", "cat", "runs"]


def test_frames_stand_around_the_wanted_cells_of_every_map():
    wanted = torch.tensor([[0, 0, 0], [0, 0, 0], [0, 1, 0]]).bool()
    maps = {"head 0": torch.rand(3, 3), "head 1": torch.rand(3, 3)}
    figure = figures.wanted_maps(maps, wanted, TOKENS, title="the verb looks at its subject")
    for ax, name in zip(figure.axes, maps, strict=False):
        assert ax.get_title() == name
        (frame,) = ax.patches
        assert frame.get_xy() == (1, 2)
        assert [label.get_text() for label in ax.get_xticklabels()] == TOKENS


def test_maps_without_a_place_are_not_drawn():
    maps = {f"head {i}": torch.rand(3, 3) for i in range(3)}
    figure = figures.wanted_maps(maps, torch.zeros(3, 3).bool(), TOKENS, title="three", columns=2)
    assert [ax.axison for ax in figure.axes[:4]] == [True, True, True, False]


def test_a_patch_gets_the_colour_of_its_own_weight():
    images = torch.arange(24.0).view(1, 4, 6)
    weights = torch.tensor([[[0.1, 0.2, 0.3, 0.4]]])  # two rows of two patches
    figure = figures.image_attention(images, weights, ["head 0"], patch=(2, 3), title="t", bar="weight")
    ink, head, bar = figure.axes
    np.testing.assert_allclose(ink.images[0].get_array(), images[0])
    assert [line.get_ydata()[0] for line in ink.lines] == [1.5, 0]
    assert ink.lines[1].get_xdata()[0] == 2.5
    np.testing.assert_allclose(head.images[0].get_array(), [[0.1, 0.2], [0.3, 0.4]])
    assert head.images[0].get_extent() == [-0.5, 5.5, 3.5, -0.5]  # as large as the image
    assert (head.get_title(), bar.get_ylabel()) == ("head 0", "weight")


def test_each_seed_is_a_dot_and_the_stroke_is_their_mean():
    ax = figures.seed_spread({"a": [0.1, 0.3], "b": [0.9]}, xlabel="accuracy", title="seeds").axes[0]
    dots = [points.get_offsets().tolist() for points in ax.collections]
    assert [[x for x, _ in band] for band in dots] == [[0.1, 0.3], [0.9]]
    assert [round(y) for band in dots for _, y in band] == [0, 0, 1]
    assert dots[0][0][1] < dots[0][1][1]  # equal seeds do not hide each other
    assert [line.get_xdata()[0] for line in ax.lines] == pytest.approx([0.2, 0.9])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
