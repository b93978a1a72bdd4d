"""A neuron fires where its sum is past its threshold."""

import numpy as np
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from transformer_course import figures
from transformer_course.figures.colours import HERO, SILVER


def test_a_neuron_fires_where_its_sum_is_past_its_own_threshold() -> None:
    ax = Figure().add_subplot()
    up = {"sum": ([1, 1], -1), "none": ([-1, -1], 1)}
    down = {"praise": [3, 5], "blame": [0, -1]}
    figures.draw_network(ax, {"good": 2, "bad": 0}, up, down, {"d": [0, 0]})
    words = [text.get_text() for text in ax.texts]
    last = [word for word in words if word][-5:]
    assert last == ["d: 0, 0", "neuron 0: 0", "neuron 1: 1", "praise 5", "blame −1"]
    for box in ("good\n2", "sum\n2 + (−1) = 1", "none\n−2 + 1 = −1", "praise\n3", "blame\n0"):
        assert box in words
    bold = [text.get_text() for text in ax.texts if text.get_weight() == "bold" and "\n" in text.get_text()]
    assert bold == ["sum\n2 + (−1) = 1"]
    still = [line for line in ax.lines if to_hex(line.get_color()) == SILVER]
    assert len(still) == 2 + 1 + 1  # from what is 0: bad to both neurons, and the neuron that is silent
    carrying = [line.get_linewidth() for line in ax.lines if to_hex(line.get_color()) == HERO]
    assert np.divide(carrying[:1] + carrying[-1:], 1.3).round(9).tolist() == [1, 3]
    bends = [line.get_xdata() - at for line, at in zip(curves(ax), (5.25, 5.25), strict=True)]
    assert [round(corner, 9) for _, corner, _ in bends] == [0, 0]  # all fire above the same zero
    assert [text for text in words if text in ("1", "−1")].count("−1") >= 1


def curves(ax):
    """The bends: lines through three points."""
    return [line for line in ax.lines if len(line.get_xdata()) == 3]
