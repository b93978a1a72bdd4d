"""The figures of rotations show what they were given."""

import numpy as np
import pytest
import torch
from matplotlib import colors
from matplotlib import pyplot as plt

from transformer_lab.course import figures
from transformer_lab.course.figures.rotations import ARROW_COLOURS, PAIR_COLOURS, PITCH
from transformer_lab.course.figures.words import describe

HALF_SPLIT = [(0, 3), (1, 4), (2, 5)]
INTERLEAVED = [(0, 1), (2, 3), (4, 5)]


def words(ax):
    return [text.get_text() for text in ax.texts]


def arrows(ax):
    """Start and end of every arrow, in the order in which they were drawn."""
    return [(text.xyann, text.xy) for text in ax.texts if getattr(text, "arrow_patch", None)]


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_arrows_end_where_the_pair_points_and_the_longest_reaches_the_rim(ax):
    query, key = torch.tensor([[2.0, 0.0], [0.0, 3.0]]), torch.tensor([[0.0, 1.0], [-6.0, 0.0]])
    figures.draw_turns(ax, {"q": query, "k": key}, ["fast", "slow"])
    wanted = [(1, 0), (PITCH, 0.5), (0, 0.5), (PITCH - 1, 0)]
    starts = [(0, 0), (PITCH, 0)] * 2
    for (start, end), from_, to in zip(arrows(ax), starts, wanted, strict=True):
        np.testing.assert_allclose(start, from_, atol=1e-12)
        np.testing.assert_allclose(end, to, atol=1e-12)
    assert [word for word in words(ax) if word] == ["fast", "slow", "q", "q", "k", "k"]
    assert len(ax.patches) == 2


def test_each_vector_has_its_own_colour(ax):
    figures.draw_turns(ax, {"q": torch.ones(1, 2), "k": -torch.ones(1, 2)})
    shown = {text.get_text(): text.get_color() for text in ax.texts if text.get_text()}
    assert shown == {"q": ARROW_COLOURS[0], "k": ARROW_COLOURS[1]}


def test_an_arrow_without_length_is_drawn_as_none(ax):
    figures.draw_turns(ax, {"q": torch.tensor([[0.0, 0.0]]), "k": torch.tensor([[1.0, 0.0]])})
    assert np.isfinite([point for arrow in arrows(ax) for point in arrow]).all()


def test_turns_refuse_more_vectors_than_colours(ax):
    with pytest.raises(ValueError, match="at most 4 arrows in a dial, got 5; draw fewer"):
        figures.draw_turns(ax, {str(i): torch.ones(1, 2) for i in range(5)})


def test_turns_have_one_panel_for_each_name():
    one = {"q": torch.tensor([[1.0, 0.0]])}
    figure = figures.turns({"here": one, "there": one}, title="two")
    assert [ax.get_title() for ax in figure.axes] == ["here", "there"]
    assert "“two” of 2 panels" in describe(figure)


def test_pairings_tell_each_features_pair_in_colour_and_number():
    figure = figures.pairings({"half-split": HALF_SPLIT, "interleaved": INTERLEAVED}, title="pairs")
    ax = figure.axes[0]
    wanted = [0, 1, 2, 0, 1, 2, 0, 0, 1, 1, 2, 2]
    assert words(ax) == [f"pair {pair}" for pair in wanted]
    mesh = ax.collections[0]
    mesh.update_scalarmappable()
    assert [colors.to_hex(colour) for colour in mesh.get_facecolors()] == [PAIR_COLOURS[i] for i in wanted]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["half-split", "interleaved"]


def test_pairings_refuse_more_features_than_colours():
    with pytest.raises(ValueError, match="at most 8 features, got 10; draw fewer"):
        figures.pairings({"many": [(2 * i, 2 * i + 1) for i in range(5)]})


def test_score_maps_share_one_scale_around_zero():
    given = {"added": torch.tensor([[1.0, 2.0], [3.0, -7.0]]), "turned": torch.eye(3)}
    figure = figures.score_maps(given, title="two maps")
    for ax, (name, scores) in zip(figure.axes, given.items(), strict=False):
        image = ax.images[0]
        np.testing.assert_allclose(image.get_array(), scores.numpy())
        assert (image.get_clim(), image.get_cmap().name) == ((-7, 7), "RdBu_r")
        assert (ax.get_title(), ax.get_xlabel()) == (name, "position of the key")
        assert ax.get_ylabel() == "position of the query" and ax.yaxis_inverted()
    assert figure.axes[-1].get_ylabel() == "score"


def test_score_maps_take_limits():
    figure = figures.score_maps({"one": torch.eye(3)}, title="", limits=(-2, 5))
    assert figure.axes[0].images[0].get_clim() == (-2, 5)
