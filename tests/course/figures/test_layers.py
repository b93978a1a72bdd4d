"""The figures about layers show what flows through them, and where each one looks."""

import numpy as np
import pytest
import torch
from matplotlib import colors
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.text import Annotation

from transformer_lab.course import figures
from transformer_lab.course.figures.base import MARK
from transformer_lab.course.figures.words import describe

PLACES = ["0", "1", "2"]


def frames(ax):
    """Row and column of every framed cell."""
    framed = [patch for patch in ax.patches if isinstance(patch, Rectangle) and not patch.get_fill()]
    assert {colors.to_hex(frame.get_edgecolor()) for frame in framed} == {MARK}
    return [(int(frame.get_y()), int(frame.get_x())) for frame in framed]


def panels(figure):
    return [ax for ax in figure.axes if not hasattr(ax, "_colorbar")]


def test_an_aimed_map_frames_the_right_column_of_every_row():
    maps = {"first": torch.eye(3), "second": torch.full((3, 3), 1 / 3)}
    targets = {"first": torch.tensor([0, 1, 2]), "second": [2, 0, 0]}
    figure = figures.aimed_maps(maps, targets, PLACES, title="aim", axes_named=("place", "asks"))
    first, second = panels(figure)
    assert frames(first) == [(0, 0), (1, 1), (2, 2)]
    assert frames(second) == [(0, 2), (1, 0), (2, 0)]
    assert (first.get_title(), second.get_title()) == ("first", "second")
    assert (first.get_xlabel(), first.get_ylabel()) == ("place", "asks")
    assert first.collections[0].get_clim() == second.collections[0].get_clim() == (0, 1)


@pytest.mark.parametrize(
    ("n_layers", "shown"), [(2, ["layer 0", "layer 1"]), (6, ["layer 0", "layer 1", "…", "layer 5"])]
)
def test_data_flow_from_ids_through_every_step(n_layers, shown):
    ax = figures.data_flow(n_layers, title="flow").axes[0]
    blocks = [patch for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    labels = [text.get_text() for text in ax.texts if text.get_text()]
    steps = ["look up", "× √d_model", "+ positions", *shown, "final norm"]
    assert [label for label in labels if label in steps] == steps
    assert len(blocks) == len(steps)
    into_and_out_of_layers = 2 * sum(name != "…" for name in shown)
    arrows = [text for text in ax.texts if isinstance(text, Annotation)]
    assert len(arrows) == len(steps) + 1 + into_and_out_of_layers


def test_data_flow_is_told_in_words():
    told = describe(figures.data_flow(6, title="From ids to vectors"))
    for words in ("From ids to vectors", "layer 5", "(batch, position, d_model) from here", "may_attend"):
        assert words in told


def test_maps_of_layers_share_one_scale():
    maps = [torch.rand(2, 3, generator=torch.Generator().manual_seed(i)) / (i + 2) for i in range(4)]
    names = [f"layer {i}" for i in range(4)]
    figure = figures.layer_maps(maps, ["a", "b"], ["x", "y", "z"], names, title="all", bar="share")
    drawn, unused = panels(figure)[:4], panels(figure)[4:]
    top = max(matrix.max().item() for matrix in maps)
    for ax, matrix, name in zip(drawn, maps, names, strict=True):
        assert ax.get_title() == name
        assert ax.collections[0].get_clim() == pytest.approx((0, top))
        np.testing.assert_allclose(ax.collections[0].get_array().reshape(2, 3), matrix.numpy())
        assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
        assert [label.get_text() for label in ax.get_xticklabels()] == ["x", "y", "z"]
    assert len(unused) == 2
    assert not any(ax.axison for ax in unused)
