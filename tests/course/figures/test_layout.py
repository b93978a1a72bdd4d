"""Titles, names at lines, frames and colours: what all figures have in common."""

import numpy as np
import pytest

from tests.course.figures.colours import contrast
from transformer_course import figures
from transformer_course.figures.layout import (
    COMPONENTS,
    LINE,
    LINES,
    LIT,
    PALE,
    _spread,
    canvas,
    component_colours,
    finished,
    name_lines,
)


@pytest.mark.parametrize(
    "wanted", [[50, 50, 50], [10, 95, 12, 90, 11], [300, -20], [40, 60], [99, 98, 97, 96]]
)
def test_names_stand_a_line_apart_in_their_order_and_near_their_lines(wanted):
    heights = _spread(np.array(wanted, dtype=float), 0.0, 100.0)
    order = np.argsort(wanted, kind="stable")
    assert (np.diff(heights[order]) >= LINE - 1e-9).all()
    assert heights.min() >= -1e-9 and heights.max() <= 100 + 1e-9
    if min(np.diff(np.sort(wanted))) > LINE and min(wanted) >= 0 and max(wanted) <= 100:
        np.testing.assert_allclose(heights, wanted)


def test_a_name_stands_at_the_end_of_its_line_in_its_colour():
    figure, (ax,) = canvas(1, (4, 3))
    ax.set(xlim=(0, 10), ylim=(0, 1))
    name_lines(ax, {"$a$": (10, 0.2), "b": (7, 0.9)}, {"$a$": "#111111", "b": "#222222"})
    assert [(text.get_text(), text.xy, text.get_color()) for text in ax.texts] == [
        ("$a$", (10, 0.2), "#111111"),
        ("b", (7, 0.9), "#222222"),
    ]
    assert not ax.texts[0].get_parse_math()
    assert finished(figure) is figure


def test_every_colour_of_a_line_or_a_box_can_carry_its_words():
    assert min(contrast(colour, "white") for colour in LINES) >= 4.5
    assert min(contrast(colour, "black") for colour in (*COMPONENTS.values(), *PALE, LIT)) >= 4.5


def test_a_part_has_the_colour_of_its_component_and_others_have_their_own():
    colours = component_colours(["attention: projections", "norm", "a", "b"])
    assert (
        colours["attention: projections"] == COMPONENTS["attention"] and colours["norm"] == COMPONENTS["norm"]
    )
    assert len(set(colours.values())) == 4


def test_a_title_wider_than_its_figure_is_broken_once_near_the_middle():
    for title, lines in (
        ("short", 1),
        ("a title that says far more than this figure is wide", 2),
        ("x" * 90, 1),
    ):
        figure, _ = canvas(1, (2.5, 2))
        written = finished(figure, title).get_suptitle()
        assert written.replace("\n", " ") == title and len(written.splitlines()) == lines
    assert max(map(len, written.splitlines())) == 90


def test_levels_are_named_and_slopes_lead_from_place_to_place():
    (ax,) = figures.lines([1, 2], {"a": [3, 4]}, xlabel="", ylabel="", levels={"chance": 3.5}).axes
    assert [line.get_ydata()[0] for line in ax.lines] == [3, 3.5]
    assert [text.get_text() for text in ax.texts] == ["chance"]
    (ax,) = figures.slopes({"a": [0.1, 0.2], "b": [0.4, 0.1]}, ["one", "two"], ylabel="", title="").axes
    assert {text.get_text(): text.xy for text in ax.texts} == {"a": (1, 0.2), "b": (1, 0.1)}
    assert [label.get_text() for label in ax.get_xticklabels()] == ["one", "two"]


def test_rows_of_attention_are_framed_where_they_should_look():
    weights = [[0.1, 0.9, 0.0], [0.5, 0.3, 0.2]]
    texts = {"one": (weights, ["a", "b", "c"], [1, 0]), "two": (weights, ["d", "e", "f"], [2, 2])}
    figure = figures.row_maps(texts, ["head 0", "head 1"], title="")
    framed = [[(patch.get_y(), patch.get_x()) for patch in ax.patches] for ax in figure.axes[:2]]
    assert framed == [[(0, 1), (1, 0)], [(0, 2), (1, 2)]]
    with pytest.raises(ValueError, match="framed cells must lie within"):
        figures.row_maps({"one": (weights, ["a", "b", "c"], [1, 3])}, ["head 0", "head 1"], title="")
