"""The figures about roles put every head in its place."""

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from transformer_lab.course import figures

SCORES = torch.rand(2, 5, generator=torch.Generator().manual_seed(9))
OTHER = torch.rand(2, 5, generator=torch.Generator().manual_seed(10)) + 0.1


def test_head_values_put_layers_down_and_heads_across():
    figure = figures.head_values({"one": SCORES, "two": OTHER, "three": SCORES}, title="all")
    for ax, values in zip(figure.axes, (SCORES, OTHER, SCORES), strict=False):
        np.testing.assert_allclose(ax.collections[0].get_array().reshape(2, 5), values.numpy())
        assert [label.get_text() for label in ax.get_yticklabels()] == ["layer 0", "layer 1"]
        assert ax.get_xlabel() == "head"
        assert ax.collections[0].get_clim() == (0, values.max())
    assert [ax.get_title() for ax in figure.axes[:3]] == ["one", "two", "three"]
    assert not figure.axes[3].axison


def test_head_values_share_a_limit_and_frame_the_marked_heads():
    figure = figures.head_values({"one": SCORES, "two": OTHER}, limit=2, marked=[(1, 3)])
    for ax in figure.axes:
        assert ax.collections[0].get_clim() == (0, 2)
        (frame,) = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
        assert frame.get_xy() == (3, 1)


def test_head_scatter_has_a_point_for_each_head_and_names_some():
    figure = figures.head_scatter(
        {"score": (SCORES, OTHER), "other": (OTHER, OTHER)},
        ylabel="damage",
        marked={(1, 3): "a name"},
        title="both",
    )
    for ax, across in zip(figure.axes, (SCORES, OTHER), strict=True):
        points = np.concatenate([layer.get_offsets() for layer in ax.collections])
        np.testing.assert_allclose(points[:, 0], across.flatten().numpy())
        np.testing.assert_allclose(points[:, 1], OTHER.flatten().numpy())
        assert ax.get_yscale() == "log"
        assert [text.get_text() for text in ax.texts] == ["a name"]
        assert tuple(ax.texts[0].xy) == (across[1, 3].item(), OTHER[1, 3].item())
    assert figure.axes[0].get_ylabel() == "damage"
    assert [text.get_text() for text in figure.axes[1].get_legend().get_texts()] == ["0", "1"]


def test_the_names_in_a_scatter_hide_no_head_and_no_other_name():
    random = torch.rand(2, 6, 12, generator=torch.Generator().manual_seed(11)) + 0.01
    across, up = random[0], random[0] * (1 + random[1])  # a cloud along the diagonal
    marked = {(0, 2): "previous", (1, 8): "next", (2, 9): "same word"}
    figure = figures.head_scatter({"one": (across, up)}, ylabel="damage", marked=marked)
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    (ax,) = figure.axes
    boxes = [Text.get_window_extent(text, renderer) for text in ax.texts]  # without the line to the point
    heads = ax.transData.transform(torch.stack([across.flatten(), up.flatten()], dim=1).numpy())
    for number, box in enumerate(boxes):
        assert not any(box.contains(*head) for head in heads)
        assert not any(box.overlaps(other) for other in boxes[:number])
        assert ax.get_window_extent().containsx(box.x0) and ax.get_window_extent().containsx(box.x1)
