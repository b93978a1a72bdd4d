"""The map lights what a lesson builds, and its numbers are what they are said to be."""

import io
from itertools import combinations

import numpy as np
import pytest
from matplotlib import colors
from matplotlib.collections import QuadMesh

from transformer_course import figures
from transformer_course.figures.colours import COMPONENTS, HERO, HIDDEN, ROLES
from transformer_course.figures.encoder_diagram import GROUNDS, HEADS, SCORES, TURNED, VALUES, WEIGHTS, WIDTH


@pytest.mark.parametrize("lesson", [0, 1, 3, 5, 7, 8])
def test_no_words_of_the_map_lie_over_each_other_or_leave_it(lesson):
    figure = figures.encoder_map(lesson)
    figure.savefig(io.BytesIO())  # lays the figure out
    (ax,) = figure.axes
    texts = [text for text in ax.texts if text.get_text()]
    places = [text.get_window_extent().transformed(ax.transData.inverted()) for text in texts]
    for (one, here), (other, there) in combinations(zip(texts, places, strict=True), 2):
        assert not here.overlaps(there), (one.get_text(), other.get_text())
    assert min(place.x0 for place in places) >= 0 and max(place.x1 for place in places) <= 9.75


@pytest.mark.parametrize(
    ("lesson", "highlight", "bold"),
    [
        (3, {"attention"}, ["03 one head:\n“saw” asks"]),
        (2, {"positions"}, ["02 turn"]),
        (4, {"mask", "hidden"}, ["04 mask"]),
        (5, {"attention"}, ["05 multi-head\nattention", "05 multi-head attention: heads side by side"]),
        (7, {"", "norm"}, ["07 norm", "07 norm", "07 encoder layer,\nrepeated"]),
        (8, {"", "norm", "embedding"}, ["08 embedding", "08 norm", "08 the full encoder"]),
        (9, {"embedding", "positions", "norm", "attention", "feed-forward"}, None),
    ],
)
def test_the_map_lights_what_a_lesson_is_about_in_the_colours_of_its_components(lesson, highlight, bold):
    (ax,) = figures.encoder_map(lesson).axes
    thick = [patch for patch in ax.patches if patch.get_linewidth() == 2]
    drawn = {colors.to_hex(patch.get_facecolor()) for patch in thick} - {"#ffffff"}
    assert drawn == {(GROUNDS | {"hidden": HIDDEN["facecolor"]})[each] for each in highlight}
    words = [text.get_text() for text in ax.texts if text.get_weight() == "bold"]
    if bold is not None:
        assert [word for word in words if word[:2].isdigit()] == bold


def test_the_whole_map_has_the_colours_of_all_components():
    (ax,) = figures.encoder_map().axes
    drawn = {colors.to_hex(patch.get_facecolor()) for patch in ax.patches}
    assert {GROUNDS[name] for name in (*COMPONENTS, "mask") if name != "scores"} < drawn


def test_the_query_and_the_keys_give_the_scores():
    np.testing.assert_allclose(TURNED[1:] @ TURNED[0] / WIDTH**0.5, SCORES, atol=0.01)


def test_the_weights_are_the_softmax_of_the_scores_that_the_mask_lets_through():
    powers = np.exp(SCORES[:3])
    np.testing.assert_allclose(WEIGHTS, [*(powers / powers.sum()), 0], atol=0.005)


def test_the_sum_of_the_values_is_the_same_block_among_those_that_the_heads_join():
    (ax,) = figures.encoder_map().axes
    strips = [each for each in ax.collections if isinstance(each, QuadMesh)]
    at = {tuple(each.get_coordinates()[0, 0]): each.get_array().data[0] for each in strips}
    own = WEIGHTS @ VALUES
    where = [place for place, row in at.items() if row.shape == own.shape and np.allclose(row, own)]
    (first, low), (joined, high) = sorted(where, key=lambda place: place[1])
    assert first == joined and low < high
    blocks = [row for (_, height), row in at.items() if height == high and row.shape == own.shape]
    assert len(blocks) == HEADS


@pytest.mark.parametrize(("lesson", "strong"), [(0, True), (1, False), (2, False), (5, True), (7, False)])
def test_lines_and_vectors_are_pale_where_other_parts_are_lit(lesson, strong):
    (ax,) = figures.encoder_map(lesson).axes
    drawn = {colors.to_hex(each.get_color()) for each in ax.lines}
    assert ({HERO, ROLES["query"], ROLES["value"]} <= drawn) == strong
    assert strong or not {HERO, *ROLES.values()} & drawn
