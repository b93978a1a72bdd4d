"""Lines lead from keys to queries, as wide as the weights, and what is told of is lit."""

import numpy as np
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from transformer_course import figures
from transformer_course.figures.attention_flow import WIDTH
from transformer_course.figures.colours import COMPONENTS, GREY, HERO, pale
from transformer_course.figures.layer import DROP

PALE, ACROSS = GREY, to_hex(pale(COMPONENTS["scores"], 0.3))
TOKENS = ["the", "cat", "sat"]
WEIGHTS = np.array([[0.02, 0.98, 0.0], [0.3, 0.3, 0.4], [0.0, 0.0, 1.0]])


def ways(ax, level=0):
    """The lines from one level to the next: (key, query) → (weight, colour)."""
    lines = ax.collections[level]
    places = [tuple(np.abs(ends[:, 1]).tolist()) for ends in lines.get_segments()]
    weights = [round(width / WIDTH, 6) for width in lines.get_linewidths()]
    return dict(zip(places, zip(weights, map(to_hex, lines.get_colors()), strict=True), strict=True))


def test_in_a_layer_a_line_leads_from_each_key_to_the_query_that_looks_at_it():
    (ax,) = figures.layer_lanes(WEIGHTS, TOKENS, highlight=1, title="").axes
    others = {(1, 0): (0.98, ACROSS), (2, 2): (1.0, ACROSS)}  # and .02 is too thin to be drawn
    highlight = {(key, 1): (weight, HERO) for key, weight in enumerate(WEIGHTS[1])}
    dropped = {(key, query + DROP): style for (key, query), style in (others | highlight).items()}
    assert ways(ax) == dropped  # into a box below the lane: what is added is no weight times x
    assert [text.get_text() for text in ax.texts if to_hex(text.get_color()) == HERO] == [".30", ".30", ".40"]


def test_a_web_lights_what_reaches_one_token():
    ax = Figure().add_subplot()
    causal = torch.ones(3, 3).tril().bool()
    figures.draw_attention_web(ax, [causal, torch.eye(3)], TOKENS, 1)
    bold = [label.get_text() for label in ax.get_xticklabels() if label.get_weight() == "bold"]
    assert bold == ["the", "cat"]
    assert ax.get_xlabel() == "“cat” hears of 2 of 3" and not ax.get_yticklabels()


def test_arcs_are_as_wide_as_the_shares_that_stand_below() -> None:
    ax = Figure().add_subplot()
    figures.draw_attention_arcs(ax, [[1, 0, 0], [0.4, 0.58, 0.02], [0, 0, 1]], TOKENS, 1)
    arc, loop, dot = ax.lines
    assert round(loop.get_linewidth(), 6) == round(12 * 0.58, 6)  # to itself
    assert round(arc.get_linewidth(), 6) == 4.8 and arc.get_xdata()[[0, -1]].tolist() == [1, 0]
    assert [text.get_text() for text in ax.texts] == [*("the", ".40", "cat", ".58"), TOKENS[2], ""]
    assert dot.get_xdata().tolist() == [1]
