"""Large tables, planes, tiles and patches: every number in its place."""

import numpy as np
import torch
from matplotlib.figure import Figure

from transformer_course import figures
from transformer_course.figures.images import draw_tiles


def test_tables_are_drawn_as_given_on_one_signed_scale():
    given = {"left": torch.randn(13, 7), "right": -7 * torch.eye(5)}
    figure = figures.position_tables(given, labels=("", ""), title="", bar="")
    for ax, values in zip(figure.axes, given.values(), strict=False):
        np.testing.assert_allclose(ax.images[0].get_array(), values)
        assert ax.images[0].get_clim() == (-7, 7)
        assert ax.yaxis_inverted()  # position 0 on top


def test_a_line_along_a_distance_tells_three_of_its_numbers_and_words_stand_above_columns():
    table = torch.arange(100.0).view(10, 10)
    look = {"labels": ("", ""), "title": "", "bar": "", "above": {"here": 2.5}, "edge": 6.5}
    ax = figures.position_tables({"a": table}, distances=[4], **look).axes[0]
    along, *dots, edge = ax.lines
    assert ax.get_title() == "a\non the line, distance 4: 67.50 ± 18.79" and set(edge.get_xdata()) == {6.5}
    assert {(y - x) for x, y in along.get_xydata()} == {4} and len(along.get_xdata()) == 6
    assert [dot.get_xydata()[0].tolist() for dot in dots] == [[1, 5], [3, 7], [5, 9]]
    assert [text.get_text() for text in ax.texts] == ["51.00", "73.00", "95.00"]
    both = figures.position_tables({"a": table}, distances=[4, -2], first=1, **look).axes[0]
    assert both.get_title().endswith("on the upper line, distance 2: 46.00 ± 22.00")
    assert both.lines[6].get_xydata()[0].tolist() == [3, 1]
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


def test_tiles_stand_where_it_is_told_and_bear_their_names():
    ax, maps = Figure().add_subplot(), np.random.default_rng(1).random((5, 4, 4))
    corners = draw_tiles(ax, maps, 3, gap=2, names="abcde", framed=[4])
    tiles = ax.images[0].get_array()
    assert corners == [(2, 0), (2, 6), (2, 12), (8, 0), (8, 6)]
    for (top, left), tile, name in zip(corners, maps, ax.texts, strict=True):
        np.testing.assert_allclose(tiles[top : top + 4, left : left + 4], tile)
        assert name.get_position()[0] == left + 1.5
    assert [(frame.get_x(), frame.get_y()) for frame in ax.patches] == [(5, 7)]  # round it, not over it
    assert np.isfinite(np.ma.filled(tiles, np.nan)).sum() == maps.size
