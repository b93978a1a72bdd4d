"""Drawings that depend on what they are given show all of it; the lessons' gate compares the others."""

import io
import math

import numpy as np
import pytest
import torch
from matplotlib import colors
from matplotlib import pyplot as plt
from matplotlib.text import Annotation

from transformer_course import figures
from transformer_course.figures.drawings import ARC, MAP, PITCH
from transformer_course.figures.layout import COMPONENTS, LINES, LIT


def words(ax):
    return [text.get_text() for text in ax.texts if text.get_text()]


def test_data_flows_from_ids_through_every_step():
    for n_layers, shown in (1, ["layer 0"]), (6, ["layer 0", "…", "layer 5"]):
        ax = figures.data_flow(n_layers, title="flow").axes[0]
        steps = ["look up", "× √d_model", "+ positions", "norm", *shown, "final norm"]
        assert [word for word in words(ax) if word in steps] == steps


@pytest.mark.parametrize("lesson", range(14))
def test_no_text_of_the_map_leaves_its_box(lesson):
    figure = figures.encoder_map(lesson)
    figure.savefig(io.BytesIO())  # lays the figure out
    (ax,) = figure.axes
    labels = [text for text in ax.texts if text.get_text() not in ("", "+", "x")]
    for text, (_, label, _, left, bottom, width, height) in zip(labels, MAP, strict=True):
        extent = text.get_window_extent().transformed(ax.transData.inverted())
        assert left <= extent.x0 and extent.x1 <= left + width, label
        assert bottom <= extent.y0 and extent.y1 <= bottom + height, label


@pytest.mark.parametrize(
    ("lesson", "lit"),
    [(0, []), (3, ["attention"]), (7, ["", "norm", "norm"]), (13, ["attention", "feed-forward"])],
)
def test_the_map_lights_what_a_lesson_is_about_in_the_colours_of_its_components(lesson, lit):
    (ax,) = figures.encoder_map(lesson).axes
    drawn = [colors.to_hex(patch.get_facecolor()) for patch in ax.patches]
    unlit = {"#ffffff", "#f4f4f4"}
    assert [colour for colour in drawn if colour not in unlit] == [COMPONENTS.get(each, LIT) for each in lit]
    bold = [text for text in ax.texts if text.get_weight() == "bold"]
    assert len(bold) == len(lit)


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_clocks_point_to_cosine_and_sine(ax):
    figures.draw_clocks(ax, torch.tensor([0.0, math.pi / 2]), ["slow", "fast"])
    hands = [line.get_xydata() for line in ax.lines[::2]]
    np.testing.assert_allclose(hands, [[[0, 0], [1, 0]], [[2.5, 0], [2.5, 1]]], atol=1e-12)


def test_arrows_end_where_the_pair_points_and_the_longest_of_all_reaches_the_rim(ax):
    query, key = torch.tensor([[2.0, 0.0], [0.0, 3.0]]), torch.tensor([[0.0, 1.0], [-6.0, 0.0]])
    figures.draw_turns(ax, {"q": query, "k": key}, ["fast", "slow"])
    arrows = [(text.xyann, text.xy) for text in ax.texts if isinstance(text, Annotation) and text.arrow_patch]
    starts, ends = [(0, 0), (PITCH, 0)] * 2, [(1 / 3, 0), (PITCH, 0.5), (0, 1 / 6), (PITCH - 1, 0)]
    np.testing.assert_allclose(arrows, list(zip(starts, ends, strict=True)), atol=1e-12)
    assert words(ax) == ["fast\nscore 0", "slow\nscore 0", "q", "q", "k", "k"]
    shown = {text.get_text(): text.get_color() for text in ax.texts}
    assert (shown["q"], shown["k"]) == LINES[:2]


def test_the_angle_between_two_arrows_is_an_arc_and_their_dot_product_stands_below(ax):
    query, key = torch.tensor([[1.0, -1.0], [-1.0, 0.1]]), torch.tensor([[2.0, 0.5], [-1.0, -0.1]])
    figures.draw_turns(ax, {"q": query, "k": key}, worth="adds", names=["one", "two"])
    assert words(ax)[:2] == ["one\nadds 1.5", "two\nadds 1"]
    for number, (arc, ends) in enumerate(zip(ax.lines, zip(query, key, strict=True), strict=True)):
        points = arc.get_xydata() - [PITCH * number, 0]
        for point, tip in zip(points[[-1, 0]], ends, strict=True):
            np.testing.assert_allclose(point, ARC * tip / tip.norm(), atol=1e-7)
        turned = np.linalg.norm(np.diff(points, axis=0), axis=1).sum() / ARC
        assert turned < math.pi  # the short way round, past the left as well


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
