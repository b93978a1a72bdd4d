"""Large tables, planes, tiles and patches: every number in its place."""

import numpy as np
import pytest
import torch

from transformer_course import figures
from transformer_course.figures.layout import COSINE, SIGNED

LABELS = {"xlabel": "", "ylabel": "", "title": "", "bar": ""}


def test_tables_and_scores_are_drawn_as_given_on_one_signed_scale():
    given = {"left": torch.randn(13, 7), "right": -7 * torch.eye(5)}
    reach = max(each.abs().max().item() for each in given.values())
    cosines = {name: values / reach for name, values in given.items()}
    tables = figures.position_tables(cosines, xlabel="", title="", bar="")
    drawings = (tables, cosines, 1), (figures.score_maps(given, title="", bar=""), given, reach)
    for figure, wanted, most in drawings:
        for ax, values in zip(figure.axes, wanted.values(), strict=False):
            np.testing.assert_allclose(ax.images[0].get_array(), values)
            assert ax.images[0].get_clim() == (-most, most)
            assert ax.yaxis_inverted()  # position 0 on top


def test_cosines_have_a_colour_map_of_their_own():
    for cosine, colours in ((True, COSINE), (False, SIGNED)):
        figure = figures.position_tables({"a": torch.eye(3)}, xlabel="", title="", bar="", cosine=cosine)
        assert figure.axes[0].images[0].get_cmap().name == colours


def test_planes_share_one_scale_and_mark_the_points():
    functions = {
        "sum": lambda x, y: x + y,
        "first": lambda x, y: 4 * x,
        "flat": lambda x, y: torch.tensor(0.5),
    }
    figure = figures.planes(functions, **LABELS, limits=(-1, 1), points={"here": (0.5, -0.5)})
    images = [ax.images[0] for ax in figure.axes[:3]]
    assert {image.get_clim() for image in images} == {(-4, 4)}
    assert {image.origin for image in images} == {"lower"}  # rows go up, as the axis says
    corners = [
        (values[0, 0], values[-1, 0], values[-1, -1]) for values in (image.get_array() for image in images)
    ]
    np.testing.assert_allclose(corners, [(-2, 0, 2), (-4, -4, 4), (0.5, 0.5, 0.5)], atol=1e-12)
    for ax in figure.axes[:3]:
        assert [text.get_text() for text in ax.texts] == ["here"]
        assert [line.get_xydata().tolist() for line in ax.lines] == [[[0.5, -0.5]]]
    steep = figures.planes({"steep": lambda x, y: 10 * x}, **LABELS, reach=1.5)
    assert steep.axes[0].images[0].get_clim() == (-1.5, 1.5)


@pytest.mark.parametrize(("layers", "heads"), [(2, 3), (1, 1), (3, 12)])
def test_the_atlas_puts_layers_down_and_heads_across(layers, heads):
    maps = torch.rand(layers, heads, 5, 5)
    ax = figures.head_atlas(maps).axes[0]
    tiles = ax.images[0].get_array()
    for layer, down in enumerate(ax.get_yticks()):
        for head, right in enumerate(ax.get_xticks()):
            np.testing.assert_allclose(
                tiles[int(down) - 2 : int(down) + 3, int(right) - 2 : int(right) + 3], maps[layer, head]
            )
    assert np.isfinite(np.ma.filled(tiles, np.nan)).sum() == maps.numel()


def test_a_patch_gets_the_colour_of_its_own_weight():
    images = torch.arange(24.0).view(1, 4, 6)
    weights = torch.tensor([[[0.1, 0.2, 0.3, 0.4]]])  # two rows of two patches
    ink, head, _ = figures.image_attention(images, weights, ["head 0"], patch=(2, 3), title="", bar="").axes
    np.testing.assert_allclose(ink.images[0].get_array(), images[0])
    assert [line.get_ydata()[0] for line in ink.lines] == [1.5, 0]
    assert ink.lines[1].get_xdata()[0] == 2.5
    (shown,) = head.images  # and no ink, which would change the colours
    np.testing.assert_allclose(shown.get_array(), [[0.1, 0.2], [0.3, 0.4]])
    assert shown.get_extent() == [-0.5, 5.5, 3.5, -0.5]  # as large as the image
