"""A receptive field grows by the window of each layer."""

from tests.course.figures.drawn import words
from transformer_course import figures


def test_what_a_token_has_heard_of_grows_by_each_window_and_ends_with_the_text():
    ax, below = figures.receptive_field({"": [1, 2, None, 1]}, 9, 3, title="").axes
    bars = [(bar.get_x(), bar.get_width()) for bar in ax.patches]
    assert bars[:4] == [(2, 3), (1, 5), (0, 9), (2, 3)]  # seen in this layer
    assert bars[4:] == [(2, 3), (0, 7), (0, 9), (0, 9)]  # heard of by now
    assert words(ax) == ["this token", "sees 3"] and ax.get_title() == "\nhears of 9 tokens"
    # a window of 0: each of 2,000 tokens meets itself; a global layer: 4 million pairs
    below = figures.receptive_field({"": [0, None]}, 2_000, 3, title="").axes[1]
    assert words(below) == ["4 million pairs"]
