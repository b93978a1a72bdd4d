"""A figure in words tells what a reader who cannot see it wants, and changes just when the figure changes."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from transformer_course import figures
from transformer_course.figures.alt_text import LONGEST_ALT_TEXT, describe, further
from transformer_course.figures.layout import canvas, finished
from transformer_course.figures.shapes import arrow, box

WEIGHTS = np.array([[0.5, 0.3, 0.2], [0.125, 0.25, 0.625], [1 / 3, 1 / 3, 1 / 3]])
TOKENS = ["the", "cat", "sat"]


def told(draw):
    """A figure of one panel in words, line by line."""
    figure = Figure()
    draw(figure.subplots())
    return describe(figure).words.splitlines()


def attention(weights):
    def draw(ax):
        ax.pcolormesh(weights, vmin=0, vmax=1)
        ax.set_xticks([0.5, 1.5, 2.5], TOKENS)
        ax.set_yticks([0.5, 1.5, 2.5], TOKENS)

    return told(draw)


def test_the_largest_of_each_row_is_told_unless_two_are_alike():
    assert attention(WEIGHTS[[0, 1, 1]])[0].endswith(
        "Largest in each row: the: the 0.500; cat: sat 0.625; sat: sat 0.625."
    )
    assert "Largest" not in attention(WEIGHTS)[0]


def test_what_is_read_aloud_ends_with_a_sentence_before_it_is_too_long():
    words, *_ = told(lambda ax: [ax.plot([n, n + 1], label=f"the line of the number {n}") for n in range(99)])
    assert 550 < len(words) <= 600
    assert words.startswith("Figure: 99 lines. “the line of the number 0” from 0 to 1. ") and words[-1] == "."


def test_last_digits_do_not_change_the_words():
    noise = np.array([[1, -1, 1], [-1, 1, -1], [1, -1, 1]]) * 2e-16
    assert attention(WEIGHTS + noise) == attention(WEIGHTS - noise)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.125, "0.125"),
        (2.675, "2.67"),  # between two digits: which way it goes must not hang on the last bit
        (-1e-9, "-1.00e-09"),
        (9.16e-18, "0"),  # equal numbers, subtracted
        (123456.7, "123457"),
        (3.0, "3"),
        (1e12, "1000000000000"),
        (float("nan"), "blank"),
    ],
)
def test_numbers_are_told_with_three_digits(value, written):
    for same in (value, np.nextafter(value, np.inf), np.nextafter(value, -np.inf)):
        assert f"  0: {written}" in told(lambda ax, same=same: ax.imshow([[same]], vmin=0, vmax=1))


def test_no_zero_has_a_minus_and_hidden_cells_are_blank():
    assert "  0: 0.00 1.50 blank" in told(lambda ax: ax.pcolormesh([[-1e-4, 1.5, np.nan]]))


@pytest.mark.parametrize("draw", [lambda ax: ax.pie([1, 2]), lambda ax: ax.boxplot([1, 2])])
def test_a_kind_that_no_lesson_draws_is_described_without_an_error(draw):
    assert "Figure" in told(draw)[0]


def drawing(**changes):
    """A figure of two boxes and the arrow between them, as text."""
    figure, (ax,) = canvas(1, (3, 2))
    box(ax, (0, 0), "one", (1, 1))
    box(ax, (changes.get("x", 3), 0), "two", (1, 1))
    arrow(ax, (0.5, 0), (2.5, 0))
    ax.set(xlim=(-1, 4), ylim=(-1, 1))
    ax.set_axis_off()
    ax.set_label(changes.get("panel", ""))
    return describe(
        finished(figure, "A title", changes.get("alt", "An arrow leads from one to two. It is short."))
    )


def test_a_drawing_is_told_in_sentences_and_its_coordinates_only_to_the_gate():
    told = drawing()
    assert (
        told.words == told.alt == "Figure “A title”: a drawing. An arrow leads from one to two. It is short."
    )
    assert drawing(x=3.01).contents != told.contents  # which is too little to be seen in the picture
    assert drawing(x=3.01).words == told.words


def test_a_panel_may_say_itself_what_it_shows():
    assert drawing(panel="one leads to two").alt.endswith("It is short. one leads to two.")
    assert drawing(panel="It is short", alt="").words == "Figure “A title”: a drawing. It is short."
    assert told(lambda ax: [ax.plot([1, 2]), ax.set_label("It rises")]) == ["Figure: a drawing. It rises."]


def test_of_a_long_description_the_sentences_that_fit_are_told():
    words = drawing(alt="It begins. " + "It goes on and on. " * 40).alt
    assert words == "Figure “A title”: a drawing. It begins. It goes on and on."
    words = drawing(alt=". ".join(f"It has part {n}" for n in range(99))).alt
    assert 550 < len(words) <= LONGEST_ALT_TEXT and words.endswith(".")


def test_a_second_text_has_only_what_is_new():
    assert further("Figure a. Same. New. Also new.", "Figure b. Same.") == "New. Also new"
    assert further("Figure a. Same.", "Figure b. Same.") == ""


def test_the_map_of_the_encoder_is_told_in_full_for_every_lesson():
    for lesson in range(10):
        alt = describe(figures.encoder_map(lesson)).alt
        assert alt.endswith("The heads are concatenated, and W_O projects them."), lesson
