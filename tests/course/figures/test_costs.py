"""The figures about costs show what has changed, what is shared, what is kept, and what that is worth."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib import colors
from matplotlib.patches import Circle, FancyBboxPatch

from transformer_lab.course import figures
from transformer_lab.course.figures.costs import CACHE_COLOUR, GIB, GROUP_COLOURS, LIT, WEIGHTS_COLOUR
from transformer_lab.course.figures.words import describe

TOKENS = ["the", "old", "cat"]


def words(ax):
    return [text.get_text() for text in ax.texts if text.get_text()]


def blocks(ax):
    return [patch for patch in ax.patches if isinstance(patch, FancyBboxPatch)]


def test_what_has_changed_is_lit_and_nothing_else():
    then, now = figures.then_and_now(title="then and now").axes
    assert {colors.to_hex(block.get_facecolor()) for block in blocks(then)} == {"#ffffff"}
    lit = [colors.to_hex(block.get_facecolor()) == LIT for block in blocks(now)]
    labels = [word.replace("\n", " ") for word in words(now) if word != "+"]
    assert [label for label, is_lit in zip(labels, lit, strict=True) if not is_lit] == ["embedding"]
    for ax in (then, now):
        assert sum(isinstance(patch, Circle) for patch in ax.patches) == words(ax).count("+") == 2


def test_the_norms_stand_behind_the_sums_then_and_before_the_parts_now():
    then, now = ([word.split("\n")[0] for word in words(ax)] for ax in figures.then_and_now(title="").axes)
    assert then[2:] == ["attention", "+", "LayerNorm", "feed-forward", "+", "LayerNorm"]
    assert now[1:] == ["RMSNorm", "rotary attention", "+", "RMSNorm", "feed-forward", "+", "RMSNorm"]


def test_without_a_cache_all_is_computed_again_and_with_one_it_is_kept():
    without, with_cache = figures.cache_steps(TOKENS, title="steps").axes
    assert words(without) == ["new", "again", "new", "again", "again", "new"]
    assert words(with_cache) == ["new", "kept", "new", "kept", "kept", "new"]
    for ax in (without, with_cache):
        assert [label.get_text() for label in ax.get_xticklabels()] == TOKENS
        assert (np.asarray(ax.collections[0].get_array()).reshape(3, 3) > 0).sum() == 6


@pytest.mark.parametrize(("n_kv_heads", "readers"), [(4, 1), (2, 2), (1, 4)])
def test_neighbours_read_one_key_head_and_share_its_colour(n_kv_heads, readers):
    ax = figures.key_sharing(4, {"shared": n_kv_heads}, title="share").axes[0]
    asking = [word for word in words(ax) if word.startswith("q")]
    answering = [word for word in words(ax) if word.startswith("k")]
    assert asking == ["q0", "q1", "q2", "q3"]
    assert answering == [f"k{i} v{i}" for i in range(n_kv_heads)]
    colour_of = dict(
        zip(words(ax), [colors.to_hex(block.get_facecolor()) for block in blocks(ax)], strict=True)
    )
    for head in range(4):
        assert colour_of[f"q{head}"] == colour_of[f"k{head // readers} v{head // readers}"]
    ends = {round(line.get_xdata()[1], 6) for line in ax.lines}
    assert len(ends) == n_kv_heads


def test_sharing_refuses_more_key_heads_than_colours():
    with pytest.raises(ValueError, match=f"at most {len(GROUP_COLOURS)} key heads can be drawn, got 8"):
        figures.key_sharing(8, {"many": 8}, title="")


def test_memory_is_told_in_gib_with_the_cache_behind_the_weights():
    figure, ax = plt.subplots()
    figures.draw_memory(ax, {"small": (GIB, 1024), "large": (4 * GIB, 2048)}, 2**20, room=3, limit=10)
    weights, cache = ax.containers
    assert [bar.get_width() for bar in weights] == [1, 4]
    assert [bar.get_width() for bar in cache] == [1, 2]
    assert [bar.get_x() for bar in cache] == [1, 4]
    assert colors.to_hex(weights[0].get_facecolor()) == WEIGHTS_COLOUR
    assert colors.to_hex(cache[0].get_facecolor()) == CACHE_COLOUR
    assert ax.lines[0].get_xdata()[0] == 3
    plt.close(figure)


def test_shares_add_up_to_one_and_marks_stand_where_they_should():
    parts = {"linear": [1, 2, 4], "quadratic": [1, 4, 16]}
    ax = figures.cost_shares([1, 2, 4], parts, {"half": 1.5}, title="shares").axes[0]
    first = ax.collections[0].get_paths()[0].vertices
    for length, share in ((1, 1 / 2), (2, 1 / 3), (4, 1 / 5)):
        assert share == pytest.approx(max(y for x, y in first if x == length))
    assert ax.lines[0].get_xdata()[0] == 1.5
    assert words(ax) == ["half"]
    assert "2 areas" in describe(ax.figure) or describe(ax.figure).count("1 area") == 2


def test_error_curves_average_steps_and_tell_every_run_by_name():
    runs = {"then": [[4.0, 2.0, 1.0, 1.0], [2.0, 2.0, 0.0, 0.0]], "now": [[1.0] * 4]}
    figure = figures.error_curves({"copy": runs, "reverse": runs}, title="errors", smooth=2)
    for ax in figure.axes:
        assert [line.get_label() for line in ax.lines] == ["then", "then", "now"]
        assert [list(line.get_ydata()) for line in ax.lines] == [[3, 1], [2, 0], [1, 1]]
        assert list(ax.lines[0].get_xdata()) == [2, 4]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["then", "now"]
    told = describe(figure)
    assert "Panel 2 “reverse”" in told
    assert told.count("Line “then”") == 4
