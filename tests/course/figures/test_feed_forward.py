"""A neuron fires where its sum is past its threshold."""

from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from tests.course.figures.drawn import words
from transformer_course import figures
from transformer_course.figures.colours import HERO, SILVER


def test_a_neuron_fires_where_its_sum_is_past_its_own_threshold():
    ax = Figure().add_subplot()
    up = {"sum": ([1, 1], -1), "none": ([-1, -1], 1)}
    down = {"praise": [3, 5], "blame": [0, -1]}
    figures.draw_network(ax, {"good": 2, "bad": 0}, up, down, {"d": [0, 0]})
    assert words(ax)[-5:] == ["d: 0, 0", "neuron 0: 0", "neuron 1: 1", "praise 5", "blame −1"]
    for box in ("good\n2", "sum\n2 + (−1) = 1", "none\n−2 + 1 = −1", "praise\n3", "blame\n0"):
        assert box in words(ax)
    bold = [text.get_text() for text in ax.texts if text.get_weight() == "bold"]
    assert "sum\n2 + (−1) = 1" in bold and "none\n−2 + 1 = −1" not in bold
    still = [line for line in ax.lines if to_hex(line.get_color()) == SILVER]
    assert len(still) == 2 + 1 + 1  # from what is 0: bad to both neurons, and the neuron that is silent
    carrying = [line.get_linewidth() / 1.3 for line in ax.lines if to_hex(line.get_color()) == HERO]
    assert (round(carrying[0], 9), round(carrying[-1], 9)) == (1, 3)
    bends = [line.get_xdata() for line in ax.lines if len(line.get_xdata()) == 3]
    assert [round(corner, 9) for _, corner, _ in bends] == [5.25] * 2  # all fire above the same zero
