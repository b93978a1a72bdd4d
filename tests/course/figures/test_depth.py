"""The figures about depth show both orders of a layer as they are, and every token in its place."""

import pytest
import torch
from matplotlib.patches import Circle, FancyBboxPatch

from transformer_lab.course import figures
from transformer_lab.course.figures.depth import POST_NORM, PRE_NORM, ROAD

TOKENS = ["dog", "bites", "man"]


def named_boxes(ax):
    """The words of each panel's boxes with their heights: on the road, or beside it."""
    texts = {(round(t.get_position()[0], 6), round(t.get_position()[1], 6)): t.get_text() for t in ax.texts}
    found = []
    for patch in ax.patches:
        if isinstance(patch, FancyBboxPatch):
            box = patch.get_bbox()
            middle = (round((box.x0 + box.x1) / 2, 6), round((box.y0 + box.y1) / 2, 6))
            found.append((texts[middle].replace("\n", ""), middle[1] == ROAD))
    return found


def test_only_post_norm_has_its_norms_on_the_road():
    post, pre = figures.norm_orders(title="two orders").axes
    assert named_boxes(post) == [
        ("attention", False),
        ("norm", True),
        ("feed-forward", False),
        ("norm", True),
    ]
    assert named_boxes(pre) == [
        ("norm", False),
        ("attention", False),
        ("norm", False),
        ("feed-forward", False),
    ]
    assert "on the road" in post.get_title(loc="left") and "beside" in pre.get_title(loc="left")


@pytest.mark.parametrize("parts", [POST_NORM, PRE_NORM])
def test_a_layer_reads_twice_and_adds_twice_in_turn(parts):
    kinds = [kind for kind, _, _ in parts if kind in ("read", "sublayer", "add")]
    assert kinds == ["read", "sublayer", "add"] * 2
    places = [place for _, place, _ in parts]
    assert places == sorted(places)


def test_every_sum_is_a_circle_on_the_road():
    for ax in figures.norm_orders().axes:
        circles = [patch for patch in ax.patches if isinstance(patch, Circle)]
        assert [circle.center[1] for circle in circles] == [ROAD, ROAD]
        assert [text.get_text() for text in ax.texts].count("+") == 2


def test_likeness_has_tokens_on_both_axes_and_one_scale():
    cosines = torch.rand(2, 3, 3, generator=torch.Generator().manual_seed(0))
    figure = figures.likeness_grid({"before": cosines[0], "after": cosines[1]}, TOKENS, title="alike")
    before, after, bar = figure.axes
    for ax, matrix, name in ((before, cosines[0], "before"), (after, cosines[1], "after")):
        mesh = ax.collections[0]
        torch.testing.assert_close(torch.tensor(mesh.get_array().reshape(3, 3)), matrix.double())
        assert mesh.get_clim() == (0, 1)
        assert [label.get_text() for label in ax.get_xticklabels()] == TOKENS
        assert [label.get_text() for label in ax.get_yticklabels()] == TOKENS
        assert ax.get_title() == name
    assert bar.get_ylabel() == "cosine of two tokens"


def test_depth_has_places_down_and_tokens_across():
    values = torch.tensor([[0.25, 0.5, 1.0], [0.0, 0.75, 0.125]])
    figure = figures.token_depth(values, ["layer 0", "layer 1"], TOKENS, title="share", bar="a share")
    ax, bar = figure.axes
    assert [label.get_text() for label in ax.get_xticklabels()] == TOKENS
    assert [label.get_text() for label in ax.get_yticklabels()] == ["layer 0", "layer 1"]
    assert [text.get_text() for text in ax.texts] == [".25", ".50", "1", "0", ".75", ".12"]
    assert (ax.get_title(), ax.get_xlabel(), bar.get_ylabel()) == ("share", "token", "a share")


def test_curves_count_from_the_start_and_have_their_legend_outside():
    named = {"post-norm": [1.0, 10.0, 100.0], "pre-norm": torch.tensor([3.0, 2.0, 1.0])}
    figure = figures.depth_curves(
        named, start=1, xlabel="layer", ylabel="size", title="depth", logarithmic=True
    )
    (ax,) = figure.axes
    assert [line.get_xdata().tolist() for line in ax.lines] == [[1, 2, 3]] * 2
    assert [list(line.get_ydata()) for line in ax.lines] == [[1, 10, 100], [3, 2, 1]]
    assert len({line.get_linestyle() for line in ax.lines}) == 2
    assert (ax.get_yscale(), ax.get_xlabel(), ax.get_ylabel()) == ("log", "layer", "size")
    assert all(tick == round(tick) for tick in ax.get_xticks())
    assert ax.get_legend() is None
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(named)


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="the labels fit"):
        figures.token_depth(torch.ones(2, 3), ["layer 0"], TOKENS, title="", bar="")
    with pytest.raises(ValueError, match="the labels fit"):
        figures.likeness_grid({"one": torch.ones(2, 2)}, TOKENS)
