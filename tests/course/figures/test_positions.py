"""A wave goes as its digit does, arrows in dials end where the numbers say, and their names can be read."""

import math

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt
from matplotlib.text import Annotation

from transformer_course import figures
from transformer_course.figures.colours import ROLES
from transformer_course.figures.layout import number, two_decimals
from transformer_course.figures.positions import ARC, PITCH, RADIUS
from transformer_lab import RotaryEmbedding


def test_a_wave_is_high_where_its_digit_is_one():
    panels = figures.digits_and_waves(3, (5, 6), title="").axes
    for ax, digits in zip(panels, ["00001111", "00110011", "01010101"], strict=True):
        *bars, band = ax.patches
        assert [f"{bar.get_height():.0f}" for bar in bars] == list(digits)
        assert (band.get_x(), band.get_width()) == (4.5, 2)
        x, y = ax.lines[0].get_data()
        high = np.interp(range(8), x, y) > 0.5
        assert "".join("01"[int(each)] for each in high) == digits
    ends = [words(ax)[8:10] for ax in panels]  # ½ − ½ sin of 13/8 · π, 13/4 · π and 13/2 · π at 6
    assert ends == [["1 → 1", ".96 → .96"], ["0 → 1", ".15 → .85"], ["1 → 0", "1.00 → .00"]]


def test_a_hand_is_as_high_as_the_sine_beside_it_and_as_far_right_as_the_cosine():
    dials, cells = figures.clock_table([0, 2], [math.pi / 4, math.pi / 12], title="").axes
    table = cells.collections[0].get_array().reshape(2, 4)
    np.testing.assert_allclose(table, [[0, 1, 0, 1], [1, 0, 0.5, 0.75**0.5]], atol=1e-12)
    assert cells.collections[0].get_clim() == (-1, 1)
    names = {label.get_text(): label.get_color() for label in cells.get_xticklabels()}
    assert list(names) == ["clock 0\nsin", "clock 0\ncos", "clock 1\nsin", "clock 1\ncos"]
    hands = [(text.xyann, text.xy) for text in dials.texts if isinstance(text, Annotation)]
    tips = [np.subtract(end, start) * (1, -1) / RADIUS for start, end in hands]
    np.testing.assert_allclose(tips, table.reshape(4, 2)[:, ::-1], atol=1e-12)
    across, up = dials.lines[6:8]  # of the last hand
    assert (across.get_color(), up.get_color()) == (names["clock 1\ncos"], names["clock 1\nsin"])
    np.testing.assert_allclose(np.ptp(across.get_xdata()), RADIUS * 0.75**0.5)
    np.testing.assert_allclose(np.ptp(up.get_ydata()), RADIUS / 2)
    assert [text.get_text() for text in dials.get_xticklabels()][1] == "clock 1 turns\n.262 a position"


def test_tables_are_drawn_as_given_on_one_signed_scale():
    given = {"left": torch.randn(13, 7), "right": -7 * torch.eye(5)}
    figure = figures.position_tables(given, labels=("", ""), title="", bar="")
    for ax, values in zip(figure.axes, given.values(), strict=False):
        np.testing.assert_allclose(ax.collections[0].get_array(), values)
        assert ax.collections[0].get_clim() == (-7, 7)
        assert ax.yaxis_inverted()  # position 0 on top


def test_a_line_along_a_distance_tells_three_of_its_numbers_and_words_stand_above_columns():
    table = torch.arange(100.0).view(10, 10)
    style = {"labels": ("", ""), "title": "", "bar": "", "above": {"here": 2.5}, "edge": 6.5}
    ax = figures.position_tables({"a": table}, distance=4, **style).axes[0]
    along, *dots, edge = ax.lines
    assert ax.get_title() == "a\ndashed: distance 4; mean 67.50, deviation 18.79" and set(
        edge.get_xdata()
    ) == {7.0}
    assert {(y - x) for x, y in along.get_xydata()} == {4} and len(along.get_xdata()) == 6
    assert [dot.get_xydata()[0].tolist() for dot in dots] == [[1.5, 5.5], [3.5, 7.5], [5.5, 9.5]]
    assert [text.get_text() for text in ax.texts] == ["51.00", "73.00", "95.00"]
    boxed = figures.position_tables({"a": table}, stripes=(2, 7), **style).axes[0]
    assert [patch.get_bbox().bounds for patch in boxed.patches] == [(2, 0, 1, 10), (0, 7, 10, 1)]
    assert [text.get_text() for text in boxed.texts] == [
        "key 2: highest mean",
        "query 7: highest mean",
    ]
    (top,) = ax.child_axes
    assert [(label.get_position()[0], label.get_text()) for label in top.get_xticklabels()] == [(3.0, "here")]


def test_planes_share_one_scale_and_mark_the_points():
    x, y = torch.meshgrid(torch.linspace(-1, 1, 5), torch.linspace(-1, 1, 5), indexing="xy")
    functions = {"sum": x + y, "first": 4 * x, "flat": 0 * x + 0.5}
    style = {"labels": ("", ""), "title": "", "bar": "", "plane": (-1, 1)}
    figure = figures.position_tables(functions, **style, points={"here": (0.5, -0.5)})
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


def words(ax):
    return [text.get_text() for text in ax.texts if text.get_text()]


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_arrows_end_where_the_pair_points_and_the_longest_of_all_reaches_the_rim(ax):
    query, key = torch.tensor([[2.0, 0.0], [0.0, 3.0]]), torch.tensor([[0.0, 1.0], [-6.0, 0.0]])
    figures.draw_turns(ax, {"q": query, "k": key}, ["fast", "slow"])
    arrows = [(text.xyann, text.xy) for text in ax.texts if isinstance(text, Annotation) and text.arrow_patch]
    starts, ends = [(0, 0), (PITCH, 0)] * 2, [(1 / 3, 0), (PITCH, 0.5), (0, 1 / 6), (PITCH - 1, 0)]
    np.testing.assert_allclose(arrows, list(zip(starts, ends, strict=True)), atol=1e-12)
    below = ["90° apart (arc): score 0"] * 2 + ["fast", "k", "k", "q", "q", "slow"]
    assert sorted(words(ax)) == below
    shown = {text.get_text(): text.get_color() for text in ax.texts}
    assert (shown["q"], shown["k"]) == (ROLES["query"], ROLES["key"])


def test_dots_behind_arrows_stand_in_place_of_the_ring_and_on_their_scale(ax):
    figures.draw_turns(ax, {"1": [[0.0, 2.0]]}, behind=[[[4.0, 0.0]], [[0.0, -1.0]]])
    np.testing.assert_allclose(ax.collections[0].get_offsets(), [[1, 0], [0, -0.25]])
    assert not ax.patches


def test_the_angle_between_two_arrows_is_an_arc_and_their_dot_product_stands_below(ax):
    query, key = torch.tensor([[1.0, -1.0], [-1.0, 0.1]]), torch.tensor([[2.0, 0.5], [-1.0, -0.1]])
    figures.draw_turns(ax, {"q": query, "k": key}, names=["one", "two"])
    assert words(ax)[:4] == ["59° apart (arc): score 1.5", "one", "11° apart (arc): score .99", "two"]
    for dial, (arc, ends) in enumerate(zip(ax.lines, zip(query, key, strict=True), strict=True)):
        points = arc.get_xydata() - [PITCH * dial, 0]
        for point, tip in zip(points[[-1, 0]], ends, strict=True):
            np.testing.assert_allclose(point, ARC * tip / tip.norm(), atol=1e-7)
        turned = np.linalg.norm(np.diff(points, axis=0), axis=1).sum() / ARC
        assert turned < math.pi  # the short way round, past the left as well


def test_an_arrow_that_was_turned_shows_where_it_was_and_its_way_against_the_clock(ax):
    turned = {"q": [[3.0, 4.0], [4.0, -3.0], [3.0, 4.0]]}
    figures.draw_turns(ax, turned, ["at 0", "at 3", "at 4"], turns={"q": [0, 270, 360]})
    dashed, dotted, _, round_once = ax.lines  # what is not turned has no way
    np.testing.assert_allclose(dashed.get_xydata() - [PITCH, 0], [[0, 0], [0.6, 0.8]], atol=1e-7)
    way = dotted.get_xydata() - [PITCH, 0]
    radii = np.hypot(*way.T)
    np.testing.assert_allclose(way[[-1, 0]].T / radii[[-1, 0]], [[0.6, 0.8], [0.8, -0.6]], atol=1e-7)
    assert 0.75 > radii[0] > radii[-1] > 0.6  # no round is closed: it has an end
    assert way[:, 0].min() < -0.6  # three quarters round, over the left
    assert np.ptp(round_once.get_xdata()) > 1.3
    assert "turned: q 270°" in words(ax)


X, MAPS = {"cat": [1, 1], "old": [0, 2]}, [[[1, 0, 2, 1], [0, 1, 1, -1]], [[1, 0, 0, 1], [1, 1, 0, -1]]]


@pytest.mark.parametrize("places", [(3, 1), (40, 38)])
def test_a_score_is_the_sum_of_its_turned_pairs_and_the_same_at_one_distance(ax, places):
    figures.draw_rotary(ax, X, MAPS, places)
    made = [np.array(row) @ np.array(each) for row, each in zip(X.values(), MAPS, strict=True)]
    x = torch.tensor(np.array(made, dtype=float))[:, None].expand(-1, 41, -1)
    query, key = RotaryEmbedding(4)(x)[[0, 1], [*places]]
    shares = [(query[i::2] @ key[i::2]).item() for i in range(2)]
    told = words(ax)
    assert {*map(two_decimals, shares), f"≈ {two_decimals(sum(shares))}"} <= set(told)
    assert {two_decimals(value) for value in [*query.tolist(), *key.tolist()]} <= set(told)
    assert f"q: {places[0]} × .01 = {number(places[0] / 100)} rad" in told


def test_no_name_of_an_arrow_stands_on_another(ax):
    for degrees in range(0, 360, 15):
        ax.clear()
        turned = torch.tensor([math.cos(math.radians(degrees)), math.sin(math.radians(degrees))])
        figures.draw_turns(ax, {"cat": turned[None], "old": torch.tensor([[0.8, 0.3]])})
        ax.figure.canvas.draw()
        first, second = [text.get_window_extent() for text in ax.texts if text.get_text() in ("cat", "old")]
        assert not first.overlaps(second), degrees


def test_an_arrow_without_length_is_drawn_as_none(ax):
    figures.draw_turns(ax, {"q": torch.zeros(1, 2), "k": torch.tensor([[1.0, 0.0]])})
    arrows = [(*text.xyann, *text.xy) for text in ax.texts if isinstance(text, Annotation)]
    assert np.isfinite(arrows).all()
