"""Titles, names at lines, frames and colours: what all figures have in common."""

import numpy as np
import pytest

from tests.course.figures.colours import contrast
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


@pytest.mark.parametrize("wanted", [[50, 50, 50], [10, 95, 12, 90, 11], [300, -20]])
def test_names_stand_a_line_apart_in_their_order_within_their_axes(wanted):
    heights = _spread(np.array(wanted, dtype=float), 0.0, 100.0)
    assert (np.diff(heights[np.argsort(wanted, kind="stable")]) >= LINE - 1e-9).all()
    assert heights.min() >= -1e-9 and heights.max() <= 100 + 1e-9
    np.testing.assert_allclose(_spread(np.array([40.0, 60.0]), 0.0, 100.0), [40, 60])


def test_a_name_stands_at_the_end_of_its_line_in_its_colour():
    figure, (ax,) = canvas(1, (4, 3))
    ax.set(xlim=(0, 10), ylim=(0, 1))
    name_lines(ax, {"$a$": (10, 0.2), "b": (7, 0.9)}, {"$a$": "#111111", "b": "#222222"})
    named = [(text.get_text(), text.xy, text.get_color()) for text in ax.texts]
    assert named == [("$a$", (10, 0.2), "#111111"), ("b", (7, 0.9), "#222222")]
    assert finished(figure) is figure


def test_every_colour_of_a_line_or_a_box_can_carry_its_words():
    assert min(contrast(colour, "white") for colour in LINES) >= 4.5
    assert min(contrast(colour, "black") for colour in (*COMPONENTS.values(), *PALE, LIT)) >= 4.5


def test_a_part_has_the_colour_of_its_component_and_others_have_their_own():
    colours = component_colours(["attention: projections", "norm", "a", "b"])
    assert colours["attention: projections"] == COMPONENTS["attention"]
    assert colours["norm"] == COMPONENTS["norm"]
    assert len(set(colours.values())) == 4


def test_a_title_wider_than_its_figure_is_broken_once_near_the_middle():
    titles = {"short": 1, "a title that says far more than this figure is wide": 2, "x" * 90: 1}
    for title, lines in titles.items():
        figure, _ = canvas(1, (2.5, 2))
        written = finished(figure, title).get_suptitle()
        assert written.replace("\n", " ") == title and len(written.splitlines()) == lines
        assert " " not in title or max(map(len, written.splitlines())) < 30
    assert max(map(len, written.splitlines())) == 90
