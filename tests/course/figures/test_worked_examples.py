"""Sums end where they should, shapes are drawn to scale, a sentence becomes a vector, two one number."""

import numpy as np
import torch
from matplotlib import colors
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.text import Annotation

from transformer_course import figures
from transformer_course.figures.colours import COMPONENTS, HERO, HIDDEN, LIT, PALE, SILVER, pale
from transformer_course.figures.worked_examples import SIGNS

WEIGHTS, VALUES = [0.2, 0.7, 0.1], [[10.0, 0.0], [0.0, 5.0], [3.0, 3.0]]


def arrows(ax):
    """Start and end of every arrow."""
    drawn = [text for text in ax.texts if isinstance(text, Annotation) and text.arrow_patch]
    return [(text.xyann, text.xy) for text in drawn]


def test_weighted_values_lie_end_to_end_and_reach_the_output():
    values, output = figures.weighted_sum(WEIGHTS, VALUES, ["a", "b", "c"], query="b").axes
    np.testing.assert_allclose([end for _, end in arrows(values)], VALUES)
    *steps, whole = arrows(output)
    np.testing.assert_allclose(steps, [((0, 0), (2, 0)), ((2, 0), (2, 3.5)), ((2, 3.5), (2.3, 3.8))])
    np.testing.assert_allclose(whole, [(0, 0), (2.3, 3.8)])
    written = {text.get_text(): text.get_color() for text in output.texts}
    assert {".200 · a", ".700 · b", ".100 · c"} < set(written)
    assert written["output (2.30, 3.80)"] == HERO


def test_a_tensor_is_cut_into_heads_and_has_its_shape_below():
    (ax,) = figures.shape_flow([["a", "b", "c", "d", "e"]] * 2, 448, 7).axes
    assert (
        len(ax.patches) == 2 + 13 * 7
    )  # x, output; three of W, of q, k, v, and cut; weights to W_O: by heads
    written = [text.get_text() for text in ax.texts]
    shapes = {"q": "(2, 5, 448)", "q, cut": "(2, 7, 5, 64)", "W_Q": "(448, 448)", "W_O": "(448, 448)"}
    shapes |= {"mixtures": "(2, 7, 5, 64)", "merged": "(2, 5, 448)"}
    assert {f"{name}\n{shape}\n" for name, shape in shapes.items()} < set(written)
    assert "weights\n(2, 7, 5, 5)\ntext, head, query, key" in written
    highlight = [patch for patch in ax.patches if colors.to_hex(patch.get_facecolor()) == PALE[0]]
    assert len(highlight) == 13  # head 0 alone: a colour that comes twice would name two heads
    x, column, merged, row = ax.patches[0], highlight[0], highlight[11], highlight[12]
    np.testing.assert_allclose([column.get_width() * 7, merged.get_width() * 7], x.get_width())
    np.testing.assert_allclose([row.get_height() * 7, row.get_width()], x.get_width())
    assert (
        row.get_y()
        > max(patch.get_y() for patch in ax.patches if patch.get_height() == row.get_height()) - 1e-9
    )


def test_a_sentence_goes_from_ids_through_strips_on_two_scales_to_one_vector():
    row, place, enters = (
        np.array([[0.1, -0.2], [0.0, 0.1]]),
        np.zeros((2, 2)),
        np.array([[1.0, 2.0], [-3.0, 0.5]]),
    )
    stages, weights = (
        [row, place, enters, enters / 2, enters.mean(0)[None]],
        np.array([[0.6, 0.4], [0.01, 0.99]]),
    )
    (ax,) = figures.forward_pass(
        stages, [weights[None]], ["a", "b"], [7, 11], highlight=1, note="", more="c", title=""
    ).axes
    drawn = [each for each in ax.collections if isinstance(each, QuadMesh)]
    assert [mesh.get_array().ravel().tolist() for mesh in drawn] == np.concatenate(stages).tolist()
    assert [mesh.get_clim() for mesh in drawn] == [(-0.2, 0.2)] * 4 + [(-3, 3)] * 5
    written = [text.get_text() for text in ax.texts]
    assert {"a", "7", "b", "11", "norm", "layer 0, mean of 1 heads", "its row of the table"} < set(written)
    assert any(word.endswith(".20 in the rows of both tables, 3.00 in all below\nc") for word in written)
    (ways,) = [each for each in ax.collections if isinstance(each, LineCollection)]
    np.testing.assert_allclose(sorted(ways.get_linewidths()), 6 * np.array([0.4, 0.6, 0.99]))  # .01: too thin


def cells(ax):
    """The numbers and words that have a frame: text → (middle, colour or hatch)."""
    boxes = [(patch.get_window_extent(), patch) for patch in ax.patches]
    found = [(text, patch) for text in ax.texts for box, patch in boxes if box.contains(*at(text))]
    return [
        (text.get_text(), patch.get_hatch() or colors.to_hex(patch.get_facecolor())) for text, patch in found
    ]


def at(text):
    return text.axes.transData.transform(text.get_position())


def test_arithmetic_stands_in_columns_in_the_colours_of_its_kinds():
    rows = [
        ["x", ([[1, 0], [-0.5, 0.04]], "Ax"), "→ sum", ([[2], [3]], ["result"])],
        ["", ([["runs"], [7]], ["silenced"]), "← back", ""],
    ]
    (ax,) = figures.arithmetic_table(rows, ["", "W", "", "y"], title="", alt="").axes
    white, result = "#ffffff", [("2", LIT), ("3", LIT)]
    assert cells(ax) == [
        ("1", COMPONENTS["attention"]),
        ("0", white),
        ("−.50", COMPONENTS["attention"]),
        (".04", SILVER),
        *result,
        ("7", colors.to_hex(HIDDEN["facecolor"])),
    ]
    places = {text.get_text(): text.get_position() for text in ax.texts}
    assert places["x"][0] < places["1"][0] < places["sum"][0] < places["2"][0]
    assert places["W"][1] < places["1"][1] < places["−.50"][1] < places["runs"][1] < places["7"][1]
    (there, its_end), (back, back_end) = arrows(ax)
    assert there[0] < its_end[0] and back[0] > back_end[0]
    assert [text.get_text() for text in ax.figure.legends[0].get_texts()] == ["result", "A", "x", "silenced"]
    (ax,) = figures.arithmetic_table(
        [[([[1, 2]], [["", "result"]])]], [""], title="", alt=""
    ).axes  # by cells
    assert cells(ax) == [("1", white), ("2", LIT)]


def test_two_heads_choose_each_for_itself_and_add_up_by_their_rows_of_w_o():
    query, keys = [2.0, 0, 0, 2], [[2.0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 2]]
    values = [[1, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 1]]
    mixing = [[1, 0, 1, 0], [0, 1, 0, 1], [-1, 0, 1, 0], [0, -1, 0, 1]]
    jobs, words = {"one head": "", "head 0": "", "head 1": ""}, ["dog", "bites", "man"]
    (ax,) = figures.two_heads(query, keys, values, mixing, words, jobs, ("is", "was"), title="").axes
    numbers = " ".join(word for word, _ in cells(ax))
    assert "4 0 4 2 0 2 .47 .06 .47" in numbers and ".47 .47 .47 .47" in numbers
    assert "4 0 0 2.8 0 0 .89 .05 .05" in numbers and "0 0 4 0 0 2.8 .05 .05 .89" in numbers
    assert ".89 .05 .89 .05 −.05 −.89 .05 .89 .84 −.84 .94 .94" in numbers  # head 0, head 1, their sum
    assert numbers.endswith(".05 .89 .89 .05 −.84 .84 .94 .94")  # man bites dog


def test_two_texts_become_the_cosine_of_the_means_of_their_real_tokens():
    hidden = torch.tensor([[[3.0, 0, 0], [3, 8, 0], [0, -9, 0]], [[5.0, -1, 0], [3, -1, 0], [4, -1, 0]]])
    real = torch.tensor([[True, True, False], [True, True, True]])[:, None, None]
    named = {"one": ["a", "b", "[PAD]"], "other": ["c", "d", "e"]}
    (ax,) = figures.text_cosine(hidden, real, named, features=[0, 1], title="").axes
    boxed = cells(ax)
    assert [text for text, style in boxed if style == "////"] == ["0", "−9"]  # there, but not counted
    texts = [text for text, _ in boxed]
    assert {"3", "4", "0", ".60", ".80", "−.24"} < set(texts)  # of A, by hand: (3, 4), and that over 5
    assert [text for text, style in boxed if style == LIT] == [".39"]  # .6 · .97 − .8 · .24
    below = [text for text, style in boxed if style == pale(SIGNS["below 0"], 0.1 + 0.9 / 8)]
    assert below == ["−1"] * 4  # of tables up to 8; the mean is on their scale
    assert [len(each.get_segments()) for each in ax.collections] == [6, 9]  # each hears each real token
    written = "".join(text.get_text() for text in ax.texts)
    assert "÷ 5.00" in written and "(.60) · (.97)\n+ (.80) · (−.24) + … 3 products" in written
    assert "above 0: .58" in written and "below 0: −.19" in written  # .6 · .97 and .8 · (−.24)
    bars = [patch for patch in ax.patches if patch.get_height() == 0.26]
    ends = [(patch.get_x() - bars[0].get_x(), patch.get_width()) for patch in bars]
    assert np.allclose(ends, [(0, 2.2 * 0.582), (2.2 * 0.582, -2.2 * 0.194)], atol=0.01)  # back from there
