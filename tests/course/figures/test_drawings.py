"""Drawings that depend on what they are given show all of it; the lessons' gate compares the others."""

import io

import pytest
import torch
from matplotlib import colors

from transformer_course import figures
from transformer_course.figures.colours import HERO, ROLES
from transformer_course.figures.layout import two_decimals


def words(ax):
    return [text.get_text() for text in ax.texts if text.get_text()]


def test_ids_look_up_rows_that_pass_every_layer_as_shapes():
    (ax,) = figures.data_flow(["a", "b", "c"], [9, 7, 8], 2, 4, title="flow").axes
    steps = ["× √d_model", "norm", "x₀", "layer\n0", "x₁", "layer\n1", "x₂"]
    assert {*steps, "dashed: only in some models"} <= set(words(ax))
    assert any(word.startswith("weights of 4 heads") and "made up" in word for word in words(ax))
    shapes = [mesh.get_array().shape for mesh in ax.collections]
    assert [shapes.count(shape) for shape in ((1, 4), (3, 4), (3, 3))] == [6, 5, 1 + 2 * 4]
    ways = [line.get_ydata() for line in ax.lines[:6]]  # of each id into the table, and out of it
    assert all(
        into[0] == out[-1] and into[1] == out[0] for into, out in zip(ways[::2], ways[1::2], strict=True)
    )
    nine, seven, eight = (into[1] for into in ways[::2])
    assert seven > eight > nine  # the table has its rows in the order of the ids


def test_what_came_with_modernbert_has_a_red_edge_and_what_went_is_dashed():
    then, now = figures.minilm_and_modernbert(title="").axes
    went = [patch for patch in then.patches if patch.get_linestyle() == "--"]
    gone = ["GELU alone", "all meet all\nin every layer", "biases", "padding is computed like a word"]
    assert sorted(inside(then, went)) == ["+ positions\n(a table)", *gone]
    assert [[patch.get_linewidth() for patch in ax.patches].count(2.5) for ax in (then, now)] == [2, 2]
    highlight = [patch for patch in now.patches if colors.to_hex(patch.get_edgecolor()) == HERO]
    came = ["2 layers of 3:\nnear only", "GeGLU: a gate\nwith GELU", "LayerNorm\nat the end"]
    assert sorted(inside(now, highlight)) == [*came, "padding\ntaken out", "rotary turns q, k"]


def inside(ax, boxes):
    """The words in the middle of each box."""
    middles = [(b.get_x() + b.get_width() / 2, b.get_y() + b.get_height() / 2) for b in boxes]
    return [t.get_text() for m in middles for t in ax.texts if t.get_position() == pytest.approx(m)]


def test_each_kind_of_test_runs_the_bug_and_the_loop_also_a_second_formula():
    panels = figures.kinds_of_tests(title="").axes
    assert [ax.get_title() for ax in panels] == ["sizes", "loop", "promise", "count", "nudge"]
    asked = [words(ax).count("softmax down\nthe columns") for ax in panels]
    assert asked == [1, 1, 1, 1, 2] and "the formula,\ntrusted" in words(panels[1])
    arrows = [
        sum(hasattr(text, "arrow_patch") and text.arrow_patch is not None for text in ax.texts)
        for ax in panels
    ]
    assert arrows == [2, 4, 2, 1, 4]


def given_out(ax, x):
    """What stands in the lowest box of a run, row by row."""
    places = [(text.get_position(), text.get_text()) for text in ax.texts]
    return [word for (across, up), word in places if abs(across - x) < 0.45 and -0.28 < up < 0.28 and word]


def test_what_the_five_tests_are_shown_is_what_the_bug_gives():
    scores = torch.tensor([[1.0, 3], [2, 1]]).log()  # of lesson 14, by hand
    changed = torch.tensor([[3.0, 1], [2, 1]]).log()
    _, loop, promise, _, nudge = figures.kinds_of_tests(title="").axes
    for ax, table, x in (
        (loop, scores.softmax(0), 0),
        (loop, scores.softmax(1), 1),
        (nudge, changed.softmax(0), 1),
    ):
        assert [two_decimals(number) for number in table.flatten().tolist()] == given_out(ax, x)
    rows = ["+".join(map(two_decimals, row)) + " =" for row in scores.softmax(0).tolist()]
    first, second = map(two_decimals, scores.softmax(0).sum(1).tolist())
    assert given_out(promise, 0) == [rows[0], first, rows[1], second]
    assert not torch.allclose(scores.softmax(0)[1], changed.softmax(0)[1])  # row 1 moves with row 0


def test_no_word_of_the_two_models_leaves_its_box():
    figure = figures.minilm_and_modernbert(title="From an earlier to a later model")
    figure.savefig(io.BytesIO())
    for ax in figure.axes:
        for patch in (each for each in ax.patches if hasattr(each, "get_boxstyle") and each.get_height() < 1):
            middle = patch.get_x() + patch.get_width() / 2, patch.get_y() + patch.get_height() / 2
            for text in (t for t in ax.texts if t.get_text() and t.get_position() == pytest.approx(middle)):
                extent = text.get_window_extent().transformed(ax.transData.inverted())
                assert patch.get_x() <= extent.x0 and extent.x1 <= patch.get_x() + patch.get_width()


def test_a_shape_of_several_places_leads_to_all_of_them_and_is_lit():
    fits = {(2, 3): (["z"], ["a"]), (5, 5): (["y", "w", "x"], ["b", "c", "d"])}
    (ax,) = figures.matching_shapes(fits, {"a": "a row"}, "left: e", ("w", "c", "b"), title="").axes
    told = [text.get_text() for text in ax.texts if text.get_text()]
    assert {"2 × 3", "5 × 5", "w", "x", "y", "z", "+ a row", "d"} < set(told)
    heights = {text.get_text(): text.get_position()[1] for text in ax.texts}
    ways = {tuple(line.get_ydata()): (line.get_color(), line.get_linestyle()) for line in ax.lines}
    assert ways[heights["z"], heights["a"]] == ("black", "-")  # it fits nowhere else
    told_of = {end: ways.pop((heights["w"], heights[end])) for end in "cb"}
    assert told_of == {"c": (ROLES["query"], "-"), "b": (ROLES["query"], "--")}
    assert len(ways) == 8 and list(ways.values()).count((HERO, "-")) == 7  # 3 · 3, less those two
