"""The figures about heads show which number came from where, and every head in its place."""

import numpy as np
import pytest
import torch
from matplotlib import colors
from matplotlib.patches import Rectangle

from transformer_lab.course import figures
from transformer_lab.course.figures.heads import HEAD_COLOURS, MARK

TOKENS = ["dog", "bites", "man"]


def words(ax):
    return [text.get_text() for text in ax.texts]


def test_blocks_tell_token_and_feature_in_words():
    origin = torch.arange(12).view(3, 4)
    figure = figures.head_blocks({"x": origin, "head 1": origin[:, 2:]}, TOKENS, 4, 2, title="cut")
    whole, second = figure.axes
    assert words(whole)[:5] == ["dog 0", "dog 1", "dog 2", "dog 3", "bites 0"]
    assert words(second) == ["dog 2", "dog 3", "bites 2", "bites 3", "man 2", "man 3"]
    assert (whole.get_title(), second.get_title()) == ("x", "head 1")


def test_the_colour_of_a_block_is_the_head_of_its_feature():
    ax = figures.head_blocks({"x": torch.arange(18).view(3, 6)}, TOKENS, 6, 3).axes[0]
    mesh = ax.collections[0]
    mesh.update_scalarmappable()
    first_row = [colors.to_hex(colour) for colour in mesh.get_facecolors()[:6]]
    assert first_row == [HEAD_COLOURS[head] for head in (0, 0, 1, 1, 2, 2)]


def test_blocks_refuse_more_heads_than_colours():
    with pytest.raises(ValueError, match="at most 4, got 6; draw fewer"):
        figures.head_blocks({"x": torch.arange(18).view(3, 6)}, TOKENS, 6, 6)


def test_the_atlas_puts_layers_down_and_heads_across():
    maps = torch.rand(2, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    ax = figures.head_atlas(maps, title="all").axes[0]
    tiles = ax.images[0].get_array()
    rows, columns = (
        [int(np.ceil(tick)) - 2 for tick in ticks] for ticks in (ax.get_yticks(), ax.get_xticks())
    )
    for layer, top in enumerate(rows):
        for head, left in enumerate(columns):
            np.testing.assert_allclose(tiles[top : top + 5, left : left + 5], maps[layer, head].numpy())
    assert np.isfinite(np.ma.filled(tiles, np.nan)).sum() == maps.numel()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["layer 0", "layer 1"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["head 0", "head 1", "head 2"]
    assert ax.images[0].get_clim() == (0, 1)


def test_the_atlas_frames_and_names_the_marked_heads_only():
    ax = figures.head_atlas(torch.rand(2, 3, 5, 5), marked={(1, 2): "next"}).axes[0]
    (frame,) = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    x, y = frame.get_xy()
    assert (x + 2.5, y + 2.5) == (ax.get_xticks()[2], ax.get_yticks()[1])
    assert colors.to_hex(frame.get_edgecolor()) == MARK
    assert words(ax) == ["next"]
