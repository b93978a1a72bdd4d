"""Lines between lanes are as thick as the weights, and a norm's steps are as high as its numbers."""

import numpy as np
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from transformer_course import figures
from transformer_course.figures.colours import HERO

TOKENS = ["a", "b", "c"]


def test_a_neuron_that_fires_is_lit_and_writes_and_another_is_pale() -> None:
    ax = Figure().add_subplot()
    up = {"sum": ([1, 1], 0), "none": ([-1, -1], 1)}
    figures.draw_network(ax, {"good": 2, "bad": 0}, up, {"praise": [3, 5], "blame": [0, -1]})
    words = [text.get_text() for text in ax.texts]
    for box in ("good\n2", "sum\n2, bent: 2", "none\n−1, bent: 0", "praise\n6", "blame\n0"):
        assert box in words
    assert [
        text.get_text() for text in ax.texts if text.get_weight() == "bold" and "\n" in text.get_text()
    ] == ["sum\n2, bent: 2"]
    carrying = [line.get_linewidth() for line in ax.lines if to_hex(line.get_color()) == HERO]
    assert np.divide(carrying, 1.3).round(9).tolist() == [
        1,
        1,
        3,
    ]  # from good to both, from the sum to praise


def test_a_neuron_answers_each_token_with_a_bar_and_adds_where_it_fires() -> None:
    given = {"answers": [2.0, -1.0, 0.5], "bent": [2.0, -0.1, 0.5], "tokens": TOKENS}
    (ax,) = figures.one_neuron(**given, asks={"may": 0.3}, writes={"june": 0.4}, title="").axes
    widths = np.array([bar.get_width() for bar in ax.patches if isinstance(bar, Rectangle)])
    assert (widths / widths[0] * 2).round(9).tolist() == [2, 2, -1, -0.1, 0.5, 0.5]
    adding = [line for line in ax.lines if to_hex(line.get_color()) == HERO]
    assert [line.get_ydata()[0] for line in adding] == [0, 0, -2, -2]


def test_the_bars_of_a_norm_are_its_numbers_and_the_mean_is_dashed() -> None:
    steps = {"x": [[1, 2, 6], [3, 3, 3]], "minus the mean": [[-2, -1, 3], [0, 0, 0]]}
    panels = figures.norm_steps(steps, ["a", "b"], title="").axes
    heights = [[bar.get_height() for bar in ax.patches] for ax in panels]
    assert heights == [[1, 2, 6], [-2, -1, 3], [3, 3, 3], [0, 0, 0]]
    assert [ax.lines[-1].get_ydata()[0] for ax in panels] == [3, 0, 3, 0]
    assert [ax.get_ylabel() for ax in panels] == ["a", "", "b", ""]
