"""Titles, names at lines, frames and colours: what all figures have in common."""

import itertools

import numpy as np
import pytest
from matplotlib import colormaps
from matplotlib.colors import to_hex
from matplotlib.path import Path

from tests.course.figures.colours import apart, contrast
from transformer_course.figures import line_plot
from transformer_course.figures.colours import ATTENTION, COMPONENTS, FREE, LINES, LIT, PALE, YES
from transformer_course.figures.label_placement import LINE, _spread
from transformer_course.figures.layout import canvas, finished


@pytest.mark.parametrize("wanted", [[50, 50, 50], [10, 95, 12, 90, 11], [300, -20]])
def test_names_stand_a_line_apart_in_their_order_within_their_axes(wanted):
    heights = _spread(np.array(wanted, dtype=float), 0.0, 100.0)
    assert (np.diff(heights[np.argsort(wanted, kind="stable")]) >= LINE - 1e-9).all()
    assert heights.min() >= -1e-9 and heights.max() <= 100 + 1e-9
    np.testing.assert_allclose(_spread(np.array([40.0, 60.0]), 0.0, 100.0), [40, 60])


def test_no_name_covers_a_line_or_another_name():
    x, falling = np.arange(30), np.linspace(1, 0, 30)
    ended = np.where(x < 15, 0.5, np.nan)  # where another line crosses it
    named = {"falling": falling, "ends in the middle": ended, "level": np.full(30, 0.45)}
    figure = line_plot(x, named, xlabel="", ylabel="", kind="smooth", levels={"what can be reached": 0.2})
    figure.canvas.draw()
    (ax,) = figure.axes
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(box.overlaps(other) for box, other in itertools.combinations(boxes, 2))
    ways = [ax.transData.transform(line.get_xydata()) for line in ax.lines[:3]]
    for box, way in itertools.product(boxes, ways):
        assert not Path(way[np.isfinite(way).all(axis=1)]).intersects_bbox(box, filled=False)


def test_every_colour_of_a_line_or_a_box_can_carry_its_words():
    assert min(contrast(colour, "white") for colour in LINES) >= 4.5
    assert min(contrast(colour, "black") for colour in (*COMPONENTS.values(), *PALE, *FREE, LIT)) >= 4.5


def test_colours_that_mean_different_things_are_told_apart_by_every_eye():
    for colours in ((*COMPONENTS.values(), *FREE), PALE, LINES):
        assert min(apart(*pair) for pair in itertools.combinations([*colours, "white"], 2)) >= 10
    assert not set(PALE) & {*COMPONENTS.values(), *FREE}
    weights = [to_hex(colour) for colour in colormaps[ATTENTION](np.linspace(0, 1, 64))]
    assert min(apart(YES, weight) for weight in weights) >= 10


def test_a_title_wider_than_its_figure_is_broken_once_near_the_middle():
    titles = {"short": 1, "a title that says far more than this figure is wide": 2, "x" * 90: 1}
    for title, lines in titles.items():
        figure, _ = canvas(1, (2.5, 2))
        written = finished(figure, title, "").get_suptitle()
        assert written.replace("\n", " ") == title and len(written.splitlines()) == lines
        assert " " not in title or max(map(len, written.splitlines())) < 30
