"""Sums of arrows end where they should, shapes are drawn to scale, and a sentence becomes one vector."""

import numpy as np
from matplotlib import colors
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.text import Annotation

from transformer_course import figures
from transformer_course.figures.colours import HERO

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


def test_a_tensor_has_a_sheet_for_each_head_and_its_shape_below():
    (ax,) = figures.shape_flow(2, 5, 448, 7).axes
    assert len(ax.patches) == 2 + 6 * 7  # x, output; q, k, v, weights, mixtures, merged: by heads
    written = [text.get_text() for text in ax.texts]
    assert {"x\n(2, 5, 448)", "q\n(2, 7, 5, 64)", "weights\n(2, 7, 5, 5)", "merge"} < set(written)
    whole, head, weights = ax.patches[0], ax.patches[7], ax.patches[28]
    assert whole.get_height() == weights.get_height() == weights.get_width() < head.get_width()
    np.testing.assert_allclose(whole.get_width(), 7 * head.get_width())
    faces = {colors.to_hex(patch.get_facecolor()) for patch in ax.patches[1:]}
    assert len(faces) == 2  # head 0 and the others: a colour that comes twice would name two heads


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
    (ax,) = figures.journey(stages, [weights], ["a", "b"], [7, 11], title="").axes
    strips = [each for each in ax.collections if isinstance(each, QuadMesh)]
    assert [mesh.get_array().ravel().tolist() for mesh in strips] == np.concatenate(stages).tolist()
    assert [mesh.get_clim() for mesh in strips] == [(-0.2, 0.2)] * 4 + [(-3, 3)] * 5
    written = [text.get_text() for text in ax.texts]
    assert {"a", "7", "b", "11", "norm", "layer 0", "its row of the table"} < set(written)
    assert any(".20 above the norms, 3.00 below" in word for word in written)
    (ways,) = [each for each in ax.collections if isinstance(each, LineCollection)]
    np.testing.assert_allclose(sorted(ways.get_linewidths()), 6 * np.array([0.4, 0.6, 0.99]))  # .01: too thin
