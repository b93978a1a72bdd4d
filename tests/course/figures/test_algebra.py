"""Sums of arrows end where they should, shapes are drawn to scale, and a sentence becomes one vector."""

import numpy as np
from matplotlib import colors
from matplotlib.text import Annotation

from transformer_course import figures
from transformer_course.figures.colours import HERO, PALE

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
    assert {".20 · a", ".70 · b", ".10 · c"} < set(written) and written["output"] == HERO


def test_what_has_no_weight_is_hatched_and_hands_over_nothing():
    values, output = figures.weighted_sum([0.5, 0, 0.5], VALUES, ["a", "pad", "c"], query="b").axes
    assert [patch.get_hatch() for patch in values.patches] == ["////"] and not output.patches
    assert "pad: weight 0" in [text.get_text() for text in values.texts]
    assert not any("pad" in text.get_text() for text in output.texts) and len(arrows(output)) == 3


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
    lit = [patch for patch in ax.patches if colors.to_hex(patch.get_facecolor()) == PALE[0]]
    assert len(lit) == 13  # head 0 alone: a colour that comes twice would name two heads
    x, column, merged, row = ax.patches[0], lit[0], lit[11], lit[12]
    np.testing.assert_allclose([column.get_width() * 7, merged.get_width() * 7], x.get_width())
    np.testing.assert_allclose([row.get_height() * 7, row.get_width()], x.get_width())
    assert (
        row.get_y()
        > max(patch.get_y() for patch in ax.patches if patch.get_height() == row.get_height()) - 1e-9
    )


def test_a_sentence_goes_from_ids_through_strips_on_two_scales_to_one_vector():
    looked_up, entered = np.array([[0.1, -0.2], [0.0, 0.1]]), np.array([[1.0, 2.0], [-3.0, 0.5]])
    stages = {"row": looked_up, "enters": entered, "layer": entered / 2, "mean": entered.mean(0)[None]}
    ax, *bars = figures.journey(stages, ["a", "b"], [7, 11], title="").axes
    strips = [mesh.get_array().ravel().tolist() for mesh in ax.collections]
    assert strips == np.concatenate([*stages.values()]).tolist()
    assert [mesh.get_clim() for mesh in ax.collections] == [(-0.2, 0.2)] * 2 + [(-3, 3)] * 5
    assert [bar.get_xlabel() for bar in bars] == [
        "numbers in the rows of the table",
        "numbers in all other strips",
    ]
    written = [text.get_text() for text in ax.texts]
    assert {"a", "7", "+P0", "b", "11", "+P1", *stages} < set(written)
    heard = [line.get_ydata() for line in ax.lines if len(set(line.get_ydata())) == 2]
    assert len(heard) == 2 + 2  # across in a layer, and from each to the mean
