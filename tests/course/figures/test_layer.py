"""Lines between lanes are as thick as the weights, and a norm's steps are as high as its numbers."""

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch.nn import functional as F

from transformer_course import figures
from transformer_course.figures import layer
from transformer_course.figures.colours import HERO, SILVER

TOKENS = ["a", "b", "c"]


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


def test_a_neuron_stands_in_its_matrices_and_writes_where_it_fires() -> None:
    asked = torch.tensor([[0, 2.0, 0], [0.1, -0.1, 0], [0, 1.5, 0]])
    bent = F.gelu(asked).numpy()
    given = {"neuron": 1, "tokens": TOKENS, "asks": {"may": 0.3}, "writes": {"june": 0.4}}
    (ax,) = figures.one_neuron(asked, **given, bias=-0.25, worked="a: 1", d_model=7, title="").axes
    answers, *matrices = [mesh.get_array().reshape(-1, 2).tolist() for mesh in ax.collections]
    assert answers == bent[:, :2].tolist() and matrices == [[[False, True]]] * 3  # the lit one is the last
    words = [text.get_text() for text in ax.texts]
    adds = [word for word in words if "× what" in word]
    assert adds == ["+ 1.95 × what it adds", "+ 1.40 × what it adds"]
    assert {"2.00 → 1.95", "−.10 → −.05", "1.50 → 1.40", "−.25", "x: 3 × 7", "out: 3 × 7"} < set(words)
    assert {"a: 1", "+ 2 other neurons + b₂\nwhite: next to nothing of N1"} < set(words)
    assert any("question" in word and word.endswith("may .30") for word in words)
    assert any("adds" in word and word.endswith("june .40") for word in words)


def test_a_norm_subtracts_and_divides_each_token_by_its_own() -> None:
    tokens, last = {"a": [1, 3, 5, 7, 9], "b": [3] * 5}, {"weight": [2, 1, 1, 1, 1], "bias": [0, 0, 0, 0, 1]}
    (ax,) = figures.norm_steps(tokens, eps=1, **last, title="").axes
    bars = [bar for bar in ax.patches if isinstance(bar, Rectangle)]
    heights = np.reshape([bar.get_height() for bar in bars], (2, 4, 5))
    np.testing.assert_allclose(heights[0, :2] / heights[0, 0, 0], [[1, 3, 5, 7, 9], [-4, -2, 0, 2, 4]])
    normed = [-4 / 3, -2 / 3, 0, 2 / 3, 4 / 3], [-8 / 3, -2 / 3, 0, 2 / 3, 7 / 3]
    np.testing.assert_allclose(heights[0, 2:] / heights[1, 3, 4], normed, atol=1e-9)
    words = [text.get_text() for text in ax.texts]
    signs = [word for word in words if word[:2] in ("− ", "÷ ") and word[2:].isdigit()]
    assert signs == ["− 5", "÷ 3", "− 3", "÷ 1"]
    assert {"√(8 + 1)", "√(0 + 1)"} < set(words)
    dashed = [line.get_ydata()[0] for line in ax.lines if line.get_linestyle() == "--"]
    tops = [bar.get_y() + bar.get_height() for bar in bars]
    np.testing.assert_allclose(dashed, [tops[2], tops[20]])


def test_two_stacks_show_tokens_at_length_one_and_how_alike_they_are() -> None:
    same, apart = np.ones((2, 2)), 5 * np.eye(2)
    handed_on, added = figures.two_stacks([apart, same, same], [apart] * 3, ["a", "b"], title="").axes
    tiles = [mesh.get_array().reshape(2, 2) for mesh in handed_on.collections]
    np.testing.assert_allclose(tiles, [np.eye(2), same / 2**0.5, same / 2**0.5])
    words = {text.get_text() for ax in (handed_on, added) for text in ax.texts}
    alike = {"before: likeness .000\nsize 2.887", "after layer 0: likeness 1.000\nsize .000"}
    assert alike < words
    assert [sum(text.get_text() == "+" for text in ax.texts) for ax in (handed_on, added)] == [0, 2]


def test_the_features_that_are_drawn_have_cosines_near_those_of_all():
    x = np.ones((2, 20))
    end = np.where(np.arange(20) < 8, 1.0, [[-2 / 3], [-2 / 3]])  # 8 − 12 · 2/3: in all at right angles to x
    assert layer._cosines(x, end) == pytest.approx([0, 0])
    first = layer._typical(x, [x, end])
    drawn = slice(first, first + layer.SHOWN)
    assert first == 6  # two of 1 and four of −2/3, of which the sum is nearest to 0
    assert abs(layer._cosines(x[:, drawn], end[:, drawn])).max() < 0.15
