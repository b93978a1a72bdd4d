"""Sums of arrows end where they should, shapes are drawn to scale, names stand beside their part."""

import numpy as np
import torch
from matplotlib import colors
from matplotlib.patches import FancyBboxPatch
from matplotlib.text import Annotation

from transformer_course import figures
from transformer_course.figures.algebra import THINNEST
from transformer_course.figures.layout import COMPONENTS, HERO, LIT

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


def test_a_tensor_has_a_sheet_for_each_head_and_its_shape_below():
    shapes = {"x": (2, 5, 448), "q": torch.Size((2, 7, 5, 64)), "scores": (2, 7, 5, 5)}
    (ax,) = figures.shape_flow(shapes, ["cut", "compare"]).axes
    assert len(ax.patches) == 1 + 7 + 7
    written = [text.get_text() for text in ax.texts if text.get_text()]
    assert written == ["x\n(2, 5, 448)", "q\n(2, 7, 5, 64)", "scores\n(2, 7, 5, 5)", "cut", "compare"]
    whole, head, scores = ax.patches[0], ax.patches[7], ax.patches[-1]
    assert whole.get_height() == scores.get_height() == scores.get_width() < head.get_width()
    np.testing.assert_allclose(whole.get_width(), 7 * head.get_width())
    faces = {colors.to_hex(patch.get_facecolor()) for patch in ax.patches[1:]}
    assert len(faces) == 2  # head 0 and the others: a colour that comes twice would name two heads


def test_of_several_tensors_the_last_goes_past_the_next_column():
    shapes = {"both": {"q": (2, 5, 3), "v": (2, 5, 3)}, "scores": (2, 5, 5), "mixture": (2, 5, 3)}
    (ax,) = figures.shape_flow(shapes, ["compare", "take"]).axes
    (past,) = ax.lines
    _, scores, mixture = (next(t for t in ax.texts if name in t.get_text()) for name in ("v", "sc", "mi"))
    assert scores.get_position()[0] < past.get_xdata()[-1] < mixture.get_position()[0]
    assert sum(text.get_text() == "" for text in ax.texts) == 3  # arrows: from q, from v, and on


def test_low_rank_is_drawn_to_scale_and_counted():
    (ax,) = figures.low_rank(60, 40, 6, title="").axes
    sizes = [(patch.get_width(), patch.get_height()) for patch in ax.patches]
    np.testing.assert_allclose(sizes, [(40 / 60, 1), (0.1, 1), (40 / 60, 0.1)])
    labels = [text.get_text().splitlines()[-1] for text in ax.texts][:3]
    assert labels == ["60 × 40 = 2,400", "60 × 6 = 360", "6 × 40 = 240"]
    (thin,) = figures.low_rank(4000, 4000, 1, title="").axes
    assert thin.patches[1].get_width() == THINNEST


def test_the_parts_of_a_file_stand_beside_their_names():
    lines = [
        ("words", "embedding.vectors", (7, 3)),
        ("l.N.q", "layers.N.attention.query_projection.*", (3, 3)),
        ("l.N.k", "layers.N.attention.key_projection.*", (3, 3)),
        ("l.N.norm", "layers.N.attention_norm.*", (3,)),
    ]
    (ax,) = figures.file_parts(lines).axes
    boxes = [patch for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    faces = [colors.to_hex(box.get_facecolor()) for box in boxes]
    assert faces == [COMPONENTS[name] for name in ("embedding", "attention", "norm")]
    written = [text.get_text() for text in ax.texts]
    assert written.index("l.N.k") == written.index("layers.N.attention.key_projection.* (3, 3)") - 1
    heights = {text.get_text(): text.get_position()[1] for text in ax.texts}
    assert heights["l.N.k"] == heights["layers.N.attention.key_projection.* (3, 3)"] > heights["l.N.q"]
    (ground,) = [patch for patch in ax.patches if colors.to_hex(patch.get_facecolor()) == LIT]
    assert ground.get_y() < heights["l.N.q"] < heights["l.N.norm"] < ground.get_y() + ground.get_height()
    assert heights["words"] < ground.get_y()
