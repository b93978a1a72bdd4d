"""Large tables, planes, tiles and patches: every number in its place."""

import numpy as np
import torch
from matplotlib.figure import Figure

from transformer_course import figures


def test_tables_are_drawn_as_given_on_one_signed_scale():
    given = {"left": torch.randn(13, 7), "right": -7 * torch.eye(5)}
    figure = figures.position_tables(given, labels=("", ""), title="", bar="")
    for ax, values in zip(figure.axes, given.values(), strict=False):
        np.testing.assert_allclose(ax.images[0].get_array(), values)
        assert ax.images[0].get_clim() == (-7, 7)
        assert ax.yaxis_inverted()  # position 0 on top


def test_a_line_along_a_distance_tells_three_of_its_numbers_and_words_stand_above_columns():
    table = torch.arange(100.0).view(10, 10)
    look = {"labels": ("", ""), "title": "", "bar": "", "distance": 4, "above": {"here": 2.5}, "edge": 6.5}
    ax = figures.position_tables({"a": table}, **look).axes[0]
    along, *dots, edge = ax.lines
    assert ax.get_title() == "a\non the line, distance 4: 67.50 ± 18.79" and set(edge.get_xdata()) == {6.5}
    assert {(y - x) for x, y in along.get_xydata()} == {4} and len(along.get_xdata()) == 6
    assert [dot.get_xydata()[0].tolist() for dot in dots] == [[1, 5], [3, 7], [5, 9]]
    assert [text.get_text() for text in ax.texts] == ["51.00", "73.00", "95.00"]
    (top,) = ax.child_axes
    assert [(label.get_position()[0], label.get_text()) for label in top.get_xticklabels()] == [(2.5, "here")]


def test_planes_share_one_scale_and_mark_the_points():
    x, y = torch.meshgrid(torch.linspace(-1, 1, 5), torch.linspace(-1, 1, 5), indexing="xy")
    functions = {"sum": x + y, "first": 4 * x, "flat": 0 * x + 0.5}
    look = {"labels": ("", ""), "title": "", "bar": "", "plane": (-1, 1)}
    figure = figures.position_tables(functions, **look, points={"here": (0.5, -0.5)})
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
    steep = figures.position_tables({"steep": 10 * x}, **look, reach=1.5)
    assert steep.axes[0].images[0].get_clim() == (-1.5, 1.5)


def test_the_atlas_puts_heads_across_and_names_each():
    maps = torch.rand(2, 3, 5, 5)
    ax, large = figures.head_atlas(maps, list("abcde"), enlarged=(1, 2)).axes
    np.testing.assert_allclose(large.collections[0].get_array(), maps[1, 2])
    assert [label.get_text() for label in large.get_xticklabels()] == list("abcde")
    (frame,) = ax.patches
    tiles, names = ax.images[0].get_array(), {text.get_text(): text for text in ax.texts}
    for layer, head in np.ndindex(2, 3):
        left, top = head * 7, 2 + layer * 7
        np.testing.assert_allclose(tiles[top : top + 5, left : left + 5], maps[layer, head])
        assert names[f"L{layer}.H{head}"].get_position()[0] == left + 2
    assert (frame.get_x(), frame.get_y()) == (13, 8)  # round the last tile
    assert np.isfinite(np.ma.filled(tiles, np.nan)).sum() == maps.numel()


def test_what_the_heads_add_is_summed_up_to_the_one_that_is_shown():
    ax, adds = Figure().add_subplot(), np.arange(12).reshape(2, 3, 2)
    figures.draw_heads(ax, 1, np.full((2, 3, 3), 1 / 3), adds, ["a", "b", "c"], every=1)
    weights, added, before, summed, *scales = (each.get_array() for each in ax.collections)
    assert (weights == 1 / 3).all()
    np.testing.assert_array_equal(added, adds[1])
    np.testing.assert_array_equal(before, adds[0])
    np.testing.assert_array_equal(summed, adds.sum(axis=0))
    assert [(scale.min(), scale.max()) for scale in scales] == [(0, 1), (-1, 1)]
    assert {patch.get_y() for patch in ax.patches if not patch.get_fill()} == {2}  # it adds most to the last
    assert [each.get_clim()[1] for each in ax.collections[1:4]] == [16, 16, 16]  # one: it adds up by eye
    words = [text.get_text() for text in ax.texts]
    assert "from −16.00 to 16.00" in words
    assert not any(word.endswith(", rests") for word in words)
    figures.draw_heads(ax, 1, np.full((2, 3, 3), [0.6, 0.4, 0]), adds, ["a", "b", "c"], every=1)
    assert sum(text.get_text().endswith(", rests") for text in ax.texts) == 3
